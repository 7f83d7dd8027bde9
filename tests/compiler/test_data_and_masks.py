"""Masked writes, `.data` and deep copies in compiled functions: as in eager code, call after call."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft import Tensor, nn


def write(y: Tensor, mask: Tensor, value: object) -> Tensor:
    y[mask] = value
    return y


def add(y: Tensor, mask: Tensor, value: object) -> Tensor:
    y[mask] += value
    return y


MASKED: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {  # of x, y and a mask, all (6,)
    "x[m]": lambda x, y, m: write(y, m, x[m]),
    "computed from x[m] and y[m]": lambda x, y, m: write(y, m, 2 * x[m] + y[m]),
    "a number": lambda x, y, m: write(y, m, 0),
    "a tensor of one": lambda x, y, m: write(y, m, x.sum()),
    "added number": lambda x, y, m: add(y, m, 2.0),
    "added tensor": lambda x, y, m: add(y, m, x[m]),
    "added product": lambda x, y, m: add(y, m, x.sum() * 2),
    "masked_scatter": lambda x, y, m: y.masked_scatter(m, x),
    "sum": lambda x, y, m: x[m].sum(),
    "mean": lambda x, y, m: x[m].mean(),
}


@pytest.mark.parametrize("name", MASKED)
def test_masked(name):
    function = MASKED[name]
    compiled = weft.compile(lambda x, y, m: function(x, y.clone(), m))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, y = (weft.tensor(rng.standard_normal(6).astype(np.float32)) for _ in range(2))
        m = weft.tensor(rng.random(6) < 0.5)
        np.testing.assert_allclose(compiled(x, y, m).numpy(), function(x, y.clone(), m).numpy(), rtol=1e-5)


def data_assigned(p: nn.Parameter, x: Tensor) -> None:
    p.data = p.data - 0.1 * x


def data_written(p: nn.Parameter, x: Tensor) -> None:
    p.data.add_(x)
    p.data.copy_(p.data * 2)


def data_of_the_gradient(p: nn.Parameter, x: Tensor) -> None:
    p.grad = None
    (p * x).sum().backward()
    p.data.add_(p.grad.data, alpha=-0.5)


@pytest.mark.parametrize("change", [data_assigned, data_written, data_of_the_gradient])
def test_data(change):
    mine, other = (nn.Parameter(weft.ones(3)) for _ in range(2))

    def step(x: Tensor) -> Tensor:
        change(mine, x)
        return (mine * x).sum().detach()

    compiled = weft.compile(step)
    for k in range(4):
        x = weft.tensor([1.0, 2.0, 3.0 + k])
        found = compiled(x)
        change(other, x)
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-6)
        assert found.item() == pytest.approx((other * x).sum().item(), rel=1e-6)


def test_deep_copies():
    """A copy is apart from what it is a copy of, and of the values at the call."""
    layer, weight = nn.Linear(2, 2), nn.Parameter(weft.ones(2))

    def function(x: Tensor) -> Tensor:
        twin, copied, parameter = copy.deepcopy(layer), copy.deepcopy(x), copy.deepcopy(weight)
        copied.add_(1)
        with weft.no_grad():
            parameter.mul_(3)
            twin.weight.zero_()
        return twin(x) + copied * parameter + weight

    compiled = weft.compile(function)
    for k in range(3):
        x = weft.tensor([[1.0, 2.0 + k]])
        np.testing.assert_allclose(compiled(x).detach().numpy(), function(x).detach().numpy(), rtol=1e-6)
        with weft.no_grad():
            weight.add_(1)
            layer.bias.add_(1)
    assert x.numpy().tolist() == [[1, 4]] and bool(layer.weight.abs().sum() > 0)
