"""Reductions that are complete only after the whole sweep: each piece of it sums into memory, at the end these are added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..llvm.builder import Function
from ..llvm.values import BITS, Val
from .sweep import Item

if TYPE_CHECKING:
    from .writer import Writer

__all__ = ["LateSums", "finished", "fold", "prepared"]


class LateSums:
    """Writes the late reductions of a sweep; where its loops are, and what they know, says the `writer` of those."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.f, self.sweep, self.order = writer.f, writer.sweep, writer.order
        self.items, self.space, self.lanes = writer.items, writer.space, writer.lanes
        self.partial: Val | None = None  # the sums of the present piece

    def slot(self, number: int, lanes: int) -> Any:
        """The place of the partial sum for the present index, in elements of its type."""
        (at, dims, _), index = self.order.sums[number], self.writer.index
        place: Any = 0
        for d in dims:
            place = index[d] if isinstance(place, int) and place == 0 else place * self.space[d] + index[d]
        if self.order.axis not in dims and lanes > 1:
            place = place * lanes if not isinstance(place, int) or place else 0
        return self.f.index(place) + at // (BITS[self.items[number].kind] // 8 or 1)

    def sum_lanes(self, number: int) -> int:
        """How many lanes each partial sum has in memory."""
        item = self.items[number]
        if self.order.axis is None or self.order.axis in self.order.sums[number][1]:
            return 1
        return self.lanes if self.items[item.source].mask[self.order.axis] else 1

    def add(self, number: int) -> None:
        """Add the present element to the partial sum."""
        item = self.items[number]
        value = prepared(self.f, item, self.writer.find(item.source))
        self.add_value(number, value)

    def add_value(self, number: int, value: Val) -> None:
        f, item = self.f, self.items[number]
        wide = self.order.axis is not None and self.items[item.source].mask[self.order.axis]
        lanes = self.lanes if wide else 1
        value = f.splat(value, lanes)
        place = self.slot(number, lanes)
        mask = self.writer.mask if lanes > 1 and self.order.axis in self.order.sums[number][1] else None
        old = f.load(self.partial, place, item.kind, lanes, mask)
        new = item.value.combine(f, old, value)
        if self.writer.mask is not None and lanes > 1 and mask is None:
            new = f.select(self.writer.mask, new, old)
        f.store(new, self.partial, place, mask)

    def add_outer(self, turn: int) -> None:
        """Late reductions of values that are known once a row."""
        for number, item in enumerate(self.items):
            if item.what == "late" and self.order.levels[item.source] < 2 and self.order.passes[item.source] == turn:
                self.add(number)

    def start_piece(self, number: Any) -> None:
        """Let late reductions sum into piece `number` of the workspace from now on."""
        f = self.f
        if not self.order.sums:
            return
        self.partial = f.offset(f.arg(self.sweep.workspace_word), f.index(number) * self.order.piece, "u8")
        for number, (at, _, count) in self.order.sums.items():
            item = self.items[number]
            total = count * self.sum_lanes(number)
            one = f.const(item.kind, item.value.identity(item.kind))
            start = at // (BITS[item.kind] // 8 or 1)
            lanes = self.lanes if total % self.lanes == 0 else 1
            with f.loop(0, total, lanes) as loop:
                f.store(f.splat(one, lanes), self.partial, loop.i + start)

    def combine(self) -> None:
        """Add up the pieces in order, and store."""
        f, order = self.f, self.order
        base = f.arg(self.sweep.workspace_word)
        for access, number in self.sweep.stores:
            item = self.items[number]
            if item.what != "late":
                continue
            at, dims, count = order.sums[number]
            wide = self.sum_lanes(number)
            even = bool(dims) and self.space[dims[-1]] % self.lanes == 0
            lanes = self.lanes if wide == 1 and even else 1
            lo, hi = (f.index(0), f.index(count)) if self.sweep.serial else f.split(count, lanes)
            with f.loop(lo, hi, lanes) as loop:
                start = f.const(item.kind, item.value.identity(item.kind), wide if wide > 1 else lanes)
                with f.loop(0, self.sweep.pieces, carry=[start]) as inner:
                    memory = f.offset(base, inner.i * order.piece + at, "u8")
                    part = f.load(memory, loop.i * wide, item.kind, wide if wide > 1 else lanes)
                    inner.next([item.value.combine(f, inner.carry[0], part)])
                total = inner.results[0]
                if wide > 1:
                    total = fold(f, item.value, total)
                total = finished(f, item, total)
                index: list[Any] = [0] * len(self.space)
                rest: Any = loop.i
                for n in reversed(range(len(dims))):
                    size = self.space[dims[n]]
                    if n == 0:
                        index[dims[n]] = rest
                    else:
                        index[dims[n]] = rest % size
                        rest = rest // size
                axis = dims[-1] if dims else 0
                access.store(f, total, index, axis, total.lanes, None)


def prepared(f: Function, item: Item, value: Val) -> Val:
    """What a reduction adds for one element, in its own type."""
    prepare = item.value.prepare
    return f.cast(prepare(f, value) if prepare is not None else value, item.kind)


def finished(f: Function, item: Item, total: Val) -> Val:
    finish = item.value.finish
    return total if finish is None else f.cast(finish(f, total, item.count), item.kind)


def fold(f: Function, op: Any, total: Val) -> Val:
    """One number from the lanes of a running total."""
    return f.fold(total, lambda a, b: op.combine(f, a, b))
