"""Writing that fails half-way leaves the old file as it was and nothing beside it."""

from __future__ import annotations

import os
import stat

import pytest

import weft
from weft.io import atomic

OLD, NEW = {"x": weft.zeros(1000)}, {"x": weft.ones(100_000)}


class Failing:
    """A file on a disk that is full after some bytes."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, data):
        if memoryview(data).nbytes > self.room:
            self.file.write(bytes(data)[: self.room])
            raise OSError(28, "No space left on device")
        return self.file.write(data)


def fail(*_, **__):
    raise OSError(5, "Input/output error")


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("save", [weft.save, weft.io.save_file])
@pytest.mark.parametrize("place", ["write", "fsync", "replace", "interrupt in fsync"])
@pytest.mark.parametrize("existing", [True, False])
def test_failure_leaves_the_old_file(save, place, existing, tmp_path, monkeypatch):
    path = tmp_path / "model"
    if existing:
        save(OLD, path)
    content = path.read_bytes() if existing else None
    with monkeypatch.context() as patch:
        if place == "write":
            opened = os.fdopen
            patch.setattr(atomic.os, "fdopen", lambda *a: Failing(opened(*a), 5000))
        else:
            name = place.rpartition(" ")[2]
            patch.setattr(atomic.os, name, interrupt if place.startswith("interrupt") else fail)
        with pytest.raises(KeyboardInterrupt if place.startswith("interrupt") else OSError):
            save(NEW, path)
    assert os.listdir(tmp_path) == (["model"] if existing else [])
    assert not existing or path.read_bytes() == content
    save(NEW, path)
    assert weft.load(path)["x"].sum() == 100_000


def test_order_is_write_flush_rename(tmp_path, monkeypatch):
    """The bytes are on the disk before the name points to them, and the folder is flushed after."""
    calls = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(atomic.os, name, lambda *a, n=name, f=original: (calls.append(n), f(*a))[1])
    weft.save(NEW, tmp_path / "a")
    assert calls == ["fsync", "replace", "fsync"]


def test_permissions_and_links_are_kept(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    weft.save(OLD, real)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(real.stat().st_mode) == 0o666 & ~mask
    os.chmod(real, 0o600)
    link.symlink_to(real)
    weft.save(NEW, link)
    assert link.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o600
    assert weft.load(real)["x"].shape == (100_000,)


def test_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        weft.save(OLD, tmp_path / "none" / "a")
