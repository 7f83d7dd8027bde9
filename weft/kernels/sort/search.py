"""Where values would enter sorted lines."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import Val
from ..memory.indexing import accesses, merged_axes, over_space, thin, thin_body

__all__ = ["Search"]

SHORT = 16  # lines up to this length are compared with a value as a whole
SIDE_BY_SIDE = 2  # vectors, so that one does not wait while elements for the other are fetched
SERIAL = 1 << 12


class Search(Kernel):
    """For each value how many elements of its sorted line are smaller (`right`: or equal); NaN is the largest.

    Over the space `shape` (all sizes > 0), where `line` has the strides of the first elements of lines; a line has
    `length` elements, `step` apart. Elements are compared as type `kind`. `body` (given: the count as i64) stores.
    """

    def __init__(
        self,
        shape: Sequence[int],
        values: Access,
        line: Access,
        length: int,
        step: int,
        kind: str,
        right: bool,
        body: Body,
    ) -> None:
        groups = merged_axes(shape, [a.strides for a in (values, line, *accesses(body))])
        self.shape = tuple(prod(shape[a] for a in g) for g in groups)
        self.values, self.line, self.body = thin(values, groups), thin(line, groups), thin_body(body, groups)
        self.length, self.step, self.kind, self.right = length, step, kind, right
        work = prod(shape) * min(length, 4 * length.bit_length())
        self.serial, self.flops, self.nbytes = work <= SERIAL, work, 12 * prod(shape)

    def key(self) -> str:
        what = (self.shape, self.values, self.line, self.length, self.step, self.kind, self.right, self.serial)
        return f"Search {what} {self.body.key()}"

    def emit(self, f: Function) -> None:
        lanes = SIDE_BY_SIDE * f.target.vector_bytes // 8
        find = self._count if self.length <= SHORT else self._halve

        def work(index: list[Any], mask: Val | None) -> None:
            axis = len(index) - 1
            value = f.splat(f.cast(self.values.load(f, index, axis, lanes, mask), self.kind), lanes)
            found = find(f, index, lanes, mask, value)
            self.body.emit(f, index, axis, lanes, mask, given=[found])

        over_space(f, self.shape, lanes, work)

    def _count(self, f: Function, index: list[Any], lanes: int, mask: Val | None, value: Val) -> Val:
        """Compare with every element."""
        found, axis, start = f.const("i64", 0, lanes), len(index) - 1, f.index(self.line.place(f, index))
        stride = self.line.strides[axis]
        wide = lanes if stride else 1
        for i in range(self.length):
            x = f.load(
                f.arg(self.line.arg), start + i * self.step, self.line.kind, wide, mask if wide > 1 else None, stride
            )
            found = found + f.cast(f.cast(self._is_before(f, f.cast(x, self.kind), value), "u8"), "i64")
        return found

    def _halve(self, f: Function, index: list[Any], lanes: int, mask: Val | None, value: Val) -> Val:
        """Halve the part of the line in which the place must be, in all lanes at once."""
        start = f.index(self.line.place(f, index)) + f.iota("i64", lanes) * self.line.strides[-1]
        base = f.arg(self.line.arg)
        found, left = f.const("i64", 0, lanes), self.length
        while left:
            half = (left + 1) // 2
            place = start + (found + (half - 1)) * self.step
            x = f.cast(f.gather(f.offset(base, place, self.line.kind), self.line.kind, mask), self.kind)
            found = f.select(self._is_before(f, x, value), found + half, found)
            left -= half
        return found

    def _is_before(self, f: Function, x: Val, value: Val) -> Val:
        """Whether a value comes after the element x of its line."""
        before = x <= value if self.right else x < value
        if not value.is_float:
            return before
        nan = value.ne(value)
        return before | (nan if self.right else nan & x.eq(x))
