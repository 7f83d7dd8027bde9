"""Ordinary differential equations of samples: followed forward, and back with the likelihood of where they began.

d log p(x(t)) / dt = −tr ∂v/∂x along dx/dt = v(x, t) (Chen et al. 2018), with the trace exact or by Hutchinson's estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from ...errors import OptionError
from ...tensor import Tensor
from .score_matching import divergence, hutchinson, rademacher

__all__ = ["flow_to", "log_prob_along"]

Velocity = Callable[[Tensor, Tensor], Tensor]  # x (B, *event), t () → (B, *event)
State = tuple[Tensor, ...]
METHODS = ("euler", "midpoint", "rk4")


def flow_to(velocity: Velocity, x: Tensor, times: Tensor, method: str = "rk4") -> Tensor:
    """x carried from times[0] to times[-1], one step between neighbours: like x. 1, 2 or 4 calls of the velocity a step"""
    return _integrated(lambda state, t: (velocity(state[0], t),), (x,), times, method)[0]


def log_prob_along(
    velocity: Velocity,
    x: Tensor,
    times: Tensor,
    prior: Callable[[Tensor], Tensor],
    generator: Any = None,
    *,
    trace: str = "exact",
    method: str = "rk4",
) -> Tensor:
    """log p of x at times[0], from the log density `prior` (B, *event) → (B,) at times[-1]: (B,)

    trace: "exact" costs D slopes a step, "hutchinson" one, along a direction ±1 that is drawn once: unbiased
    """
    if trace not in ("exact", "hutchinson"):
        raise OptionError(f"trace is exact or hutchinson, got {trace!r}")
    v = rademacher(x, generator) if trace == "hutchinson" else None

    def change(state: State, t: Tensor) -> State:
        field = lambda x: velocity(x, t)
        return divergence(field, state[0]) if v is None else hutchinson(field, state[0], v)

    end, gained = _integrated(change, (x, weft.zeros(len(x), dtype=x.dtype)), times, method)
    return prior(end) + gained


def _integrated(change: Callable[[State, Tensor], State], state: State, times: Tensor, method: str) -> State:
    """Steps of Runge–Kutta methods of order 1, 2 or 4, as one loop."""
    if method not in METHODS:
        raise OptionError(f"method is one of {', '.join(METHODS)}, got {method!r}")
    along = lambda state, slope, width: tuple(x + width * d for x, d in zip(state, slope, strict=True))

    def move(state: State, step: tuple[Tensor, Tensor]) -> tuple[State, None]:
        t, width = step
        first = change(state, t)
        if method == "euler":
            return along(state, first, width), None
        second = change(along(state, first, width / 2), t + width / 2)
        if method == "midpoint":
            return along(state, second, width), None
        third = change(along(state, second, width / 2), t + width / 2)
        last = change(along(state, third, width), t + width)
        mean = tuple((a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(first, second, third, last, strict=True))
        return along(state, mean, width), None

    return weft.scan(move, state, (times[:-1], times.diff()))[0]
