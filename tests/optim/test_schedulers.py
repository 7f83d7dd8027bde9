"""Learning rates and momenta of every schedule against PyTorch, over 200 steps, resumed, and combined."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import weft

pytestmark = pytest.mark.filterwarnings("ignore")


class Decay:
    """A callable object: schedules save its attributes."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, epoch: int) -> float:
        return self.rate**epoch


def made(name: str, **options: Any) -> Callable:
    return lambda library, optimizer, **more: getattr(library.optim.lr_scheduler, name)(optimizer, **options, **more)


def sequence(parts: list[Callable], milestones: list[int]) -> Callable:
    return lambda library, optimizer: library.optim.lr_scheduler.SequentialLR(
        optimizer, [part(library, optimizer) for part in parts], milestones=milestones
    )


def chain(*parts: Callable) -> Callable:
    return lambda library, optimizer: library.optim.lr_scheduler.ChainedScheduler(
        [part(library, optimizer) for part in parts]
    )


def swalr(**options: Any) -> Callable:
    return lambda library, optimizer, **more: library.optim.swa_utils.SWALR(optimizer, **options, **more)


SIMPLE = {
    "lambda": made("LambdaLR", lr_lambda=lambda t: 0.99**t),
    "lambdas": made("LambdaLR", lr_lambda=[lambda t: 0.99**t, lambda t: 1 / (1 + t)]),
    "lambda object": made("LambdaLR", lr_lambda=Decay(0.97)),
    "multiplicative": made("MultiplicativeLR", lr_lambda=lambda t: 0.9 if t % 2 else 1.02),
    "step": made("StepLR", step_size=7, gamma=0.8),
    "multi-step": made("MultiStepLR", milestones=[3, 50, 50, 120], gamma=0.3),
    "constant": made("ConstantLR", factor=0.25, total_iters=9),
    "linear": made("LinearLR", start_factor=0.2, end_factor=0.9, total_iters=40),
    "linear down": made("LinearLR", start_factor=1.0, end_factor=0.0, total_iters=30),
    "exponential": made("ExponentialLR", gamma=0.98),
    "polynomial": made("PolynomialLR", total_iters=150, power=2.0),
    "cosine": made("CosineAnnealingLR", T_max=30, eta_min=0.01),
    "cosine once": made("CosineAnnealingLR", T_max=200),
    "warm restarts": made("CosineAnnealingWarmRestarts", T_0=5, T_mult=2, eta_min=0.005),
    "equal restarts": made("CosineAnnealingWarmRestarts", T_0=13),
    "triangular": made("CyclicLR", base_lr=0.01, max_lr=0.2, step_size_up=20),
    "triangular2": made("CyclicLR", base_lr=0.01, max_lr=0.2, step_size_up=11, step_size_down=17, mode="triangular2"),
    "exp_range": made("CyclicLR", base_lr=0.01, max_lr=0.2, step_size_up=9, mode="exp_range", gamma=0.99),
    "scale_fn": made("CyclicLR", base_lr=0.01, max_lr=[0.2, 0.3], step_size_up=9, scale_fn=lambda x: 1 / x),
    "no momentum": made("CyclicLR", base_lr=0.01, max_lr=0.2, step_size_up=9, cycle_momentum=False),
    "swa": swalr(swa_lr=0.02, anneal_epochs=20),
    "swa linear": swalr(swa_lr=[0.02, 0.3], anneal_epochs=5, anneal_strategy="linear"),
    "swa at once": swalr(swa_lr=0.02, anneal_epochs=0),
}
OTHERS = {
    "one cycle": made("OneCycleLR", max_lr=0.5, total_steps=200),
    "one cycle linear": made("OneCycleLR", max_lr=[0.5, 0.1], epochs=20, steps_per_epoch=10, anneal_strategy="linear"),
    "one cycle three": made("OneCycleLR", max_lr=0.5, total_steps=201, three_phase=True, pct_start=0.4),
    "sequence": sequence(
        [made("LinearLR", total_iters=10), made("CosineAnnealingLR", T_max=90), made("ExponentialLR", gamma=0.97)],
        [10, 100],
    ),
    "sequence of steps": sequence([made("ConstantLR", factor=0.1, total_iters=5), made("StepLR", step_size=30)], [5]),
    "sequence of cycles": sequence([SIMPLE["warm restarts"], SIMPLE["multiplicative"], SIMPLE["triangular"]], [20, 60]),
    "chain": chain(SIMPLE["linear"], SIMPLE["exponential"], SIMPLE["multi-step"]),
    "sequence of chains": sequence([chain(SIMPLE["linear"], SIMPLE["step"]), SIMPLE["cosine"]], [50]),
    "sequence in sequence": sequence(
        [sequence([SIMPLE["linear"], SIMPLE["step"]], [20]), made("ExponentialLR", gamma=0.98)], [70]
    ),
}


def optimizer_of(library: ModuleType, kind: str) -> Any:
    groups = [{"params": [library.nn.Parameter(library.ones(2))]}, {"params": [library.nn.Parameter(library.ones(2))]}]
    groups[1]["lr"] = 0.3
    if kind == "Adam":
        return library.optim.Adam(groups, lr=0.1)
    return library.optim.SGD(groups, lr=0.1, momentum=0.9)


def rates(optimizer: Any) -> list[float]:
    momentum = [g["betas"][0] if "betas" in g else g["momentum"] for g in optimizer.param_groups]
    return [float(g["lr"]) for g in optimizer.param_groups] + [float(m) for m in momentum]


def run(library: ModuleType, make: Callable, kind: str, steps: int, reload_at: int = -1) -> np.ndarray:
    optimizer = optimizer_of(library, kind)
    scheduler = make(library, optimizer)
    out = []
    for step in range(steps):
        if step == reload_at:
            saved = copy.deepcopy(scheduler.state_dict()), copy.deepcopy(optimizer.state_dict())
            optimizer = optimizer_of(library, kind)
            scheduler = make(library, optimizer)
            scheduler.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[1])
        out.append(rates(optimizer))
        assert scheduler.get_last_lr() == out[-1][:2]
        optimizer.step()
        scheduler.step()
    return np.array(out)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SIMPLE | OTHERS)
def test_two_hundred_steps(name: str, kind: str) -> None:
    make = (SIMPLE | OTHERS)[name]
    ours, theirs = (run(library, make, kind, 200) for library in (weft, torch))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SIMPLE | OTHERS)
def test_saved_and_restored(name: str) -> None:
    make = (SIMPLE | OTHERS)[name]
    assert np.array_equal(run(weft, make, "SGD", 120), run(weft, make, "SGD", 120, reload_at=55))


@pytest.mark.parametrize("name", SIMPLE)
@pytest.mark.parametrize("last_epoch", [0, 4, 7])
def test_started_at_a_later_epoch_and_moved_to_an_epoch(name: str, last_epoch: int) -> None:
    found = []
    for library in (weft, torch):
        optimizer = optimizer_of(library, "SGD")
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"] * 2
        scheduler = SIMPLE[name](library, optimizer, last_epoch=last_epoch)
        found.append([rates(optimizer)])
        for epoch in [None, None, None, 2, None, 40, None]:
            optimizer.step()
            scheduler.step() if epoch is None else scheduler.step(epoch)
            found[-1].append(rates(optimizer))
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SIMPLE | OTHERS)
def test_pytorch_loads_our_state(name: str) -> None:
    make = (SIMPLE | OTHERS)[name]
    ours, theirs = optimizer_of(weft, "SGD"), optimizer_of(torch, "SGD")
    our_scheduler, their_scheduler = make(weft, ours), make(torch, theirs)
    for _ in range(30):
        ours.step()
        our_scheduler.step()
    their_scheduler.load_state_dict(copy.deepcopy(our_scheduler.state_dict()))
    theirs.load_state_dict(copy.deepcopy(ours.state_dict()))
    for _ in range(30):
        for optimizer, scheduler in ((ours, our_scheduler), (theirs, their_scheduler)):
            optimizer.step()
            scheduler.step()
        np.testing.assert_allclose(rates(ours), rates(theirs), rtol=1e-9, atol=1e-12)


PLATEAUS = [
    dict(patience=2, factor=0.5, cooldown=1, min_lr=1e-3),
    dict(mode="max", factor=0.3, patience=1, threshold_mode="abs", threshold=0.05),
    dict(patience=0, min_lr=[0.01, 0.2], eps=1e-2),
    dict(threshold=0.2, patience=4),
]


@pytest.mark.parametrize("options", PLATEAUS, ids=range(len(PLATEAUS)))
def test_plateau(options: dict[str, Any]) -> None:
    metric = np.abs(np.sin(np.arange(200) * 0.4)) / (1 + 0.1 * np.arange(200))
    found = []
    for library in (weft, torch):
        optimizer = optimizer_of(library, "SGD")
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        found.append([])
        for step, value in enumerate(metric):
            if step == 77:
                saved = copy.deepcopy(scheduler.state_dict())
                scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
                scheduler.load_state_dict(saved)
            scheduler.step(library.tensor(value))
            found[-1].append(rates(optimizer) + scheduler.get_last_lr())
    np.testing.assert_allclose(*found, rtol=1e-12)
    assert len(np.unique(np.array(found[0])[:, 0])) > 1


def test_warm_restarts_started_later_go_on_as_from_the_start() -> None:
    make, straight = SIMPLE["warm restarts"], run(weft, SIMPLE["warm restarts"], "SGD", 60)
    for last_epoch in (0, 4, 11, 20, 35):
        optimizer = optimizer_of(weft, "SGD")
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
        scheduler = make(weft, optimizer, last_epoch=last_epoch)
        for step in range(last_epoch + 1, 60):
            np.testing.assert_allclose(rates(optimizer), straight[step], rtol=1e-12)
            scheduler.step()


def test_fractions_of_epochs() -> None:
    found = []
    for library in (weft, torch):
        optimizer = optimizer_of(library, "SGD")
        scheduler = made("CosineAnnealingWarmRestarts", T_0=3, T_mult=2)(library, optimizer)
        found.append([scheduler.step(step / 7) or rates(optimizer) for step in range(200)])
    np.testing.assert_allclose(*found, rtol=1e-12)


ERRORS: list[tuple[str, dict[str, Any]]] = [
    ("LambdaLR", dict(lr_lambda=[lambda t: 1.0])),
    ("ConstantLR", dict(factor=1.5)),
    ("LinearLR", dict(start_factor=0.0)),
    ("LinearLR", dict(end_factor=1.5)),
    ("CosineAnnealingWarmRestarts", dict(T_0=0)),
    ("CosineAnnealingWarmRestarts", dict(T_0=3, T_mult=0)),
    ("CyclicLR", dict(base_lr=0.1, max_lr=0.2, mode="square")),
    ("CyclicLR", dict(base_lr=[0.1], max_lr=0.2)),
    ("OneCycleLR", dict(max_lr=0.1)),
    ("OneCycleLR", dict(max_lr=0.1, total_steps=0)),
    ("OneCycleLR", dict(max_lr=0.1, epochs=0, steps_per_epoch=2)),
    ("OneCycleLR", dict(max_lr=0.1, total_steps=4, pct_start=2)),
    ("OneCycleLR", dict(max_lr=0.1, total_steps=4, anneal_strategy="exp")),
    ("OneCycleLR", dict(max_lr=[0.1], total_steps=4)),
    ("ReduceLROnPlateau", dict(factor=1.0)),
    ("ReduceLROnPlateau", dict(mode="least")),
    ("ReduceLROnPlateau", dict(threshold_mode="x")),
    ("ReduceLROnPlateau", dict(min_lr=[0.1])),
    ("SequentialLR", dict(schedulers=[], milestones=[])),
    ("StepLR", dict(step_size=3, last_epoch=4)),
]


@pytest.mark.parametrize(("name", "options"), ERRORS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(ERRORS)])
def test_errors_are_pytorchs(name: str, options: dict[str, Any]) -> None:
    raised = []
    for library in (weft, torch):
        with pytest.raises((ValueError, KeyError)) as caught:
            made(name, **options)(library, optimizer_of(library, "SGD"))
        raised.append((caught.type, str(caught.value)[:60]))
    assert issubclass(raised[0][0], raised[1][0]) and raised[0][1] == raised[1][1]


def test_errors_of_combinations() -> None:
    schedules, optimizer = weft.optim.lr_scheduler, optimizer_of(weft, "SGD")
    step, other = schedules.StepLR(optimizer, 3), schedules.StepLR(optimizer_of(weft, "SGD"), 3)
    plateau = schedules.ReduceLROnPlateau(optimizer)
    with pytest.raises(ValueError, match="one more than"):
        schedules.SequentialLR(optimizer, [step], [3])
    with pytest.raises(ValueError, match="same optimizer"):
        schedules.ChainedScheduler([step, other])
    with pytest.raises(ValueError, match="ReduceLROnPlateau"):
        schedules.SequentialLR(optimizer, [step, plateau], [3])
    with pytest.raises(ValueError, match="at least one"):
        schedules.ChainedScheduler([])
    with pytest.raises(TypeError, match="not an Optimizer"):
        schedules.StepLR(3, 2)
    with pytest.raises(ValueError, match="momentum or beta1"):
        schedules.CyclicLR(weft.optim.Adagrad([weft.nn.Parameter(weft.ones(1))]), 0.1, 0.2)
    once = schedules.OneCycleLR(optimizer, 0.1, total_steps=2)
    with pytest.raises(ValueError, match="Tried to step 3 times"):
        for _ in range(4):
            once.step()


def test_warns_when_the_schedule_steps_before_the_optimizer() -> None:
    optimizer = optimizer_of(weft, "SGD")
    scheduler = weft.optim.lr_scheduler.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match=r"before `optimizer.step\(\)`"):
        scheduler.step()
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()


def test_a_tensor_rate_is_changed_in_its_memory() -> None:
    rate = weft.tensor(0.1)
    optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=rate)
    scheduler = weft.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate and float(rate) == pytest.approx(0.05)
    assert float(optimizer.param_groups[0]["initial_lr"]) == pytest.approx(0.1)
