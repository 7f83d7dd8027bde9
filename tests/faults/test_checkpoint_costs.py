"""What checkpoints cost: the same at every epoch, and a small share of the time, without losing anything."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.train import RunFolder, Trainer, load_checkpoint, save_checkpoint
from weft.train.callbacks import StopOnNaN
from weft.train.running import saving
from weft.train.running.saving import Saver

from ..train.problems import assert_same, digits, loader, mlp, supervised, weights


def train(folder, epochs, **options):
    weft.manual_seed(3)
    x, y = digits(32)
    task = supervised(mlp(hidden=4))
    trainer = Trainer(max_epochs=epochs, run_folder=folder, progress=False, compile=False)
    trainer.fit(task, loader(x, y), loader(x, y), **options)
    return trainer, task


# ------------------------------------------------------------------------------------------- bytes


def bytes_by_epoch(folder, epochs, monkeypatch):
    """The sizes of all checkpoints and of all states that are kept in memory, in the order of their making."""
    files, kept = [], []
    write, keep = saving.write_checkpoints, StopOnNaN._keep

    def counted(tree, place, names):
        write(tree, place, names)
        files.append((place / names[0]).stat().st_size)

    def measured(self, trainer):
        keep(self, trainer)
        kept.append(len(repr(self.start["position"])) + len(repr(self.start.get("history", ""))))

    monkeypatch.setattr(saving, "SHARE", 1.0)  # every one is written
    monkeypatch.setattr(saving, "write_checkpoints", counted)
    monkeypatch.setattr(StopOnNaN, "_keep", measured)
    train(folder, epochs)
    return files, kept


@pytest.mark.parametrize("epochs", [25, pytest.param(2000, marks=pytest.mark.slow)])
def test_checkpoints_do_not_grow_with_the_epochs(epochs, tmp_path, monkeypatch):
    files, kept = bytes_by_epoch(tmp_path, epochs, monkeypatch)
    assert len(files) >= epochs and len(kept) >= epochs
    assert max(files) - min(files) < 300 and max(kept) - min(kept) < 100  # numbers have more or fewer digits


# ------------------------------------------------------------------------------------------- history


def same_history(first, second):
    drop = lambda rows: [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    return drop(first.history.rows) == drop(second.history.rows)


def test_a_resumed_history_is_whole(tmp_path):
    whole, task = train(tmp_path / "whole", 6)
    train(tmp_path / "parts", 3)
    parts, again = train(tmp_path / "parts", 6, resume=True)
    assert "history" not in load_checkpoint(tmp_path / "parts" / "checkpoints" / "last.weft")
    assert len(parts.history) == 6 and same_history(whole, parts)
    assert_same(weights(task), weights(again))
    moved, _ = train(tmp_path / "elsewhere", 6, resume=tmp_path / "parts" / "checkpoints" / "best.weft")
    assert same_history(whole, moved)


def test_a_checkpoint_from_before_still_loads(tmp_path):
    """Older ones hold the history themselves."""
    whole, task = train(tmp_path / "whole", 5)
    first, _ = train(tmp_path / "parts", 2)
    path = tmp_path / "parts" / "checkpoints" / "last.weft"
    tree = load_checkpoint(path)
    del tree["epochs"]
    save_checkpoint(tree | {"history": first.history.rows}, tmp_path / "old.weft")
    parts, again = train(tmp_path / "new", 5, resume=tmp_path / "old.weft")
    assert same_history(whole, parts)
    assert_same(weights(task), weights(again))


def test_a_checkpoint_without_its_folder_goes_on_with_a_warning(tmp_path):
    _, task = train(tmp_path / "whole", 4)
    train(tmp_path / "parts", 2)
    (tmp_path / "a" / "b").mkdir(parents=True)
    shutil.copy(tmp_path / "parts" / "checkpoints" / "last.weft", tmp_path / "a" / "b" / "last.weft")
    with pytest.warns(UserWarning, match="the figures of 2 epochs should lie in"):
        parts, again = train(tmp_path / "new", 4, resume=tmp_path / "a" / "b" / "last.weft")
    assert len(parts.history) == 2
    assert_same(weights(task), weights(again))


def test_a_state_that_the_user_saves_has_its_history(tmp_path):
    trainer, _ = train(tmp_path / "run", 2)
    trainer.save_checkpoint(tmp_path / "mine.weft")
    assert len(load_checkpoint(tmp_path / "mine.weft")["history"]) == 2


# ------------------------------------------------------------------------------------------- time


class Clock:
    """A training whose epochs and files take the time that is said."""

    def __init__(self, monkeypatch, cost=0.027, size=4):
        self.now, self.cost, self.epoch, self.written, self.size = 100.0, cost, 0, [], size
        monkeypatch.setattr(saving.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(saving, "write_checkpoints", self.write)
        self.saver = Saver(RunFolder(Path("nowhere")), self.state)

    def state(self):
        return {"position": {"epoch": self.epoch, "batch": 0, "step": 0}, "x": weft.full((self.size,), self.epoch)}

    def write(self, tree, folder, names):
        self.now += self.cost
        self.written += [(name.removesuffix(".weft"), int(tree["x"][0])) for name in names]

    def train(self, *names, seconds=0.01, urgent=False):
        self.now += seconds
        self.epoch += 1
        for name in names:
            self.saver.want(name, urgent)
        self.saver.write()


def test_short_epochs_spend_a_small_share_on_checkpoints(monkeypatch):
    """Epochs of 10 ms, files of 27 ms: three quarters of the time went into files."""
    clock = Clock(monkeypatch)
    for k in range(2000):
        clock.train("last", *(["best"] if k % 3 == 0 else []))
    spent = sum(clock.cost for _ in clock.written)
    assert 0 < spent < 0.05 * (clock.now - 100)
    clock.train("last", urgent=True)
    assert clock.written[-1] == ("last", 2001) and ("best", 1999) in clock.written  # nothing that counts is lost


def test_long_epochs_write_all(monkeypatch):
    clock = Clock(monkeypatch)
    for _ in range(5):
        clock.train("last", seconds=60.0)
    assert clock.written == [("last", k) for k in range(1, 6)]


def test_the_best_waits_in_memory_and_comes_before_the_last(monkeypatch):
    """A `last` whose callbacks know of a better one than the file `best` would be wrong after a kill."""
    clock = Clock(monkeypatch)
    clock.train("last", "best")
    clock.train("last", "best")
    clock.train("last")
    assert clock.written == [("last", 1), ("best", 1)]
    clock.train("last", seconds=10.0)
    assert clock.written[2:] == [("best", 2), ("last", 4)]
    clock.train("last", "best")
    clock.saver.write(urgent=True)
    clock.saver.write(urgent=True)
    assert clock.written[4:] == [("best", 5)]


def test_what_the_user_names_is_always_written(monkeypatch):
    clock = Clock(monkeypatch)
    for _ in range(3):
        clock.train("last", f"epoch={clock.epoch}")
    assert [name for name, _ in clock.written if name != "last"] == ["epoch=0", "epoch=1", "epoch=2"]


def test_a_large_state_is_not_kept_twice(monkeypatch):
    clock = Clock(monkeypatch, size=1000)
    monkeypatch.setattr(saving, "SMALL", 100)
    for _ in range(3):
        clock.train("best")
    assert clock.written == [("best", 1), ("best", 2), ("best", 3)]


def test_a_full_disk_is_tried_again_at_once(monkeypatch):
    clock = Clock(monkeypatch)
    clock.train("last")
    write = clock.write

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving, "write_checkpoints", fail)
    with pytest.warns(UserWarning, match="could not be written"):
        clock.train("last", seconds=10.0)
    monkeypatch.setattr(saving, "write_checkpoints", write)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clock.train("last")
    assert clock.written == [("last", 1), ("last", 3)] and clock.saver.error is None


def test_the_best_of_a_short_training_is_in_its_file(tmp_path):
    """Whatever was left out on the way."""
    trainer, task = train(tmp_path, 12)
    losses = trainer.history["val_loss"]
    best, last = (load_checkpoint(tmp_path / "checkpoints" / f"{name}.weft") for name in ("best", "last"))
    assert best["figures"]["val_loss"] == min(losses) and last["position"]["epoch"] == 12
    np.testing.assert_array_equal(last["model"]["model.0.weight"].numpy(), weights(task)["model.0.weight"])
