"""Ordinary differential equations of samples: followed forward, and back with the likelihood of where they began.

d log p(x(t)) / dt = −tr ∂v/∂x along dx/dt = v(x, t) (Chen et al. 2018), with the trace exact or by Hutchinson's estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from ...errors import OptionError
from ...integrate.solve import odeint
from ...tensor import Tensor
from .score_matching import divergence, hutchinson, rademacher

__all__ = ["flow_to", "log_prob_along"]

Velocity = Callable[[Tensor, Tensor], Tensor]  # x (B, *event), t () → (B, *event)
TOLERANCE = 1e-5  # of steps that are chosen


def flow_to(velocity: Velocity, x: Tensor, start: float, end: float, steps: int = 20, method: str = "rk4") -> Tensor:
    """x carried from time `start` to `end` in `steps` equal steps: like x

    method: of `weft.integrate.odeint`: "euler", "midpoint", "rk4", or "dopri5", which chooses its own steps
    """
    return _solved(lambda t, x: velocity(x, t), x, start, end, steps, method)


def log_prob_along(
    velocity: Velocity,
    x: Tensor,
    start: float,
    end: float,
    prior: Callable[[Tensor], Tensor],
    generator: Any = None,
    *,
    steps: int = 50,
    trace: str = "exact",
    method: str = "rk4",
) -> Tensor:
    """log p of x at time `start`, from the log density `prior` (B, *event) → (B,) at `end`: (B,)

    trace: "exact" costs D slopes a step, "hutchinson" one, along a direction ±1 that is drawn once: unbiased
    """
    if trace not in ("exact", "hutchinson"):
        raise OptionError(f"trace is exact or hutchinson, got {trace!r}")
    v = rademacher(x, generator) if trace == "hutchinson" else None

    def change(t: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        field = lambda x: velocity(x, t)
        return divergence(field, state[0]) if v is None else hutchinson(field, state[0], v)

    there, gained = _solved(change, (x, weft.zeros(len(x), dtype=x.dtype)), start, end, steps, method)
    return prior(there) + gained


def _solved(change: Callable[[Tensor, Any], Any], state: Any, start: float, end: float, steps: int, method: str) -> Any:
    """The state at the end."""
    if steps < 1:
        raise OptionError(f"expected 1 step or more, got {steps}")
    first = state[0] if isinstance(state, tuple) else state
    times = weft.tensor([start, end], dtype=first.dtype)
    options = None if method in ("dopri5", "bosh3", "adaptive_heun") else {"num_steps": steps}
    found = odeint(change, state, times, rtol=TOLERANCE, atol=TOLERANCE, method=method, options=options)
    return tuple(part[-1] for part in found) if isinstance(found, tuple | list) else found[-1]
