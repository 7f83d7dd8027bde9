"""L-BFGS: a quasi-Newton method with limited memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import weft

from ..errors import InvalidValueError, OptionError
from ..tape.modes import enable_grad, no_grad
from ..tensor import Tensor
from .line_search import Point, strong_wolfe
from .optimizer import Optimizer
from .rules import Group, State, check_options

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Newton's method with the inverse Hessian H estimated from the last steps s and changes of gradient y.

    θ ← θ + t d,   d = −H g   (two-loop recursion; Nocedal, 1980)

    `step(closure)` calls the closure at least once for each iteration. There is one parameter group, and the state belongs
    to its first parameter.

    lr: t, or where the line search begins
    max_iter: the most iterations of one `step`
    max_eval: the most calls of the closure; None: 1.25 · max_iter
    tolerance_grad: stop when no entry of the gradient is larger
    tolerance_change: stop when a step, or its change of the loss, is smaller
    history_size: how many pairs of s and y are kept
    line_search_fn: None, or 'strong_wolfe', a line search that may be trusted with non-quadratic losses

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (w - weft.tensor([3.0, 4.0])).square().sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item(), [round(x, 4) for x in w.tolist()]
    (40.0, [3.0, 4.0])
    """

    _elementwise = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_options(lr=lr)
        limits = dict(max_iter=max_iter, max_eval=max_iter * 5 // 4 if max_eval is None else max_eval)
        tolerances = dict(tolerance_grad=tolerance_grad, tolerance_change=tolerance_change)
        super().__init__(
            params, dict(lr=lr) | limits | tolerances | dict(history_size=history_size, line_search_fn=line_search_fn)
        )
        if len(self.param_groups) != 1:
            raise InvalidValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Iterate until a limit or a tolerance is met; returns the loss at the start."""
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise OptionError("only 'strong_wolfe' is supported")
        closure = enable_grad()(closure)
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, gradient, calls = float(first_loss), self._flat_gradient(), 1
        state["func_evals"] += 1
        for iteration in range(1, group["max_iter"] + 1):
            if gradient.abs().max() <= group["tolerance_grad"]:
                break
            state["n_iter"] += 1
            _choose_direction(state, gradient, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = gradient.clone(), loss
            state["t"] = _first_length(state, gradient, group)
            slope = float(gradient @ state["d"])
            if slope > -group["tolerance_change"]:
                break
            last = iteration == group["max_iter"]
            point, new_calls = self._move(closure, Point(0.0, loss, gradient, slope), state, group, last)
            loss, gradient = point.value, point.gradient
            calls += new_calls
            state["func_evals"] += new_calls
            if calls >= group["max_eval"] or _stands_still(state, loss, group["tolerance_change"]):
                break
        return first_loss

    def _move(self, closure: Callable, start: Point, state: State, group: Group, last: bool) -> tuple[Point, int]:
        """Go along the direction; where we are then, and how often the closure was called."""
        t, direction = state["t"], state["d"]
        if group["line_search_fn"]:
            origin = [parameter.clone() for parameter in group["params"]]
            reach = float(direction.abs().max())
            search = strong_wolfe(lambda t: self._try(closure, origin, t, direction), start, t, reach)
            state["t"] = search[0].t
            self._go(origin, state["t"], direction)
            return search
        self._go(group["params"], t, direction)
        if last:  # nobody will look at the gradient
            return start, 0
        return Point(t, float(closure()), self._flat_gradient(), 0.0), 1

    def _try(self, closure: Callable, origin: list[Tensor], t: float, direction: Tensor) -> Point:
        self._go(origin, t, direction)
        loss, gradient = float(closure()), self._flat_gradient()
        return Point(t, loss, gradient, float(gradient @ direction))

    def _go(self, origin: list[Tensor], t: float, direction: Tensor) -> None:
        """Put the parameters at origin + t · direction."""
        offset = 0
        for parameter, start in zip(self.param_groups[0]["params"], origin, strict=True):
            target, start = (weft.view_as_real(x) if x.is_complex() else x for x in (parameter, start))
            part = direction[offset : offset + target.numel()].view_as(target)
            target.copy_(start + part * t)
            offset += target.numel()

    def _flat_gradient(self) -> Tensor:
        """The gradients of all parameters in one vector; zeros where there is none."""
        parts = []
        for parameter in self.param_groups[0]["params"]:
            gradient = weft.zeros_like(parameter) if parameter.grad is None else parameter.grad
            gradient = gradient.to_dense() if gradient.is_sparse else gradient
            parts.append((weft.view_as_real(gradient) if gradient.is_complex() else gradient).reshape(-1))
        return weft.cat(parts)


def _first_length(state: State, gradient: Tensor, group: Group) -> float:
    """How far to go at first: ε, and less before anything is known about the curvature."""
    t = float(group["lr"])
    return t * min(1.0, 1.0 / float(gradient.abs().sum())) if state["n_iter"] == 1 else t


def _choose_direction(state: State, gradient: Tensor, history_size: int) -> None:
    """state['d'] = −H g, after the last step has entered the memory."""
    if state["n_iter"] == 1:
        state.update(d=-gradient, old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return
    change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
    curvature = change @ step
    if curvature > 1e-10:
        if len(state["old_dirs"]) == history_size:
            for memory in ("old_dirs", "old_stps", "ro"):
                state[memory].pop(0)
        state["old_dirs"].append(change)
        state["old_stps"].append(step)
        state["ro"].append(1.0 / curvature)
        state["H_diag"] = curvature / (change @ change)
    state["d"] = _two_loops(state, -gradient)


def _two_loops(state: State, vector: Tensor) -> Tensor:
    """H times a vector, with H from the remembered changes and steps and the first guess H_diag · I."""
    memory = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
    weights = []
    for change, step, inverse in reversed(memory):
        weights.append((step @ vector) * inverse)
        vector = vector - change * weights[-1]
    vector = vector * state["H_diag"]
    for (change, step, inverse), weight in zip(memory, reversed(weights), strict=True):
        vector = vector + step * (weight - (change @ vector) * inverse)
    return vector


def _stands_still(state: State, loss: float, tolerance: float) -> bool:
    moved = float((state["d"] * state["t"]).abs().max())
    return moved <= tolerance or abs(loss - state["prev_loss"]) < tolerance
