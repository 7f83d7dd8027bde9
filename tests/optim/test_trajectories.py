"""Every optimiser with its options walks PyTorch's path, and goes on from PyTorch's state as PyTorch from ours."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import weft

from .problems import Walk, assert_same, bowl, converted, structure

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {},
        dict(lr=0.05),
        dict(lr=0.05, momentum=0.9),
        dict(lr=0.05, momentum=0.9, dampening=0.5),
        dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1),
        dict(lr=0.05, weight_decay=0.1, maximize=True),
    ],
    "ASGD": [
        {},
        dict(lr=0.05, t0=20),
        dict(lr=0.05, lambd=0.1, alpha=0.5, weight_decay=0.1),
        dict(lr=0.02, t0=10, maximize=True),
    ],
    "Adagrad": [
        {},
        dict(lr=0.1, lr_decay=0.1),
        dict(lr=0.1, initial_accumulator_value=0.5, weight_decay=0.1),
        dict(lr=0.1, eps=0.1, maximize=True),
    ],
    "Adadelta": [{}, dict(lr=0.5, rho=0.8), dict(eps=1e-3, weight_decay=0.1), dict(lr=0.5, maximize=True)],
    "RMSprop": [
        {},
        dict(lr=0.05, alpha=0.9, eps=1e-3),
        dict(momentum=0.9, weight_decay=0.1),
        dict(centered=True),
        dict(centered=True, momentum=0.5, maximize=True),
    ],
    "Rprop": [{}, dict(lr=0.05, etas=(0.3, 1.5)), dict(step_sizes=(1e-3, 0.05)), dict(maximize=True)],
    "Adam": [
        {},
        dict(lr=0.05, betas=(0.8, 0.9), eps=1e-4),
        dict(lr=0.05, amsgrad=True, weight_decay=0.1),
        dict(lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
        dict(lr=0.05, maximize=True),
    ],
    "AdamW": [{}, dict(lr=0.05, weight_decay=0.3), dict(lr=0.05, amsgrad=True), dict(lr=0.05, maximize=True)],
    "Adamax": [{}, dict(lr=0.05, betas=(0.8, 0.9)), dict(lr=0.05, weight_decay=0.1), dict(lr=0.05, maximize=True)],
    "NAdam": [
        {},
        dict(lr=0.05, momentum_decay=0.1),
        dict(lr=0.05, weight_decay=0.1),
        dict(lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
        dict(lr=0.05, maximize=True),
    ],
    "RAdam": [
        {},
        dict(lr=0.05, betas=(0.8, 0.9)),
        dict(lr=0.05, betas=(0.8, 0.6)),
        dict(lr=0.05, weight_decay=0.1),
        dict(lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
        dict(lr=0.05, maximize=True),
    ],
    "Adafactor": [
        {},
        dict(lr=0.1, beta2_decay=-0.5),
        dict(lr=0.1, eps=(1e-8, 0.1), d=2.0),
        dict(lr=0.1, weight_decay=0.1, maximize=True),
    ],
    "LBFGS": [
        dict(lr=0.1, max_iter=2),
        dict(lr=0.1, max_iter=3, history_size=4),
        dict(line_search_fn="strong_wolfe", max_iter=3),
        dict(line_search_fn="strong_wolfe", max_iter=10, max_eval=6, lr=0.5),
    ],
}
CASES = [pytest.param(name, options, id=f"{name}-{i}") for name in OPTIONS for i, options in enumerate(OPTIONS[name])]
UNUSUAL = [("Adam", (0, 3)), *itertools.product(["Adam", "Adafactor", "SGD"], [(2, 3, 4), (1, 5), ()])]
GROUPED = [name for name in OPTIONS if name != "LBFGS"]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_fifty_steps(name: str, options: dict[str, Any]) -> None:
    theirs, ours = Walk(torch, name, options), Walk(weft, name, options)
    for step in range(50):
        theirs.step(step)
        ours.step(step)
    assert_same(theirs, ours)
    assert structure(ours.optimizer.state_dict()["param_groups"]) == structure(
        theirs.optimizer.state_dict()["param_groups"]
    )
    their_state, our_state = (structure(walk.optimizer.state_dict()["state"]) for walk in (theirs, ours))
    for state in their_state.values():
        state.pop("al", None)  # L-BFGS: room for intermediate results
    assert our_state == their_state


@pytest.mark.parametrize("name", GROUPED)
def test_groups_have_their_own_options(name: str) -> None:
    groups = dict(lr=0.02) if name == "Rprop" else dict(lr=0.02, weight_decay=0.05)
    theirs, ours = (Walk(library, name, dict(lr=0.05), groups) for library in (torch, weft))
    for step in range(20):
        theirs.step(step)
        ours.step(step)
    assert_same(theirs, ours)
    assert repr(ours.optimizer) == repr(theirs.optimizer)


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("source", ["ours to theirs", "theirs to ours"])
def test_state_goes_both_ways(name: str, options: dict[str, Any], source: str) -> None:
    """After ten steps of the one library, the other takes over its state and both go on alike."""
    first, second = (weft, torch) if source == "ours to theirs" else (torch, weft)
    giver, taker = Walk(first, name, options), Walk(second, name, options)
    for step in range(10):
        giver.step(step)
    taker.optimizer.load_state_dict(converted(copy.deepcopy(giver.optimizer.state_dict()), second))
    for target, value in zip(taker.p.values(), giver.values().values(), strict=True):
        target.data = second.from_numpy(value)
    for step in range(10, 20):
        giver.step(step)
        taker.step(step)
    assert_same(giver, taker)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_resumed_is_bit_for_bit_the_same(name: str, options: dict[str, Any]) -> None:
    straight, resumed = Walk(weft, name, options), Walk(weft, name, options)
    for step in range(20):
        if step == 10:
            saved = pickle.loads(pickle.dumps(resumed.optimizer.state_dict()))
            resumed.make()
            resumed.optimizer.load_state_dict(saved)
        straight.step(step)
        resumed.step(step)
    assert_same(straight, resumed, tolerance=0)


@pytest.mark.parametrize("name", [n for n in GROUPED if n != "Adafactor"] + ["LBFGS"])
def test_complex_parameters(name: str) -> None:
    how = dict(loss=bowl, shapes={"a": (3, 2), "b": (4,)}, dtype=np.complex128)
    options = dict(lr=0.02, max_iter=2) if name == "LBFGS" else dict(lr=0.02)
    theirs, ours = (Walk(library, name, options, **how) for library in (torch, weft))
    for step in range(15):
        theirs.step(step)
        ours.step(step)
    assert_same(theirs, ours)


@pytest.mark.parametrize("name", ["SGD", "Adam", "NAdam", "RAdam", "Adafactor", "Adagrad"])
def test_learning_rate_as_a_tensor(name: str) -> None:
    plain, tensor = (Walk(weft, name, dict(lr=lr)) for lr in (0.05, weft.tensor(0.05, dtype=weft.float64)))
    for step in range(10):
        plain.step(step)
        tensor.step(step)
    assert_same(plain, tensor, 1e-7)
    tensor.optimizer.param_groups[0]["lr"].fill_(0.0)
    before = tensor.values()
    tensor.step(10)
    assert all(np.array_equal(before[k], v) for k, v in tensor.values().items())


@pytest.mark.parametrize(("name", "shape"), UNUSUAL)
def test_unusual_shapes(name: str, shape: tuple[int, ...]) -> None:
    theirs, ours = (
        Walk(library, name, dict(lr=0.1), loss=bowl, shapes={"a": shape, "b": (2,)}) for library in (torch, weft)
    )
    for step in range(5):
        theirs.step(step)
        ours.step(step)
    assert_same(theirs, ours)


def test_half_precision_keeps_its_type() -> None:
    p = weft.nn.Parameter(weft.ones(3, dtype=weft.bfloat16))
    optimizer = weft.optim.Adam([p], lr=0.1)
    p.grad = weft.ones(3, dtype=weft.bfloat16)
    optimizer.step()
    q = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    q.grad = torch.ones(3, dtype=torch.bfloat16)
    torch.optim.Adam([q], lr=0.1).step()
    assert p.dtype is weft.bfloat16 and optimizer.state[p]["exp_avg"].dtype is weft.bfloat16
    assert p.tolist() == q.tolist()


def test_a_parameter_without_gradient_stands_still() -> None:
    for name in GROUPED:
        walk = Walk(weft, name, dict(lr=0.1))
        before = walk.values()["still"]
        walk.step(0)
        assert np.array_equal(before, walk.values()["still"]), name


TRACED = ["SGD", "ASGD", "Adagrad", "Adadelta", "RMSprop", "Rprop", "Adam", "AdamW", "Adamax", "NAdam", "RAdam"]


@pytest.mark.parametrize("name", [*TRACED, "Adafactor", "Lion"])
def test_the_update_can_be_traced(name: str) -> None:
    """Under a transform (vmap) over parameters at different steps, each is updated as it would be alone."""
    options = dict(lr=0.1, weight_decay=0.1) if name != "Rprop" else dict(lr=0.1)
    rng = np.random.default_rng(0)
    starts, gradients = (rng.standard_normal((4, 3, 2)) for _ in range(2))
    optimizers, alone = [], []
    for steps, start in zip((0, 1, 5, 9), starts, strict=True):
        p = weft.nn.Parameter(weft.from_numpy(start.copy()))
        optimizers.append(getattr(weft.optim, name)([p], **options))
        for _ in range(steps):
            p.grad = weft.from_numpy(rng.standard_normal((3, 2)))
            optimizers[-1].step()
        alone.append(p)
    group = optimizers[0].param_groups[0]
    states = [o.state.get(p) or o._start(p, group) for o, p in zip(optimizers, alone, strict=True)]
    together = {k: weft.stack([s[k] for s in states]) for k in states[0]}

    def updated(parameter: weft.Tensor, gradient: weft.Tensor, state: dict[str, Any]) -> weft.Tensor:
        parameter, state = parameter.clone(), {k: v.clone() for k, v in state.items()}
        optimizers[0]._update(parameter, gradient, state, group)
        return parameter

    with weft.no_grad():
        values = weft.stack([p.detach() for p in alone])
        found = weft.vmap(updated)(values, weft.from_numpy(gradients), together)
        for p, optimizer, gradient in zip(alone, optimizers, gradients, strict=True):
            p.grad = weft.from_numpy(gradient)
            optimizer.step()
    np.testing.assert_allclose(found.numpy(), np.stack([p.detach().numpy() for p in alone]), rtol=1e-9)
