"""Reductions, scans and norms where tables cannot say it: zeros, ties, infinities, long lines, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import special

import weft

INF, NAN = math.inf, math.nan


def gradients(function, values):
    """The gradients of Σ w·f(x) in Weft and in PyTorch at the same point, first and second order."""
    found = []
    for library in (weft, torch):
        x = library.tensor(values, dtype=library.float64, requires_grad=True)
        y = function(library, x)
        weight = library.tensor(np.cos(np.arange(y.numel())).reshape(tuple(y.shape)))
        (g,) = library.autograd.grad((y * weight).sum(), [x], create_graph=True)
        probe = library.tensor(np.sin(1 + np.arange(g.numel())).reshape(tuple(g.shape)))
        second = [None]
        if g.requires_grad:
            second = library.autograd.grad((g * probe).sum(), [x], allow_unused=True)
        arrays = [t if t is None else t.detach().numpy() for t in (g, second[0])]
        found.append([np.zeros(np.shape(values)) if a is None else a for a in arrays])
    return found


def same_gradients(function, values):
    ours, theirs = gradients(function, values)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("zeros", [(), (1,), (0, 3), (0, 1, 2, 3)])
def test_products_with_zeros_have_two_derivatives(zeros):
    values = np.array([1.5, -2.0, 0.5, 3.0])
    values[list(zeros)] = 0
    same_gradients(lambda t, x: x.prod(), values)
    same_gradients(lambda t, x: t.cumprod(x, 0), values)
    same_gradients(lambda t, x: t.prod(t.stack([x, x * 0 + 2.0]), 1), values)


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 100, 1000])
def test_linear_scan_is_the_recurrence(n):
    """cumprod's gradient on long lines: dL/dxⱼ = Σ_{k≥j} gₖ yₖ / xⱼ where no element is 0."""
    rng = np.random.default_rng(n)
    values, g = rng.uniform(0.9, 1.1, n), rng.standard_normal(n)
    x = weft.tensor(values, requires_grad=True)
    x.cumprod(0).backward(weft.tensor(g))
    expected = np.cumsum((g * np.cumprod(values))[::-1])[::-1] / values
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("order", [0, 0.5, 1, 1.5, 2, 3, INF, -INF, -1])
@pytest.mark.parametrize("values", [[0.0, 0.0], [0.0, 1.0, -2.0], [3.0, -3.0, 1.0]])
def test_norm_gradients_at_corners(order, values):
    ours = weft.tensor(values, dtype=weft.float64, requires_grad=True)
    weft.linalg.vector_norm(ours, order).backward()
    theirs = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(torch.linalg.vector_norm(theirs, order), theirs, materialize_grads=True)
    np.testing.assert_allclose(ours.grad.numpy(), expected, atol=1e-12)


def test_norm_has_second_derivatives():
    """At 0 PyTorch's second derivative is NaN; we take that of the subgradient 0."""
    x = weft.tensor([0.0, 0.0], requires_grad=True)
    (g,) = weft.autograd.grad(weft.linalg.vector_norm(x), [x], create_graph=True)
    assert weft.autograd.grad(g.sum(), [x])[0].tolist() == [0, 0]
    same_gradients(lambda t, x: t.linalg.vector_norm(x), [3.0, 0.0, -4.0])
    same_gradients(lambda t, x: t.linalg.vector_norm(x, 3), [0.0, 1.0])


@pytest.mark.parametrize(
    "values",
    [[1.0, 2.0, 2.0], [3.0, 3.0, 3.0], [NAN, 1.0, NAN]],
)
@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian"])
def test_ties_share_the_gradient(name, values):
    same_gradients(lambda t, x: getattr(x, name)(), values)


@pytest.mark.parametrize("name", ["amax", "amin"])
def test_ties_share_along_a_dimension(name):
    same_gradients(lambda t, x: getattr(x, name)((0, 2)), np.array([[[1.0, 2], [2, 2]], [[2, 0], [0, 1]]]))


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("values", [[1.0], [1.0, 1.0], [1.0, 2.0]])
@pytest.mark.parametrize("correction", [0, 1, 3])
def test_spread_of_few_elements(values, correction):
    for name in ("var", "std"):
        same_value = getattr(weft.tensor(values), name)(correction=correction).item()
        expected = getattr(torch.tensor(values), name)(correction=correction).item()
        assert same_value == pytest.approx(expected, nan_ok=True)
    x = weft.tensor(values, requires_grad=True)
    x.var(correction=correction).backward()
    t = torch.tensor(values, requires_grad=True)
    t.var(correction=correction).backward()
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy())


def test_std_of_equal_elements_has_gradient_zero():
    x = weft.tensor([2.0, 2.0, 2.0], requires_grad=True)
    x.std().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_logsumexp_and_softmax_stay_finite():
    x = np.array([[1000.0, 1001.0, -1000.0], [-INF, 0.0, 1.0], [-745.0, -746.0, -800.0]])
    np.testing.assert_allclose(weft.tensor(x).logsumexp(1).numpy(), special.logsumexp(x, 1))
    np.testing.assert_allclose(weft.tensor(x).softmax(1).numpy(), special.softmax(x, 1))
    np.testing.assert_allclose(weft.tensor(x).log_softmax(1).numpy(), special.log_softmax(x, 1))
    same_gradients(lambda t, v: t.logsumexp(v, 1), x)
    same_gradients(lambda t, v: t.log_softmax(v, 1), x[::2])


def test_logsumexp_of_nothing_and_of_infinities():
    assert weft.logsumexp(weft.tensor([-INF, -INF]), 0).item() == -INF
    assert weft.logsumexp(weft.tensor([INF, 1.0]), 0).item() == INF
    assert weft.zeros(0, 2).logsumexp(0).tolist() == [-INF, -INF]


def test_logcumsumexp_over_a_wide_range():
    x = np.array([-1000.0, 0.0, 700.0, 1.0, -INF, 710.0])
    expected = [special.logsumexp(x[: k + 1]) for k in range(len(x))]
    np.testing.assert_allclose(weft.tensor(x).logcumsumexp(0).numpy(), expected)
    same_gradients(lambda t, v: t.logcumsumexp(v, 0), x[:4])
    ours = weft.tensor([-INF, 1.0, 2.0], dtype=weft.float64, requires_grad=True)
    ours.logcumsumexp(0).sum().backward()
    assert ours.grad.tolist() == pytest.approx([0, 1 + special.expit(-1.0), special.expit(1.0)])


def test_low_precision_is_accumulated_in_float32():
    ones = weft.ones(5000, dtype=weft.float16)
    assert ones.sum().item() == 5000 and ones.mean().item() == 1
    assert ones.to(weft.bfloat16).sum().item() == 4992  # the bfloat16 nearest to 5000
    assert ones.cumsum(0)[-1].item() == 5000


def test_long_columns_are_added_accurately():
    """Plain float32 addition row by row loses digits; the exact sum is known."""
    x = np.full((200_000, 2), 0.1, np.float32)
    exact = 200_000 * float(np.float32(0.1))
    found = weft.tensor(x).sum(0).numpy()
    np.testing.assert_allclose(found, exact, rtol=2e-6)


def test_integer_sums_do_not_wrap():
    assert weft.full((300,), 255, dtype=weft.uint8).sum().item() == 300 * 255
    assert weft.tensor([True, True]).sum().dtype is weft.int64
    assert weft.tensor([100, 100], dtype=weft.int8).cumsum(0).tolist() == [100, 200]


def test_nan_is_carried():
    x = weft.tensor([1.0, NAN, 3.0])
    assert math.isnan(x.max().item()) and math.isnan(x.amin().item()) and math.isnan(x.sum().item())
    assert x.argmax().item() == 1 == x.argmin().item()
    assert x.nansum().item() == 4 and x.nanmean().item() == 2
    values, indices = weft.tensor([1.0, NAN, 2.0, NAN, 3.0]).cummax(0)
    assert indices.tolist() == [0, 1, 1, 3, 3] and math.isnan(values[-1].item())


def test_out_and_numpy_names():
    x = weft.tensor([[1.0, 2.0], [3.0, 4.0]])
    out = weft.zeros(2)
    assert weft.sum(x, axis=0, out=out) is out and out.tolist() == [4, 6]
    assert weft.mean(x, axis=1, keepdims=True).shape == (2, 1)
    values, indices = weft.zeros(2), weft.zeros(2, dtype=weft.int64)
    weft.max(x, 1, out=(values, indices))
    assert values.tolist() == [2, 4] and indices.tolist() == [1, 1]


def test_sum_to_size_undoes_expand():
    x = weft.ones(2, 3, 4)
    assert x.sum_to_size(3, 1).tolist() == [[8.0]] * 3
    assert x.sum_to_size(2, 3, 4) is x


def test_results_have_names():
    x = weft.tensor([[3.0, 1.0, 2.0]])
    assert x.max(1).indices.item() == 0 and x.min(1).values.item() == 1
    assert x.aminmax().max.item() == 3 and x.cummin(1).values.tolist() == [[3, 1, 1]]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: x.sum(2), IndexError, "sum: Dimension out of range"),
        (lambda x: x.sum((0, 0)), RuntimeError, "sum: dim 0 appears multiple times"),
        (lambda x: x.long().mean(), RuntimeError, "mean: could not infer output dtype"),
        (lambda x: weft.zeros(0).max(), RuntimeError, "max: Expected reduction dim"),
        (lambda x: weft.zeros(0, 3).amax(0), IndexError, r"amax: Expected reduction dim 0.*\(0, 3\)"),
        (lambda x: weft.zeros(3, 0).argmin(), IndexError, "argmin: Expected reduction dim to be specified"),
        (lambda x: x.long().var(), RuntimeError, "var: std and var only support floating point"),
        (lambda x: x.long().softmax(0), RuntimeError, "softmax: .*convert it with .float"),
        (lambda x: x.long().norm(), RuntimeError, "linalg.vector_norm: Expected a floating point"),
        (lambda x: weft.linalg.vector_norm(weft.zeros(0), INF), RuntimeError, "does not have an identity"),
        (lambda x: x.norm("nuc", dim=(0,)), RuntimeError, "norm: .*2-tuple"),
        (lambda x: x.renorm(2, 0, -1.0), ValueError, "renorm: expected maxnorm"),
        (lambda x: x.quantile(1.5), ValueError, r"quantile: q must be in the range \[0, 1\]"),
        (lambda x: x.sum_to_size(5), RuntimeError, "sum_to_size: size"),
        (lambda x: x.diff(-1), ValueError, "diff: order must be non-negative"),
        (lambda x: weft.trapezoid(x.bool()), RuntimeError, "trapezoid"),
        (lambda x: weft.cov(weft.zeros(2, 2, 2)), RuntimeError, r"cov: .*\(2, 2, 2\)"),
        (lambda x: weft.histc(x, 0), ValueError, "histc: bins must be > 0"),
        (lambda x: weft.bincount(weft.tensor([1, -1])), ValueError, "bincount: only supports 1-d non-negative"),
    ],
)
def test_errors_say_what_to_do(call, kind, message):
    with pytest.raises(kind, match=message):
        call(weft.tensor([[1.0, 2.0], [3.0, 4.0]]))
