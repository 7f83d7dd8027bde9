"""safetensors files against the reference implementation: what we write it reads, what it writes we read."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

import weft
from weft.errors import DtypeError
from weft.io import load_file, load_metadata, save_file

TYPES = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex64".split()
SHAPES = [(), (0,), (3,), (2, 0, 3), (2, 3, 5)]


def sample(name, shape, seed=0):
    values = torch.from_numpy(np.random.default_rng(seed).integers(0, 100, shape))
    return values.to(getattr(torch, name))


def raw(theirs):
    """The elements of a PyTorch tensor, row by row, as bytes."""
    flat = torch.empty(theirs.numel(), dtype=theirs.dtype).copy_(theirs.detach().reshape(-1))
    return flat.view(torch.uint8).numpy().tobytes()


def same(ours, theirs):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
    assert ours.detach().numpy().tobytes() == raw(theirs)


@pytest.mark.parametrize("name", TYPES)
def test_reference_implementation_reads_what_we_write(name, tmp_path):
    ours = {f"x{i}": weft.io.from_torch(sample(name, s)) for i, s in enumerate(SHAPES)}
    ours["transposed"] = weft.io.from_torch(sample(name, (3, 4))).T
    save_file(ours, tmp_path / "a", {"note": "ä"})
    theirs = safetensors.torch.load_file(tmp_path / "a")
    assert set(theirs) == set(ours)
    for key in ours:
        same(ours[key], theirs[key])
    with safetensors.safe_open(tmp_path / "a", "pt") as file:
        assert file.metadata() == {"note": "ä"}


@pytest.mark.parametrize("name", TYPES)
def test_we_read_what_the_reference_implementation_writes(name, tmp_path):
    theirs = {f"x{i}": sample(name, s, i) for i, s in enumerate(SHAPES)}
    safetensors.torch.save_file(theirs, tmp_path / "a", {"k": "v"})
    ours = load_file(tmp_path / "a")
    assert set(theirs) == set(ours) and load_metadata(tmp_path / "a") == {"k": "v"}
    for key in ours:
        same(ours[key], theirs[key])


def test_file_is_mapped_on_request_and_never_written_to(tmp_path):
    """Mapping reads nothing but the header; the tensors are writable and the file stays as it is."""
    path = tmp_path / "a"
    save_file({"x": weft.arange(4.0), "y": weft.ones(3, dtype=weft.int8)}, path)
    content = path.read_bytes()
    loaded = load_file(path, mmap=True)
    assert type(loaded["x"].array.base).__name__ == "mmap"
    loaded["x"].mul_(2)
    assert loaded["x"].tolist() == [0, 2, 4, 6] and path.read_bytes() == content
    assert load_file(path)["x"].tolist() == [0, 1, 2, 3]
    save_file({"x": weft.zeros(4)}, path)  # a new file under the same name leaves the old memory alone
    assert loaded["y"].tolist() == [1, 1, 1]


def test_every_tensor_lies_aligned(tmp_path):
    tensors = {f"{i}": weft.ones(2 * i + 1, dtype=getattr(weft, t)) for i, t in enumerate(TYPES)}
    save_file(tensors, tmp_path / "a")
    for value in load_file(tmp_path / "a").values():
        assert value.data_ptr() % value.itemsize == 0


def test_unaligned_file_is_read_all_the_same(tmp_path):
    header = json.dumps(
        {
            "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
            "b": {"dtype": "F64", "shape": [2], "data_offsets": [1, 17]},
        }
    ).encode()
    data = b"\x07" + np.array([1.5, -2.0]).tobytes()
    (tmp_path / "a").write_bytes(len(header).to_bytes(8, "little") + header + data)
    loaded = load_file(tmp_path / "a")
    assert loaded["a"].tolist() == [7] and loaded["b"].tolist() == [1.5, -2.0] and loaded["b"].data_ptr() % 8 == 0


@pytest.mark.parametrize(
    "tensors, metadata, error, says",
    [
        ({"z": weft.zeros(2, dtype=weft.complex128)}, None, DtypeError, "view_as_real"),
        ({"a": [1, 2]}, None, TypeError, "'a' is a list"),
        ({3: weft.ones(1)}, None, TypeError, "names must be strings"),
        ({"__metadata__": weft.ones(1)}, None, ValueError, "belongs to the format"),
        ({"a": weft.ones(1)}, {"epoch": 3}, TypeError, "metadata must be strings"),
    ],
)
def test_what_cannot_be_saved_leaves_no_file(tensors, metadata, error, says, tmp_path):
    with pytest.raises(error, match=says):
        save_file(tensors, tmp_path / "a", metadata)
    assert list(tmp_path.iterdir()) == []
