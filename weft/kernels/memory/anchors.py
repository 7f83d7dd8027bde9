"""Places that integer tensors name, checked, read and written; running results; sparse products: as anchors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..anchor import Anchor, AnchorNode, AnchorValue, Strides, Whole
from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.values import type_of
from .checks import PlacesCheck
from .groups import GroupSoftmax, GroupSoftmaxSlope
from .indexing import Coordinate, Gather, Scatter
from .scans import IS_RECORD, Scan
from .sparse import ExtremeKernel, SampledProductKernel, SparseProductKernel, TiedSumKernel

__all__ = [
    "add_at",
    "check_places",
    "combine_at",
    "extreme_along",
    "over_groups",
    "read_at",
    "running",
    "sampled_product",
    "sparse_product",
    "tied_sum",
]


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


def _rows_of(pattern: Any) -> tuple[list[np.ndarray], Callable[[int], list[Access | None]]]:
    """Arrays of a pattern by row, and for words from some number on their accesses: starts, columns, order or None."""
    found = [None if a is None else np.ascontiguousarray(a) for a in pattern.by_row()]
    known = [a for a in found if a is not None]

    def accesses_from(word: int) -> list[Access | None]:
        return [None if a is None else Access(word + n, type_of(a.dtype), (1,)) for n, a in enumerate(found)]

    return known, accesses_from


def _is_float(*values: AnchorValue) -> bool:
    """Whether all are f32, or all f64, and none is empty."""
    kind = type_of(values[0].dtype)
    return kind in ("f32", "f64") and all(v.dtype == values[0].dtype and v.size for v in values)


def sparse_product(
    node: AnchorNode, values: AnchorValue | None, x: AnchorValue, pattern: Any, entries: int
) -> Anchor | None:
    """A x for a sparse matrix with the given entries (one for each head, or all 1) at the places of a pattern."""
    given = (x,) if values is None else (values, x)
    if not entries or not _is_float(*given, node.output):
        return None
    kind, (known, lines) = type_of(x.dtype), _rows_of(pattern)

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        starts, columns, order = lines(len(given))
        *weights, rows = (Access(n, kind, strides[n]) for n in range(len(given)))
        one = weights[0] if weights else None
        return SparseProductKernel(node.output.shape, entries, starts, columns, one, rows, body, order)

    anchor = Anchor(node, (*given, *known), node.output.shape, make)
    anchor.rows = (x,)
    return anchor


def extreme_along(node: AnchorNode, x: AnchorValue, pattern: Any, entries: int, combine: str) -> Anchor | None:
    """The extreme of the rows of x at the places of each row of a pattern."""
    if not entries or not _is_float(x, node.output):
        return None
    kind, (known, lines) = type_of(x.dtype), _rows_of(pattern)

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        starts, columns, _ = lines(1)
        rows = Access(0, kind, strides[0])
        return ExtremeKernel(node.output.shape, entries, starts, columns, rows, body, combine)

    anchor = Anchor(node, (x, *known), node.output.shape, make)
    anchor.rows = (x,)
    return anchor


def tied_sum(node: AnchorNode, pattern: Any, entries: int) -> Anchor | None:
    """The rows of g at the places of each row of a pattern, where a is b there."""
    a, b, g = node.inputs
    if not entries or not _is_float(a, b, g, node.output):
        return None
    kind, (known, lines) = type_of(a.dtype), _rows_of(pattern)

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        starts, columns, _ = lines(3)
        operands = (Access(n, kind, strides[n]) for n in range(3))
        return TiedSumKernel(node.output.shape, entries, starts, columns, *operands, body)

    return Anchor(node, (a, b, g, *known), node.output.shape, make)


def over_groups(node: AnchorNode, pattern: Any) -> Whole | None:
    """Softmax of rows by the groups of a pattern, or its slope from the gradient and the result."""
    if not _is_float(*node.inputs, node.output):
        return None
    starts, _, order = pattern.by_row()
    known = [np.ascontiguousarray(a) for a in (starts, order) if a is not None]
    kind, entries, count = type_of(node.output.dtype), node.output.shape[0], len(node.inputs)
    width = node.output.size // entries

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        lines = [Access(count + n, type_of(a.dtype), (1,)) for n, a in enumerate(known)]
        operands = [Access(n, kind, strides[n]) for n in range(count)]
        operands.append(Access(count + len(known), kind, results[0]))
        made = GroupSoftmax if count == 1 else GroupSoftmaxSlope
        return made(len(starts) - 1, entries, width, lines[0], lines[1] if order is not None else None, *operands)

    return Whole(node, (*node.inputs, *known), make)


def sampled_product(node: AnchorNode, a: AnchorValue, b: AnchorValue, pattern: Any) -> Anchor | None:
    """The entries of a bᵀ at the places of a pattern, for each head where there are some."""
    if not _is_float(a, b, node.output):
        return None
    kind, (known, lines), rank = type_of(a.dtype), _rows_of(pattern), len(node.output.shape)
    heads = a.shape[1] if rank == 2 else 1

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        rows = (s if rank == 2 else (s[0], 0, s[1]) for s in strides[:2])
        factors = [Access(n, kind, s) for n, s in enumerate(rows)]
        sizes = (a.shape[0], node.output.shape[0], heads, a.shape[-1])
        return SampledProductKernel(*sizes, *lines(2), *factors, body, rank)

    anchor = Anchor(node, (a, b, *known), node.output.shape, make)
    anchor.rows = (a, b)
    return anchor


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
