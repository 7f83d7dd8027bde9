"""How an operation asks for the kernels of this room."""

from __future__ import annotations

from collections.abc import Sequence

from ..anchor import AnchorNode, AnchorValue, Strides, Whole
from ..kernel import Kernel
from ..llvm.values import type_of
from .triangular import TriangularSolve

__all__ = ["LARGEST", "triangular"]

LARGEST = 256  # rows: larger systems are better done in blocks, by LAPACK


def triangular(node: AnchorNode, upper: bool, unit: bool) -> Whole | None:
    """X of A X = B, batches broadcast against each other."""
    a, b = node.inputs
    kind, out = type_of(a.dtype), node.output
    if kind not in ("f32", "f64") or b.dtype != a.dtype or not out.size or a.shape[-1] > LARGEST:
        return None
    *batch, n, m = out.shape

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        over = [_over(v, s, len(out.shape)) for v, s in zip((a, b, out), (*strides, *results), strict=True)]
        return TriangularSolve(kind, tuple(batch), n, m, upper, unit, over)

    return Whole(node, (a, b), make)


def _over(value: AnchorValue, strides: Strides, rank: int) -> Strides:
    """Strides with those of missing dimensions, and of dimensions of size 1 in the batch, as 0."""
    batch = (0 if n == 1 else s for n, s in zip(value.shape[:-2], strides[:-2], strict=True))
    return (*(0,) * (rank - len(value.shape)), *batch, *strides[-2:])
