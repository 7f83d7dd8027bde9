"""Reading and writing at places that integer tensors name.

A space of some axes is walked; the place of an element in the indexed buffer is the sum of what its own axes give (the
strides of an `Access`) and of one `Coordinate` for each index tensor. Negative indices count from the end. An index out
of range is taken as 0 and reported: argument word `flag` is the address of three int64, which become (who reports: the
word after, the index, the size it was out of range for); the caller sets the first to 0 before and looks after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import BITS, Val

__all__ = [
    "COMBINE",
    "Coordinate",
    "Gather",
    "Scatter",
    "accesses",
    "in_vectors",
    "merged_axes",
    "over_space",
    "report_wrong",
    "thin",
    "thin_body",
    "unravel",
    "vector_lanes",
]

MANY = 16  # rows that are enough to share out between threads


@dataclass(frozen=True)
class Coordinate:
    """An index tensor (integers, an `Access` over the axes of the space) for one dimension of the indexed buffer.

    The dimension has `size` entries, `stride` elements apart.
    """

    index: Access
    size: int
    stride: int


# ------------------------------------------------------------------------------------------------- spaces


def merged_axes(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> list[list[int]]:
    """Groups of neighbouring axes that all operands walk as if they were one; axes of size 1 are left out."""
    groups: list[list[int]] = []
    for axis in (a for a, size in enumerate(shape) if size != 1):
        if groups and all(s[groups[-1][-1]] == s[axis] * shape[axis] for s in strides):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups or [[]]


def thin(access: Access, groups: Sequence[Sequence[int]]) -> Access:
    """An access over merged axes."""
    return replace(access, strides=tuple(access.strides[g[-1]] if g else 0 for g in groups))


def thin_body(body: Body, groups: Sequence[Sequence[int]]) -> Body:
    loads = tuple(thin(a, groups) for a in body.loads)
    return replace(body, loads=loads, stores=tuple((thin(a, groups), n) for a, n in body.stores), _key=[])


def accesses(body: Body) -> list[Access]:
    return [*body.loads, *(a for a, _ in body.stores)]


def unravel(f: Function, number: Val, shape: Sequence[int]) -> list[Any]:
    """The index of element `number` of a shape in C order."""
    found: list[Any] = []
    for size in reversed(shape[1:]):
        found.insert(0, number % size)
        number = number // size
    return [number, *found] if shape else []


def vector_lanes(f: Function, kind: str) -> int:
    return 8 * f.target.vector_bytes // max(32, BITS[kind])


def in_vectors(
    f: Function, first: Val, last: Val, width: int, lanes: int, work: Callable[[Val, Val | None], None]
) -> None:
    """work(start, mask) for the vectors of [first, last), whole ones but for the last of `width`."""
    full = width // lanes * lanes
    if full:
        with f.loop(first, f.intrinsic("smin", last, full), lanes) as loop:
            work(loop.i, None)
    if width % lanes:
        with f.when(last.eq(width)):
            work(f.index(full), f.tail_mask(lanes, width % lanes))


def over_space(f: Function, shape: Sequence[int], lanes: int, work: Callable[[list[Any], Val | None], None]) -> None:
    """work(index, mask) for the vectors along the last axis that are this thread's."""
    *outer, width = shape
    rows = prod(outer)
    lo, hi = f.split(rows) if rows >= MANY else (f.index(0), f.index(rows))
    first, last = (f.index(0), f.index(width)) if rows >= MANY else f.split(width, lanes)
    with f.loop(lo, hi) as row:
        index = unravel(f, row.i, outer)
        in_vectors(f, first, last, width, lanes, lambda i, mask: work([*index, i], mask))


# ------------------------------------------------------------------------------------------------- places


def place_of(
    f: Function,
    own: Access,
    coordinates: Sequence[Coordinate],
    index: Sequence[Any],
    axis: int,
    lanes: int,
    mask: Val | None,
    flag: int,
) -> Val:
    """Where the element at `index` lies: one number, or one for each lane along `axis` if indices vary there.

    As one number it is the place of lane 0, from which the others are own.strides[axis] apart.
    """
    total: Val = f.index(own.place(f, index))
    wide = lanes if lanes > 1 and any(c.index.strides[axis] for c in coordinates) else 1
    if wide > 1 and own.strides[axis]:
        total = total + f.iota("i64", lanes) * own.strides[axis]
    for c in coordinates:
        total = total + _checked(f, c, index, axis, lanes, mask, flag) * c.stride
    return total


def _checked(
    f: Function, c: Coordinate, index: Sequence[Any], axis: int, lanes: int, mask: Val | None, flag: int
) -> Val:
    given = f.cast(c.index.load(f, index, axis, lanes, mask), "i64")
    wrapped = f.select(given < 0, given + c.size, given)
    outside = f.cast(wrapped, "u64") >= c.size
    report_wrong(f, outside, given, c.size, flag)
    return f.select(outside, 0, wrapped)


def report_wrong(f: Function, outside: Val, given: Val, size: int, flag: int, halt: bool = False) -> None:
    """Write down the first of the given indices that is outside; `halt`: and let the plan stop where it may."""
    lanes = outside.lanes
    some = outside if lanes == 1 else f.call(f"llvm.vector.reduce.or.v{lanes}i1", "i1", 1, outside)
    with f.when(some):
        wrong = given
        if lanes > 1:
            numbers = f.select(outside, f.iota("i32", lanes), lanes - 1)
            first = f.call(f"llvm.vector.reduce.smin.v{lanes}i32", "i32", 1, numbers)
            wrong = f.extract(given, f.cast(first, "i64"))
        who, before = f.number(flag + 1), f.load(f.arg(flag), 0, "i64")
        with f.when(before.eq(0) | (who < before)):  # what comes first in the program is told
            for word, value in enumerate((who, wrong, f.index(size))):
                f.store(value, f.arg(flag), word)
        if halt:
            f.halt()


# ------------------------------------------------------------------------------------------------- kernels


class Gather(Kernel):
    """y[e] = x[places(e)] for every e of the space `shape`; `body` (given: the element of x) stores the results.

    `source` has a stride for each axis of the space: those of x along axes that x keeps, 0 along axes that only index
    tensors have. x[idx] on rows: shape (N, D), source (0, 1), Coordinate(Access(idx, 'i64', (1, 0)), rows, D).
    gather(x, 1, idx): shape (N, K), source (D, 0), Coordinate(Access(idx, 'i64', (K, 1)), D, 1).
    """

    def __init__(
        self, shape: tuple[int, ...], source: Access, coordinates: tuple[Coordinate, ...], body: Body, flag: int
    ) -> None:
        operands = [source, *(c.index for c in coordinates), *accesses(body)]
        groups = merged_axes(shape, [a.strides for a in operands])
        self.shape = tuple(prod(shape[a] for a in g) for g in groups)
        self.source, self.flag = thin(source, groups), flag
        self.coordinates = tuple(replace(c, index=thin(c.index, groups)) for c in coordinates)
        self.body = thin_body(body, groups)
        self.nbytes = 2 * prod(shape) * max(8, BITS[source.kind]) // 8

    def key(self) -> str:
        return f"Gather {self.shape} {self.source} {self.coordinates} {self.flag} {self.body.key()}"

    def emit(self, f: Function) -> None:
        lanes = vector_lanes(f, self.source.kind)
        over_space(f, self.shape, lanes, lambda index, mask: self._vector(f, index, lanes, mask))

    def _vector(self, f: Function, index: list[Any], lanes: int, mask: Val | None) -> None:
        axis, kind, base = len(index) - 1, self.source.kind, f.arg(self.source.arg)
        place = place_of(f, self.source, self.coordinates, index, axis, lanes, mask, self.flag)
        if place.lanes > 1:
            value = f.gather(f.offset(base, place, kind), "u8" if kind == "i1" else kind, mask)
            value = value.ne(0) if kind == "i1" else value
        else:
            value = f.load(base, place, kind, lanes, mask, self.source.strides[axis])
        self.body.emit(f, index, axis, lanes, mask, given=[value])


COMBINE = {
    "add": lambda f, old, new: old + new,
    "put": lambda f, old, new: new,
    "prod": lambda f, old, new: old * new,
    "amax": lambda f, old, new: f.select((old > new) | old.ne(old), old, new),
    "amin": lambda f, old, new: f.select((old < new) | old.ne(old), old, new),
}


class Scatter(Kernel):
    """target[places(e)] ∘= value(e) for every e of the space `shape` in C order, ∘ by `combine`.

    combine: 'add', 'put' (the last write stays), 'prod', 'amax', 'amin'. `target` has strides over the axes of the
    space as `source` of Gather. `value` is a body over the space without stores, whose last value is combined. Before
    that the target is filled: `target_shape` and `target_strides` describe all of it; `initial` (an Access with strides
    over target_shape) is copied there unless it is the same memory, or zeros where it is None. No two threads write to
    one place and the order of the writes to it is that of the space: results do not depend on the number of threads.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        value: Body,
        target: Access,
        coordinates: tuple[Coordinate, ...],
        target_shape: tuple[int, ...],
        target_strides: tuple[int, ...],
        flag: int,
        combine: str = "add",
        initial: Access | None = None,
    ) -> None:
        operands = [target, *(c.index for c in coordinates), *value.loads]
        groups = merged_axes(shape, [a.strides for a in operands])
        self.shape = tuple(prod(shape[a] for a in g) for g in groups)
        self.value, self.target = thin_body(value, groups), thin(target, groups)
        self.coordinates = tuple(replace(c, index=thin(c.index, groups)) for c in coordinates)
        order = sorted(range(len(target_shape)), key=lambda a: -target_strides[a])  # filled in the order of memory
        target_shape = tuple(target_shape[a] for a in order)
        filled = [Access(target.arg, target.kind, target_strides), *([initial] if initial else [])]
        filled = [replace(a, strides=tuple(a.strides[axis] for axis in order)) for a in filled]
        groups = merged_axes(target_shape, [a.strides for a in filled])
        self.filled_shape = tuple(prod(target_shape[a] for a in g) for g in groups)
        self.filled, *rest = (thin(a, groups) for a in filled)
        self.initial = rest[0] if rest else None
        self.flag, self.combine = flag, combine
        itemsize = max(8, BITS[target.kind]) // 8
        self.nbytes = (prod(target_shape) + 2 * prod(shape)) * itemsize
        self.flops = prod(shape)

    def key(self) -> str:
        places = f"{self.shape} {self.target} {self.coordinates} {self.filled_shape} {self.filled} {self.initial}"
        return f"Scatter {self.combine} {places} {self.flag} {self.value.key()}"

    def emit(self, f: Function) -> None:
        if self.initial is not None and self.initial.strides == self.filled.strides:
            with f.when(f.arg(self.initial.arg).ne(f.arg(self.target.arg))):  # not in place
                self._fill(f)
        else:
            self._fill(f)
        f.barrier()
        axes, last = range(len(self.shape)), len(self.shape) - 1
        own = [a for a in axes if self.target.strides[a]]  # what lies apart along these never meets
        named = any(c.index.strides[last] for c in self.coordinates)
        lanes = vector_lanes(f, self.target.kind) if last in own and not named else 1
        outer = [a for a in own if a != last or lanes == 1]
        points = [a for a in axes if a not in outer and (a != last or lanes == 1)]
        width = self.shape[last] if lanes > 1 else 1
        rows, columns, owned = self._shares(f, prod(self.shape[a] for a in outer), width, lanes)
        around, inside = (outer, rows), (points, (0, prod(self.shape[a] for a in points)))
        if last in outer:  # neighbours in memory one after the other
            around, inside = inside, around
        with f.loop(*around[1]) as first, f.loop(*inside[1]) as second:
            index: list[Any] = [f.index(0)] * len(self.shape)
            for at, number in ((around[0], first.i), (inside[0], second.i)):
                for a, i in zip(at, unravel(f, number, [self.shape[a] for a in at]), strict=True):
                    index[a] = i
            self._point(f, index, lanes, *columns, width, owned)

    def _shares(
        self, f: Function, rows: int, width: int, lanes: int
    ) -> tuple[tuple[Any, Any], tuple[Val, Val], tuple[Val, Val] | None]:
        """This thread's rows and columns, or the places of the first index that it writes to (None: all)."""
        all_rows, all_columns = (f.index(0), f.index(rows)), (f.index(0), f.index(width))
        if rows >= MANY:
            return f.split(rows), all_columns, None
        if lanes > 1 and width >= MANY // 2 * lanes:
            return all_rows, f.split(width, lanes), None
        if self.coordinates:
            return all_rows, all_columns, f.split(self.coordinates[0].size)
        return (f.index(0), f.select(f.tid.eq(0), f.index(rows), 0)), all_columns, None

    def _point(
        self, f: Function, index: list[Any], lanes: int, first: Val, end: Val, width: int, owned: tuple[Val, Val] | None
    ) -> None:
        """All that goes to one place, or to one row of places."""
        axis = len(index) - 1
        place = place_of(f, self.target, self.coordinates, index, axis, 1, None, self.flag)
        if owned is None:
            self._row(f, index, place, lanes, first, end, width)
            return
        c = self.coordinates[0]
        number = f.cast(c.index.load(f, index, axis), "i64")
        number = f.select(number < 0, number + c.size, number)
        number = f.select(f.cast(number, "u64") >= c.size, 0, number)
        with f.when((number >= owned[0]) & (number < owned[1])):
            self._row(f, index, place, lanes, first, end, width)

    def _row(self, f: Function, index: list[Any], place: Val, lanes: int, first: Val, end: Val, width: int) -> None:
        if lanes == 1:
            self._write(f, index, place, 1, None)
            return

        def work(i: Val, mask: Val | None) -> None:
            self._write(f, [*index[:-1], i], place + i * self.target.strides[-1], lanes, mask)

        in_vectors(f, first, end, width, lanes, work)

    def _write(self, f: Function, index: list[Any], place: Val, lanes: int, mask: Val | None) -> None:
        base, kind, stride = f.arg(self.target.arg), self.target.kind, self.target.strides[-1] if lanes > 1 else 1
        value = f.splat(self.value.emit(f, index, len(index) - 1, lanes, mask)[-1], lanes)
        if self.combine != "put":
            value = COMBINE[self.combine](f, f.load(base, place, kind, lanes, mask, stride), value)
        f.store(value, base, place, mask, stride)

    def _fill(self, f: Function) -> None:
        lanes = vector_lanes(f, self.target.kind)

        def work(index: list[Any], mask: Val | None) -> None:
            value = f.const(self.target.kind, 0, lanes)
            if self.initial is not None:
                value = self.initial.load(f, index, len(index) - 1, lanes, mask)
            self.filled.store(f, value, index, len(index) - 1, lanes, mask)

        over_space(f, self.filled_shape, lanes, work)
