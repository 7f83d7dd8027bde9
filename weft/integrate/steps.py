"""One Runge–Kutta step, fixed or tried and judged, over states that are lists of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import weft

from ..tensor import Tensor
from .tableaus import Tableau

__all__ = ["Field", "Reached", "State", "attempt", "between", "first_step", "fixed_step"]

State = list[Tensor]
Field = Callable[[Tensor, State], State]
SAFETY, SHRINK, GROW = 0.9, 0.2, 10.0


class Reached(NamedTuple):
    """How far a solution has come: its last step from t0 to t1, enough of it for dense output, and the next step."""

    t0: Tensor
    t1: Tensor
    y0: State
    middle: State
    y1: State
    f0: State
    f1: State
    dt: Tensor
    tried: Tensor  # how many steps, also those taken back


def fixed_step(f: Field, table: Tableau, t: Tensor, y: State, dt: Tensor) -> State:
    """y(t + dt) by one step."""
    return _combined(y, _slopes(f, table, t, y, f(t, y), dt), table.b, dt)


def attempt(f: Field, table: Tableau, at: Reached, rtol: float, atol: float) -> Reached:
    """A step of size dt: taken if its error is small enough, and the size of the next one either way."""
    slopes = _slopes(f, table, at.t1, at.y1, at.f1, at.dt)
    y = _combined(at.y1, slopes, table.b, at.dt)
    with weft.no_grad():
        error = [at.dt * _weighted(k, table.error) for k in zip(*slopes, strict=True)]
        ratio = _largest(error, at.y1, y, rtol, atol)
        good = ratio <= 1
        change = SAFETY * ratio.clamp(min=1e-10) ** (-1 / table.order)
        change = weft.where(good, change.clamp(1, GROW), change.clamp(SHRINK, 1))
        change = weft.where(ratio.isfinite(), change, SHRINK)
        following = (at.dt * change).detach()

    def taken() -> Reached:
        middle = _combined(at.y1, slopes, table.middle, at.dt) if table.middle else _cubic_middle(at, y, slopes[-1])
        return Reached(at.t1, at.t1 + at.dt, at.y1, middle, y, at.f1, slopes[-1], following, at.tried + 1)

    def taken_back() -> Reached:
        return at._replace(dt=following, tried=at.tried + 1)

    return weft.cond(good, taken, taken_back)


def between(at: Reached, t: Tensor) -> State:
    """The solution at t in [t0, t1]: the polynomial of degree 4 through both ends with their slopes, and the middle."""
    h = at.t1 - at.t0
    x = (t - at.t0) / weft.where(h == 0, 1, h)
    found = []
    for y0, middle, y1, f0, f1 in zip(at.y0, at.middle, at.y1, at.f0, at.f1, strict=True):
        a = 2 * h * (f1 - f0) - 8 * (y1 + y0) + 16 * middle
        b = h * (5 * f0 - 3 * f1) + 18 * y0 + 14 * y1 - 32 * middle
        c = h * (f1 - 4 * f0) - 11 * y0 - 5 * y1 + 16 * middle
        found.append(y0 + x * (h * f0 + x * (c + x * (b + x * a))))
    return found


@weft.no_grad()
def first_step(f: Field, table: Tableau, t: Tensor, y: State, slope: State, rtol: float, atol: float) -> Tensor:
    """A guess from the sizes of y, y′ and y″ (Hairer, Nørsett and Wanner, II.4)."""
    size, speed = _largest(y, y, y, rtol, atol), _largest(slope, y, y, rtol, atol)
    small = (size < 1e-5) | (speed < 1e-5)
    guess = weft.where(small, 1e-6, 0.01 * size / weft.where(small, 1, speed)).to(t.dtype)
    ahead = f(t + guess, [x + guess * v for x, v in zip(y, slope, strict=True)])
    bend = _largest([b - a for a, b in zip(slope, ahead, strict=True)], y, y, rtol, atol) / guess
    both = weft.maximum(speed, bend)
    flat = both <= 1e-15
    step = weft.where(
        flat, (guess * 1e-3).clamp(min=1e-6), (0.01 / weft.where(flat, 1, both)) ** (1 / (table.order + 1))
    )
    return weft.minimum(100 * guess, step.to(t.dtype)).detach()


def _slopes(f: Field, table: Tableau, t: Tensor, y: State, first: State, dt: Tensor) -> list[State]:
    found = [first]
    for c, row in zip(table.c, table.a, strict=True):
        found.append(f(t + c * dt, _combined(y, found, row, dt)))
    return found


def _combined(y: State, slopes: list[State], weights: Sequence[float], dt: Tensor) -> State:
    return [x + dt * _weighted(k, weights) for x, k in zip(y, zip(*slopes, strict=True), strict=True)]


def _weighted(slopes: Sequence[Tensor], weights: Sequence[float]) -> Any:
    terms = [w * k for w, k in zip(weights, slopes, strict=False) if w]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _cubic_middle(at: Reached, y: State, last: State) -> State:
    """Half-way along the cubic through both ends with their slopes."""
    parts = zip(at.y1, y, at.f1, last, strict=True)
    return [0.5 * (a + b) + 0.125 * at.dt * (slope - end) for a, b, slope, end in parts]


def _largest(error: Sequence[Tensor], y0: State, y1: State, rtol: float, atol: float) -> Tensor:
    """The root mean square of error / (atol + rtol |y|) of each part of the state, the largest of them."""
    ratios = [
        ((e / (atol + rtol * weft.maximum(a.abs(), b.abs()))) ** 2).mean().sqrt()
        for e, a, b in zip(error, y0, y1, strict=True)
        if e.numel()
    ]
    return weft.stack(ratios).amax() if ratios else weft.zeros(())
