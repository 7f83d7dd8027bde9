"""The primitives of message passing: what comes along edges, summed, weighed, compared; nothing of size E × F is made.

All go along `Edges` (edges.py). x has a row of (H, F) numbers for each source, weights are H numbers for each edge.
Gradients are primitives of this file along the edges turned round, so that derivatives of any order follow. Every sum
is added edge by edge in the order given, with products rounded before they are added: the same bits from NumPy, from
native code and from any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime.lazy import LazyModule
from ...tape.modes import mode
from ...tensor import wrap
from ..core.primitive import LOW_NUMPY, Primitive
from ..math.elementwise import conj, where
from .places import INDEX

__all__ = [
    "DOT_EDGES",
    "EXTREME_EDGES",
    "ORDER_EDGES",
    "READ_EDGES",
    "SOFTMAX_EDGES",
    "SUM_EDGES",
    "WEIGH_EDGES",
    "dot_in_lanes",
]

sparse = LazyModule("scipy.sparse")

CHUNK = 1 << 20  # numbers gathered at a time
LANES = 8  # partial sums of a product of two rows, as kernels/memory/sparse.py has them
FEW = 32  # uses of the same edges before native code is made for them in eager code: those of a batch come only once


class AlongEdges(Primitive, abstract=True):
    """An operation with the parameter `edges`; float16 and bfloat16 are added up in float32."""

    def evaluate(self, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        edges = params["edges"]
        edges.used += 1
        if edges.used > FEW:
            return super().evaluate(inputs, params)
        return self.record(wrap(self.compute(*(x.array for x in inputs), **params)), inputs, params)

    def compute(self, *arrays: np.ndarray, **params: Any) -> np.ndarray:
        kind = arrays[0].dtype
        with np.errstate(all="ignore"):
            if kind in LOW_NUMPY:
                return self.reference(*(a.astype(np.float32) for a in arrays), **params).astype(kind)
            return self.reference(*arrays, **params)


def _chunks(starts: np.ndarray, width: int) -> list[slice]:
    """Targets in pieces whose edges have about CHUNK numbers of `width` each."""
    most, ends = max(1, CHUNK // max(1, width)), []
    first, last = 0, len(starts) - 1
    while first < last:
        end = max(first + 1, int(np.searchsorted(starts, starts[first] + most, "right")) - 1)
        ends.append(slice(first, min(end, last)))
        first = end
    return ends


def dot_in_lanes(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Σ a b over the last dimension in the order of native code: LANES partial sums, then halves added to halves."""
    products = a * b
    width = products.shape[-1]
    total = np.zeros((*products.shape[:-1], LANES), products.dtype)
    for start in range(0, width, LANES):
        part = products[..., start : start + LANES]
        total[..., : part.shape[-1]] += part
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = total[..., :half] + total[..., half:]
    return total[..., 0]


class SumEdges(AlongEdges):
    """yᵢ = Σ x[sourceₑ] over the edges e to i. Shape: (N, F) → (M, F)"""

    linear = (0,)

    def reference(self, x, edges):
        return np.ascontiguousarray(edges.matrix(np.ones(edges.count, x.dtype)) @ x)

    def shapes(self, x, edges):
        return (edges.size[0], x.shape[1]), x.dtype

    def vjp(self, g, y, x, edges):
        return (SUM_EDGES(g, edges=edges.T),)

    def native(self, node):
        from ...kernels.memory.anchors import sparse_product

        edges = node.params["edges"]
        return sparse_product(node, None, node.inputs[0], edges, edges.count)


class WeighEdges(AlongEdges):
    """yᵢ = Σ wₑ x[sourceₑ] over the edges e to i, head by head. Shape: (E, H), (N, H, F) → (M, H, F)"""

    multilinear = (0, 1)

    def reference(self, w, x, edges):
        y = np.empty((edges.size[0], *x.shape[1:]), x.dtype)
        for head in range(x.shape[1]):
            y[:, head] = edges.matrix(np.ascontiguousarray(w[:, head])) @ np.ascontiguousarray(x[:, head])
        return y

    def shapes(self, w, x, edges):
        return (edges.size[0], *x.shape[1:]), x.dtype

    def vjp(self, g, y, w, x, edges):
        return lambda: DOT_EDGES(g, conj(x), edges=edges), lambda: WEIGH_EDGES(conj(w), g, edges=edges.T)

    def native(self, node):
        from ...kernels.memory.anchors import sparse_product

        edges = node.params["edges"]
        return sparse_product(node, *node.inputs, edges, edges.count)


class DotEdges(AlongEdges):
    """yₑ = Σⱼ a[targetₑ, j] b[sourceₑ, j], head by head. Shape: (M, H, F), (N, H, F) → (E, H)"""

    multilinear = (0, 1)

    def reference(self, a, b, edges):
        result = np.empty((edges.count, a.shape[1]), a.dtype)
        step = max(1, CHUNK // max(1, a.shape[1] * a.shape[2]))
        for start in range(0, edges.count, step):
            part = slice(start, start + step)
            result[part] = dot_in_lanes(a[edges.targets[part]], b[edges.sources[part]])
        return result

    def shapes(self, a, b, edges):
        return (edges.count, a.shape[1]), a.dtype

    def vjp(self, g, y, a, b, edges):
        return lambda: WEIGH_EDGES(g, conj(b), edges=edges), lambda: WEIGH_EDGES(g, conj(a), edges=edges.T)

    def native(self, node):
        from ...kernels.memory.anchors import sampled_product

        return sampled_product(node, *node.inputs, node.params["edges"])


class ExtremeEdges(AlongEdges):
    """The largest (or smallest) x[sourceₑ] over the edges e to i; 0 where there are none, NaN where one is NaN.

    The gradient goes to all sources that are the extreme, in equal parts. Shape: (N, F) → (M, F)
    """

    def reference(self, x, edges, largest):
        starts, columns, _ = edges.by_row()
        y, reduce = np.zeros((edges.size[0], x.shape[1]), x.dtype), np.maximum if largest else np.minimum
        for part in _chunks(starts, x.shape[1]):
            first, bounds = starts[part.start], starts[part.start : part.stop + 1]
            some = bounds[1:] > bounds[:-1]
            if some.any():
                rows = x[columns[first : bounds[-1]]]
                y[part][some] = reduce.reduceat(rows, (bounds[:-1] - first)[some], axis=0)
        return y

    def shapes(self, x, edges, largest):
        return (edges.size[0], x.shape[1]), x.dtype

    def vjp(self, g, y, x, edges, largest):
        equal = TIED_SUM(x, y, x.detach()._filled(1), edges=edges)
        share = where(equal == 0, 0, g / where(equal == 0, 1, equal))
        return (TIED_SUM(y, x, share, edges=edges.T),)

    def native(self, node):
        from ...kernels.memory.anchors import extreme_along

        edges, combine = node.params["edges"], "amax" if node.params["largest"] else "amin"
        return extreme_along(node, node.inputs[0], edges, edges.count, combine)


class TiedSum(AlongEdges):
    """yᵢ = Σ g[sourceₑ] over the edges e to i for which a[sourceₑ] = bᵢ. Shape: (N, F), (M, F), (N, F) → (M, F)"""

    linear = (2,)

    def reference(self, a, b, g, edges):
        starts, columns, _ = edges.by_row()
        y = np.zeros((edges.size[0], a.shape[1]), g.dtype)
        for part in _chunks(starts, a.shape[1]):
            here = columns[starts[part.start] : starts[part.stop]]
            if len(here):
                counts = np.diff(starts[part.start : part.stop + 1])
                chosen = np.where(a[here] == np.repeat(b[part], counts, axis=0), g[here], 0)
                rows, bounds = np.arange(len(here)), starts[part.start : part.stop + 1] - starts[part.start]
                shape = (len(counts), len(here))
                ones = np.ones(len(here), g.dtype)
                y[part] = sparse.csr_array((ones, rows, bounds), shape=shape) @ chosen
        return y

    def shapes(self, a, b, g, edges):
        return (edges.size[0], a.shape[1]), g.dtype

    def vjp(self, g, y, a, b, given, edges):
        return None, None, TIED_SUM(b, a, g, edges=edges.T)

    def native(self, node):
        from ...kernels.memory.anchors import tied_sum

        edges = node.params["edges"]
        return tied_sum(node, edges, edges.count)


class ReadEdges(AlongEdges):
    """yₑ = x[sourceₑ]; its gradient is added up source by source. Shape: (N, *) → (E, *)"""

    linear = (0,)
    reads = "shapes"

    def reference(self, x, edges):
        return x[edges.sources]

    def shapes(self, x, edges):
        return (edges.count, *x.shape[1:]), x.dtype

    def vjp(self, g, y, x, edges):
        width = math.prod(g.shape[1:])
        return (SUM_EDGES(g.reshape(g.shape[0], width), edges=edges.T.rows()).reshape(x.shape),)

    def parts(self, x, edges):
        return INDEX(x, wrap(edges.sources.astype(np.int64)))


class OrderEdges(AlongEdges):
    """Rows for edges put in the order of their targets, or `back` from there. Shape: (E, *) → (E, *)"""

    linear = (0,)

    def reference(self, x, edges, back):
        return x[edges.numbers(back)]

    def shapes(self, x, edges, back):
        return x.shape, x.dtype

    def vjp(self, g, y, x, edges, back):
        return (ORDER_EDGES(g, edges=edges, back=not back),)

    def parts(self, x, edges, back):
        return INDEX(x, wrap(edges.numbers(back).astype(np.int64)))


class SoftmaxEdges(AlongEdges):
    """αₑ = exp xₑ / Σ exp xₖ over all edges k to the target of e. Shape: (E, H) → (E, H)"""

    def reference(self, x, edges):
        rows = edges.rows()
        parts = np.exp(x - EXTREME_EDGES.reference(x, edges=rows, largest=True)[edges.targets])
        return parts / SUM_EDGES.reference(parts, edges=rows)[edges.targets]

    def shapes(self, x, edges):
        return x.shape, x.dtype

    def vjp(self, g, y, x, edges):
        if not mode.grad:
            return (SOFTMAX_SLOPE(g, y, edges=edges),)
        total = SUM_EDGES(y * g, edges=edges.rows())
        return (y * (g - READ_EDGES(total, edges=edges.T)),)

    def native(self, node):
        from ...kernels.memory.anchors import over_groups

        return over_groups(node, node.params["edges"])


class SoftmaxEdgesSlope(AlongEdges):
    """The gradient of `SoftmaxEdges` from that of its result and the result itself. Shape: (E, H), (E, H) → (E, H)"""

    differentiable = False

    def reference(self, g, y, edges):
        return y * (g - SUM_EDGES.reference(y * g, edges=edges.rows())[edges.targets])

    def shapes(self, g, y, edges):
        return g.shape, g.dtype

    def native(self, node):
        from ...kernels.memory.anchors import over_groups

        return over_groups(node, node.params["edges"])


SUM_EDGES, WEIGH_EDGES, DOT_EDGES, EXTREME_EDGES, TIED_SUM, READ_EDGES, ORDER_EDGES, SOFTMAX_EDGES, SOFTMAX_SLOPE = (
    kind()
    for kind in (
        *(SumEdges, WeighEdges, DotEdges, ExtremeEdges, TiedSum),
        *(ReadEdges, OrderEdges, SoftmaxEdges, SoftmaxEdgesSlope),
    )
)
