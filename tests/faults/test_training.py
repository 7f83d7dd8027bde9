"""What can go wrong around a training: it says what happened, and nothing is lost."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import nn
from weft.data import DataLoader, Dataset
from weft.train import (
    Callback,
    CheckpointError,
    NotFiniteError,
    RunFolder,
    Task,
    Trainer,
    load_checkpoint,
    load_weights,
)

from ..train.problems import assert_same, digits, loader, mlp, supervised, weights
from ..train.test_resume import BreakOff, run


def mounted(folder: Path, options: str) -> bool:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    if not mounted(tmp_path / "disk", "size=256k"):
        pytest.skip("file systems cannot be mounted here")
    yield tmp_path / "disk"
    subprocess.run(["umount", "-l", str(tmp_path / "disk")], check=True)


# ------------------------------------------------------------------------------------------- full disks


def test_a_disk_that_is_full_at_the_start(small_disk: Path) -> None:
    (small_disk / "filling").write_bytes(bytes(200_000))
    with pytest.raises(OSError, match="disk is full") as caught:
        run(small_disk / "run", make=lambda: supervised(mlp(hidden=256)))
    assert caught.value.errno == errno.ENOSPC


def test_a_disk_that_fills_up_during_training(small_disk: Path) -> None:
    """Every later checkpoint fails; the last whole one stays, training goes on to its end and says so."""

    class Fill(Callback):
        def on_train_epoch_start(self, trainer, task) -> None:
            if trainer.current_epoch == 1:
                with pytest.raises(OSError, match="No space"), open(small_disk / "filling", "wb", 0) as file:
                    while True:
                        file.write(bytes(1024))

    def make() -> Task:
        weft.manual_seed(0)
        return supervised(mlp(hidden=64))

    whole, _ = run(small_disk.parent / "whole", make=make)
    task = make()
    with warnings.catch_warnings(record=True) as caught, pytest.raises(OSError, match="disk is full"):
        warnings.simplefilter("always")
        run(small_disk / "run", Fill(), make=lambda: task)
    assert any("training goes on" in str(w.message) for w in caught)
    tree = load_checkpoint(small_disk / "run" / "checkpoints" / "last.weft")
    assert tree["position"]["epoch"] == 1
    assert not list((small_disk / "run" / "checkpoints").glob(".*"))
    (small_disk / "filling").unlink()
    resumed, trainer = run(small_disk / "run", make=make, resume=True)
    assert trainer.run.result["finished"] is True
    assert len(trainer.run.rows("epoch")) == 3
    assert_same(weights(whole), weights(task))  # the training itself did not suffer
    assert_same(weights(whole), weights(resumed))


def test_files_beyond_a_limit_of_size(tmp_path: Path) -> None:
    """A limit of the system on sizes of files: the same as a full disk."""

    class Limit(Callback):
        def on_train_epoch_start(self, trainer, task) -> None:
            if trainer.current_epoch == 1:
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.warns(UserWarning, match="training goes on"), pytest.raises(OSError, match="run"):
            run(tmp_path / "run", Limit())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert load_checkpoint(tmp_path / "run" / "checkpoints" / "last.weft")["position"]["epoch"] == 1


@pytest.mark.parametrize("failing", range(6))
def test_each_write_of_a_checkpoint_may_fail(tmp_path: Path, failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the n-th flush, just once: a whole checkpoint is there at every moment, and at the end."""
    from weft.io import atomic

    real, count = os.fsync, [0]
    folder = tmp_path / "run" / "checkpoints"

    class Look(Callback):
        def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx) -> None:
            assert load_checkpoint(folder / "last.weft")["position"]["epoch"] >= trainer.current_epoch - 1

    def fsync(descriptor: int) -> None:
        if armed[0]:
            count[0] += 1
            if count[0] == failing + 1:
                raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    class Arm(Callback):
        def on_fit_start(self, trainer, task) -> None:
            armed[0] = True

    armed = [False]
    monkeypatch.setattr(atomic.os, "fsync", fsync)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(tmp_path / "run", Arm(), Look())
    assert count[0] > failing
    assert load_checkpoint(folder / "last.weft")["position"]["epoch"] == 3
    assert len(RunFolder(tmp_path / "run").rows("epoch")) == 3


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    if not mounted(tmp_path / "disk", "ro"):
        pytest.skip("file systems cannot be mounted here")
    try:
        with pytest.raises(OSError, match="choose another run_folder"):
            run(tmp_path / "disk" / "run")
    finally:
        subprocess.run(["umount", str(tmp_path / "disk")], check=True)


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(OSError, match="run"):
        run(tmp_path / "run")


# ------------------------------------------------------------------------------------------- damaged files


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "cut":
        content = content[: len(content) // 2]
    elif how == "empty":
        content = bytearray()
    elif how == "flip":
        content[-100] ^= 1
    else:
        content[:] = os.urandom(len(content))
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["cut", "empty", "flip", "noise"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path, how: str) -> None:
    whole, _ = run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", BreakOff(13))
    damage(tmp_path / "broken" / "checkpoints" / "last.weft", how)
    with pytest.warns(UserWarning, match=r"last.weft.*previous.weft"):
        resumed, _ = run(tmp_path / "broken", resume=True)
    assert_same(weights(whole), weights(resumed))


def test_all_checkpoints_damaged(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", BreakOff(7))
    for path in (tmp_path / "run" / "checkpoints").glob("*.weft"):
        damage(path, "cut")
    with pytest.raises(CheckpointError, match="no checkpoint can be read"):
        run(tmp_path / "run", resume=True)


def test_a_checkpoint_of_another_model(tmp_path: Path) -> None:
    run(tmp_path / "run")
    with pytest.raises(CheckpointError, match="another model"):
        run(tmp_path / "run", make=lambda: supervised(mlp()), resume=True)
    with pytest.raises(CheckpointError, match="do not fit"):
        load_weights(mlp(), tmp_path / "run")
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        load_weights(mlp(), tmp_path / "nowhere.weft")
    weft.save({"a": weft.zeros(1)}, tmp_path / "other.weft")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        load_weights(mlp(), tmp_path / "other.weft")


def test_a_torn_line_in_the_log(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", BreakOff(7))
    with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
        file.write('{"kind": "epoch", "epo')
    _, trainer = run(tmp_path / "run", resume=True)
    assert [row["epoch"] for row in trainer.run.rows("epoch")] == [0, 1, 2]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert all(json.loads(line) for line in lines)


def test_a_second_run_in_the_same_folder_puts_the_first_aside(tmp_path: Path) -> None:
    run(tmp_path / "run")
    run(tmp_path / "run")
    assert (tmp_path / "run" / "earlier-1" / "checkpoints" / "last.weft").exists()
    assert len(RunFolder(tmp_path / "run").rows("epoch")) == 3


# ------------------------------------------------------------------------------------------- data that fails


class Faulty(Dataset):
    def __init__(self, how: str) -> None:
        self.how, (self.x, self.y) = how, digits(150)

    def __len__(self) -> int:
        return 150

    def __getitem__(self, index: int):
        if index == 100 and self.how == "raise":
            raise ValueError("sample 100 cannot be read")
        if index == 100 and self.how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        return self.x[index], self.y[index]


@pytest.mark.parametrize(("how", "workers"), [("raise", 0), ("raise", 2), ("die", 2)])
def test_data_that_fails_keeps_the_state_before(tmp_path: Path, how: str, workers: int) -> None:
    """The error of the data set comes through; after it is repaired training goes on from the same batch."""
    fit = lambda folder, dataset, **options: Trainer(max_epochs=2, run_folder=folder, progress=False).fit(
        task, DataLoader(dataset, batch_size=30, num_workers=workers), **options
    )
    weft.manual_seed(0)
    task = supervised(mlp())
    fit(tmp_path / "whole", Faulty("never"))
    whole = weights(task)
    weft.manual_seed(0)
    task = supervised(mlp())
    with pytest.raises(Exception, match="sample 100 cannot be read" if how == "raise" else "(?i)worker"):
        fit(tmp_path / "run", Faulty(how))
    position = load_checkpoint(tmp_path / "run" / "checkpoints" / "last.weft")["position"]
    assert (position["epoch"], position["batch"]) == (0, 3)
    assert RunFolder(tmp_path / "run").result["finished"] is False
    weft.manual_seed(1)
    task = supervised(mlp())
    fit(tmp_path / "run", Faulty("never"), resume=True)
    assert_same(whole, weights(task))


# ------------------------------------------------------------------------------------------- NaN


class Logarithm(nn.Module):
    def forward(self, x):
        return (x - 0.5).log()


def poisoned(where: str) -> tuple[Task, DataLoader]:
    x, y = digits(150)
    weft.manual_seed(0)
    model = mlp()
    if where == "input":
        x[70, 5] = float("nan")
    if where == "layer":
        model = nn.Sequential(*list(model), Logarithm())
    if where == "gradient":  # √0 has an infinite slope, times 0: NaN, while the loss is finite
        model = nn.Sequential(*list(model), _Root())
    rate = 1e30 if where == "rate" else 0.1
    return supervised(model, lambda p: weft.optim.SGD(p, lr=rate)), loader(x, y, 30)


class _Root(nn.Module):
    def forward(self, x):
        return x + (x.detach() * 0).sqrt() * 0 + ((x * 0) ** 0.5) * 0


@pytest.mark.parametrize(
    ("where", "batch", "words"),
    [
        ("input", 3, r"input 0 of the batch has 1 elements that are not finite, the first at \(10, 5\)"),
        ("layer", 1, r"first layer whose output is not finite: model.4 \(Logarithm\)"),
        ("gradient", 1, r"gradients that are not finite: model.0.weight"),
        ("rate", 2, "not finite"),
    ],
)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_loss_that_is_not_finite_is_explained(
    tmp_path: Path, where: str, batch: int, words: str, compiled: bool
) -> None:
    task, data = poisoned(where)
    trainer = Trainer(max_epochs=2, run_folder=tmp_path / "run", progress=False, compile=compiled)
    with pytest.raises(NotFiniteError, match=words) as caught:
        trainer.fit(task, data)
    assert f"It began with batch {batch}," in str(caught.value)
    assert all(bool(p.isfinite().all()) for p in task.parameters())
    kept = load_checkpoint(tmp_path / "run" / "checkpoints" / "last.weft")
    assert kept["position"]["batch"] == batch - 1
    assert_same(weights(task), {name: x.numpy() for name, x in kept["model"].items()})


def test_an_operation_is_named() -> None:
    task, data = poisoned("gradient")
    with pytest.raises(NotFiniteError, match=r"(?s)PowBackward0 returned NaN.*test_training.py"):
        Trainer(max_epochs=1, run_folder=False, progress=False).fit(task, data)


# ------------------------------------------------------------------------------------------- Ctrl-C

SCRIPT = """
import sys
from tests.train.problems import mlp
from tests.train.test_resume import run
from weft.train import Classification
try:
    run(sys.argv[1], make=lambda: Classification(mlp(), lr=1e-3), max_epochs=100000)
except KeyboardInterrupt as error:
    print("stopped by", type(error).__name__, flush=True)
    sys.exit(130)
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_step_save_and_say_how_to_go_on(tmp_path: Path, sent: int) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path / "run")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    limit = time.monotonic() + 60
    while not (tmp_path / "run" / "metrics.jsonl").exists() and time.monotonic() < limit:
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(sent)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    result = RunFolder(tmp_path / "run").result
    assert result["finished"] is False and result["stopped_by"] == ("Ctrl-C" if sent == signal.SIGINT else "SIGTERM")
    tree = load_checkpoint(tmp_path / "run" / "checkpoints" / "last.weft")
    assert tree["position"]["step"] == result["steps"]


def test_messages_of_an_interrupted_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = digits(64)
    with pytest.raises(KeyboardInterrupt):
        Trainer(max_epochs=5, run_folder=tmp_path / "run", callbacks=BreakOff(3)).fit(supervised(mlp()), loader(x, y))
    output = capsys.readouterr().out
    assert output.count("Interrupted at epoch 2, step 3") == 1
    assert "resume=True" in output and str(tmp_path / "run") in output


def test_signals_are_as_before_afterwards(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    run(tmp_path / "run")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_training_in_another_thread(tmp_path: Path) -> None:
    import threading

    done = []
    thread = threading.Thread(target=lambda: done.append(run(tmp_path / "run")[1].history.finished))
    thread.start()
    thread.join(60)
    assert done == [True]
    assert np.isfinite(RunFolder(tmp_path / "run").result["figures"]["val_loss"])
