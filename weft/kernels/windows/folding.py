"""Overlapping windows added back to where they came from: the adjoint of sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import BITS, Val
from ..memory.indexing import accesses, merged_axes, over_space, thin, thin_body, vector_lanes
from .conv_tiles import Taps, carried

__all__ = ["FoldLines", "Line"]


@dataclass(frozen=True)
class Line:
    """One dimension: `count` windows of `size` elements, `dilation` apart, that start every `stride` elements.

    The line of `length` elements is `axis` of the result (None: it has one element only); `outer` and `inner` are the
    strides of the window and of its element in memory.
    """

    axis: int | None
    length: int
    count: int
    size: int
    outer: int
    inner: int
    stride: int = 1
    dilation: int = 1


class FoldLines(Kernel):
    """y[…, l, …] = Σ x[…, o, …, k] over o·stride + k·dilation = l, for each of the lines; `body` (given: the sum) stores.

    shape: the space of y. `source` has the strides of x over it, 0 along the axes of lines.
    """

    def __init__(self, shape: Sequence[int], lines: Sequence[Line], source: Access, body: Body) -> None:
        apart = [
            tuple(int(a == line.axis) for a in range(len(shape))) for line in lines
        ]  # axes that stay by themselves
        groups = merged_axes(shape, [source.strides, *apart, *(a.strides for a in accesses(body))])
        self.shape = tuple(prod(shape[a] for a in g) for g in groups)
        at = {a: n for n, g in enumerate(groups) for a in g}
        last = len(groups) - 1
        lines = [replace(line, axis=at.get(line.axis)) for line in lines]
        self.lines = tuple(sorted(lines, key=lambda line: line.axis == last))
        inner = self.lines[-1]
        self.along = inner.axis == last and (inner.stride == 1 or inner.dilation == 1)  # lanes run along this line
        self.source, self.body = thin(source, groups), thin_body(body, groups)
        self.flops = prod(shape) * prod(n.count * n.size for n in lines) // prod(n.length for n in lines)
        self.nbytes = (prod(shape) + self.flops) * BITS[source.kind] // 8

    def key(self) -> str:
        return f"FoldLines {self.shape} {self.lines} {self.source} {self.body.key()}"

    def emit(self, f: Function) -> None:
        lanes = vector_lanes(f, self.source.kind) if self.along or self.lines[-1].axis != len(self.shape) - 1 else 1

        def vector(index: list[Any], mask: Val | None) -> None:
            zero, place = f.const(self.source.kind, 0, lanes), f.index(self.source.place(f, index))
            total = self._add(f, index, lanes, mask, self.lines, place, zero)
            self.body.emit(f, index, len(index) - 1, lanes, mask, given=[total])

        over_space(f, self.shape, lanes, vector)

    def _add(
        self, f: Function, index: list[Any], lanes: int, mask: Val | None, lines: Sequence[Line], place: Val, total: Val
    ) -> Val:
        """`total` and what the windows of some lines bring to an index, of those at `place` along the others."""
        if not lines:
            value = f.load(f.arg(self.source.arg), place, self.source.kind, lanes, mask, self.source.strides[-1])
            return total + value
        n, *rest = lines
        if not rest and self.along:
            by = self._by_taps if n.stride == 1 else self._by_windows
            return by(f, n, index[-1], lanes, mask, place, total)
        taps = Taps.adjoint(n.size, n.length, n.count, n.stride, 0, n.dilation)
        count, start, first = taps.range(f, f.index(0 if n.axis is None else index[n.axis]))

        def step(m: Val, sums: list[Val]) -> list[Val]:
            o, k = start + m * taps.advance, n.size - 1 - (first + m * taps.skip)
            return [self._add(f, index, lanes, mask, rest, place + o * n.outer + k * n.inner, *sums)]

        return carried(f, count, [total], step, taps.never_empty)[0]

    def _by_taps(self, f: Function, n: Line, left: Val, lanes: int, mask: Val | None, place: Val, total: Val) -> Val:
        """Neighbours on a line with stride 1: the same element of neighbouring windows."""

        def step(k: Val, sums: list[Val]) -> list[Val]:
            o = left - k * n.dilation
            inside = _within(f, o, n.count, lanes, mask)
            value = f.load(
                f.arg(self.source.arg), place + o * n.outer + k * n.inner, self.source.kind, lanes, inside, n.outer
            )
            return [sums[0] + value]

        return carried(f, n.size, [total], step)[0]

    def _by_windows(self, f: Function, n: Line, left: Val, lanes: int, mask: Val | None, place: Val, total: Val) -> Val:
        """Neighbours on a line with dilation 1: neighbours in each window that lies under some of them."""
        lo = (f.intrinsic("smax", left - (n.size - 1), 0) + (n.stride - 1)) // n.stride
        hi = f.intrinsic("smin", (left + (lanes - 1)) // n.stride + 1, n.count)

        def step(m: Val, sums: list[Val]) -> list[Val]:
            k = left - (lo + m) * n.stride
            inside = _within(f, k, n.size, lanes, mask)
            value = f.load(
                f.arg(self.source.arg),
                place + (lo + m) * n.outer + k * n.inner,
                self.source.kind,
                lanes,
                inside,
                n.inner,
            )
            return [sums[0] + value]

        return carried(f, hi - lo, [total], step, runs=False)[0]


def _within(f: Function, first: Val, size: int, lanes: int, mask: Val | None) -> Val:
    """Which of the numbers from `first` on are in 0 … size − 1."""
    each = f.iota("i64", lanes) + first
    inside = f.cast(each, "u64") < size
    return inside if mask is None else inside & mask
