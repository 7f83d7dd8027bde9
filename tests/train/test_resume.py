"""Broken off anywhere and resumed, a training ends with the same bits."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.tables import slow_but
from weft import nn
from weft.train import Callback, Classification, Task, Trainer, load_checkpoint
from weft.train.callbacks import EMA, EarlyStopping, ModelCheckpoint

from .problems import Adversaries, assert_same, digits, loader, mlp, supervised, weights
from .test_compiled import line_data


class BreakOff(Callback):
    """Ctrl-C after so many batches."""

    def __init__(self, after: int) -> None:
        self.left = after

    def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


def full_task() -> Task:
    """Dropout, batch normalisation, momentum, a schedule by steps."""
    weft.manual_seed(3)
    model = nn.Sequential(nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.3), nn.Linear(12, 10))
    make = lambda p: weft.optim.Adam(p, lr=1e-2)
    schedule = lambda o: {"scheduler": weft.optim.lr_scheduler.OneCycleLR(o, 0.05, total_steps=40), "interval": "step"}
    return Classification(model, optimizer=make, scheduler=schedule)


def run(folder: Path, *callbacks: Callback, resume: bool = False, make=full_task, compiled=False, **options):
    """Three epochs of five batches, the last one smaller; every second batch updates."""
    x, y = digits(150)
    settings = {"max_epochs": 3, "accumulate_grad_batches": 2, "gradient_clip_val": 1.0} | options
    trainer = Trainer(run_folder=folder, progress=False, compile=compiled, callbacks=callbacks, **settings)
    task = make()
    if resume and list(Path(folder).glob("checkpoints/*.weft")):
        weft.manual_seed(99)  # whatever a new process would start with
    trainer.fit(task, loader(x, y, shuffle=True), loader(x, y, 64), resume=resume)
    return task, trainer


@pytest.fixture(scope="module", params=[False, True], ids=["eager", "compiled"])
def uninterrupted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[bool, Task, Trainer]:
    """A training from beginning to end, which the interrupted ones are compared with."""
    return request.param, *run(tmp_path_factory.mktemp("whole"), EMA(decay=0.9), compiled=request.param)


@pytest.mark.parametrize("after", slow_but((1, 8, 15), [1, 2, 5, 6, 8, 14, 15]))
def test_interrupted_at_a_batch(tmp_path: Path, after: int, uninterrupted: tuple[bool, Task, Trainer]) -> None:
    """In an accumulation, at its end, at the end of an epoch and of the training."""
    compiled, whole, first = uninterrupted
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", EMA(decay=0.9), BreakOff(after), compiled=compiled)
    resumed, second = run(tmp_path / "broken", EMA(decay=0.9), resume=True, compiled=compiled)
    assert_same(weights(whole), weights(resumed))
    assert_same(weights(first.callbacks[0].average), weights(second.callbacks[0].average))
    drop = lambda rows: [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    assert drop(first.history.rows) == drop(second.history.rows)
    assert drop(first.run.rows()) == drop(second.run.rows())
    assert second.run.result["finished"] is True


def test_interrupted_twice_at_every_batch_of_an_epoch(tmp_path: Path) -> None:
    whole, _ = run(tmp_path / "whole")
    for after in range(1, 6):
        folder = tmp_path / f"broken{after}"
        for pause in (after, 3):
            with pytest.raises(KeyboardInterrupt):
                run(folder, BreakOff(pause), resume=folder.exists())
        resumed, _ = run(folder, resume=True)
        assert_same(weights(whole), weights(resumed))


def test_adversaries_resume(tmp_path: Path) -> None:
    def make() -> Task:
        weft.manual_seed(4)
        return Adversaries()

    found = []
    for folder, callbacks in (("whole", []), ("broken", [BreakOff(7)])):
        options = {"max_epochs": 3, "run_folder": tmp_path / folder, "progress": False}
        task = make()
        try:
            Trainer(callbacks=callbacks, **options).fit(task, line_data())
        except KeyboardInterrupt:
            task = make()
            Trainer(**options).fit(task, line_data(), resume=True)
        found.append(weights(task))
    assert_same(*found)


def test_interrupted_in_a_validation(tmp_path: Path) -> None:
    """A validation that draws random numbers is repeated from where it began."""

    class Noisy(Classification):
        stop_at = 0

        def validation_step(self, batch):
            self.log("noise", weft.randn(()))
            return super().validation_step(batch)

    class Stop(Callback):
        def on_validation_start(self, trainer, task) -> None:
            if trainer.current_epoch == 1:
                trainer.signals.caught = signal.SIGINT

    def make() -> Task:
        weft.manual_seed(3)
        return Noisy(mlp(0.5), lr=1e-2)

    whole, first = run(tmp_path / "whole", make=make)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", Stop(), make=make)
    resumed, second = run(tmp_path / "broken", make=make, resume=True)
    assert_same(weights(whole), weights(resumed))
    assert first.history["noise"] == second.history["noise"]


def test_validation_within_the_epoch_resumes(tmp_path: Path) -> None:
    whole, first = run(tmp_path / "whole", val_check_interval=2)
    for after in (2, 3, 4):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / f"broken{after}", BreakOff(after), val_check_interval=2)
        resumed, second = run(tmp_path / f"broken{after}", val_check_interval=2, resume=True)
        assert_same(weights(whole), weights(resumed))
        assert first.history["val_loss"] == second.history["val_loss"]


def test_a_longer_training_continues_a_shorter_one(tmp_path: Path) -> None:
    """max_steps in the middle of an epoch, then more of them: as if there had been no first limit."""
    whole, _ = run(tmp_path / "whole", max_steps=8, accumulate_grad_batches=1)
    run(tmp_path / "parts", max_steps=3, accumulate_grad_batches=1)
    resumed, trainer = run(tmp_path / "parts", max_steps=8, accumulate_grad_batches=1, resume=True)
    assert trainer.global_step == 8
    assert_same(weights(whole), weights(resumed))


def test_early_stopping_and_best_checkpoint_resume(tmp_path: Path) -> None:
    callbacks = lambda: (EarlyStopping(patience=1, min_delta=10.0), ModelCheckpoint())
    whole, first = run(tmp_path / "whole", *callbacks(), max_epochs=6)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", *callbacks(), BreakOff(7), max_epochs=6)
    resumed, second = run(tmp_path / "broken", *callbacks(), max_epochs=6, resume=True)
    assert first.history.stopped_by == second.history.stopped_by
    assert_same(weights(whole), weights(resumed))


def test_a_loader_without_state_is_read_again_up_to_its_place(tmp_path: Path) -> None:
    x, y = digits(150)
    batches = [(x[i : i + 30], y[i : i + 30]) for i in range(0, 150, 30)]
    found = []
    for folder, callbacks in (("whole", []), ("broken", [BreakOff(7)])):
        options = {"max_epochs": 3, "run_folder": tmp_path / folder, "progress": False}
        task = full_task()
        try:
            Trainer(callbacks=callbacks, **options).fit(task, batches)
        except KeyboardInterrupt:
            task = full_task()
            Trainer(**options).fit(task, batches, resume=True)
        found.append(weights(task))
    assert_same(*found)


def optimiser_names() -> list[str]:
    kinds = {name: getattr(weft.optim, name) for name in dir(weft.optim) if name[0].isupper()}
    wanted = {n for n, k in kinds.items() if isinstance(k, type) and issubclass(k, weft.optim.Optimizer)}
    return sorted(wanted - {"Optimizer", "SparseAdam", "Muon"})  # the last two take only some kinds of parameters


@pytest.mark.parametrize("name", slow_but(("AdamW", "LBFGS", "RAdam", "Rprop", "SGD"), optimiser_names()))
def test_optimisers_resume(tmp_path: Path, name: str) -> None:
    """Every optimiser's state goes through a file without loss."""

    def make() -> Task:
        weft.manual_seed(3)
        few = {"max_iter": 3} if name == "LBFGS" else {}
        return supervised(mlp(hidden=4), lambda p: getattr(weft.optim, name)(p, lr=1e-2, **few))

    options = {"make": make, "max_epochs": 2, "accumulate_grad_batches": 1}
    whole, _ = run(tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", BreakOff(7), **options)
    resumed, _ = run(tmp_path / "broken", resume=True, **options)
    assert_same(weights(whole), weights(resumed))


SCHEDULES = {
    "MultiStepLR": {"milestones": [2, 4, 4]},
    "CyclicLR": {"base_lr": 1e-3, "max_lr": 1e-1, "step_size_up": 3},
    "LambdaLR": {"lr_lambda": lambda step: 1 / (1 + step)},
    "CosineAnnealingWarmRestarts": {"T_0": 3},
    "LinearLR": {"total_iters": 4},
    "PolynomialLR": {"total_iters": 9},
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_resume(tmp_path: Path, name: str) -> None:
    def make() -> Task:
        weft.manual_seed(3)
        kind = getattr(weft.optim.lr_scheduler, name)
        return supervised(mlp(), scheduler=lambda o: {"scheduler": kind(o, **SCHEDULES[name]), "interval": "step"})

    options = {"make": make, "max_epochs": 2, "accumulate_grad_batches": 1}
    whole, _ = run(tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", BreakOff(4), **options)
    resumed, _ = run(tmp_path / "broken", resume=True, **options)
    assert_same(weights(whole), weights(resumed))


# ------------------------------------------------------------------------------------------- kill -9

SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from tests.train.test_resume import full_task, run
from weft.train.callbacks import EMA, ModelCheckpoint
from tests.train.problems import weights

folder = Path(sys.argv[1])
task, trainer = run(folder, EMA(decay=0.9), ModelCheckpoint(every_n_train_steps=1), max_epochs=8, resume=True, compiled=True)
np.savez(folder / "final.npz", **weights(task))
"""


def launch(folder: Path) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder)], env=environment, stderr=subprocess.PIPE
    )


def progress_of(folder: Path) -> int:
    """How many rows the run has written."""
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_and_resume(folder: Path, kills: int, seed: int) -> dict[str, np.ndarray]:
    """Kill the training at random moments, each time after it has come a little further; then let it finish."""
    chance = random.Random(seed)
    for _ in range(kills):
        process, goal = launch(folder), progress_of(folder) + chance.choice((0, 1, 1, 2))
        limit = time.monotonic() + 60
        while process.poll() is None and progress_of(folder) < goal and time.monotonic() < limit:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.05)
        process.kill()
        process.communicate()
    process = launch(folder)
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors.decode()
    with np.load(folder / "final.npz") as final:
        return dict(final)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path: Path, kills: int) -> None:
    whole, _ = run(tmp_path / "whole", EMA(decay=0.9), max_epochs=8, compiled=True)
    (tmp_path / "killed").mkdir()
    final = kill_and_resume(tmp_path / "killed", kills, seed=kills)
    assert_same(weights(whole), final)
    rows = [json.loads(line) for line in (tmp_path / "killed" / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows if row["kind"] == "epoch"] == list(range(8))
    assert not list((tmp_path / "killed" / "checkpoints").glob(".*"))
    assert load_checkpoint(tmp_path / "killed" / "checkpoints" / "last.weft")["position"]["epoch"] == 8
