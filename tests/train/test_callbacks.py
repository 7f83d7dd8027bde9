"""Callbacks: each against its definition."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import OptionError
from weft.optim.swa_utils import AveragedModel, update_bn
from weft.train import (
    EMA,
    SWA,
    Callback,
    EarlyStopping,
    GradientFlow,
    LearningRateMonitor,
    ModelCheckpoint,
    Task,
    Timer,
    Trainer,
    UpdateRatio,
    load_checkpoint,
    load_weights,
)

from .problems import Adversaries, assert_same, digits, loader, mlp, supervised, weights
from .test_compiled import line_data

X, Y = digits(150)


class Scripted(Task):
    """A task whose validation figures are given."""

    def __init__(self, values: list[float]) -> None:
        super().__init__()
        self.weight = nn.Parameter(weft.zeros(()))
        self.values = values

    def training_step(self, batch):
        return (self.weight - 1e3) ** 2 * 1e-6 + 0 * batch[0].sum()

    def validation_step(self, batch):
        self.log("val_loss", self.values[self.trainer.current_epoch])

    def configure_optimizers(self):
        return weft.optim.SGD(self.parameters(), lr=1.0)


def fit(task: Task, *callbacks: Callback, folder=False, data=None, val=None, **options) -> Trainer:
    settings = {"max_epochs": 3, "progress": False, "run_folder": folder} | options
    trainer = Trainer(callbacks=callbacks, **settings)
    trainer.fit(task, data or loader(X, Y, 30), val)
    return trainer


def scripted(values: list[float], *callbacks: Callback, **options) -> tuple[Scripted, Trainer]:
    task = Scripted(values)
    data = [(weft.zeros(1),)]
    trainer = fit(task, *callbacks, data=data, val=data, max_epochs=len(values), compile=False, **options)
    return task, trainer


# ------------------------------------------------------------------------------------------- hooks


def test_hooks_come_in_order() -> None:
    called = []

    class Spy(Callback):
        pass

    for name in [n for n in dir(Callback) if n.startswith("on_")]:
        setattr(Spy, name, lambda self, *given, name=name: called.append(name))
    fit(supervised(mlp()), Spy(), data=loader(X, Y, 75), val=loader(X, Y, 150), max_epochs=1)
    batch = ["on_train_batch_start", "on_train_batch_end"]
    validation = ["on_validation_start", "on_validation_end"]
    assert called == [
        "on_fit_start",
        "on_train_epoch_start",
        *batch,
        *batch,
        *validation,
        "on_train_epoch_end",
        "on_fit_end",
    ]


def test_an_exception_is_told_to_callbacks() -> None:
    seen = []

    class Spy(Callback):
        def on_train_batch_start(self, trainer, task, batch, batch_idx) -> None:
            raise ValueError("enough")

        def on_exception(self, trainer, task, exception) -> None:
            seen.append(str(exception))

    with pytest.raises(ValueError, match="enough"):
        fit(supervised(mlp()), Spy())
    assert seen == ["enough"]


def test_moments_of_the_task_itself() -> None:
    class Counting(Scripted):
        moments = ""

        def on_train_epoch_start(self) -> None:
            self.moments += "("

        def on_train_epoch_end(self) -> None:
            self.moments += ")"

        def on_fit_end(self) -> None:
            self.moments += "."

    task = Counting([1.0, 2.0])
    fit(task, data=[(weft.zeros(1),)], max_epochs=2)
    assert task.moments == "()()."


# ------------------------------------------------------------------------------------------- early stopping

STOPS = {  # values, options, epochs run, epoch whose weights stay
    "falling": ([5, 4, 3, 2], {"patience": 1}, 4, 3),
    "one_worse": ([5, 4, 6, 3, 2], {"patience": 1}, 3, 1),
    "patience": ([5, 4, 6, 6, 3, 7, 7, 7], {"patience": 3}, 8, 4),
    "min_delta": ([5, 4.9, 4.8, 1], {"patience": 2, "min_delta": 0.5}, 3, 0),
    "max": ([1, 2, 1, 0, 5], {"patience": 2, "mode": "max"}, 4, 1),
    "nan": ([5, math.nan, math.nan, 1], {"patience": 2}, 3, 0),
    "threshold": ([5, 3, 0.5, 0.1], {"patience": 9, "stopping_threshold": 1.0}, 3, 2),
    "equal_is_not_better": ([5, 5, 5], {"patience": 1}, 2, 0),
}


@pytest.mark.parametrize("case", STOPS)
def test_early_stopping(case: str) -> None:
    values, options, epochs, best = STOPS[case]
    kept = []

    class Keep(Callback):
        def on_validation_end(self, trainer, task) -> None:
            kept.append(task.weight.item())

    task, trainer = scripted(values, EarlyStopping("val_loss", **options), Keep())
    assert len(trainer.history) == epochs
    assert task.weight.item() == kept[best]
    assert (trainer.history.stopped_by is not None) is (epochs < len(values) or case == "patience")


def test_early_stopping_can_keep_the_last_weights() -> None:
    task, trainer = scripted([5, 1, 6, 6], EarlyStopping(patience=2, restore_best=False))
    assert len(trainer.history) == 4 and task.weight.item() > scripted([5, 1])[0].weight.item()


def test_a_figure_that_is_not_logged_is_named() -> None:
    with pytest.raises(OptionError, match=r"'val_bleu' was not logged; logged are \['train_loss', 'val_loss'\]"):
        scripted([1, 2], EarlyStopping("val_bleu"))


# ------------------------------------------------------------------------------------------- checkpoints


def names(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "checkpoints").glob("*.weft")}


def test_best_and_last(tmp_path: Path) -> None:
    _, trainer = scripted([5, 2, 3, 4], folder=tmp_path / "run")
    assert names(tmp_path / "run") == {"best", "last", "previous"}
    best = load_checkpoint(tmp_path / "run" / "checkpoints" / "best.weft")
    assert (best["position"]["epoch"], best["figures"]["val_loss"]) == (2, 2)
    last = load_checkpoint(tmp_path / "run" / "checkpoints" / "last.weft")
    assert last["position"]["epoch"] == 4
    fresh = Scripted([])
    load_weights(fresh, tmp_path / "run")
    assert fresh.weight.item() == best["model"]["weight"].item()
    assert trainer.callbacks[-1].best_score == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"save_top_k": 2}, {"epoch=1-step=2-val_loss=2", "epoch=3-step=4-val_loss=1", "best"}),
        ({"save_top_k": 2, "mode": "max"}, {"epoch=0-step=1-val_loss=5", "epoch=2-step=3-val_loss=4", "best"}),
        ({"save_top_k": 0}, set()),
        ({"monitor": None}, set()),
        ({"save_top_k": -1}, {f"epoch={e}-step={e + 1}-val_loss={v}" for e, v in enumerate((5, 2, 4, 1))} | {"best"}),
        ({"monitor": None, "keep_all": True, "every_n_epochs": 2}, {"epoch=1-step=2", "epoch=3-step=4"}),
    ],
    ids=["top2", "top2_max", "none", "no_figure", "all", "every_second"],
)
def test_which_checkpoints_are_kept(tmp_path: Path, options: dict, expected: set[str]) -> None:
    scripted([5, 2, 4, 1], ModelCheckpoint(**options), folder=tmp_path / "run")
    assert names(tmp_path / "run") - {"last", "previous"} == expected


def test_every_n_train_steps(tmp_path: Path) -> None:
    callback = ModelCheckpoint(monitor=None, every_n_train_steps=2, every_n_epochs=0, keep_all=True)
    fit(supervised(mlp()), callback, folder=tmp_path / "run", max_epochs=1)
    assert names(tmp_path / "run") - {"last", "previous"} == {"epoch=0-step=2", "epoch=0-step=4"}


def test_wrong_save_top_k() -> None:
    with pytest.raises(OptionError, match="save_top_k"):
        ModelCheckpoint(save_top_k=-2)


# ------------------------------------------------------------------------------------------- averages


@pytest.mark.parametrize("compiled", [False, "error"], ids=["eager", "compiled"])
def test_ema_is_its_recursion(compiled: bool | str) -> None:
    """ā₁ = θ₁, then ā ← 0.8 ā + 0.2 θ."""
    seen = []

    class Keep(Callback):
        def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx) -> None:
            seen.append(weights(task))

    average = EMA(decay=0.8, use_at_end=False)
    weft.manual_seed(0)
    fit(supervised(mlp()), average, Keep(), max_epochs=2, compile=compiled)
    expected = dict(seen[0])
    for now in seen[1:]:
        expected = {name: 0.8 * value + np.float32(0.2) * now[name] for name, value in expected.items()}
    for name, value in weights(average.average.module).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-6)


def test_ema_is_validated_and_left_in_the_task(tmp_path: Path) -> None:
    weft.manual_seed(0)
    task, average = supervised(mlp()), EMA(decay=0.9)
    trainer = fit(task, average, folder=tmp_path / "run", val=loader(X, Y, 150))
    assert_same(weights(task), weights(average.average.module))
    with weft.no_grad():
        loss = nn.functional.cross_entropy(task(X), Y).item()
    assert trainer.history["val_loss"][-1] == pytest.approx(loss, rel=1e-5)
    tree = load_checkpoint(tmp_path / "run" / "checkpoints" / "last.weft")
    assert not np.array_equal(tree["model"]["model.0.weight"].numpy(), weights(task)["model.0.weight"])
    fresh = supervised(mlp())
    load_weights(fresh, tmp_path / "run" / "checkpoints" / "last.weft")
    assert_same(weights(fresh), weights(task))


def test_ema_of_adversaries_counts_once_a_step() -> None:
    average = EMA(decay=0.5)
    trainer = fit(Adversaries(), average, data=line_data(), max_epochs=2)
    assert int(average.average.n_averaged) == trainer.global_step == 10


class NormedGenerator(Adversaries):
    """The generator has batch normalisation, so buffers; its optimiser comes first, and its critic sees it in that step
    alone."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))

    def critic_loss(self, real: weft.Tensor, noise: weft.Tensor) -> weft.Tensor:
        return (self.critic(real) - self.critic(noise[:, :1])).mean()


@pytest.mark.parametrize("compiled", [False, "error"], ids=["eager", "compiled"])
def test_ema_of_a_generator_alone_has_its_buffers(compiled: bool | str) -> None:
    """After the generator's own steps; the critic stays as it is, and statistics are those of the newest generator."""
    weft.manual_seed(0)
    task, seen = NormedGenerator(), []

    class Keep(Callback):
        def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx) -> None:
            seen.append((weights(task.generator), weights(task.critic)))

    average = EMA(decay=0.5, part="generator")
    trainer = fit(task, average, Keep(), data=line_data(), max_epochs=1, compile=compiled)
    expected = dict(seen[0][0])
    for now, _ in seen[1:]:
        expected = {name: 0.5 * value + 0.5 * now[name] for name, value in expected.items()}
    left, newest = weights(task.generator), seen[-1][0]
    for name, _ in task.generator.named_parameters():
        np.testing.assert_allclose(left[name], expected[name], rtol=1e-5, atol=1e-6)
    buffers = dict(task.generator.named_buffers())
    assert_same({name: left[name] for name in buffers}, {name: newest[name] for name in buffers})
    assert int(average.average.n_averaged) == trainer.global_step
    assert_same(weights(task.critic), seen[-1][1])


def test_ema_is_saved_and_sampled_with(tmp_path: Path) -> None:
    weft.manual_seed(0)
    task, average = NormedGenerator(), EMA(decay=0.9, part="generator", use_at_end=False)
    fit(task, average, data=line_data(), max_epochs=1, folder=tmp_path / "run")
    plain, noise = weights(task), weft.randn(6, 2)
    task.eval()
    with average.applied(task), average.applied(task):
        drawn = task.generator(noise)
        assert_same(weights(task.generator), weights(average.average.module))
    assert_same(weights(task), plain)
    fresh = NormedGenerator()
    load_weights(fresh, tmp_path / "run" / "checkpoints" / "last.weft")
    assert_same(weights(fresh.generator), weights(average.average.module))
    assert_same(weights(fresh.critic), weights(task.critic))
    assert weft.equal(fresh.eval().generator(noise), drawn)


def test_ema_of_a_part_that_is_not_there() -> None:
    with pytest.raises(OptionError, match="no part 'generater'; it has generator, critic"):
        fit(Adversaries(), EMA(part="generater"), data=line_data(), max_epochs=1)
    with pytest.raises(OptionError, match="no average yet"), EMA().applied(Adversaries()):
        pass


def test_swa_is_the_mean_of_the_last_epochs() -> None:
    seen = []

    class Keep(Callback):
        def on_train_epoch_end(self, trainer, task) -> None:
            seen.append({name: x.detach().clone() for name, x in task.state_dict().items()})

    def make() -> Task:
        weft.manual_seed(0)
        return supervised(nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10)))

    task = make()
    fit(task, Keep(), max_epochs=5)
    own = AveragedModel(task)
    for state in seen[2:]:
        task.load_state_dict(state)
        own.update_parameters(task)
    update_bn(loader(X, Y, 30), own.module)
    averaged = make()
    fit(averaged, SWA(swa_epoch_start=0.4), max_epochs=5)
    for name, value in weights(own.module).items():
        np.testing.assert_allclose(weights(averaged)[name], value, rtol=1e-5, atol=1e-6)


def test_swa_takes_over_the_rate() -> None:
    callback = SWA(swa_lrs=0.01, swa_epoch_start=1, annealing_epochs=2, annealing_strategy="linear")
    trainer = fit(supervised(mlp()), callback, max_epochs=5)
    np.testing.assert_allclose(trainer.history["lr"], [0.1, 0.1, 0.055, 0.01, 0.01], rtol=1e-6)


# ------------------------------------------------------------------------------------------- monitors


def test_learning_rates_are_logged() -> None:
    schedule = lambda o: weft.optim.lr_scheduler.StepLR(o, 1, 0.5)
    trainer = fit(supervised(mlp(), scheduler=schedule), LearningRateMonitor(log_momentum=True))
    assert trainer.history["lr"] == [0.1, 0.05, 0.025]
    assert trainer.history["momentum"] == [0.0] * 3
    two = fit(Adversaries(), data=line_data(), max_epochs=1)
    assert two.history["lr_0"] == two.history["lr_1"] == [0.01]


class Outputs(Callback):
    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []
        self.seen: list[dict[str, np.ndarray]] = []

    def on_train_batch_start(self, trainer, task, batch, batch_idx) -> None:
        self.seen.append(weights(task))

    def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx) -> None:
        self.rows.append(outputs)


@pytest.mark.parametrize("compiled", [False, "error"], ids=["eager", "compiled"])
def test_update_ratio_is_what_it_says(compiled: bool | str) -> None:
    outputs = Outputs()
    task = supervised(mlp())
    fit(task, UpdateRatio(every_n_steps=2), outputs, compile=compiled, max_epochs=1)
    after = [*outputs.seen[1:], weights(task)]
    watched = [k for k, row in enumerate(outputs.rows) if "update_ratio/model.0.weight" in row]
    assert watched == [0, 1, 3]  # updates 1, 2 and 4
    for k in watched:
        for name in ("model.0.weight", "model.3.bias"):
            old, new = outputs.seen[k][name], after[k][name]
            ratio = (new - old).std(ddof=1) / old.std(ddof=1)
            assert outputs.rows[k][f"update_ratio/{name}"] == pytest.approx(ratio, rel=1e-3)


@pytest.mark.parametrize("compiled", [False, "error"], ids=["eager", "compiled"])
def test_gradient_flow_is_what_it_says(compiled: bool | str) -> None:
    """With plain SGD the gradient is the update over the rate."""
    outputs = Outputs()
    task = supervised(mlp())
    fit(task, GradientFlow(every_n_steps=1), outputs, compile=compiled, max_epochs=1)
    after = [*outputs.seen[1:], weights(task)]
    for k, row in enumerate(outputs.rows):
        gradient = (outputs.seen[k]["model.0.weight"] - after[k]["model.0.weight"]) / 0.1
        size = np.sqrt((gradient.astype(np.float64) ** 2).mean())
        assert row["gradient/model.0.weight"] == pytest.approx(size, rel=1e-3)


def test_gradient_flow_names_what_gets_no_gradient() -> None:
    model = mlp()
    with weft.no_grad():
        model[0].bias.fill_(-100.0)  # every unit is off
    with pytest.warns(UserWarning, match=r"no gradient reaches model.0.weight"):
        fit(supervised(model), GradientFlow(every_n_steps=1), max_epochs=1)


def test_gradient_flow_sees_vanishing() -> None:
    layers = [part for _ in range(12) for part in (nn.Linear(16, 16), nn.Sigmoid())]
    model = nn.Sequential(nn.Linear(64, 16), *layers, nn.Linear(16, 10))
    with pytest.warns(UserWarning, match="differ by a factor of"):
        fit(supervised(model), GradientFlow(every_n_steps=1), max_epochs=1)


@pytest.mark.parametrize("kind", [UpdateRatio, GradientFlow])
def test_monitors_check_their_options(kind: type) -> None:
    with pytest.raises(OptionError, match="every_n_steps"):
        kind(every_n_steps=0)


# ------------------------------------------------------------------------------------------- time


def test_timer() -> None:
    timer = Timer(duration=0.3)
    trainer = fit(supervised(mlp()), timer, max_epochs=100_000)
    assert 0.3 <= timer.time_elapsed < 5 and timer.time_remaining <= 0
    assert trainer.history.stopped_by.startswith("Timer")
    assert Timer("00:01:02").duration == 62 and Timer("01:00:00:00").duration == 86400
    with pytest.raises(OptionError, match="interval"):
        Timer(interval="year")
