"""Softmax over groups of rows, and its slope: one group after the other, each by one thread.

The rows of group i are those whose numbers stand in `order` (None: themselves) from starts[i] to starts[i + 1]. Each row
has `width` numbers, which are vectors where there are several; where there is one, and the rows lie in order, vectors
go along the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..body import Access
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import BITS, Val
from .indexing import COMBINE
from .sparse import AlongRows, fitting_lanes

__all__ = ["GroupSoftmax", "GroupSoftmaxSlope"]

Sums = list[Val]


class _OverGroups(Kernel):
    """Passes over the rows of each group; operands and result are Access over (row, column)."""

    def __init__(
        self, groups: int, entries: int, width: int, starts: Access, order: Access | None, *operands: Access
    ) -> None:
        self.rows, self.entries, self.width = groups, entries, width
        self.starts, self.order, self.operands = starts, order, operands
        self.kind = operands[0].kind
        self.flops = 8 * entries * width
        self.nbytes = entries * width * (len(operands) + 1) * BITS[self.kind] // 8

    def key(self) -> str:
        told = (self.rows, self.entries, self.width, self.starts, self.order, self.operands)
        return f"{type(self).__name__} {told}"

    _start, _share = AlongRows._start, AlongRows._share

    def group(self, f: Function, each: Callable, lanes: int) -> None:
        """The passes over one group; `each(start, work)` runs work over its rows from a start to a result."""
        raise NotImplementedError

    def emit(self, f: Function) -> None:
        lo, hi = self._share(f)
        along = self.width == 1 and self.order is None
        lanes = (
            f.target.lanes_of(self.kind) if along else 1 if self.width == 1 else fitting_lanes(f, self.kind, self.width)
        )
        with f.loop(lo, hi) as row:
            first, last = self._start(f, row.i), self._start(f, row.i + 1)
            if along:
                self.group(f, lambda start, work: self._along(f, first, last, lanes, start, work), lanes)
            else:
                for column in range(0, self.width, lanes):
                    mask = f.tail_mask(lanes, self.width - column) if self.width - column < lanes else None
                    each = lambda start, work, at=column, mask=mask: self._down(f, first, last, at, mask, start, work)
                    self.group(f, each, lanes)

    def _along(self, f: Function, first: Val, last: Val, lanes: int, start: Sums, work: Callable) -> Sums:
        """Vectors of rows; what is left over under a mask. The lanes of the results stay apart."""
        whole = first + (last - first) // lanes * lanes
        with f.loop(first, whole, lanes, carry=start) as loop:
            loop.next(work([loop.i, 0], 0, None, loop.carry))
        rest = f.tail_mask(lanes, last - whole)
        with f.loop(f.index(0), f.select(last > whole, f.index(1), 0), carry=loop.results) as tail:
            tail.next(work([whole, 0], 0, rest, tail.carry))
        return tail.results

    def _down(self, f: Function, first: Val, last: Val, column: int, mask: Any, start: Sums, work: Callable) -> Sums:
        """One row after the other."""
        with f.loop(first, last, carry=start) as loop:
            place = loop.i if self.order is None else f.cast(self.order.load(f, [loop.i], 0), "i64")
            loop.next(work([place, column], 1, mask, loop.carry))
        return loop.results

    def joined(self, f: Function, x: Val, lanes: int, combine: Callable) -> Val:
        """The total of a group from that of its lanes, where these are rows."""
        return f.splat(f.fold(x, combine), lanes) if self.width == 1 and lanes > 1 else x


class GroupSoftmax(_OverGroups):
    """y[e] = exp(x[e] - m) / Σ exp(x[k] - m) over the rows k of the group of e, with m the largest of them.

    operands: x, y
    """

    def group(self, f: Function, each: Callable, lanes: int) -> None:
        x, y = self.operands
        lowest = f.const(self.kind, float("-inf"), lanes)

        def largest(at: Any, axis: int, mask: Any, sums: Sums) -> Sums:
            found = f.splat(x.load(f, at, axis, lanes, mask), lanes)
            found = found if mask is None else f.select(mask, found, lowest)
            return [COMBINE["amax"](f, sums[0], found)]

        (top,) = each([lowest], largest)
        top = self.joined(f, top, lanes, lambda a, b: COMBINE["amax"](f, a, b))

        def exponentials(at: Any, axis: int, mask: Any, sums: Sums) -> Sums:
            part = f.exp(f.splat(x.load(f, at, axis, lanes, mask), lanes) - top)
            y.store(f, part, at, axis, lanes, mask)
            return [sums[0] + (part if mask is None else f.select(mask, part, f.const(self.kind, 0.0, lanes)))]

        (total,) = each([f.const(self.kind, 0.0, lanes)], exponentials)
        total = self.joined(f, total, lanes, lambda a, b: a + b)

        def divided(at: Any, axis: int, mask: Any, sums: Sums) -> Sums:
            y.store(f, f.splat(y.load(f, at, axis, lanes, mask), lanes) / total, at, axis, lanes, mask)
            return []

        each([], divided)


class GroupSoftmaxSlope(_OverGroups):
    """dx[e] = y[e] (g[e] - Σ y[k] g[k]) over the rows k of the group of e; operands: g, y, dx."""

    def group(self, f: Function, each: Callable, lanes: int) -> None:
        g, y, out = self.operands

        def product(at: Any, axis: int, mask: Any, sums: Sums) -> Sums:
            a, b = (f.splat(v.load(f, at, axis, lanes, mask), lanes) for v in (g, y))
            return [sums[0] + f.rounded_product(a, b)]

        (total,) = each([f.const(self.kind, 0.0, lanes)], product)
        total = self.joined(f, total, lanes, lambda a, b: a + b)

        def slope(at: Any, axis: int, mask: Any, sums: Sums) -> Sums:
            a, b = (f.splat(v.load(f, at, axis, lanes, mask), lanes) for v in (g, y))
            out.store(f, b * (a - total), at, axis, lanes, mask)
            return []

        each([], slope)
