"""Activation modules against PyTorch, and the notes' neurons against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import weft
from weft import nn

from .modules_harness import case, check_cases

SHAPES = [(4,), (2, 3), (2, 3, 4), (2, 4, 3, 2), (0, 3), ()]


def over_shapes(*options):
    """Every shape with every set of constructor arguments (positional tuples or dictionaries)."""
    for option in options or ((),):
        for shape in SHAPES:
            if isinstance(option, dict):
                yield case(shape, **option)
            else:
                yield case(shape, args=option)


def along(*dims):
    return [case(shape, args=(dim,)) for dim in dims for shape in ((4, 6), (2, 4, 6), (2, 6, 4, 2))]


CASES = {
    "Threshold": over_shapes((0.1, 20.0), (-0.5, 0.0)),
    "ReLU": over_shapes(),
    "Hardtanh": over_shapes((), (-0.3, 0.7)),
    "ReLU6": over_shapes(),
    "Sigmoid": over_shapes(),
    "Hardsigmoid": over_shapes(),
    "Tanh": over_shapes(),
    "SiLU": over_shapes(),
    "Mish": over_shapes(),
    "Hardswish": over_shapes(),
    "ELU": over_shapes((), (2.0,)),
    "CELU": over_shapes((), (2.0,)),
    "SELU": over_shapes(),
    "GELU": over_shapes((), ("tanh",)),
    "Hardshrink": over_shapes((), (0.2,)),
    "Softshrink": over_shapes((), (0.2,)),
    "LeakyReLU": over_shapes((), (0.3,)),
    "LogSigmoid": over_shapes(),
    "Softplus": over_shapes((), (2.0, 1.0)),
    "Softsign": over_shapes(),
    "Tanhshrink": over_shapes(),
    "PReLU": [case(s) for s in SHAPES]
    + [case((2, 3, 4), args=(3,)), case((2, 3), args=(3, 0.1)), case((3,), args=(1,))],
    "GLU": [case((4, 6)), case((2, 4, 6)), case((6,)), *along(0, 1, -2)],
    "Softmax": along(0, 1, -1),
    "Softmin": along(0, 1, -1),
    "LogSoftmax": along(0, 1, -1),
    "Softmax2d": [case(s) for s in ((2, 3, 4, 5), (3, 4, 5), (1, 3, 1, 1), (2, 1, 3, 3), (0, 3, 2, 2), (2, 5, 1, 4))],
}


@pytest.mark.parametrize("name", CASES)
def test_equals_torch(name, record_property):
    cases = list(CASES[name])
    assert len(cases) >= 6
    check_cases(name, cases, record_property)


def test_rrelu_in_evaluation_and_its_slopes_in_training(record_property):
    check_cases("RReLU", list(over_shapes((), (0.2, 0.4))), record_property, train=False)
    y = weft.nn.RReLU(0.2, 0.4)(weft.full((2000,), -1.0))
    assert -0.4 <= float(y.min()) < -0.39 and -0.21 < float(y.max()) <= -0.2


INPLACE = ["ReLU", "ReLU6", "Hardtanh", "SiLU", "Mish", "ELU", "CELU", "SELU", "LeakyReLU", "Hardsigmoid", "Hardswish"]


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_writes_into_the_input(name):
    theirs, ours = getattr(torch.nn, name)(inplace=True), getattr(weft.nn, name)(inplace=True)
    assert repr(ours) == repr(theirs)
    values = np.linspace(-4, 4, 12)
    x, reference = weft.tensor(values), torch.tensor(values)
    assert ours(x) is x
    np.testing.assert_allclose(x.numpy(), theirs(reference).numpy(), 1e-12)


# ------------------------------------------------------------------------------------------- neurons of the notes


def test_arctan_and_its_slope():
    x = weft.linspace(-3, 3, 13, dtype=weft.float64).requires_grad_()
    y = weft.nn.Arctan()(x)
    np.testing.assert_allclose(y.detach().numpy(), np.arctan(x.detach().numpy()))
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 / (1 + x.detach().numpy() ** 2))


@pytest.mark.parametrize(
    "shape,count", [((4, 3), 1), ((4, 3), 3), ((2, 3, 5), 3), ((2, 3, 4, 4), 3), ((3,), 1), ((), 1)]
)
def test_swish_learns_beta(shape, count):
    torch.manual_seed(0)
    x, beta = torch.randn(shape, dtype=torch.float64, requires_grad=True), torch.rand(count, dtype=torch.float64) * 2
    beta.requires_grad_()
    stretched = beta.reshape(-1, *[1] * (len(shape) - 2)) if count > 1 else beta.reshape(())
    (x * torch.sigmoid(x * stretched)).square().sum().backward()
    layer = weft.nn.Swish(count).double()
    layer.load_state_dict({"beta": weft.tensor(beta.detach().numpy())})
    ours = weft.tensor(x.detach().numpy(), requires_grad=True)
    layer(ours).square().sum().backward()
    np.testing.assert_allclose(ours.grad.numpy().reshape(shape), x.grad.numpy(), 1e-8)
    np.testing.assert_allclose(layer.beta.grad.numpy(), beta.grad.numpy(), 1e-8)


def test_swish_limits():
    x = weft.linspace(-2, 2, 9, dtype=weft.float64)
    swish = lambda beta: weft.nn.Swish(init=beta, dtype=weft.float64)(x).detach().numpy()
    np.testing.assert_allclose(swish(1.0), weft.nn.SiLU()(x).numpy())
    np.testing.assert_allclose(swish(0.0), x.numpy() / 2)
    np.testing.assert_allclose(swish(1e6), np.maximum(x.numpy(), 0), atol=1e-12)


def test_temperature_flattens_and_sharpens():
    """η = (3, 0, 1) of N2 §2.4.6: nearly uniform when hot, all on the largest when cold, odds e^(Δη/T) between."""
    eta = weft.tensor([3.0, 0.0, 1.0], dtype=weft.float64)
    np.testing.assert_allclose(weft.nn.TemperatureSoftmax(1e6)(eta).numpy(), [1 / 3] * 3, 1e-5)
    np.testing.assert_allclose(weft.nn.TemperatureSoftmax(0.01)(eta).numpy(), [1, 0, 0], atol=1e-12)
    p = weft.nn.TemperatureSoftmax(2.5)(eta)
    assert math.isclose(float(p[0] / p[1]), math.exp(3 / 2.5)) and math.isclose(float(p.sum()), 1.0)
    learned = weft.nn.TemperatureSoftmax(2.0, learnable=True).double()
    assert [name for name, _ in learned.named_parameters()] == ["temperature"]
    with pytest.raises(ValueError, match="positive"):
        weft.nn.TemperatureSoftmax(0.0)


@pytest.mark.parametrize("width,slope", [(1.0, [0, 1, 1, 1, 0]), (0.5, [0, 0, 1, 0, 0]), (None, [1] * 5)])
def test_binary_threshold_passes_gradients_straight_through(width, slope):
    x = weft.tensor([-2.0, -0.9, 0.0, 0.9, 2.0], requires_grad=True)
    y = weft.nn.BinaryThreshold(width)(x)
    assert y.tolist() == [0, 0, 1, 1, 1]
    (y * weft.tensor([1.0, 2.0, 3.0, 4.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [g * s for g, s in zip([1, 2, 3, 4, 5], slope, strict=True)]


def test_stochastic_binary_has_mean_and_slope_of_the_sigmoid():
    weft.manual_seed(0)
    logits, count = weft.tensor([-2.0, -0.5, 0.0, 1.0, 3.0], dtype=weft.float64), 40000
    x = logits.expand(count, 5).clone().requires_grad_()
    neuron = weft.nn.StochasticBinary()
    y = neuron(x)
    assert set(np.unique(y.detach().numpy())) == {0.0, 1.0}
    p = 1 / (1 + np.exp(-logits.numpy()))
    deviation = np.sqrt(p * (1 - p) / count)
    assert (np.abs(y.detach().numpy().mean(0) - p) < 4 * deviation).all()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy()[0], p * (1 - p), 1e-12)
    np.testing.assert_allclose(neuron.eval()(logits).numpy(), p)
    assert set(np.unique(weft.nn.StochasticBinary(sample_in_eval=True).eval()(x).detach().numpy())) == {0.0, 1.0}


@pytest.mark.parametrize(("shape", "dim"), [((3, 8), -1), ((4, 3), 0), ((2, 6, 5), 1), ((2, 0, 4), -1), ((0, 2), -1)])
def test_swiglu_is_silu_of_the_first_half_times_the_second(shape, dim):
    x = np.random.default_rng(0).normal(size=shape)
    theirs = torch.tensor(x, requires_grad=True)
    gate, value = theirs.chunk(2, dim)
    wanted = torch.nn.functional.silu(gate) * value
    for function in (nn.SwiGLU(dim), lambda x: nn.functional.swiglu(x, dim)):
        ours = weft.tensor(x, requires_grad=True)
        found = function(ours)
        np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-12, atol=1e-15)
        found.cos().sum().backward()
        (slope,) = torch.autograd.grad(wanted.cos().sum(), theirs, retain_graph=True)
        np.testing.assert_allclose(ours.grad.numpy(), slope.numpy(), rtol=1e-10, atol=1e-14)
    assert repr(nn.SwiGLU(1)) == "SwiGLU(dim=1)"


def test_swiglu_keeps_low_precision_and_refuses_odd_sizes():
    assert nn.functional.swiglu(weft.randn(2, 4).bfloat16()).dtype is weft.bfloat16
    for bad, words in ((weft.ones(3), "even"), (weft.ones(()), "scalars"), (weft.ones(4).long(), "float")):
        with pytest.raises(RuntimeError, match=words):
            nn.functional.swiglu(bad)
