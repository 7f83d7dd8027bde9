"""Long programs: compiling takes time in proportion to their length, and code that occurs often is made once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor, nn


def layers(count: int) -> tuple[Callable, Tensor]:
    """A training step of a deep chain."""
    weft.manual_seed(0)
    model = nn.Sequential(*[layer for _ in range(count) for layer in (nn.Linear(16, 16), nn.ReLU())])
    optimiser = weft.optim.SGD(model.parameters(), lr=0.01)

    def step(x: Tensor) -> Tensor:
        optimiser.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step, weft.randn(4, 16)


class Block(nn.Module):
    """x + W₂ relu(W₁ norm(x))"""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(self.first(self.norm(x)).relu())


def blocks(count: int) -> tuple[Callable, Tensor]:
    """A training step of residual blocks, by an optimiser with state."""
    weft.manual_seed(0)
    model = nn.Sequential(*[Block() for _ in range(count)])
    optimiser = weft.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for parameter in model.parameters():  # the state is there from the start: one trace
        optimiser.state[parameter]["momentum_buffer"] = weft.zeros_like(parameter)

    def step(x: Tensor) -> Tensor:
        optimiser.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step, weft.randn(4, 16)


def branches(count: int) -> tuple[Callable, Tensor]:
    """A sum of many small expressions that differ in a number."""
    w = weft.ones(8, requires_grad=True)

    def total(x: Tensor) -> Tensor:
        found = 0
        for k in range(count):
            found = found + (x * (k * 0.0021) + w).tanh().sum()
        (slope,) = weft.autograd.grad(found, w)
        return slope

    return total, weft.linspace(-1, 1, 8)


def seconds(make: Callable[[int], tuple[Callable, Tensor]], count: int) -> tuple[float, Any]:
    """The processor's time for the first call, and the compiled function."""
    function, x = make(count)
    compiled = weft.compile(function)
    start = time.process_time()
    compiled(x)
    return time.process_time() - start, compiled


def plan_of(compiled: Any) -> Any:
    ((bound,),) = compiled.plans.values()
    return bound.plan


def lines_of(make: Callable[[int], tuple[Callable, Tensor]], count: int) -> int:
    """How many lines of Python run when a program is compiled: time without a clock, loops inside of functions counted."""
    function, x = make(count)
    compiled = weft.compile(function)
    seen = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal seen
        seen += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        compiled(x)
    finally:
        sys.settrace(before)
    return seen


@pytest.mark.parametrize(("make", "count"), [(layers, 8), (blocks, 4), (branches, 24)])
def test_work_is_linear(make, count):
    """Twice as long: twice the work, but for what every program costs. n^1.5 would be 2.83 times as much."""
    lines_of(make, 2)  # modules imported late, answers that are remembered
    short, long, longer = (lines_of(make, n) for n in (count, 2 * count, 3 * count))
    assert long < 2.3 * short
    assert longer - long < 1.15 * (long - short)  # each further layer costs what the one before it did


@pytest.mark.slow
@pytest.mark.parametrize(("make", "count"), [(layers, 50), (branches, 150)])
def test_time_is_linear(make, count):
    """Eight times as long takes far less than the 8^1.5 = 22 times of before."""
    seconds(make, 8 * count)
    short, long = (min(seconds(make, n)[0] for _ in range(3)) for n in (count, 8 * count))
    assert long < 13 * short


@pytest.mark.slow
@pytest.mark.parametrize(("make", "count", "most"), [(layers, 400, 2.0), (layers, 1000, 6.0), (branches, 3000, 8.0)])
def test_time_of_long_programs(make, count, most):
    """Processor time, which other programs lengthen too: the best of three."""
    seconds(make, 10)
    assert min(seconds(make, count)[0] for _ in range(3)) < most


def test_deep_nesting():
    """2,000 modules, each in the next: forward, backward and update are compiled as they run eagerly."""
    weft.manual_seed(0)
    model = nn.Linear(4, 4)
    for _ in range(2000):
        model = nn.Sequential(model)
    optimiser = weft.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimiser.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    x = weft.randn(3, 4)
    (weight, bias) = model.parameters()
    expected = (x @ weight.detach().T + bias.detach()).square().mean()
    compiled = weft.compile(step)
    np.testing.assert_allclose(compiled(x).numpy(), expected.numpy(), rtol=1e-6)
    assert compiled(x) < expected


@pytest.mark.parametrize(("make", "count"), [(layers, 30), (branches, 120)])
def test_code_that_occurs_often_is_made_once(make, count):
    """Twice as many layers or branches need no other kernels, but for one or two at the ends."""
    kernels = [len(plan_of(seconds(make, count)[1]).handles) for count in (count, 2 * count)]
    assert kernels[1] <= kernels[0] + 4 and kernels[1] < 60


@pytest.mark.parametrize(("make", "count"), [(layers, 60), (branches, 150)])
def test_long_programs_compute_the_same(make, count):
    (function, x), (again, _) = make(count), make(count)
    compiled = weft.compile(function)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).numpy(), again(x).numpy(), rtol=2e-5)
