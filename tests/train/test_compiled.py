"""Compiled steps do what eager steps do; what cannot be compiled runs eagerly after one warning."""

from __future__ import annotations

import random
import re
import warnings

import numpy as np
import pytest

import weft
from weft import nn
from weft.data import DataLoader, TensorDataset
from weft.errors import TraceError
from weft.train import Task, Trainer

from .problems import Adversaries, assert_same, digits, loader, mlp, supervised, weights


def fit(task: Task, data, compiled: bool | str, epochs: int = 2, **options: object) -> Trainer:
    trainer = Trainer(max_epochs=epochs, run_folder=False, progress=False, compile=compiled, **options)
    trainer.fit(task, data)
    return trainer


def line_data() -> DataLoader:
    real = weft.tensor(np.random.default_rng(0).normal(3, 0.5, (70, 1)).astype(np.float32))
    return DataLoader(TensorDataset(real), batch_size=16, shuffle=True, seed=3)


@pytest.mark.parametrize("manual", [False, True], ids=["automatic", "manual"])
def test_two_optimisers(manual: bool) -> None:
    """Adversarial training: both networks end where eager code ends, and where a loop by hand ends."""
    found = []
    for compiled in (False, "error"):
        weft.manual_seed(5)
        task = Adversaries(manual)
        trainer = fit(task, line_data(), compiled)
        found.append(weights(task))
    for name in found[0]:
        np.testing.assert_allclose(found[1][name], found[0][name], rtol=1e-4, atol=1e-6)
    assert trainer.loop.step.run.traces == 2 + manual  # full batches, the last smaller one; before any gradients


def test_two_optimisers_as_by_hand() -> None:
    weft.manual_seed(5)
    task = Adversaries()
    fit(task, line_data(), False)
    weft.manual_seed(5)
    own = Adversaries()
    first, second = own.configure_optimizers()
    data = line_data()
    for _ in range(2):
        for (real,) in data:
            noise = weft.randn(len(real), 2)
            first.zero_grad()
            own.generator_loss(noise).backward()
            first.step()
            second.zero_grad()
            own.critic_loss(real, weft.randn(len(real), 2)).backward()
            second.step()
    assert_same(weights(own), weights(task))


def test_gradients_stay_with_their_optimiser() -> None:
    weft.manual_seed(5)
    task = Adversaries()
    fit(task, line_data(), "error", epochs=1)
    assert all(p.grad is None for p in task.parameters())


def test_dropout_and_batchnorm_draw_and_count_as_in_eager_code() -> None:
    x, y = digits(205)
    found = []
    for compiled in (False, "error"):
        weft.manual_seed(2)
        model = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 10))
        fit(supervised(model), loader(x, y, shuffle=True), compiled)
        found.append(weights(model))
    for name in found[0]:
        np.testing.assert_allclose(found[1][name], found[0][name], rtol=1e-4, atol=1e-5)


class Indexed(Task):
    """Uses batch_idx, global_step and current_epoch as numbers, and decides by one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self.layer(x), y) * (1 + batch_idx) / (1 + self.global_step)
        if batch_idx % 3 == 0:
            loss = loss * 2
        self.log("index", batch_idx + 0.0 * loss)
        self.log("epoch", self.current_epoch + 0.0 * loss)
        return loss

    def configure_optimizers(self):
        return weft.optim.SGD(self.parameters(), lr=0.1)


def test_batch_idx_is_read_at_every_step_and_makes_no_plans() -> None:
    x, y = digits(320)
    found = []
    for compiled in (False, "error"):
        weft.manual_seed(0)
        task = Indexed()
        trainer = fit(task, loader(x, y), compiled, epochs=3)
        found.append(weights(task))
    assert trainer.loop.step.run.traces == 2  # one for each way of the decision
    for name in found[0]:
        np.testing.assert_allclose(found[1][name], found[0][name], rtol=1e-4, atol=1e-6)
    assert trainer.history["index"] == [4.5] * 3  # the mean of 0 … 9
    assert trainer.history["epoch"] == [0.0, 1.0, 2.0]


class Looking(Task):
    """Decides by a number in the middle of the step, and counts its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.steps = nn.Linear(64, 10), 0

    def training_step(self, batch):
        x, y = batch
        self.steps += 1
        loss = nn.functional.cross_entropy(self.layer(x), y)
        return loss / self.steps**0.5 if loss.item() < 100 else loss * 0

    validation_step = training_step

    def configure_optimizers(self):
        return weft.optim.SGD(self.parameters(), lr=0.1)


class Drawing(Looking):
    """Draws from Python's random numbers, which cannot be compiled."""

    def training_step(self, batch):
        return super().training_step(batch) * random.Random(3).choice([1, 2]) * (1 if random.random() < 2 else 0)


@pytest.mark.parametrize(
    "kind, message",
    [
        (Looking, "training step is compiled in parts"),
        (Drawing, "the training step is not compiled .* Python's random"),
    ],
)
def test_what_is_compiled_in_parts_or_not_at_all_warns_once_and_trains(kind, message) -> None:
    x, y = digits(128)
    weft.manual_seed(0)
    task = kind()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(task, loader(x, y), True)
    messages = [str(w.message) for w in caught if "slower" in str(w.message) and "training step" in str(w.message)]
    assert len(messages) == 1 and re.search(message, messages[0])
    assert kind is Drawing or "test_compiled.py" in messages[0]  # the line at which Python decides
    weft.manual_seed(0)
    eager = kind()
    fit(eager, loader(x, y), False)
    for name, w in weights(task).items():
        np.testing.assert_allclose(w, weights(eager)[name], rtol=1e-5, atol=1e-6)
    assert task.steps == eager.steps > 0


def test_compile_error_raises() -> None:
    x, y = digits(64)
    with pytest.raises(TraceError, match="random"):
        fit(Drawing(), loader(x, y), "error")


def test_sizes_that_always_change_end_in_eager_code() -> None:
    x, y = digits(400)
    batches = [(x[: 3 + n], y[: 3 + n]) for n in range(20)]
    with pytest.warns(UserWarning, match="sizes of their own"):
        trainer = fit(supervised(mlp()), batches, True, epochs=1)
    assert trainer.loop.step.run.compiled is None and trainer.global_step == 20


def test_learning_rates_change_without_a_new_plan() -> None:
    x, y = digits(128)
    schedule = lambda o: {"scheduler": weft.optim.lr_scheduler.ExponentialLR(o, 0.9), "interval": "step"}
    trainer = fit(supervised(mlp(), scheduler=schedule), loader(x, y), "error", epochs=3)
    assert trainer.loop.step.run.traces == 1
    assert trainer.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.1 * 0.9**12)
