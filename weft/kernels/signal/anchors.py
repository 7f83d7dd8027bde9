"""How an operation asks for the kernels of this room."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..anchor import AnchorNode, Strides, Whole
from ..kernel import Kernel
from ..llvm.values import type_of
from ..memory.indexing import merged_axes
from .fourier import FourierLines, Operand, factors_of, points_of, table_of

__all__ = ["fourier_lines"]


def fourier_lines(node: AnchorNode, dim: int, n: int, form: str, sign: int, scale: float) -> Whole | None:
    """Transforms along `dim`: inputs and outputs are planes, the real one first."""
    values = (*node.inputs, *node.outputs)
    if any(type_of(v.dtype) not in ("f32", "f64") or not v.size for v in values):
        return None
    if factors_of(points_of(n, form)) is None:
        return None
    kind, shape, count = node.inputs[0].dtype, node.inputs[0].shape, len(node.inputs)
    table = table_of(n, form, sign, kind)

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        planes = [*strides[:count], *results]
        axes = [a for a in range(len(shape)) if a != dim]
        sizes = [shape[a] for a in axes]
        groups = [g for g in merged_axes(sizes, [[s[a] for a in axes] for s in planes]) if g]
        lines = tuple(prod(sizes[a] for a in g) for g in groups)
        words = [*range(count), *range(count + 1, count + 1 + len(results))]
        operands = [
            Operand(w, s[dim], tuple(s[axes[g[-1]]] for g in groups)) for w, s in zip(words, planes, strict=True)
        ]
        return FourierLines(
            n, type_of(kind), form, sign, scale, lines, operands[:count], operands[count:], count, len(words) + 1
        )

    return Whole(node, (*node.inputs, table), make)
