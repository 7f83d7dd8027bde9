"""Compiled functions with attention, random draws and scans: equal to eager ones, and run by kernels of their own."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.nn.functional as F


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    weft.manual_seed(3)


def close(found, expected, tolerance):
    for one, two in zip(found, expected, strict=True):
        bound = tolerance * (1 + float(two.abs().max()))
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=0, atol=bound)


def attention_step(mask=None, causal=False):
    """Three projections side by side, heads read where they lie, gradients of the projections."""

    def step(x, w, g):
        w = w.detach().requires_grad_()
        q, k, v = (x @ w).reshape(2, 20, 3, 3, 8).permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, T, E) each
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        o = o.transpose(1, 2).reshape(2, 20, 24)
        (o * g).sum().backward()
        return o.detach(), w.grad

    return step


@pytest.mark.parametrize("kind, tolerance", [(weft.float32, 2e-6), (weft.float64, 1e-14)])
@pytest.mark.parametrize("mask", [None, "causal", "bool", "keys", "float"])
def test_attention(mask, kind, tolerance):
    given = {
        "bool": weft.rand(20, 20) < 0.6,
        "keys": weft.rand(2, 1, 1, 20) < 0.7,
        "float": weft.randn(3, 20, 20, dtype=kind),
    }.get(mask)
    step = attention_step(given, mask == "causal")
    arguments = [weft.randn(*size, dtype=kind) for size in ((2, 20, 24), (24, 72), (2, 20, 24))]
    arguments[1] *= 24**-0.5  # scores near 1: exp would raise the rounding of large ones far above the tolerance
    compiled = weft.compile(step)
    close(compiled(*arguments), step(*arguments), tolerance)
    close(compiled(*arguments), step(*arguments), tolerance)


def test_draws_are_the_eager_ones():
    def draws(p):
        return (
            weft.randn(1001),
            weft.rand(77, dtype=weft.float64),
            weft.randn(5, 7, dtype=weft.float64),
            weft.bernoulli(p),
            weft.randint(-4, 10, (33,)),
            F.dropout(p, 0.4),
        )

    p = weft.rand(90)
    compiled = weft.compile(draws)
    weft.manual_seed(5)
    expected = [draws(p), draws(p), draws(p)]
    weft.manual_seed(5)
    for eager in expected:
        for one, two in zip(compiled(p), eager, strict=True):
            assert (one.numpy() == two.numpy()).all()


def test_scans():
    def step(x):
        x = x.detach().requires_grad_()
        y = x.cumsum(1) * 2 + x.cumprod(0) + x.logcumsumexp(-1)
        y.square().sum().backward()
        return y.detach(), x.grad

    x = weft.randn(6, 9, 5, dtype=weft.float64)
    close(weft.compile(step)(x), step(x), 1e-14)
