"""Places that integer tensors name, checked, read and written; running results; sparse products: as anchors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..anchor import Anchor, AnchorNode, AnchorValue, Strides, Whole
from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.values import type_of
from .checks import PlacesCheck
from .indexing import Coordinate, Gather, Scatter
from .scans import IS_RECORD, Scan
from .sparse import SampledProductKernel, SparseProductKernel, transposed_pattern

__all__ = ["add_at", "check_places", "combine_at", "read_at", "running", "sampled_product", "sparse_product"]


def _is_native(node: AnchorNode, values: Sequence[AnchorValue], indices: Sequence[AnchorValue]) -> bool:
    kinds = [type_of(v.dtype) for v in (*values, *indices)]
    sizes = [v.size for v in (*values, *indices, node.output)]
    return all(kinds) and all(sizes) and all(v.dtype.kind in "iu" for v in indices)


class _Places:
    """The space (kept…, places…, rest…) in which index tensors name places of the dimensions `at` … of a buffer.

    An index tensor that only counts along one axis of the places (as those of gather and scatter do along every
    dimension but one) is no operand: the buffer is walked along that axis as along those it keeps.
    """

    def __init__(self, indices: Sequence[AnchorValue], at: int, sizes: Sequence[int]) -> None:
        self.shape = np.broadcast_shapes(*(v.shape for v in indices))
        self.at, self.count, self.sizes = at, len(indices), sizes
        found = ((n, self._counted(v, sizes[at + n])) for n, v in enumerate(indices))
        self.counters = {n: axis for n, axis in found if axis is not None}
        self.named = [(n, v) for n, v in enumerate(indices) if n not in self.counters]
        self.operands = tuple(v for _, v in self.named)

    def _counted(self, index: AnchorValue, size: int) -> int | None:
        """The axis of the places along which a known index tensor is 0, 1, 2, … below `size`."""
        if index.known is None or not 1 < index.size <= size or index.size != max(index.shape):
            return None
        axis = index.shape.index(index.size) + len(self.shape) - len(index.shape)
        return axis if (index.known.ravel() == np.arange(index.size)).all() else None

    def own(self, strides: Strides) -> Strides:
        """Strides over the space of the buffer with these strides, at place 0."""
        inner = [0] * len(self.shape)
        for n, axis in self.counters.items():
            inner[axis] += strides[self.at + n]
        return (*strides[: self.at], *inner, *strides[self.at + self.count :])

    def coordinates(self, strides: Sequence[Strides], word: int, buffer: Strides) -> tuple[Any, ...]:
        """The index operands with strides, whose words start at `word`, on the buffer with its strides."""
        rest, found = len(self.sizes) - self.at - self.count, []
        for k, (n, index) in enumerate(self.named):
            over = (*(0,) * self.at, *_broadcast(index, strides[k], len(self.shape)), *(0,) * rest)
            access, d = Access(word + k, type_of(index.dtype), over), self.at + n
            found.append(Coordinate(access, self.sizes[d], buffer[d]))
        return tuple(found)


def _broadcast(value: AnchorValue, strides: Strides, rank: int) -> Strides:
    """Strides over more dimensions in front, 0 along those of size 1."""
    own = (0 if n == 1 else s for n, s in zip(value.shape, strides, strict=True))
    return (*(0,) * (rank - len(value.shape)), *own)


def read_at(node: AnchorNode, x: AnchorValue, indices: Sequence[AnchorValue], at: int) -> Anchor | None:
    """y = x[:, …, i₁, i₂, …] with `at` dimensions kept in front."""
    if not _is_native(node, (x,), indices):
        return None
    places, shape = _Places(indices, at, x.shape), node.output.shape

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        source = Access(0, type_of(x.dtype), places.own(strides[0]))
        found = places.coordinates(strides[1:], 1, strides[0])
        return Gather(shape, source, found, body, word)

    return Anchor(node, (x, *places.operands), shape, make)


def add_at(node: AnchorNode, x: AnchorValue, indices: Sequence[AnchorValue], at: int) -> Whole | None:
    """Zeros with x added at the index tensors."""
    if not _is_native(node, (x,), indices):
        return None
    out, kind = node.output, type_of(x.dtype)
    places = _Places(indices, at, out.shape)

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        (target,), word = results, 1 + len(places.operands)
        value = Body(loads=(Access(0, kind, strides[0]),))
        found = places.coordinates(strides[1:], 1, target)
        combine = "amax" if kind == "i1" else "add"  # true + true = true
        return Scatter(
            x.shape, value, Access(word, kind, places.own(target)), found, out.shape, target, word + 1, combine
        )

    return Whole(node, (x, *places.operands), make)


def combine_at(node: AnchorNode, combine: str, at: int) -> Whole | None:
    """A copy of x with a value put to, or combined with, what lies at the index tensors."""
    x, value, *indices = node.inputs
    if not _is_native(node, (x, value), indices) or x.dtype != value.dtype:
        return None
    out, kind = node.output, type_of(x.dtype)
    places = _Places(indices, at, x.shape)
    space = (*x.shape[:at], *places.shape, *x.shape[at + len(indices) :])

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        (target,), word = results, 2 + len(places.operands)
        written = Body(loads=(Access(1, kind, _broadcast(value, strides[1], len(space))),))
        found = places.coordinates(strides[2:], 2, target)
        own, initial = Access(word, kind, places.own(target)), Access(0, kind, strides[0])
        return Scatter(space, written, own, found, out.shape, target, word + 1, combine, initial)

    anchor = Whole(node, (x, value, *places.operands), make)
    anchor.taken_over = x if node.inputs.count(x) == 1 else None
    return anchor


def sparse_product(node: AnchorNode, values: AnchorValue, x: AnchorValue, pattern: Any) -> Anchor | None:
    """A x for a sparse matrix with the given entries at the places of a pattern."""
    kind = type_of(x.dtype)
    if kind not in ("f32", "f64") or values.dtype != x.dtype or not (node.output.size and values.size):
        return None
    starts, columns, order = pattern.starts, pattern.columns, None
    if pattern.flipped:
        starts, columns, order = transposed_pattern(starts, columns, pattern.size[1])
    known = [np.ascontiguousarray(a) for a in (starts, columns, order) if a is not None]
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


def sampled_product(node: AnchorNode, a: AnchorValue, b: AnchorValue, pattern: Any) -> Anchor | None:
    """The entries of a bᵀ at the places of a pattern."""
    kind = type_of(a.dtype)
    if kind not in ("f32", "f64") or not (node.output.size and a.size):
        return None
    known = [np.ascontiguousarray(places) for places in pattern.places()]

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        rows, columns = (Access(2 + n, type_of(v.dtype), (1,)) for n, v in enumerate(known))
        factors = (Access(0, kind, strides[0]), Access(1, kind, strides[1]))
        return SampledProductKernel(node.output.size, a.shape[1], rows, columns, *factors, body)

    return Anchor(node, (a, b, *known), node.output.shape, make)


def running(node: AnchorNode, combine: str, dim: int, reverse: bool = False) -> Anchor | None:
    """The inputs, all of one shape and type, combined from one end of dimension `dim` on; see `Scan`."""
    first = node.inputs[0]
    kind, places = type_of(first.dtype), combine in IS_RECORD
    if kind is None or not first.size or not first.shape or (kind == "i1" and not places):
        return None
    same = node.inputs if places else (*node.inputs, node.output)
    if any(v.shape != first.shape or v.dtype != first.dtype for v in same):
        return None

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        value = Body(loads=tuple(Access(n, kind, s) for n, s in enumerate(strides)))
        return Scan(first.shape, dim % len(first.shape), value, body, combine, reverse)

    return Anchor(node, node.inputs, node.output.shape, make)


def check_places(node: AnchorNode) -> Whole | None:
    """The check of an index tensor as a kernel."""
    (index,), p = node.inputs, node.params
    kind = type_of(index.dtype)
    if kind is None or index.dtype.kind not in "iu" or not index.size:
        return None

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        return PlacesCheck(index.shape, Access(0, kind, strides[0]), p["low"], p["size"], p["skip"], 2)

    return Whole(node, (index,), make)
