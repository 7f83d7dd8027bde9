"""Files that others truncate, write over or replace while their tensors are in use."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
import torch

import weft
from weft.io import load_file, load_metadata, load_torch, save_file
from weft.train.checkpoint import load_checkpoint, write_checkpoints

SIZE = 100_000  # more than a page, so that a mapping would lose some


def write(form, path, value):
    if form == "torch":
        torch.save({"x": torch.full((SIZE,), value)}, path)
    else:
        (weft.save if form == "tree" else save_file)({"x": weft.full((SIZE,), value)}, path)


READ = {"tree": weft.load, "safetensors": load_file, "torch": load_torch}


@pytest.mark.parametrize("form", READ)
def test_what_was_loaded_stays_when_the_file_does_not(form, tmp_path):
    """A mapped file would end the process (SIGBUS) or change the values."""
    path, other = tmp_path / "a", tmp_path / "b"
    write(form, path, 1.0)
    write(form, other, 2.0)
    x = READ[form](path)["x"]
    shutil.copyfile(other, path)  # as cp does it: into the same file
    assert x.sum() == SIZE
    os.truncate(path, 0)
    assert x.sum() == SIZE


@pytest.mark.parametrize("form", READ)
def test_a_file_is_mapped_on_request(form, tmp_path):
    path, other = tmp_path / "a", tmp_path / "b"
    write(form, path, 1.0)
    write(form, other, 2.0)
    x = READ[form](path, mmap=True)["x"]
    os.replace(other, path)
    assert x.sum() == SIZE and READ[form](path)["x"].sum() == 2 * SIZE


def test_metadata_are_read_without_the_tensors(tmp_path):
    """A file of a terabyte (all of it a hole) answers at once."""
    path, size = tmp_path / "a", 1 << 40
    header = b'{"__metadata__":{"k":"v"},"x":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    try:
        os.truncate(path, 8 + len(header) + size)
    except OSError as error:
        pytest.skip(f"no file of this size here: {error}")
    assert load_metadata(path) == {"k": "v"}


def test_a_file_larger_than_memory_says_so(tmp_path, monkeypatch):
    path = tmp_path / "a"
    save_file({"x": weft.ones(SIZE)}, path)

    def no_memory(shape, kind):
        raise MemoryError(f"Unable to allocate an array with shape {shape}")

    with monkeypatch.context() as patch:
        patch.setattr("weft.io.atomic.np.empty", no_memory)
        with pytest.raises(weft.io.OversizeError, match=rf"shape \({SIZE},\); mmap=True reads only what is used"):
            load_file(path)


def test_a_file_that_shrinks_while_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "a"
    save_file({"x": weft.ones(SIZE)}, path)
    make = np.empty
    monkeypatch.setattr("weft.io.atomic.np.empty", lambda *given: (os.truncate(path, SIZE), make(*given))[1])
    with pytest.raises(weft.io.TruncatedError, match="became shorter while it was read"):
        load_file(path)


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_checkpoints_are_never_written_over_in_place(links, tmp_path, monkeypatch):
    """Whoever has the old file open, or has linked to it, keeps the old one."""
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: os.open("/nonexistent", os.O_RDONLY))
    names = ["best.weft", "last.weft"]
    write_checkpoints({"x": weft.full((SIZE,), 1.0)}, tmp_path, names)
    kept = {name: open(tmp_path / name, "rb") for name in names}
    content = {name: (tmp_path / name).read_bytes() for name in names}
    write_checkpoints({"x": weft.full((SIZE,), 2.0)}, tmp_path, names)
    for name, file in kept.items():
        with file:
            assert file.read() == content[name]
        assert load_checkpoint(tmp_path / name)["x"].sum() == 2 * SIZE
    assert sorted(os.listdir(tmp_path)) == ["best.weft", "last.weft", "previous.weft"]


def test_a_pipe_is_refused_at_once(tmp_path):
    """Opening one would wait for somebody to write to it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for read in (*READ.values(), load_metadata):
        with pytest.raises(weft.io.MagicError, match="expected a file, found a named pipe"):
            read(path)
    with pytest.raises(weft.io.MagicError, match="found a device"):
        weft.load("/dev/zero")
