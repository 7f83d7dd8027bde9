"""A line search for the strong Wolfe conditions, by bracketing and cubic interpolation.

On φ(t) = f(x + t d) it looks for t with  φ(t) ≤ φ(0) + c₁ t φ'(0)  and  |φ'(t)| ≤ c₂ |φ'(0)|
(Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..tensor import Tensor

__all__ = ["Point", "strong_wolfe"]


@dataclass(frozen=True)
class Point:
    """A place t on the line: φ(t), the gradient of f there, and the slope φ'(t)."""

    t: float
    value: float
    gradient: Tensor
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    step: float,
    reach: float,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_steps: int = 25,
) -> tuple[Point, int]:
    """The point found, and how often `evaluate` was called. `start` is t = 0, `step` the first t to try, `reach` the
    largest component of d: brackets shorter than tolerance_change / reach are not searched further."""
    search = _Search(evaluate, start, c1, c2, max_steps)
    bracket = search.bracket(step)
    if len(bracket) == 1:
        return bracket[0], search.calls
    return search.zoom(bracket, tolerance_change / reach if reach else math.inf), search.calls


class _Search:
    """The two phases of the search, with what they share."""

    def __init__(self, evaluate: Any, start: Point, c1: float, c2: float, max_steps: int) -> None:
        self.evaluate, self.start, self.c1, self.c2 = evaluate, start, c1, c2
        self.calls, self.max_calls = 0, max_steps + 1

    def at(self, t: float) -> Point:
        self.calls += 1
        return self.evaluate(t)

    def too_high(self, point: Point) -> bool:
        return point.value > self.start.value + self.c1 * point.t * self.start.slope

    def flat(self, point: Point) -> bool:
        return abs(point.slope) <= -self.c2 * self.start.slope

    def bracket(self, step: float) -> list[Point]:
        """Go forward until two points enclose a minimum, or one point will do."""
        before, point = self.start, self.at(step)
        while self.calls < self.max_calls:
            if self.too_high(point) or (self.calls > 2 and point.value >= before.value):
                return [before, point]
            if self.flat(point):
                return [point]
            if point.slope >= 0:
                return [before, point]
            t = cubic_minimum(before, point, point.t + 0.01 * (point.t - before.t), point.t * 10)
            before, point = point, self.at(t)
        return [self.start, point]

    def zoom(self, bracket: list[Point], shortest: float) -> Point:
        """Narrow the bracket around a minimum; its lower end is the answer."""
        low, high = sorted(bracket, key=lambda point: point.value)
        slow = False
        while self.calls < self.max_calls and abs(high.t - low.t) >= shortest:
            first, last = sorted((low, high), key=lambda point: point.t)
            t, slow = _kept_inside(cubic_minimum(first, last, first.t, last.t), first.t, last.t, slow)
            point = self.at(t)
            if self.too_high(point) or point.value >= low.value:
                low, high = (low, point) if low.value <= point.value else (point, low)
                continue
            if self.flat(point):
                return point
            if point.slope * (high.t - low.t) >= 0:
                high = low
            low = point
        return low


def _kept_inside(t: float, first: float, last: float, slow: bool) -> tuple[float, bool]:
    """Move t away from an end of the bracket when it comes near one for the second time; whether it was near."""
    margin = 0.1 * (last - first)
    if min(last - t, t - first) >= margin:
        return t, False
    if slow or t >= last or t <= first:
        return (last - margin if abs(t - last) < abs(t - first) else first + margin), False
    return t, True


def cubic_minimum(a: Point, b: Point, lowest: float, highest: float) -> float:
    """The minimum within [lowest, highest] of the cubic through two points with their slopes."""
    first, last = (a, b) if a.t <= b.t else (b, a)
    if last.t == first.t:
        return (lowest + highest) / 2
    d1 = first.slope + last.slope - 3 * (first.value - last.value) / (first.t - last.t)
    square = d1 * d1 - first.slope * last.slope
    if not square >= 0:
        return (lowest + highest) / 2
    d2 = math.sqrt(square)
    denominator = last.slope - first.slope + 2 * d2
    if denominator == 0:
        return (lowest + highest) / 2
    t = last.t - (last.t - first.t) * (last.slope + d2 - d1) / denominator
    return min(max(t, lowest), highest)
