"""Scaled dot products whole: the weights of all pairs never lie in memory at once, forward or backward.

Two primitives, the function and its slope, in NumPy over blocks of queries. When the gradient itself is to be
differentiated, or that of the mask is wanted, tensor operations compute it instead (`formula`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from ...dtypes import bool_
from ...runtime.threads import in_parallel
from ...tape.modes import mode
from ...tensor import Tensor
from ..core.primitive import PRIMITIVES, Opaque, register_module, summed_to
from .fused import Fused

__all__ = ["ATTENTION", "attention_weights"]

BLOCK = 1 << 18  # scores that are computed at a time

Part = tuple[slice, slice]  # of heads, of queries


def blocks(heads: int, queries: int, keys: int) -> list[list[Part]]:
    """Groups of heads, each with its blocks of queries; a block has about BLOCK scores."""
    together = max(1, BLOCK // (queries * keys))
    rows = queries if together > 1 else max(1, BLOCK // keys)
    return [
        [(slice(h, h + together), slice(q, q + rows)) for q in range(0, queries, rows)]
        for h in range(0, heads, together)
    ]


class _Pairs:
    """The scores of one call: queries, keys and the mask as matrices, one for each head."""

    def __init__(self, q: ndarray, k: ndarray, mask: ndarray | None, scale: float, causal: bool) -> None:
        self.q, self.k, self.mask = _matrices(q), _matrices(k), mask
        self.scale, self.causal = q.dtype.type(scale), causal
        if mask is not None:
            lead = mask.shape[:-2]
            numbers = np.arange(math.prod(lead)).reshape(lead)
            self.head = np.broadcast_to(numbers, q.shape[:-2]).reshape(-1)  # which matrix of the mask a head has
            self.mask = mask.reshape(-1, *mask.shape[-2:])

    def blocks(self) -> list[list[Part]]:
        return blocks(len(self.q), self.q.shape[1], self.k.shape[1])

    def scores(self, part: Part) -> ndarray:
        """q kᵀ · scale with the mask: -∞ for pairs that do not take part. Shape: (heads, queries, keys)"""
        heads, rows = part
        found = (self.q[part] * self.scale) @ self.k[heads].swapaxes(1, 2)
        if self.mask is not None:
            mask = self.mask[self.head[heads]]
            mask = mask[:, rows] if mask.shape[1] > 1 else mask
            if mask.dtype == np.bool_:
                np.copyto(found, -np.inf, where=~mask)
            else:
                found += mask
        if self.causal:
            first, count, keys = rows.start, found.shape[1], found.shape[2]
            np.copyto(found, -np.inf, where=~np.tri(count, keys, first, dtype=np.bool_))
        return found


def _matrices(x: ndarray) -> ndarray:
    """(*, n, m) → (heads, n, m)."""
    return x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


class AttentionSlope(Opaque):
    """Gradients of `Attention`: with weights P and δ = Σ g ∘ o of each query, dS = P ∘ (g vᵀ - δ) · scale and
    dq = dS k, dk = dSᵀ q, dv = Pᵀ g.
    """

    differentiable = False
    leading = 2

    def shapes(self, g, q, k, v, *rest, scale, causal):
        return tuple((x.shape, x.dtype) for x in (q, k, v))

    def reference(self, g, q, k, v, *rest, scale, causal):
        *mask, o, lse = rest
        shapes = [x.shape for x in (q, k, v)]
        pairs = _Pairs(q, k, mask[0] if mask else None, scale, causal)
        g, v, o, lse = (_matrices(x) for x in (g, v, o, lse))
        dots = np.vecdot(g, o)[..., None]
        lse = np.where(lse == -np.inf, np.inf, lse)  # a query that sees no key has no weights
        found = [np.empty_like(pairs.q), np.zeros_like(pairs.k), np.zeros_like(v)]

        def work(group: Sequence[Part]) -> None:
            dq, dk, dv = found
            for part in group:
                heads, _ = part
                weights = pairs.scores(part)
                np.exp(np.subtract(weights, lse[part], out=weights), out=weights)
                dv[heads] += weights.swapaxes(1, 2) @ g[part]
                change = g[part] @ v[heads].swapaxes(1, 2)
                change -= dots[part]
                change *= weights
                change *= pairs.scale
                dq[part] = change @ pairs.k[heads]
                dk[heads] += change.swapaxes(1, 2) @ pairs.q[part]

        in_parallel(work, pairs.blocks())
        return tuple(x.reshape(shape) for x, shape in zip(found, shapes, strict=True))

    def native(self, node):
        """One kernel over all keys; see kernels/attention/anchors.py."""
        from ...kernels.attention.anchors import attend_slopes

        return attend_slopes(node, **node.params)


class Attention(Fused):
    """softmax(q kᵀ · scale + mask) v over the last two dimensions; a query that sees no key gets 0.

    A bool mask says which pairs take part, a float mask is added; causal: query i sees keys ≤ i.
    Kept: log Σ exp of each row of scores.
    Shape: (*, L, E), (*, S, E), (*, S, V), mask broadcasting to (*, L, S) → (*, L, V), (*, L, 1)
    """

    slope = AttentionSlope()
    leading = 2

    def shapes(self, q, k, v, *mask, scale, causal):
        return ((*q.shape[:-1], v.shape[-1]), q.dtype), ((*q.shape[:-1], 1), q.dtype)

    def reference(self, q, k, v, mask=None, *, scale, causal):
        pairs = _Pairs(q, k, mask, scale, causal)
        values = _matrices(v)
        o, lse = np.empty((*q.shape[:-1], v.shape[-1]), q.dtype), np.empty((*q.shape[:-1], 1), q.dtype)
        results, sums = _matrices(o), _matrices(lse)

        def work(part: Part) -> None:
            weights = pairs.scores(part)
            top = np.maximum.reduce(weights, -1, keepdims=True)
            top[top == -np.inf] = 0
            np.exp(np.subtract(weights, top, out=weights), out=weights)
            total = np.add.reduce(weights, -1, keepdims=True)
            with np.errstate(divide="ignore"):
                sums[part] = np.log(total) + top
            total[total == 0] = 1
            np.divide(weights @ values[part[0]], total, out=results[part])

        in_parallel(work, [part for group in pairs.blocks() for part in group])
        return o, lse

    def native(self, node):
        """One kernel over all keys; see kernels/attention/anchors.py."""
        from ...kernels.attention.anchors import attend

        return attend(node, **node.params)

    def kept(self, out: Any) -> Any:
        return out  # the slope reads the result too

    def make_node(self, out: Any, inputs: Sequence[Any], params: dict[str, Any], needs: tuple[bool, ...]) -> Any:
        node = super().make_node(out, inputs, params, needs)
        result = out[0]
        if result._counter is None:
            result._counter = [0]
        node.output_counter, node.output_version = result._counter, result._counter[0]
        return node

    def vjp(self, g, y, q, k, v, mask=None, *, scale, causal):
        given = (q, k, v) if mask is None else (q, k, v, mask)
        if mode.grad or (mask is not None and mask._needs_grad):
            return self.formula(g[0], *given, scale=scale, causal=causal)
        return (*self.slope(g[0], *given, *y, scale=scale, causal=causal), *(None,) * len(given[3:]))

    def formula(self, g, q, k, v, mask=None, *, scale, causal):
        weights = attention_weights((q * scale) @ k.mT, mask, causal)
        change = g @ v.mT
        change = weights * (change - (weights * change).sum(-1, keepdim=True))
        found = change @ k * scale, change.mT @ q * scale, weights.mT @ g
        if mask is None:
            return found
        return (*found, summed_to(change, mask.shape) if mask.is_floating_point() else None)


def attention_weights(scores: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
    """softmax over the last dimension; rows in which the masks leave nothing become 0."""
    if causal:
        count, keys = scores.shape[-2:]
        scores = scores.masked_fill(scores.new_ones(count, keys, dtype=bool_).triu(1), float("-inf"))
    if mask is None:
        return scores.softmax(-1)  # query 0 sees key 0
    scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype is bool_ else scores + mask
    empty = (scores.detach() == float("-inf")).all(-1, keepdim=True)
    return scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)


register_module(__name__)
ATTENTION = PRIMITIVES["Attention"]
