"""Choosing by a mask without jumps: the bits, the order in memory and the errors of np.where."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import weft
from weft.errors import ShapeError
from weft.ops.core import select

KINDS = ["f4", "f8", "f2", "c8", "c16", "i8", "u1", "?", ml_dtypes.bfloat16]
ODD = [np.nan, -0.0, 0.0, np.inf, -np.inf, 1e-45, -1.5]
SHAPES = {
    "alike": ((20, 30), (20, 30), (20, 30)),
    "stretched": ((20, 30), (20, 1), (30,)),
    "a number": ((20, 30), (20, 30), ()),
    "a number first": ((20, 30), (), (20, 30)),
    "two numbers": ((20, 30), (), ()),
    "stretched condition": ((200, 1), (200, 3), (3,)),
    "few": ((3,), (3,), (3,)),
    "nothing": ((0, 300), (0, 300), ()),
}


def filled(shape: tuple[int, ...], kind: object, rng: np.random.Generator) -> np.ndarray:
    """Numbers at random, among them those that arithmetic would not leave alone."""
    values = np.where(rng.random(shape) < 0.3, rng.choice(ODD, shape), 50 * rng.standard_normal(shape))
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(kind)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_bits_and_order_are_those_of_where(shapes: tuple, kind: object) -> None:
    rng = np.random.default_rng(0)
    condition, x, other = rng.random(shapes[0]) > 0.5, filled(shapes[1], kind, rng), filled(shapes[2], kind, rng)
    for a, b in ((x, other), (x, np.zeros((), kind)), (np.zeros((), kind), other), (x, np.asarray(-0.0).astype(kind))):
        found, expected = select.selected(condition, a, b), np.where(condition, a, b)
        assert found.dtype == expected.dtype and found.strides == expected.strides
        assert found.shape == expected.shape and found.tobytes() == expected.tobytes()


def test_turned_and_skipped_arrays() -> None:
    rng = np.random.default_rng(1)
    condition, x, other = rng.random((40, 60)) > 0.5, rng.random((40, 60)), rng.random((40, 60))
    for turn in (lambda a: a.T, lambda a: a[:, ::-2], lambda a: a[::3]):
        found = select.selected(turn(condition), turn(x), turn(other))
        expected = np.where(turn(condition), turn(x), turn(other))
        np.testing.assert_array_equal(found, expected)
        assert found.strides == expected.strides


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="where"):
        weft.where(weft.rand(20, 30) > 0.5, weft.rand(20, 30), weft.rand(20, 31))


@pytest.mark.parametrize("count", [4, 400, 40_000])
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_relu_do_not_see_what_was_cut_off(count: int, compiled: bool) -> None:
    """Where the output is 0 the gradient is 0, whatever comes back: also an infinite one (PyTorch's threshold_backward)."""
    x = weft.linspace(-1, 1, count).requires_grad_()

    def step(g: weft.Tensor) -> weft.Tensor:
        return weft.autograd.grad(x.relu(), x, g)[0]

    found = (weft.compile(step) if compiled else step)(weft.full((count,), float("inf")))
    theirs = torch.linspace(-1, 1, count).requires_grad_()
    (expected,) = torch.autograd.grad(theirs.relu(), theirs, torch.full((count,), float("inf")))
    assert not expected.isnan().any() and np.array_equal(found.numpy(), expected.numpy())
