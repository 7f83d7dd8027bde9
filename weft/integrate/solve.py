"""`odeint`: the door, and the two ways to go from one asked time to the next, by fixed steps and by chosen ones.

All loops are `scan`, `fori_loop` and `while_loop`: inside of `weft.compile` a solution is part of the plan, adaptive
steps included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ..errors import ArgumentError, DtypeError, OptionError, ShapeError, StateError
from ..tape.modes import mode
from ..tensor import Tensor
from .steps import Field, Reached, State, attempt, between, first_step, fixed_step
from .tableaus import Tableau, method_named

__all__ = ["odeint"]

OPTIONS = ("first_step", "max_num_steps", "num_steps", "step_size")


def odeint(
    func: Callable[[Tensor, Any], Any],
    y0: Any,
    t: Tensor,
    *,
    rtol: float = 1e-7,
    atol: float = 1e-9,
    method: str | None = None,
    options: dict[str, Any] | None = None,
    event_fn: Callable[[Tensor, Any], Tensor] | None = None,
) -> Any:
    """y at the times t, where dy/dt = func(t, y) and y(t[0]) = y0: (T, *y0), or a tuple of them for a tuple of tensors.

    t: times that rise, or fall; method: "dopri5" (the default), "bosh3", "adaptive_heun" with steps chosen so that each
    has an error below atol + rtol |y|; "euler", "midpoint", "heun", "rk4" with fixed ones
    options: first_step, the first step tried; max_num_steps between two times; step_size of fixed steps, or num_steps
        between two times (1), which needs no look at t
    event_fn: see `odeint_event`; the solution then goes on until event_fn(t, y) changes its sign, and what comes back is
        the time and (y0, y there); t[1] says in which direction

    Gradients go through the steps, by any order; of compiled adaptive steps only with max_num_steps, since a loop of
    unknown length runs forward only (or by `odeint_adjoint`, which stores nothing).

    >>> odeint(lambda t, y: -y, weft.tensor([1.0]), weft.tensor([0.0, 1.0]), rtol=1e-5, atol=1e-7)
    tensor([[1.0000],
            [0.3679]])
    """
    if event_fn is not None:
        from .events import until_event

        return until_event(func, y0, t, rtol, atol, method, options, event_fn)
    table, options = method_named(method), checked(options)
    problem = Problem(func, y0, t)
    if len(t) == 1:
        return problem.result([y.unsqueeze(0) for y in problem.start])
    if table.adaptive:
        ys = _adaptive(problem, table, rtol, atol, options)
    else:
        ys = _fixed(problem, table, options)
    return problem.result([weft.cat([first.unsqueeze(0), y]) for first, y in zip(problem.start, ys, strict=True)])


class Problem:
    """A differential equation as the solvers see it: lists of tensors, and time s = ±(t − t₀) that rises from 0."""

    def __init__(self, func: Callable, y0: Any, t: Tensor) -> None:
        self.alone = not isinstance(y0, (tuple, list))
        self.start: State = [y0] if self.alone else list(y0)
        _check(self.start, t)
        self.func, self.origin, kind = func, t[0], t.dtype
        step = t[1] - t[0] if len(t) > 1 else t[0] * 0 + 1
        self.sign = weft.where(step < 0, -1, 1).to(kind).detach()
        self.times = (t - t[0]) * self.sign
        if mode.interpreter is None and len(t) > 1 and not bool((self.times.detach().diff() > 0).all()):
            raise OptionError(f"odeint: times must rise or fall strictly, got {t.tolist()}")

    def field(self, s: Tensor, y: State) -> State:
        """dy/ds"""
        found = self.func(self.origin + self.sign * s, y[0] if self.alone else tuple(y))
        found = [found] if self.alone else list(found)
        for got, like in zip(found, y, strict=True):
            if got.shape != like.shape or got.dtype is not like.dtype:
                raise ShapeError(
                    f"odeint: func must return what y is, {tuple(like.shape)} of {like.dtype}; got {tuple(got.shape)} "
                    f"of {got.dtype}"
                )
        return [self.sign.to(v.dtype) * v for v in found]

    def result(self, ys: State) -> Any:
        return ys[0] if self.alone else tuple(ys)


def started(
    problem: Problem, field: Field, table: Tableau, rtol: float, atol: float, options: dict[str, Any]
) -> Reached:
    """At the first time, with a first step."""
    zero, y = problem.times[0] * 0, problem.start
    slope = field(zero, y)
    first = options.get("first_step")
    dt = first_step(field, table, zero, y, slope, rtol, atol) if first is None else weft.full_like(zero, first)
    return Reached(zero, zero, y, y, y, slope, slope, dt.to(zero.dtype), weft.zeros((), dtype=weft.int64))


def _adaptive(problem: Problem, table: Tableau, rtol: float, atol: float, options: dict[str, Any]) -> State:
    field, most = problem.field, options.get("max_num_steps")
    step = lambda at: attempt(field, table, at, rtol, atol)

    def to(at: Reached, goal: Tensor) -> tuple[Reached, State]:
        at = at._replace(tried=at.tried * 0)
        going = lambda at: (at.t1 < goal) & usable(at) & (at.tried < (2**31 - 1 if most is None else most))
        if most is not None and mode.interpreter is not None and mode.grad:
            at = weft.fori_loop(0, most, lambda _, at: weft.cond(going(at), lambda: step(at), lambda: at), at)
        else:
            at = weft.while_loop(going, step, at)
        return at, reached_or_refused(at, goal, between(at, goal))

    start = started(problem, field, table, rtol, atol, options)
    return weft.scan(to, start, problem.times[1:])[1]


def usable(at: Reached) -> Tensor:
    """Whether the next step still moves time."""
    return (at.t1 + at.dt > at.t1) & at.dt.isfinite()


def reached_or_refused(at: Reached, goal: Tensor, y: State) -> State:
    """The solution, if it got there; otherwise an error, or NaN where a plan cannot raise one."""
    there = at.t1 >= goal
    if mode.interpreter is None and not bool(there):
        why = "its steps became too small" if not bool(usable(at)) else "it needs more steps than max_num_steps"
        raise StateError(
            f"odeint: stopped at {at.t1.item():.6g} of {goal.item():.6g} after {int(at.tried)} steps: {why}; the "
            "solution may grow without bounds or be stiff: loosen rtol and atol, or look at func"
        )
    return [weft.where(there, part, math.nan) for part in y]


def _fixed(problem: Problem, table: Tableau, options: dict[str, Any]) -> State:
    count = options.get("num_steps", 1)
    if "step_size" in options:
        gaps = problem.times.detach().diff().tolist()
        return _uneven(problem, table, [max(1, math.ceil(gap / options["step_size"] - 1e-6)) for gap in gaps])

    def to(state: tuple[Tensor, State], goal: Tensor) -> tuple[tuple[Tensor, State], State]:
        y = _walked(problem.field, table, state[0], state[1], goal, count)
        return (goal, y), y

    return weft.scan(to, (problem.times[0] * 0, problem.start), problem.times[1:])[1]


def _uneven(problem: Problem, table: Tableau, counts: Sequence[int]) -> State:
    """As many equal steps as each interval needs."""
    y, found = problem.start, []
    for number, count in enumerate(counts):
        y = _walked(problem.field, table, problem.times[number], y, problem.times[number + 1], count)
        found.append(y)
    return [weft.stack(column) for column in zip(*found, strict=True)]


def _walked(field: Field, table: Tableau, start: Tensor, y: State, goal: Tensor, count: int) -> State:
    dt = (goal - start) / count
    if count == 1:
        return fixed_step(field, table, start, y, dt)
    return weft.fori_loop(0, count, lambda i, y: fixed_step(field, table, start + i.to(dt.dtype) * dt, y, dt), y)


def checked(options: dict[str, Any] | None) -> dict[str, Any]:
    """Known options with values that make sense."""
    options = dict(options or {})
    for name, value in options.items():
        if name not in OPTIONS:
            raise OptionError(f"odeint: options are {', '.join(OPTIONS)}; got {name!r}")
        if not value > 0:
            raise OptionError(f"odeint: option {name} must be above 0, got {value}")
    return options


def _check(start: State, t: Tensor) -> None:
    if not isinstance(t, Tensor) or not all(isinstance(y, Tensor) for y in start):
        raise ArgumentError("odeint: y0 is a tensor or a tuple of tensors, t a tensor of times")
    if t.ndim != 1 or not len(t):
        raise ShapeError(f"odeint: expected times of shape (T,), got {tuple(t.shape)}")
    for x in (*start, t):
        if not x.is_floating_point():
            raise DtypeError(f"odeint: y0 and t must be real numbers, got {x.dtype}; write .float()")
