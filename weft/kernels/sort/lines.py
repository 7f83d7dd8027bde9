"""The lines of a tensor along one of its axes, one by one or several side by side in lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from math import prod
from typing import Any

from ..body import Access, Body
from ..llvm.builder import Function
from ..llvm.values import Val
from ..memory.indexing import accesses, merged_axes, thin, thin_body, unravel

__all__ = ["Lines", "Tiles", "groups", "with_axis"]

FEW_STEPS = 4  # that may follow where they are written once for each lane


class Lines:
    """The lines of a space `shape` along `axis`: neighbouring axes that all accesses walk as one are merged.

    `source` reads the elements; `body` stores results over the same space, where the axis may have another size.
    """

    def __init__(self, shape: Sequence[int], axis: int, source: Access, body: Body) -> None:
        if len(shape) == 1:  # lanes need an axis to run along
            shape, axis = (1, *shape), 1
            source, body = replace(source, strides=(0, *source.strides)), with_axis(body, 0)
        strides = [a.strides for a in (source, *accesses(body))]
        parts = ((0, slice(0, axis)), (axis + 1, slice(axis + 1, None)))
        front, back = (
            [[a + start for a in g] for g in merged_axes(shape[part], [s[part] for s in strides])]
            if shape[part]
            else []
            for start, part in parts
        )
        groups = [*front, [axis], *back]
        self.axis, self.length, self.shape = len(front), shape[axis], tuple(prod(shape[a] for a in g) for g in groups)
        self.source, self.body = thin(source, groups), thin_body(body, groups)
        self.others = [a for a in range(len(groups)) if a != self.axis]
        self.count = prod(self.shape[a] for a in self.others)

    def key(self) -> str:
        return f"{self.shape} {self.axis} {self.source} {self.body.key()}"

    def index(self, places: Sequence[Any], at: Any) -> list[Any]:
        """The index of element `at` of the line whose places along the other axes are given."""
        return [*places[: self.axis], at, *places[self.axis :]]

    def line(self, f: Function, number: Val) -> list[Any]:
        """The places of a line along the other axes."""
        return unravel(f, number, [self.shape[a] for a in self.others])


def with_axis(body: Body, at: int) -> Body:
    """A body over a space with one more axis, along which nothing varies."""
    wider = lambda a: replace(a, strides=(*a.strides[:at], 0, *a.strides[at:]))
    return replace(
        body, loads=tuple(map(wider, body.loads)), stores=tuple((wider(a), n) for a, n in body.stores), _key=[]
    )


@contextmanager
def groups(f: Function, lines: Lines, lanes: int) -> Iterator[tuple[list[Any], Val | None]]:
    """A loop over this thread's groups of neighbouring lines: their places along the other axes, and which lanes count."""
    *outer, width = [lines.shape[a] for a in lines.others]
    per_row = -(-width // lanes)
    lo, hi = f.split(prod(outer) * per_row)
    with f.loop(lo, hi) as unit:
        start = unit.i % per_row * lanes
        mask = f.tail_mask(lanes, f.intrinsic("smin", f.const("i64", width) - start, lanes)) if width % lanes else None
        yield [*unravel(f, unit.i // per_row, outer), start], mask


class Tiles:
    """Groups of as many lines as there are lanes, read and written along the lines where these are dense.

    A vector of a tile has one element of each line; in memory the elements of one line follow each other.
    """

    def __init__(self, f: Function, lines: Lines, places: list[Any], lanes: int) -> None:
        self.f, self.lines, self.places, self.lanes = f, lines, places, lanes
        self.width = lines.shape[lines.others[-1]]
        source, body = lines.source, lines.body
        self.can_load = source.strides[lines.axis] == 1 and source.kind != "i1" and self.width >= lanes
        dense = all(a.strides[lines.axis] == 1 for a, _ in body.stores)
        self.can_store = dense and len(body.steps) <= FEW_STEPS and self.width >= lanes

    def load(self, start: Val) -> list[Val]:
        """The elements from `start` on, one vector for each place; those of the last line in the place of missing ones."""
        f, lines = self.f, self.lines
        found = []
        for n in range(self.lanes):
            line = f.intrinsic("smin", self.places[-1] + n, self.width - 1)
            found.append(lines.source.load(f, lines.index([*self.places[:-1], line], start), lines.axis, self.lanes))
        return transposed(f, found)

    def store(self, start: Val, given: list[Val]) -> None:
        """Vectors for the places from `start` on."""
        f, lines = self.f, self.lines
        for n, along in enumerate(transposed(f, given)):
            line = self.places[-1] + n
            with f.when(line < self.width) if self.width % self.lanes else nullcontext():
                index = lines.index([*self.places[:-1], line], start)
                lines.body.emit(f, index, lines.axis, self.lanes, given=[along])


def transposed(f: Function, rows: list[Val]) -> list[Val]:
    """A square of numbers with rows and lanes exchanged: blocks of 1, 2, 4, … across the diagonal."""
    size, apart = len(rows), 1
    while apart < size:
        for i in (i for i in range(size) if not i & apart):
            a, b = rows[i], rows[i + apart]
            rows[i] = f.shuffle(a, b, [size + j - apart if j & apart else j for j in range(size)])
            rows[i + apart] = f.shuffle(a, b, [size + j if j & apart else j + apart for j in range(size)])
        apart *= 2
    return rows
