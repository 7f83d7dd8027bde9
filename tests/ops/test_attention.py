"""Attention as one operation: outputs and derivatives of PyTorch, memory that grows with the length only."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch

import weft
import weft.nn.functional as F
from weft.errors import AutogradError
from weft.ops.layers import attention
from weft.ops.layers.attention import ATTENTION


@pytest.fixture
def rng():
    return np.random.default_rng(2)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", 64)


def operands(rng, batch, queries, keys, width, value_width, dtype=np.float64):
    sizes = ((queries, width), (keys, width), (keys, value_width), (queries, value_width))
    return [rng.standard_normal((*batch, *size)).astype(dtype) for size in sizes]


def gradients(lib, q, k, v, g, **options):
    """Output and gradients of q, k and v, in PyTorch or Weft."""
    function = torch.nn.functional if lib is torch else F
    given = [lib.from_numpy(x.copy()).requires_grad_() for x in (q, k, v)]
    options = {n: lib.from_numpy(o.copy()) if isinstance(o, np.ndarray) else o for n, o in options.items()}
    o = function.scaled_dot_product_attention(*given, **options)
    o.backward(lib.from_numpy(g))
    return [x.numpy() for x in (o.detach(), *(x.grad for x in given))]


MASKS = {
    "none": lambda rng, b, n, s: {},
    "causal": lambda rng, b, n, s: {"is_causal": True},
    "scale": lambda rng, b, n, s: {"scale": 0.7},
    "bool": lambda rng, b, n, s: {"attn_mask": rng.random((n, s)) < 0.5},
    "float": lambda rng, b, n, s: {"attn_mask": rng.standard_normal((*b, n, s))},
    "keys": lambda rng, b, n, s: {"attn_mask": rng.random((*b[:1], *(1,) * len(b[1:]), 1, s)) < 0.6},
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("batch, queries, keys", [((2, 3), 7, 5), ((), 6, 6), ((3,), 20, 9)])
def test_outputs_and_gradients_are_those_of_pytorch(rng, small_blocks, batch, queries, keys, mask):
    q, k, v, g = operands(rng, batch, queries, keys, 4, 3)
    options = MASKS[mask](rng, batch, queries, keys)
    if options.get("attn_mask") is not None and options["attn_mask"].dtype == np.bool_:
        options["attn_mask"][..., 0] = True  # PyTorch's gradients are NaN where a query sees nothing
    found, expected = (gradients(lib, q, k, v, g, **options) for lib in (weft, torch))
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-13)


def test_a_query_that_sees_nothing_gets_zero_and_gives_zero(rng):
    q, k, v, g = operands(rng, (2,), 4, 5, 3, 3)
    mask = np.ones((4, 5), np.bool_)
    mask[2] = False
    o, dq, dk, dv = gradients(weft, q, k, v, g, attn_mask=mask)
    assert (o[:, 2] == 0).all() and (dq[:, 2] == 0).all()
    assert np.isfinite(dk).all() and np.isfinite(dv).all()


def test_a_mask_may_be_one_line_of_keys(rng):
    """PyTorch's fast paths refuse it."""
    q, k, v, g = operands(rng, (2,), 4, 5, 3, 3)
    line = np.arange(5) < 4
    for one, two in zip(
        gradients(weft, q, k, v, g, attn_mask=line), gradients(torch, q, k, v, g, attn_mask=line[None]), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-13)


def test_leading_dimensions_broadcast(rng):
    q, k, v, _ = operands(rng, (2, 3), 4, 5, 3, 3)
    g = rng.standard_normal((2, 3, 4, 3))
    found, expected = (gradients(lib, q, k[:1], v[:, :1], g) for lib in (weft, torch))
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-13)


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float"])
def test_second_derivatives(rng, mask):
    q, k, v, _ = operands(rng, (2,), 3, 4, 2, 2)
    options = MASKS[mask](rng, (2,), 3, 4)
    options = {n: weft.from_numpy(o) if isinstance(o, np.ndarray) else o for n, o in options.items()}
    given = [weft.from_numpy(x).requires_grad_() for x in (q, k, v)]
    function = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)
    assert weft.autograd.gradcheck(function, given)
    assert weft.autograd.gradgradcheck(function, given)


def test_a_float_mask_has_a_gradient(rng):
    q, k, v, g = operands(rng, (2, 2), 3, 4, 2, 2)
    mask = rng.standard_normal((3, 4))
    found = []
    for lib, function in ((weft, F), (torch, torch.nn.functional)):
        added = lib.from_numpy(mask).requires_grad_()
        o = function.scaled_dot_product_attention(*(lib.from_numpy(x) for x in (q, k, v)), attn_mask=added)
        o.backward(lib.from_numpy(g))
        found.append(added.grad.numpy())
    np.testing.assert_allclose(*found, rtol=0, atol=1e-14)


def test_transforms(rng):
    q, k, v, g = (weft.from_numpy(x) for x in operands(rng, (3,), 4, 5, 2, 2))
    function = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    whole = function(q, k, v)
    weft.testing.assert_close(weft.vmap(function)(q, k, v), whole)
    weft.testing.assert_close(weft.vmap(function, (0, None, None))(q, k[0], v[0]), function(q, k[:1], v[:1]))
    _, tangent = weft.func.jvp(function, (q, k, v), (g[..., :2], k, v))
    step = 1e-6
    ahead, behind = (function(q + s * g[..., :2], k + s * k, v + s * v) for s in (step, -step))
    weft.testing.assert_close(tangent, (ahead - behind) / (2 * step), rtol=0, atol=1e-8)


def test_a_result_that_was_written_to_cannot_be_differentiated(rng):
    q, k, v, _ = (weft.from_numpy(x) for x in operands(rng, (1,), 3, 3, 2, 2))
    o = F.scaled_dot_product_attention(q.requires_grad_(), k, v)
    o += 1
    with pytest.raises(AutogradError, match="modified by an inplace operation"):
        o.sum().backward()


def test_memory_is_linear_in_the_length(rng):
    """4,096 tokens: a matrix of all pairs alone would be 64 MiB."""
    q, k, v, g = (weft.from_numpy(x) for x in operands(rng, (1,), 4096, 4096, 8, 8, np.float32))
    given = [x.requires_grad_() for x in (q, k, v)]
    tracemalloc.start()
    F.scaled_dot_product_attention(*given, is_causal=True).backward(g)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


def test_kept_sums(rng):
    q, k, v, _ = operands(rng, (2,), 4, 5, 3, 3)
    _, lse = ATTENTION(*(weft.from_numpy(x) for x in (q, k, v)), scale=0.5, causal=False)
    expected = np.logaddexp.reduce(0.5 * q @ k.swapaxes(1, 2), -1)
    np.testing.assert_allclose(lse.numpy()[..., 0], expected, rtol=1e-14)
