"""Running sums, products, extremes and linear recurrences along an axis, added up in the order of the elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..body import Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import Val
from .indexing import COMBINE, accesses, in_vectors, merged_axes, thin_body, unravel, vector_lanes

__all__ = ["IS_RECORD", "Scan"]

ROWS = 8  # lines that are run side by side where lanes cannot be used


def _log_add(f: Function, old: Val, new: Val) -> Val:
    """log(eᵃ + eᵇ), right where both are -∞."""
    high, low = f.maximum(old, new), f.minimum(old, new)
    gap = f.select(high.eq(low), 0.0, low - high)  # also for equal infinities
    return high + f.log1p(f.exp(gap))


STEPS: dict[str, Callable[..., Val]] = {
    **{name: COMBINE[name] for name in ("add", "prod", "amax", "amin")},
    "logaddexp": _log_add,
    "linear": lambda f, old, factor, new: factor * old + new,
}
IS_RECORD: dict[str, Callable[[Val, Val], Val]] = {  # the latest of equal ones, and of NaNs once there is one
    "argmax": lambda old, new: (new >= old) | new.ne(new),
    "argmin": lambda old, new: (new <= old) | new.ne(new),
}


class Scan(Kernel):
    """yₜ = yₜ₋₁ ∘ xₜ along `axis` of the space `shape`, y₀ = x₀.

    combine: 'add', 'prod', 'amax', 'amin', 'logaddexp', or 'linear': yₜ = aₜ yₜ₋₁ + xₜ; with 'argmax' and 'argmin' yₜ is the
    place (i64) of the largest or smallest element so far. `value` is a body over the space without stores whose last value
    is xₜ (and the one before it aₜ); `body` (given: yₜ) stores. reverse: from the end.
    """

    def __init__(
        self, shape: tuple[int, ...], axis: int, value: Body, body: Body, combine: str = "add", reverse: bool = False
    ) -> None:
        self.combine, self.reverse, self.length = combine, reverse, shape[axis]
        strides = [a.strides for a in (*accesses(value), *accesses(body))]
        front, back = (
            [[a + start for a in g] for g in merged_axes(shape[part], [s[part] for s in strides])]
            if shape[part]
            else []
            for start, part in ((0, slice(0, axis)), (axis + 1, slice(axis + 1, None)))
        )
        groups = [*front, [axis], *back]
        self.axis, self.shape = len(front), tuple(prod(shape[a] for a in g) for g in groups)
        self.value, self.body = thin_body(value, groups), thin_body(body, groups)
        self.flops, self.nbytes = prod(shape), 8 * prod(shape)

    def key(self) -> str:
        what = f"{self.shape} {self.axis} {self.combine} {self.reverse}"
        return f"Scan {what} {self.value.key()} {self.body.key()}"

    def emit(self, f: Function) -> None:
        last = len(self.shape) - 1
        lanes = vector_lanes(f, self.body.given[0])
        others = [a for a in range(last + 1) if a != self.axis]
        if self.axis != last and self.shape[last] >= lanes // 2:
            self._in_lanes(f, others[:-1], last, lanes)
        else:
            self._in_lines(f, others)

    def _in_lanes(self, f: Function, outer: Sequence[int], last: int, lanes: int) -> None:
        """Neighbouring lines in the lanes of vectors."""
        width = self.shape[last]
        per_row = -(-width // lanes)
        lo, hi = f.split(prod(self.shape[a] for a in outer) * per_row)
        with f.loop(lo, hi) as unit:
            places = unravel(f, unit.i // per_row, [self.shape[a] for a in outer])
            start = unit.i % per_row * lanes

            def work(column: Val, mask: Val | None) -> None:
                index = self._index(dict(zip((*outer, last), (*places, column), strict=True)))
                self._run(f, [index], last, lanes, mask)

            in_vectors(f, start, f.intrinsic("smin", start + lanes, width), width, lanes, work)

    def _in_lines(self, f: Function, others: Sequence[int]) -> None:
        """One number after the other, several lines side by side."""
        sizes = [self.shape[a] for a in others]
        lines = prod(sizes)
        full = lines // ROWS * ROWS

        def run(first: Val, count: int) -> None:
            numbers = [unravel(f, first + r, sizes) for r in range(count)]
            self._run(f, [self._index(dict(zip(others, n, strict=True))) for n in numbers], 0, 1, None)

        lo, hi = f.split(lines, ROWS)
        with f.loop(lo, f.intrinsic("smin", hi, full), ROWS) as loop:
            run(loop.i, ROWS)
        if lines % ROWS:
            with f.when(hi.eq(lines)):
                run(f.index(full), lines % ROWS)

    def _index(self, known: dict[int, Any]) -> list[Any]:
        """An index of the space; the place along the axis is filled in later."""
        return [known.get(a, 0) for a in range(len(self.shape))]

    def _run(self, f: Function, lines: Sequence[list[Any]], axis: int, lanes: int, mask: Val | None) -> None:
        """Some lines (each `lanes` of them along `axis`) from their first element to their last."""

        def at(t: Any) -> list[list[Any]]:
            place = self.length - 1 - t if self.reverse else t
            return [[*line[: self.axis], f.index(place), *line[self.axis + 1 :]] for line in lines]

        def values(index: list[Any]) -> list[Val]:
            count = 2 if self.combine == "linear" else 1
            found = self.value.emit(f, index, axis, lanes, mask)[-count:]
            if self.combine not in IS_RECORD:
                found = [f.cast(x, self.body.given[0]) for x in found]
            return [f.splat(x, lanes) for x in found]

        width = 2 if self.combine in IS_RECORD else 1  # values that a line is carried on with, the last is yₜ
        firsts: list[Val] = []
        for index in at(0):
            first = [*values(index)[-1:], f.const("i64", 0, lanes)][:width]
            self.body.emit(f, index, axis, lanes, mask, given=first[-1:])
            firsts += first
        with f.loop(1, self.length, carry=firsts) as loop:
            following = []
            for n, index in enumerate(at(loop.i)):
                new = self._step(f, loop.carry[n * width : (n + 1) * width], values(index), loop.i)
                self.body.emit(f, index, axis, lanes, mask, given=new[-1:])
                following += new
            loop.next(following)

    def _step(self, f: Function, old: Sequence[Val], new: Sequence[Val], t: Val) -> list[Val]:
        if self.combine not in IS_RECORD:
            return [STEPS[self.combine](f, *old, *new)]
        record = IS_RECORD[self.combine](old[0], new[0])
        return [f.select(record, new[0], old[0]), f.select(record, t, old[1])]
