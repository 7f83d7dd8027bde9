"""Gradients of small arrays take a short way: the same values as PyTorch's, and as the long way that records them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft

FORMULAS = {
    "x * w": lambda x, w: x * w,
    "x * 1.5": lambda x, w: x * 1.5,
    "3 * x": lambda x, w: 3 * x,
    "x * row": lambda x, w: x * w[:1],
    "column * x": lambda x, w: w[:, :1] * x,
    "x * mask": lambda x, w: x * (w > 0),
    "x * x": lambda x, w: x * x,
    "x + w": lambda x, w: x + w,
    "row - x": lambda x, w: w[0] - x,
    "tanh": lambda x, w: (x * w).tanh(),
    "relu": lambda x, w: (x - w).relu(),
    "x @ w": lambda x, w: x @ w,
    "w @ x.mT": lambda x, w: w @ x.mT,
    "x @ x": lambda x, w: x @ x,
    "batch": lambda x, w: x.reshape(2, 3, 6)[:, :, :3] @ w[:3],
    "sum": lambda x, w: x[0].sum() * w,
}
LAYOUTS = {
    "rows": lambda a: np.ascontiguousarray(a),
    "columns": lambda a: np.asfortranarray(a),
    "every second": lambda a: np.repeat(np.repeat(a, 2, 0), 2, 1)[::2, ::2],
}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FORMULAS)
def test_the_short_way_is_the_long_way_and_pytorchs(rng, name, layout, dtype):
    a, b, g = (rng.standard_normal((6, 6)).astype(dtype) for _ in range(3))
    a, b = LAYOUTS[layout](a), LAYOUTS[layout](b)
    found = []
    for library, long in ((weft, False), (weft, True), (torch, False)):
        x, w = (library.from_numpy(c).requires_grad_() for c in (a, b))
        y = FORMULAS[name](x, w)
        seed = library.from_numpy(g.ravel()[: y.numel()].reshape(tuple(y.shape)))
        slopes = library.autograd.grad(y, [x, w], seed, create_graph=long, allow_unused=True)
        found.append([None if s is None else s.detach().numpy() for s in slopes])
    for short, long, theirs in zip(*found, strict=True):
        assert (short is None) == (theirs is None)
        if short is not None:
            assert short.dtype == theirs.dtype and short.shape == theirs.shape
            np.testing.assert_allclose(short, theirs, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(short, long, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "written"),
    [
        (lambda x, w: x * w, "w"),
        (lambda x, w: x @ w, "w"),
        (lambda x, w: (x * w).tanh(), "y"),
        (lambda x, w: (x * w).relu(), "y"),
    ],
)
def test_what_was_written_to_since_is_refused(make, written):
    x, w = weft.ones(4, 4, requires_grad=True), weft.ones(4, 4)
    y = make(x, w)
    (w if written == "w" else y.detach()).add_(1)
    with pytest.raises(weft.errors.AutogradError, match="modified by an inplace operation"):
        y.sum().backward()


def test_an_infinite_gradient_stops_at_a_closed_rectifier():
    """As in PyTorch, where 0 · ∞ is not asked."""
    x = weft.tensor([-1.0, 2.0], requires_grad=True)
    x.relu().backward(weft.tensor([np.inf, 3.0]))
    assert x.grad.tolist() == [0.0, 3.0]


def test_hooks_and_retained_gradients_are_seen_on_the_way():
    seen, x = [], weft.ones(3, requires_grad=True)
    y = x * 2
    z = y.tanh()
    y.retain_grad()
    z.register_hook(lambda g: seen.append(g.tolist()) or g * 10)
    z.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(inputs)))
    z.sum().backward()
    slope = 10 * (1 - np.tanh(2.0) ** 2)
    np.testing.assert_allclose(y.grad.numpy(), slope, rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), 2 * slope, rtol=1e-5)
    assert seen == [[1.0, 1.0, 1.0], 1]


def test_what_hooks_packed_is_what_is_unpacked(rng):
    """The arrays behind the tensors are not used where hooks keep something else."""
    a = rng.standard_normal((3, 3)).astype(np.float32)
    x, w = weft.from_numpy(a).requires_grad_(), weft.ones(3, 3)
    with weft.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        y = x * w
    y.sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 3
