"""Pooling over channels-last images: the largest element or the sum of each window, and their adjoints.

Index spaces and strides are in the order (n, h, w, c), lanes along c (whose stride should be 1 everywhere). A `value` is a
body without stores; its last value is what is pooled, so that a producer can be part of the kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import BITS, Val, is_float
from .conv_tiles import Pair, Taps, carried, each, sweep

__all__ = ["AddAtLargest", "LargestInWindows", "PoolShape"]

UNROLLED_TAPS = 9


@dataclass(frozen=True)
class PoolShape:
    """Windows [o·stride + k·dilation − padding] over images (batch, *image, channels); counts: windows a dimension.

    Windows may reach over all edges; what lies outside is never chosen and adds nothing.
    """

    batch: int
    channels: int
    image: Pair
    counts: Pair
    size: Pair
    stride: Pair
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)

    @property
    def windows(self) -> tuple[Taps, Taps]:
        """Results are windows, sources elements of the image."""
        sizes = zip(self.size, self.counts, self.image, self.stride, self.padding, self.dilation, strict=True)
        high, wide = (Taps(*dimension) for dimension in sizes)
        return high, wide

    @property
    def elements(self) -> tuple[Taps, Taps]:
        """Results are elements of the image, sources the windows they lie in."""
        sizes = zip(self.size, self.image, self.counts, self.stride, self.padding, self.dilation, strict=True)
        high, wide = (Taps.adjoint(*dimension) for dimension in sizes)
        return high, wide


class Pooling(Kernel):
    """What the four have in common: for every result and every tap inside, something goes through `visit`."""

    def __init__(self, shape: PoolShape, taps: tuple[Taps, Taps], value: Body, body: Body) -> None:
        self.shape, self.taps, self.value, self.body, self.kind = shape, taps, value, body, last_kind(value)
        results = shape.batch * shape.channels * taps[0].results * taps[1].results
        sources = shape.batch * shape.channels * taps[0].sources * taps[1].sources
        self.flops = results * shape.size[0] * shape.size[1]
        self.nbytes = (results + sources) * BITS[self.kind] // 8

    def key(self) -> str:
        return f"{type(self).__name__}{self.shape}|{self.value.key()}|{self.body.key()}"

    def emit(self, f: Function) -> None:
        (down, across), lanes = self.taps, f.target.lanes_of(self.kind)
        lo, hi = f.split(self.shape.batch * down.results)
        for i in each(f, lo, hi):
            n, h = i // down.results, i % down.results
            vertical = _range(f, down, h)
            for w in each(f, 0, across.results):
                horizontal = _range(f, across, w)
                vector = functools.partial(self._vector, f, lanes, (n, h, w), vertical, horizontal)
                sweep(f, self.shape.channels, lanes, vector)

    def _vector(
        self, f: Function, lanes: int, at: tuple[Val, ...], vertical: Any, horizontal: Any, c: Val, mask: Val | None
    ) -> None:
        given = self.pool(f, (*at, c), lanes, mask, vertical, horizontal)
        self.body.emit(f, (*at, c), 3, lanes, mask, given)

    def pool(
        self, f: Function, at: tuple[Val, ...], lanes: int, mask: Val | None, vertical: Any, horizontal: Any
    ) -> list[Val]:
        """The values that `body` is given."""
        raise NotImplementedError

    def visit(
        self,
        f: Function,
        vertical: tuple[Any, Val, Any],
        horizontal: tuple[Any, Val, Any],
        start: Sequence[Val],
        step: Callable[[Pair, Pair, list[Val]], list[Val]],
    ) -> list[Val]:
        """step((h, w), (tap row, tap column), values) for every source inside."""
        (down, across), (rows, top, row), (columns, left, column) = self.taps, vertical, horizontal

        def one(i: Any, j: Any, values: list[Val]) -> list[Val]:
            place = top + i * down.advance, left + j * across.advance
            return step(place, (row + i * down.skip, column + j * across.skip), values)

        if isinstance(rows, int) and isinstance(columns, int) and rows * columns <= UNROLLED_TAPS:
            values = list(start)
            for i in range(rows):
                for j in range(columns):
                    values = one(i, j, values)
            return values

        def line(i: Val, values: list[Val]) -> list[Val]:
            return carried(f, columns, values, lambda j, values: one(i, j, values), across.never_empty)

        return carried(f, rows, start, line, down.never_empty)

    def read(self, f: Function, at: tuple[Any, ...], lanes: int, mask: Val | None) -> Val:
        return f.splat(self.value.emit(f, at, 3, lanes, mask)[-1], lanes)


def _range(f: Function, taps: Taps, r: Val) -> tuple[Any, Val, Any]:
    """Taps.range; the count as a number where it is the same everywhere."""
    count, start, first = taps.range(f, r)
    counts = {taps.count(i) for i in range(taps.results)}
    return (counts.pop() if len(counts) == 1 else count), start, first


def last_kind(body: Body) -> str:
    """The type of the last value of a body."""
    if body.steps:
        return body.steps[-1].kind
    return body.loads[-1].kind if body.loads else body.constants[-1][0]


def uses(body: Body, number: int) -> bool:
    """Whether a body reads its value `number`."""
    return any(number in step.operands for step in body.steps) or any(number == n for _, n in body.stores)


class LargestInWindows(Pooling):
    """The first largest element of every window; NaN counts as largest, of several the last.

    `value`: over (n, h, w, c) of the images. `body`: over (n, oh, ow, c), given (0) the largest value, (1) its flat
    position h·W + w in the image as i64, (2) its number kh·KW + kw in the window as u8 (i64 with more than 256 elements).
    """

    def __init__(self, shape: PoolShape, value: Body, body: Body) -> None:
        super().__init__(shape, shape.windows, value, body)

    def pool(
        self, f: Function, at: tuple[Val, ...], lanes: int, mask: Val | None, vertical: Any, horizontal: Any
    ) -> list[Val]:
        n, _, _, c = at
        wide, columns = self.shape.image[1], self.shape.size[1]
        tracked = [uses(self.body, 1), uses(self.body, 2)]

        def places(place: tuple[Any, Any], tap: tuple[Any, Any]) -> list[Val]:
            """Position and number, those that are asked for."""
            numbers = (place[0] * wide + place[1], f.index(tap[0] * columns + tap[1]))
            return [f.splat(f.cast(x, "i32"), lanes) for x, wanted in zip(numbers, tracked, strict=True) if wanted]

        def step(place: tuple[Any, Any], tap: tuple[Any, Any], values: list[Val]) -> list[Val]:
            value = self.read(f, (n, *place, c), lanes, mask)
            better = value > values[0]
            if value.is_float:
                better = better | value.ne(value)
            return [f.select(better, a, b) for a, b in zip([value, *places(place, tap)], values, strict=True)]

        lowest = -np.inf if is_float(self.kind) else -(1 << (BITS[self.kind] - 1)) if self.kind[0] == "i" else 0
        start = [f.const(self.kind, lowest, lanes), *places((vertical[1], horizontal[1]), (vertical[2], horizontal[2]))]
        best, *rest = self.visit(f, vertical, horizontal, start, step)
        number = "u8" if self.shape.size[0] * columns <= 256 else "i64"
        found = iter(rest)
        return [best] + [
            f.cast(next(found), kind) if wanted else f.const(kind, 0, lanes)
            for kind, wanted in zip(("i64", number), tracked, strict=True)
        ]


class AddAtLargest(Pooling):
    """The adjoint of reading at the largest: every element gets Σ of the `value`s of the windows that chose it.

    `value`: over (n, oh, ow, c). `winner`: Access over (n, oh, ow, c) of integers, positions (by='position') or numbers
    in the window (by='number') as LargestInWindows gives them. `body`: over (n, h, w, c), given: the sum (0 where no
    window chose the element).
    """

    def __init__(self, shape: PoolShape, value: Body, winner: Access, body: Body, by: str = "position") -> None:
        super().__init__(shape, shape.elements, value, body)
        self.winner, self.by = winner, by

    def key(self) -> str:
        return f"{super().key()}|{self.winner}{self.by}"

    def pool(
        self, f: Function, at: tuple[Val, ...], lanes: int, mask: Val | None, vertical: Any, horizontal: Any
    ) -> list[Val]:
        n, h, w, c = at
        (rows, columns), wide = self.shape.size, self.shape.image[1]

        def step(place: tuple[Any, Any], tap: tuple[Any, Any], values: list[Val]) -> list[Val]:
            source = n, *place, c
            here = h * wide + w if self.by == "position" else (rows - 1 - tap[0]) * columns + (columns - 1 - tap[1])
            chosen = self.winner.load(f, source, 3, lanes, mask)
            same = chosen.eq(f.splat(f.cast(f.index(here), self.winner.kind), lanes))
            return [values[0] + f.select(same, self.read(f, source, lanes, mask), 0)]

        return self.visit(f, vertical, horizontal, [f.const(self.kind, 0, lanes)], step)


class WindowSums(Pooling):
    """Σ over each window. `value`: over (n, h, w, c) of the images; `body`: over (n, oh, ow, c), given: the sum."""

    def __init__(self, shape: PoolShape, value: Body, body: Body) -> None:
        super().__init__(shape, shape.windows, value, body)

    def pool(
        self, f: Function, at: tuple[Val, ...], lanes: int, mask: Val | None, vertical: Any, horizontal: Any
    ) -> list[Val]:
        return add_up(self, f, at, lanes, mask, vertical, horizontal)


class SpreadSums(Pooling):
    """The adjoint of WindowSums: each element gets Σ over the windows it lies in.

    `value`: over (n, oh, ow, c); `body`: over (n, h, w, c) of the images, given: the sum.
    """

    def __init__(self, shape: PoolShape, value: Body, body: Body) -> None:
        super().__init__(shape, shape.elements, value, body)

    def pool(
        self, f: Function, at: tuple[Val, ...], lanes: int, mask: Val | None, vertical: Any, horizontal: Any
    ) -> list[Val]:
        return add_up(self, f, at, lanes, mask, vertical, horizontal)


def add_up(
    pooling: Pooling, f: Function, at: tuple[Val, ...], lanes: int, mask: Val | None, vertical: Any, horizontal: Any
) -> list[Val]:
    """Σ of the values at all taps."""
    n, _, _, c = at
    zero = f.const(pooling.kind, 0, lanes)
    return pooling.visit(
        f, vertical, horizontal, [zero], lambda place, _, sums: [sums[0] + pooling.read(f, (n, *place, c), lanes, mask)]
    )
