"""`weft.masked` against `torch.masked`: values, types, gradients, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import weft

REDUCTIONS = ("sum", "prod", "amax", "amin", "mean", "var", "std", "norm", "logsumexp")
ALONG = ("argmax", "argmin", "median")
SAME_SHAPE = ("softmax", "log_softmax", "softmin", "cumsum", "cumprod")
DIMS = (None, 0, -1, (0, 2), ())


def data(dtype="float32", shape=(3, 4, 5), seed=0):
    rng = np.random.default_rng(seed)
    return (rng.integers(-4, 9, shape) if "int" in dtype else rng.normal(size=shape)).astype(dtype)


def masks(seed=1):
    """Of the same shape, broadcast, of fewer dimensions; None; every line of them holds something."""
    rng = np.random.default_rng(seed)
    full = rng.random((3, 4, 5)) < 0.6
    full[:, :, 0] = full[0] = True
    full[:, 0] = True
    return {"full": full, "stretched": full[:, :1], "flat": full[0, 0], "none": None}


def both(name, x, *args, mask=None, **kwargs):
    ours = getattr(weft.masked, name)(weft.tensor(x), *args, mask=None if mask is None else weft.tensor(mask), **kwargs)
    theirs = getattr(torch.masked, name)(
        torch.tensor(x), *args, mask=None if mask is None else torch.tensor(mask), **kwargs
    )
    return ours, theirs


def same(ours, theirs, tolerance=1e-5):
    assert tuple(ours.shape) == tuple(theirs.shape) and str(ours.dtype)[5:] == str(theirs.dtype)[6:]
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, kind):
    for dim in DIMS:
        for keepdim in (False, True):
            args = (2.0, dim) if name == "norm" else (dim,)
            same(*both(name, data(), *args, keepdim=keepdim, mask=masks()[kind]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float64", "float16"])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "cumsum", "cumprod"])
def test_types_of_results(name, dtype):
    if dtype == "float16" and name in ("prod", "cumprod"):
        pytest.skip("rounding of half products differs in order")
    x = data(dtype) if dtype != "uint8" else np.abs(data("int64")).astype("uint8")
    same(*both(name, x, 1, mask=masks()["full"]), tolerance=5e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize("name", ALONG)
def test_places_and_medians(name, kind):
    for dim in (0, 1, -1):
        ours, theirs = both(name, data(), dim, mask=masks()[kind])
        same(ours, theirs.long() if name != "median" else theirs)
    ours, theirs = both("argmax", data("int32"), mask=masks()[kind])
    assert ours.dtype is weft.int64 and int(ours) == int(theirs)
    same(*both("median", data("int32"), 1, mask=masks()["full"]))


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize("name", SAME_SHAPE)
def test_same_shape(name, kind):
    for dim in (0, 2):
        same(*both(name, data(), dim, mask=masks()[kind]))
        same(*both(name, data(), dim, mask=masks()[kind], dtype=None))


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf, -math.inf])
def test_orders_of_norms(order):
    mask = masks()["full"]
    same(*both("norm", data(), order, 1, mask=mask))
    same(*both("normalize", data(), order, 1, mask=mask))


def test_variance_corrections():
    mask = masks()["full"]
    same(*both("var", data(), 0, False, mask=mask))
    same(*both("std", data(), 0, correction=3, mask=mask))
    same(*both("var", data("int64"), 1, mask=mask))
    assert weft.masked.mean(weft.arange(3), dtype=np.float64).item() == 1.0
    with pytest.raises(ValueError, match="not both"):
        weft.masked.var(weft.ones(3), 0, True, correction=1)


def test_logaddexp():
    x, y, mask = data(), data(seed=5), masks()["full"]
    ours = weft.masked.logaddexp(weft.tensor(x), weft.tensor(y), input_mask=weft.tensor(mask))
    same(ours, torch.masked.logaddexp(torch.tensor(x), torch.tensor(y), input_mask=torch.tensor(mask)))


@pytest.mark.parametrize("name", [*REDUCTIONS, "argmax", "median", "softmax", "log_softmax"])
def test_lines_without_anything(name):
    """The neutral value, or NaN, as in PyTorch."""
    mask = np.zeros((3, 4, 5), bool)
    args = (2.0, 1) if name == "norm" else (1,)
    ours, theirs = both(name, data(), *args, mask=mask)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "mean", "var", "norm", "logsumexp", "softmax", "softmin"])
def test_gradients(name):
    x, mask = data("float64"), masks()["full"]
    args = (2.0, 1) if name == "norm" else (1,)
    ours, theirs = weft.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    getattr(weft.masked, name)(ours, *args, mask=weft.tensor(mask)).sin().sum().backward()
    getattr(torch.masked, name)(theirs, *args, mask=torch.tensor(mask)).sin().sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_compiled():
    x, mask = weft.randn(6, 8), weft.rand(6, 8) > 0.3
    step = lambda x, m: weft.masked.softmax(x, 1, mask=m).sum(0) + weft.masked.mean(x, 0, mask=m)
    weft.testing.assert_close(weft.compile(step)(x, mask), step(x, mask))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: weft.masked.sum(x, mask=weft.ones(2, 3)), "bool"),
        (lambda x: weft.masked.sum(x, mask=[True]), "list"),
        (lambda x: weft.masked.sum(x, mask=weft.ones(4, dtype=weft.bool)), r"\(4,\).*\(2, 3\)"),
        (lambda x: weft.masked.sum(x, mask=weft.ones(1, 2, 3, dtype=weft.bool)), r"\(1, 2, 3\)"),
        (lambda x: weft.masked.mean(x.long()), "dtype=weft.float32"),
        (lambda x: weft.masked.amax(x.bool(), mask=x.bool()), "bool"),
        (lambda x: weft.masked.median(x.long(), 1, mask=x > 5), "median"),
    ],
)
def test_errors(call, words):
    with pytest.raises((TypeError, RuntimeError), match=words):
        call(weft.ones(2, 3))
