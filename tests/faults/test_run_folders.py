"""A run folder has one writer; one that was killed leaves nothing that stands in the way of the next."""

from __future__ import annotations

import errno
import os
import signal
import time

import pytest

from weft.train import Callback, RunFolder, RunLockedError, Trainer, locking
from weft.train.locking import FolderLock

from ..train.problems import digits, loader, mlp, supervised

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def train(folder, **options):
    x, y = digits(64)
    trainer = Trainer(max_epochs=1, run_folder=folder, progress=False, compile=False, **options)
    return trainer.fit(supervised(mlp()), loader(x, y))


def holder(folder):
    """Another process that trains in a folder until it is killed."""
    folder.mkdir(exist_ok=True)
    ready, tell = os.pipe()
    process = os.fork()
    if process == 0:
        lock = FolderLock(folder)
        lock.take()
        os.write(tell, b".")
        time.sleep(60)
        os._exit(0)
    assert os.read(ready, 1) == b"."
    os.close(ready)
    os.close(tell)
    return process


def killed(process):
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def test_a_second_process_is_refused_and_the_lock_of_a_killed_one_is_nothing(tmp_path):
    train(tmp_path / "run")
    rows, process = RunFolder(tmp_path / "run").rows(), holder(tmp_path / "run")
    try:
        for resume in (False, True):
            x, y = digits(64)
            with pytest.raises(RunLockedError, match=rf"process {process} on .* has been training since .*; wait"):
                Trainer(max_epochs=2, run_folder=tmp_path / "run").fit(supervised(mlp()), loader(x, y), resume=resume)
        assert RunFolder(tmp_path / "run").rows() == rows
    finally:
        killed(process)
    assert (tmp_path / "run" / locking.NAME).exists()  # what the killed one left
    assert train(tmp_path / "run").finished
    assert not (tmp_path / "run" / locking.NAME).exists()


def test_two_trainings_of_one_process(tmp_path):
    class Again(Callback):
        def on_fit_start(self, trainer, task):
            with pytest.raises(RunLockedError, match="this process already trains in this folder"):
                train(tmp_path / "run")

    assert train(tmp_path / "run", callbacks=Again()).finished
    assert train(tmp_path / "run").finished


def test_a_failed_training_lets_go(tmp_path):
    class Fail(Callback):
        def on_fit_start(self, trainer, task):
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        train(tmp_path / "run", callbacks=Fail())
    assert train(tmp_path / "run").finished


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    """As workers of a loader that outlive the training would."""
    lock = FolderLock(tmp_path)
    lock.take()
    process = os.fork()
    if process == 0:
        time.sleep(60)
        os._exit(0)
    lock.release()
    try:
        other = FolderLock(tmp_path)
        other.take()
        other.release()
    finally:
        killed(process)


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locking.fcntl, "lockf", refuse)
    with pytest.warns(UserWarning, match="start no second training"):
        assert train(tmp_path / "run").finished


@pytest.mark.parametrize("content", [b"", b"no JSON", b"[]", b'{"pid": "x"}'])
def test_a_lock_that_does_not_say_whose_it_is(content, tmp_path):
    process = holder(tmp_path)
    try:
        (tmp_path / locking.NAME).write_bytes(content)
        with pytest.raises(RunLockedError, match="another process is training in this folder"):
            FolderLock(tmp_path).take()
    finally:
        killed(process)


@pytest.mark.parametrize("resume", [False, True])
def test_leftovers_are_removed_at_the_next_start(resume, tmp_path):
    train(tmp_path)
    left = [tmp_path / ".settings.json.abc.part", tmp_path / "checkpoints" / ".incoming.weft.abc.part"]
    for path in left:
        path.write_bytes(b"half")
    (tmp_path / "mine.part").write_bytes(b"a user's own")
    x, y = digits(64)
    Trainer(max_epochs=2, run_folder=tmp_path, progress=False).fit(supervised(mlp()), loader(x, y), resume=resume)
    assert list(tmp_path.rglob("*.part")) == [tmp_path / "mine.part"]
