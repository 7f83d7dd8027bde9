"""Views and in-place writes: random programs run in PyTorch and in Weft must agree in values and gradients.

A program starts from y = 2x, takes views of views, writes through some of them and reads others in between.
At its end every view must show what PyTorch's shows, and the gradients must be equal.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft

SHAPES = [(4,), (2, 3), (3, 3), (2, 3, 2), (2, 2, 2, 2)]
REFUSALS = (RuntimeError, IndexError, ValueError)


def constant(library, shape, seed):
    """Numbers that tell elements apart."""
    return library.tensor(np.random.default_rng(seed).uniform(0.5, 1.5, shape).round(3))


# --------------------------------------------------------------------------- steps, the same in both libraries


def draw_view(draw, shape):
    """A view as a function of a tensor of either library."""
    ndim = len(shape)
    kinds = ["alias", "unsqueeze", "flat", "unflat", "squeeze", "expand"]
    if ndim:
        kinds += ["slice", "select", "narrow", "step", "unfold"]
    if ndim > 1:
        kinds += ["transpose", "diagonal", "permute", "T", "merge"]
    kind = draw(st.sampled_from(kinds))
    d = draw(st.integers(-ndim, ndim - 1)) if ndim else 0
    size = shape[d] if ndim else 1
    start = draw(st.integers(0, max(size - 1, 0)))
    lead = (slice(None),) * (d % ndim if ndim else 0)
    order = draw(st.permutations(range(ndim)))
    return {
        "alias": lambda t: t[...],
        "unsqueeze": lambda t: t.unsqueeze(d),
        "squeeze": lambda t: t.squeeze(),
        "flat": lambda t: t.view(-1),
        "unflat": lambda t: t.view(*shape[:-1], shape[-1], 1) if ndim else t.view(1, 1),
        "merge": lambda t: t.flatten(0, 1) if t.is_contiguous() else t.reshape(*shape),
        "expand": lambda t: t.unsqueeze(0).expand(2, *shape),
        "slice": lambda t: t[(*lead, slice(start, None))],
        "step": lambda t: t[(*lead, slice(None, None, 2))],
        "select": lambda t: t.select(d, start) if size else t[:],
        "narrow": lambda t: t.narrow(d, start, size - start),
        "transpose": lambda t: t.transpose(d, 0),
        "permute": lambda t: t.permute(*order),
        "T": lambda t: t.permute(*reversed(range(ndim))),
        "diagonal": lambda t: t.diagonal(start - 1, 0, ndim - 1),
        "unfold": lambda t: t.unfold(d, min(2, size), 1),
    }[kind]


def draw_write(draw, shape, seed):
    """An in-place write into t, maybe with a value that depends on the leaf v (0-d)."""
    kind = draw(
        st.sampled_from(["mul", "add v", "copy", "copy v", "fill", "set", "set v", "zero", "mask", "sub", "put"])
    )
    row = (0,) * len(shape)

    def write(library, t, v):
        c = constant(library, shape, seed)
        if kind == "mul":
            t.mul_(c)
        elif kind == "add v":
            t.add_(v * c)
        elif kind == "copy":
            t.copy_(c)
        elif kind == "copy v":
            t.copy_((v * c).expand(t.shape))
        elif kind == "fill":
            t.fill_(0.5)
        elif kind == "set":
            t[...] = 1.5
        elif kind == "set v":
            t[row] = v
        elif kind == "zero":
            t.zero_()
        elif kind == "mask":
            t[c > 1.0] = v
        elif kind == "put" and shape and shape[0]:
            t[[0, -1] if shape[0] > 1 else [0]] = v * 2
        else:
            t -= v

    return write


def overlapping(w):
    """Whether two elements of the array are one place in memory."""
    addresses = np.zeros((), np.int64)
    for size, stride in zip(w.array.shape, w.array.strides, strict=True):
        addresses = np.add.outer(addresses, np.arange(size) * stride)
    return len(np.unique(addresses)) != addresses.size


def both(t_call, w_call):
    """The two results, or None if PyTorch refuses; then Weft must refuse as well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = t_call()
        except REFUSALS:
            with pytest.raises(REFUSALS):
                w_call()
            return None
    return expected, w_call()


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_programs_of_views_and_writes(data):
    shape = data.draw(st.sampled_from(SHAPES))
    start = np.random.default_rng(0).standard_normal(shape)
    t_x, w_x = torch.tensor(start, requires_grad=True), weft.tensor(start, requires_grad=True)
    t_v, w_v = (
        torch.tensor(0.7, dtype=torch.float64, requires_grad=True),
        weft.tensor(0.7, dtype=weft.float64).requires_grad_(),
    )
    pool = [(t_x * 2, w_x * 2)]
    if data.draw(st.booleans()):  # or memory outside of the graph at first
        pool = [(torch.tensor(start), weft.tensor(start))]
    t_sum, w_sum = t_v * 0 + t_x.sum() * 0, w_v * 0 + w_x.sum() * 0
    for number in range(data.draw(st.integers(1, 9))):
        t, w = data.draw(st.sampled_from(pool))
        t.grad_fn  # noqa: B018  until it is looked at, PyTorch takes a view of rewritten memory for a leaf
        kind = data.draw(st.sampled_from(["view", "view", "write", "read"]))
        sizes = tuple(t.shape)
        if kind == "view" and t.ndim < 6:
            view = draw_view(data.draw, sizes)
            made = both(lambda: view(t), lambda: view(w))  # noqa: B023  called at once
            if made is not None:
                pool.append(made)
        elif kind == "write" and t.numel() and not overlapping(w):
            write = draw_write(data.draw, sizes, number)
            both(lambda: write(torch, t, t_v), lambda: write(weft, w, w_v))  # noqa: B023
        else:
            t_sum = t_sum + (t * constant(torch, sizes, number)).sum()
            w_sum = w_sum + (w * constant(weft, sizes, number)).sum()
    for number, (t, w) in enumerate(pool):
        np.testing.assert_allclose(w.detach().numpy(), t.detach().numpy(), rtol=1e-12)
        assert w.requires_grad == t.requires_grad
        assert w._version == t._version
        t_sum = t_sum + (t * constant(torch, tuple(t.shape), 50 + number)).sum()
        w_sum = w_sum + (w * constant(weft, tuple(t.shape), 50 + number)).sum()
    t_sum.backward()
    w_sum.backward()
    np.testing.assert_allclose(w_x.grad.numpy(), t_x.grad.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(w_v.grad.numpy(), t_v.grad.numpy(), rtol=1e-9, atol=1e-12)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_saved_values_that_were_overwritten(data):
    """t · t saves t; a later write into its memory makes backward fail, exactly when PyTorch's fails."""
    shape = data.draw(st.sampled_from(SHAPES))
    start = np.random.default_rng(0).standard_normal(shape)
    t_x, w_x = torch.tensor(start, requires_grad=True), weft.tensor(start, requires_grad=True)
    t_v, w_v = (
        torch.tensor(0.7, dtype=torch.float64, requires_grad=True),
        weft.tensor(0.7, dtype=weft.float64).requires_grad_(),
    )
    pool, sums = [(t_x * 2, w_x * 2), (t_x * 3, w_x * 3)], []
    for number in range(data.draw(st.integers(2, 6))):
        t, w = data.draw(st.sampled_from(pool))
        t.grad_fn  # noqa: B018  until it is looked at, PyTorch takes a view of rewritten memory for a leaf
        kind = data.draw(st.sampled_from(["view", "write", "square"]))
        if kind == "view" and t.ndim < 6:
            view = draw_view(data.draw, tuple(t.shape))
            made = both(lambda: view(t), lambda: view(w))  # noqa: B023
            if made is not None:
                pool.append(made)
        elif kind == "write" and t.numel() and not overlapping(w):
            write = draw_write(data.draw, tuple(t.shape), number)
            both(lambda: write(torch, t, t_v), lambda: write(weft, w, w_v))  # noqa: B023
        elif kind == "square":
            sums.append(((t * t).sum(), (w * w).sum()))
    for t_sum, w_sum in sums:
        if not t_sum.requires_grad:
            assert not w_sum.requires_grad
        elif both(lambda: t_sum.backward(retain_graph=True), lambda: w_sum.backward(retain_graph=True)):  # noqa: B023
            for t_leaf, w_leaf in ((t_x, w_x), (t_v, w_v)):
                expected, found = gradient(t_leaf), gradient(w_leaf)
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def gradient(leaf):
    """Its gradient; none at all is the same as zeros."""
    return np.zeros(tuple(leaf.shape)) if leaf.grad is None else leaf.grad.numpy()


# -------------------------------------------------------------------------------------- particular rules


def started(library):
    x = library.arange(4.0).requires_grad_()
    return x, x * 2


@pytest.mark.parametrize(
    "write",
    [
        lambda L, x, y: y.split(2)[0].mul_(2),  # one of several views
        lambda L, x, y: y.chunk(2)[1].zero_(),
        lambda L, x, y: y.unbind()[0].add_(1),
        lambda L, x, y: next(iter(y)).add_(1),
        lambda L, x, y: made_unrecorded(L, y).mul_(2),  # a view that was made under no_grad
        lambda L, x, y: x.mul_(2),  # a leaf
        lambda L, x, y: x[:2].mul_(2),  # a view of a leaf
        lambda L, x, y: x.__setitem__(0, 1.0),
        lambda L, x, y: y.expand(2, 4).mul_(2),  # several elements in one place
        lambda L, x, y: x.unsqueeze_(0),
        lambda L, x, y: y.resize_(2),
    ],
)
def test_refused_writes(write):
    for library in (torch, weft):
        with pytest.raises(RuntimeError):
            write(library, *started(library))


def made_unrecorded(library, y):
    with library.no_grad():
        return y[:2]


@pytest.mark.parametrize("library", [torch, weft])
def test_rules_of_history(library):
    """What PyTorch says of histories after writes, with PyTorch itself as the first case."""
    x, y = started(library)
    y.retain_grad()
    v = y[:2]
    y.zero_()
    assert y.requires_grad and v.requires_grad and y._version == 1 and v._version == 1
    (y * 3).sum().backward()
    assert x.grad.tolist() == [0.0] * 4
    assert y.grad.tolist() == [3.0] * 4  # of the value after the write

    plain = library.zeros(2, 2)
    row = plain[0]
    weight = library.ones(2).requires_grad_()
    plain[:, 1] = weight * 2  # memory outside the graph comes into it, with all its views
    assert plain.requires_grad and row.requires_grad and row.tolist() == [0.0, 2.0]
    row.sum().backward()
    assert weight.grad.tolist() == [2.0, 0.0]

    with library.no_grad():
        x.mul_(2)  # allowed, and counted
    assert x._version == 1 and x.is_leaf


@pytest.mark.parametrize("library", [torch, weft])
def test_geometry_in_place(library):
    """t_, unsqueeze_… change sizes, not memory: views taken before stay windows on it, gradients follow."""
    x = library.arange(6.0).requires_grad_()
    y = (x * 2).view(2, 3).clone()
    row = y[0]
    y.t_()
    assert tuple(y.shape) == (3, 2) and y._version == 1
    y.mul_(library.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]))
    assert row.tolist() == [0.0, 4.0, 12.0]
    y.unsqueeze_(0).squeeze_(0).transpose_(0, 1)
    assert tuple(y.shape) == (2, 3) and tuple(y.swapaxes_(0, 1).shape) == (3, 2)
    (row.sum() + (y * y).sum() * 0).backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("library", [torch, weft])
def test_detached_memory_is_shared(library):
    _, y = started(library)
    other = y.detach()
    other[0] = 9.0
    assert y.tolist() == [9.0, 2.0, 4.0, 6.0] and y._version == 1
    z = y * y
    other.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


@pytest.mark.parametrize("library", [torch, weft])
def test_parts_of_complex_numbers(library):
    """Writes through .real, .imag and view_as_real reach the complex tensor and its gradient, and back."""
    x = library.tensor([1 + 2j, 3 - 1j]).requires_grad_()
    w = library.tensor([5.0, 7.0]).requires_grad_()
    z = x * 2
    imaginary = z.imag
    z.real = w * 3
    assert z.tolist() == [15 + 4j, 21 - 2j]
    library.view_as_real(z)[0].mul_(2)
    assert z.tolist() == [30 + 8j, 21 - 2j] and imaginary.tolist() == [8.0, -2.0]
    z.mul_(1j)
    assert imaginary.tolist() == [30.0, 21.0]
    (imaginary * library.tensor([1.0, 10.0])).sum().backward()
    assert w.grad.tolist() == [6.0, 30.0]
    assert x.grad.tolist() == [0.0, 0.0]

    pairs = library.tensor([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    copy = pairs * 1
    library.view_as_complex(copy).mul_(1j)
    assert copy.tolist() == [[-2.0, 1.0], [-4.0, 3.0]]
    (copy * library.tensor([[1.0, 10.0], [100.0, 1000.0]])).sum().backward()
    assert pairs.grad.tolist() == [[10.0, -1.0], [1000.0, -100.0]]
