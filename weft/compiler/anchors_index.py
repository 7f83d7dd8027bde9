"""Reading and adding at places that integer tensors name, and products with sparse matrices, as anchors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .anchors import Anchor, Strides, Whole
from .body import Access, Body
from .graph import Constant, Node, Value
from .kernel import Kernel
from .llvm import type_of


def _is_native(node: Node, x: Value, indices: Sequence[Value]) -> bool:
    kinds = [type_of(v.dtype) for v in (x, *indices)]
    sizes = [x.size, node.output.size, *(v.size for v in indices)]
    return all(kinds) and all(sizes) and all(v.dtype.kind in "iu" for v in indices)


def _spread(index: Value, strides: Strides, places: tuple[int, ...], at: int, rank: int) -> tuple[int, ...]:
    """Strides of an index tensor over the axes (kept…, places…, rest…) of the space."""
    missing = len(places) - len(index.shape)
    own = [0] * missing + [0 if n == 1 else s for n, s in zip(index.shape, strides, strict=True)]
    return (*(0,) * at, *own, *(0,) * (rank - at - len(places)))


def _coordinates(
    indices: Sequence[Value],
    strides: Sequence[Strides],
    first_word: int,
    sizes: Sequence[int],
    steps: Sequence[int],
    places: tuple[int, ...],
    at: int,
    rank: int,
) -> tuple[Any, ...]:
    from .indexing import Coordinate

    return tuple(
        Coordinate(Access(first_word + n, type_of(v.dtype), _spread(v, strides[n], places, at, rank)), size, step)
        for n, (v, size, step) in enumerate(zip(indices, sizes, steps, strict=True))
    )


def read_at(node: Node, x: Value, indices: Sequence[Value], at: int) -> Anchor | None:
    """y = x[:, …, i₁, i₂, …] with `at` dimensions kept in front."""
    from .indexing import Gather

    if not _is_native(node, x, indices):
        return None
    places = np.broadcast_shapes(*(v.shape for v in indices))
    shape, count = node.output.shape, len(indices)

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        own = strides[0]
        source = Access(0, type_of(x.dtype), (*own[:at], *(0,) * len(places), *own[at + count :]))
        found = _coordinates(
            indices, strides[1:], 1, x.shape[at : at + count], own[at : at + count], places, at, len(shape)
        )
        return Gather(shape, source, found, body, word)

    return Anchor(node, (x, *indices), shape, make) if shape else None


def add_at(node: Node, x: Value, indices: Sequence[Value], at: int) -> Whole | None:
    """Zeros with x added at the index tensors."""
    from .indexing import Scatter

    if not _is_native(node, x, indices) or type_of(x.dtype) == "i1" or not x.shape:
        return None
    places = np.broadcast_shapes(*(v.shape for v in indices))
    count, out, kind = len(indices), node.output, type_of(x.dtype)

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        (target,), word = results, 1 + count
        value = Body(loads=(Access(0, kind, strides[0]),))
        own = Access(word, kind, (*target[:at], *(0,) * len(places), *target[at + count :]))
        found = _coordinates(
            indices, strides[1:], 1, out.shape[at : at + count], target[at : at + count], places, at, len(x.shape)
        )
        return Scatter(x.shape, value, own, found, out.shape, target, word + 1)

    return Whole(node, (x, *indices), make)


def _known(array: np.ndarray) -> Value:
    """An array that is the same at every call, as an operand."""
    return Node(Constant(np.ascontiguousarray(array)), ()).make((array.shape, array.dtype))[0]


def sparse_product(node: Node, values: Value, x: Value, pattern: Any) -> Anchor | None:
    """A x for a sparse matrix with the given entries at the places of a pattern."""
    from .spmm import SparseProductKernel, transposed_pattern

    kind = type_of(x.dtype)
    if kind not in ("f32", "f64") or values.dtype != x.dtype or not (node.output.size and values.size):
        return None
    starts, columns, order = pattern.starts, pattern.columns, None
    if pattern.flipped:
        starts, columns, order = transposed_pattern(starts, columns, pattern.size[1])
    known = [_known(a) for a in (starts, columns, order) if a is not None]
    number = type_of(columns.dtype)

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        line = [Access(2 + n, number, (1,)) for n in range(len(known))]
        return SparseProductKernel(
            *node.output.shape,
            values.size,
            line[0],
            line[1],
            Access(0, kind, strides[0]),
            Access(1, kind, strides[1]),
            body,
            line[2] if order is not None else None,
        )

    return Anchor(node, (values, x, *known), node.output.shape, make)


def sampled_product(node: Node, a: Value, b: Value, pattern: Any) -> Anchor | None:
    """The entries of a bᵀ at the places of a pattern."""
    from .spmm import SampledProductKernel

    kind = type_of(a.dtype)
    if kind not in ("f32", "f64") or not (node.output.size and a.size):
        return None
    known = [_known(places) for places in pattern.places()]

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        rows, columns = (Access(2 + n, type_of(v.dtype), (1,)) for n, v in enumerate(known))
        factors = (Access(0, kind, strides[0]), Access(1, kind, strides[1]))
        return SampledProductKernel(node.output.size, a.shape[1], rows, columns, *factors, body)

    return Anchor(node, (a, b, *known), node.output.shape, make)
