"""Solutions up to an event, and the derivative of its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from ..errors import OptionError, ShapeError, StateError
from ..tape.modes import mode
from ..tensor import Tensor
from .solve import Problem, checked, odeint, started, usable
from .steps import Reached, attempt, between
from .tableaus import METHODS, method_named

__all__ = ["odeint_event"]

MOST_STEPS = 100_000
HALVINGS = 55


def odeint_event(
    func: Callable[[Tensor, Any], Any],
    y0: Any,
    t0: Tensor,
    *,
    event_fn: Callable[[Tensor, Any], Tensor],
    reverse_time: bool = False,
    odeint_interface: Callable[..., Any] = odeint,
    **options: Any,
) -> tuple[Tensor, Any]:
    """The first time after t0 (before it, with `reverse_time`) at which event_fn(t, y), one number, changes its sign.

    Returns the time, and y0 and y there, stacked. Both have gradients: where c(t*, y(t*)) = 0, the implicit function theorem
    gives dt* = −dc / (∂c/∂t + ∂c/∂y · f) (Chen, Amos and Nickel 2021). odeint_interface: `odeint` or `odeint_adjoint`, by which
    the gradient of y there is found

    >>> fall = lambda t, y: (y[1], weft.full((), -9.81))
    >>> time, _ = odeint_event(fall, (weft.tensor(10.0), weft.tensor(0.0)), weft.tensor(0.0), event_fn=lambda t, y: y[0])
    >>> round(time.item(), 3)  # √(2 · 10 / 9.81)
    1.428
    """
    t0 = t0.reshape(())
    times = weft.stack([t0, t0 - 1 if reverse_time else t0 + 1])
    own = {name: options.get(name) for name in ("method", "options")}
    tolerances = {name: options[name] for name in ("rtol", "atol") if name in options}
    return until_event(func, y0, times, **tolerances, **own, event_fn=event_fn, solve=odeint_interface, given=options)


def until_event(
    func: Callable,
    y0: Any,
    t: Tensor,
    rtol: float = 1e-7,
    atol: float = 1e-9,
    method: str | None = None,
    options: dict[str, Any] | None = None,
    event_fn: Callable | None = None,
    solve: Callable[..., Any] = odeint,
    given: dict[str, Any] | None = None,
) -> tuple[Tensor, Any]:
    """The time of the event and (y0, y there); first found without gradients, then solved for with them."""
    if len(t) != 2:
        raise ShapeError(
            f"odeint: with event_fn, t is the first time and one in the direction to go, got {len(t)} times"
        )
    table = method_named(method)
    if not table.adaptive:
        names = ", ".join(name for name, found in METHODS.items() if found.adaptive)
        raise OptionError(f"odeint: events need a method that chooses its steps ({names}), got {method!r}")
    with weft.no_grad():
        problem, known = Problem(func, y0, t.detach()), checked(options)
        start = started(problem, problem.field, table, rtol, atol, known)
        time = _found(problem, table, start, rtol, atol, known.get("max_num_steps", MOST_STEPS), event_fn)
    settings = {"rtol": rtol, "atol": atol, "method": method, "options": options, **(given or {})}
    ys = solve(func, y0, weft.stack([t[0], time]), **settings)
    there = ys[-1] if problem.alone else tuple(y[-1] for y in ys)
    moved = _rerouted(func, event_fn, time, there, problem.alone)
    parts = [(ys, moved[1])] if problem.alone else zip(ys, moved[1], strict=True)
    stacked = [weft.stack([y[0], end]) for y, end in parts]
    return moved[0], stacked[0] if problem.alone else tuple(stacked)


def _found(
    problem: Problem, table: Any, at: Reached, rtol: float, atol: float, most: int, event_fn: Callable
) -> Tensor:
    """The time of the first change of sign: steps until there is one, then halves of the last step."""

    def sign(s: Tensor, y: Any) -> Tensor:
        value = event_fn(problem.origin + problem.sign * s, y[0] if problem.alone else tuple(y))
        if value.numel() != 1:
            raise ShapeError(f"odeint: event_fn must return one number, got shape {tuple(value.shape)}")
        return value.reshape(()).sign()

    first = sign(at.t1, at.y1)
    going = lambda at: (sign(at.t1, at.y1) == first) & usable(at) & (at.tried < most)
    at = weft.while_loop(going, lambda at: attempt(problem.field, table, at, rtol, atol), at)
    if mode.interpreter is None and bool(sign(at.t1, at.y1) == first):
        raise StateError(f"odeint: event_fn did not change its sign within {most} steps; is it ever 0?")

    def halve(_: Tensor, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        low, high = ends
        middle = 0.5 * (low + high)
        before = sign(middle, between(at, middle)) == first
        return weft.where(before, middle, low), weft.where(before, high, middle)

    low, high = weft.fori_loop(0, HALVINGS, halve, (at.t0, at.t1))
    return problem.origin + problem.sign * 0.5 * (low + high)


def _rerouted(func: Callable, event_fn: Callable, time: Tensor, there: Any, alone: bool) -> tuple[Tensor, Any]:
    """The same time and state with the gradient of the implicit function: a Newton step of size 0."""
    parts = [there] if alone else list(there)
    with weft.no_grad():
        slope = func(time, there)
        slope = [slope] if alone else list(slope)
    with weft.enable_grad():
        t = time.detach().requires_grad_()
        y = [part.detach().requires_grad_() for part in parts]
        value = event_fn(t, y[0] if alone else tuple(y)).reshape(())
        by_t, *by_y = weft.autograd.grad(value, [t, *y], allow_unused=True, materialize_grads=True)
    rate = by_t + sum((g * v).sum() for g, v in zip(by_y, slope, strict=True))
    value = event_fn(time, there).reshape(())
    found = time - (value - value.detach()) / rate.detach()
    shift = found - time
    moved = [part + shift * v for part, v in zip(parts, slope, strict=True)]
    return found, moved[0] if alone else tuple(moved)
