"""Lipschitz bounds: N1 theorems 1.3 and 1.4, and singular values by NumPy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.errors import OptionError
from weft.inspect import jacobian_norms, jacobian_norms_by_power, jacobians, lipschitz, power_iteration
from weft.inspect.theory.stretch import SLOPES
from weft.models.supervised import MLP

CONVOLUTIONAL = [
    nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, stride=2), nn.Conv2d(4, 3, 2, stride=2),
    nn.GELU(), nn.AvgPool2d(1), nn.Flatten(), nn.Linear(3, 5), nn.Softmax(-1),
]  # fmt: skip


@pytest.mark.parametrize(
    "activation", ["relu", "tanh", "sigmoid", "gelu", "silu", "elu", "selu", "leaky_relu", "arctan"]
)
@pytest.mark.parametrize("hidden", [[], [7], [16, 8, 8]])
def test_jacobian_is_below_the_product_of_norms(activation, hidden):
    weft.manual_seed(len(hidden))
    model, x = MLP(6, hidden, 4, activation=activation), weft.randn(100, 6) * 3
    found = lipschitz(model, x)
    assert 0 < found.lower <= found.upper * (1 + 1e-12)
    if activation in ("relu", "tanh", "arctan"):
        assert found.upper == pytest.approx(model.lipschitz_bound(), rel=1e-5)
    if not hidden:
        assert found.lower == pytest.approx(found.upper)
    difference = (model(x[:50]) - model(x[50:])).norm(dim=1) / (x[:50] - x[50:]).norm(dim=1)
    assert float(difference.max()) <= found.upper


def test_convolutional_network():
    weft.manual_seed(0)
    model = nn.Sequential(*CONVOLUTIONAL)
    x = weft.randn(30, 1, 8, 8)
    model.train()(x)  # running statistics
    found = lipschitz(model, x)
    assert 0 < found.lower <= found.upper
    assert {r.kind: r.norm for r in found.layers}["MaxPool2d"] == 2  # a cell lies in up to 2 × 2 windows
    assert model.training


@pytest.mark.parametrize("layer, shape", [
    (nn.Conv2d(2, 3, 3, padding=1), (2, 6, 5)), (nn.Conv2d(2, 3, 3, stride=2, dilation=2), (2, 9, 9)),
    (nn.Conv1d(3, 2, 4), (3, 10)), (nn.AvgPool2d(2), (2, 6, 6)), (nn.ConvTranspose2d(2, 3, 2, stride=2), (2, 4, 4)),
    (nn.Conv2d(2, 2, 3, padding=1), (2, 12, 12)),
])  # fmt: skip
def test_norm_of_a_convolution_is_the_largest_singular_value_of_its_matrix(layer, shape):
    size = int(np.prod(shape))
    basis = weft.eye(size, dtype=weft.float64).reshape(size, *shape)
    layer = layer.double()
    matrix = (layer(basis) - layer(basis * 0)).detach().array.reshape(size, -1)
    found = lipschitz(nn.Sequential(layer), weft.randn(2, *shape))
    assert found.upper == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-9)
    by_power = jacobian_norms_by_power(layer, weft.zeros(1, *shape).double(), steps=300)[0]
    assert 0.99 * found.upper < by_power <= found.upper * (1 + 1e-12)


@pytest.mark.parametrize(
    "kind", [k for k in SLOPES if k not in (nn.Softmax, nn.Unflatten) and "Dropout" not in k.__name__]
)
def test_steepest_slope_of_each_activation(kind):
    x = weft.linspace(-12, 12, 400_001, dtype=weft.float64, requires_grad=True)
    layer = kind().double()
    layer(x.reshape(-1, 1) if kind is nn.Flatten else x).sum().backward()
    steepest = float(x.grad.abs().max())
    bound = SLOPES[kind](layer) if callable(SLOPES[kind]) else SLOPES[kind]
    assert bound - 2e-4 <= steepest <= bound + 1e-9


def test_approximate_gelu_and_softmax():
    x = weft.linspace(-8, 8, 100_001, dtype=weft.float64, requires_grad=True)
    nn.GELU("tanh")(x).sum().backward()
    assert float(x.grad.abs().max()) <= SLOPES[nn.GELU]
    logits = weft.tensor(np.random.default_rng(0).normal(size=(200, 4)) * 2)
    assert jacobian_norms(nn.Softmax(-1), logits).max() <= 0.5
    assert jacobian_norms(nn.Softmax(-1), weft.zeros(1, 2).double())[0] == pytest.approx(0.5)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5), (30, 20)])
def test_power_iteration_finds_the_largest_singular_value(shape):
    a = np.random.default_rng(1).normal(size=shape)
    found = power_iteration(lambda v: a @ v, lambda u: a.T @ u, shape[1])
    _, s, vt = np.linalg.svd(a)
    assert found.converged and found.norm == pytest.approx(s[0], rel=1e-8)
    assert abs(found.vector @ vt[0]) == pytest.approx(1, abs=1e-6)


def test_power_iteration_of_nothing_and_too_few_steps():
    assert power_iteration(lambda v: v * 0, lambda u: u * 0, 4).norm == 0
    a = np.diag([1.0, 0.999])
    assert not power_iteration(lambda v: a @ v, lambda u: a @ u, 2, steps=3).converged


def test_jacobians_are_those_of_torch():
    weft.manual_seed(0)
    model = MLP(5, [8], 3, activation="tanh").double()
    x = np.random.default_rng(0).normal(size=(7, 5))
    w1, b1, w2, b2 = (torch.tensor(p.detach().array) for p in model.parameters())
    f = lambda v: w2 @ torch.tanh(w1 @ v + b1) + b2
    expected = np.stack([torch.autograd.functional.jacobian(f, torch.tensor(row)).numpy() for row in x])
    found = jacobians(model, weft.tensor(x))
    np.testing.assert_allclose(found, expected, atol=1e-13)
    np.testing.assert_allclose(jacobian_norms(model, weft.tensor(x)), np.linalg.svd(expected)[1][:, 0], rtol=1e-12)
    by_power = jacobian_norms_by_power(model, weft.tensor(x), steps=300)
    np.testing.assert_allclose(by_power, np.linalg.svd(expected)[1][:, 0], rtol=1e-6)


def test_layers_without_a_bound_are_named():
    with pytest.raises(OptionError, match="LayerNorm \\(layer 1\\)"):
        lipschitz(nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), weft.randn(5, 3))
