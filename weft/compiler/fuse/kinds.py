"""What kind of kernel a node becomes, and the small arithmetic of shapes that fusing needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kernels.llvm.values import type_of
from ...ops.core.pointwise import Elementwise
from ...ops.core.primitive import Reduction
from ...ops.core.tracing import converting
from ..graph.geometry import Geometry, contiguous_strides, offset_of, remembered, stand_in
from ..graph.graph import Node, Value
from ..passes.simplify import Move

__all__ = [
    "has_halves",
    "is_assembly",
    "is_pointwise",
    "is_reduction",
    "merged",
    "product",
    "real_of",
    "reduced_dims",
    "windows",
]

CONVERT, _ = converting(np.dtype(np.float32))


def product(sizes: Sequence[int]) -> int:
    count = 1
    for s in sizes:
        count *= s
    return count


@remembered
def merged(strides: Sequence[int], factors: Sequence[int], space: Sequence[int]) -> tuple[int, ...] | None:
    """Strides along the factors as strides along the coarser space; None where they do not combine."""
    found, at = [], 0
    for size in space:
        taken, count = [], 1
        while count < size:
            taken.append(at)
            count *= factors[at]
            at += 1
        if count != size and size != 1:
            return None
        step = strides[taken[-1]] if taken else 0
        reach = step
        for i in reversed(taken):
            if strides[i] != reach:
                return None
            reach *= factors[i]
        found.append(step)
    return tuple(found)


# ------------------------------------------------------------------------------------ kinds of nodes


def is_pointwise(node: Node) -> bool:
    """Whether the node is an elementwise operation with native code for its types."""
    op = node.op
    return isinstance(op, (Elementwise, Move)) and op.lower is not None and _is_native(node)


def is_reduction(node: Node) -> bool:
    op = node.op
    if not isinstance(op, Reduction) or op.combine is None or len(node.inputs) != 1:
        return False
    return _is_native(node) and node.inputs[0].size > 0


def _is_native(node: Node) -> bool:
    """Numbers of bfloat16, as they lie in memory, are converted and moved by native code, and nothing else."""
    if len(node.outputs) != 1 or node.outputs[0].size == 0:
        return False
    for v in (*node.outputs, *node.inputs):
        kind = type_of(v.dtype)
        if kind is None or (kind == "bf16" and node.op is not CONVERT and not isinstance(node.op, Move)):
            return False
    return True


def has_halves(node: Node) -> bool:
    """Whether it is about bfloat16 numbers as they lie in memory."""
    return any(type_of(v.dtype) == "bf16" for v in (*node.inputs, *node.outputs))


def is_assembly(node: Node, geometry: Geometry) -> bool:
    """Whether the node copies its inputs into windows of its result."""
    return (
        node.op.pieces is not None
        and node.output.size > 0
        and all(type_of(v.dtype) is not None and v.dtype == real_of(node.output.dtype) for v in node.inputs)
        and windows(node, geometry) is not None
    )


def real_of(dtype: np.dtype) -> np.dtype:
    """The type of the parts of a complex type; any other one as it is."""
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


def windows(node: Node, geometry: Geometry) -> tuple[Any, list[tuple[Value, int, tuple[int, ...]]]] | None:
    """Of an assembly: what fills the rest (None: nothing is left), and for each input its offset and strides in bytes.

    None where the inputs do not lie in windows.
    """
    shapes = [stand_in(v.shape, v.dtype, contiguous_strides(v.shape, v.dtype.itemsize)) for v in node.inputs]
    out = stand_in(node.output.shape, node.output.dtype, geometry(node.output).strides)
    found = node.op.pieces(out, *shapes, **node.params)
    if found is None:
        return None
    fill, views = found
    return fill, [(v, offset_of(view), view.strides) for v, view in zip(node.inputs, views, strict=True) if v.size]


def reduced_dims(node: Node) -> tuple[int, ...]:
    """The dimensions of its input that a reduction sums over."""
    dim = node.params.get("dim")
    rank = len(node.inputs[0].shape)
    if dim is None:
        return tuple(range(rank))
    return tuple(d % rank for d in (dim if isinstance(dim, (tuple, list)) else (dim,))) if rank else ()
