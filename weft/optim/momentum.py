"""Momentum in the form of the lecture notes: a velocity that carries the learning rate (N2 §3.4.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import weft

from ..tape.modes import enable_grad, no_grad
from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import Group, State, check_options, decayed, learning_rate

__all__ = ["HeavyBall", "Nesterov"]


class HeavyBall(Optimizer):
    """Momentum γ as the velocity of a heavy ball (N2 §3.4.4).

    v ← γ v − ε g,   θ ← θ + v

    While ε stays the same the path is that of SGD(momentum=γ), whose buffer is −v / ε. When a schedule changes ε the
    ball keeps its speed here; there it changes at once. In a constant gradient the speed approaches ε ‖g‖ / (1 − γ).

    momentum: γ

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.HeavyBall([w], lr=0.25)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.5, -1.0]
    """

    _as_real = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0.9,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        check_options(lr=lr, momentum=momentum, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, maximize=maximize))

    def _start(self, parameter: Tensor, group: Group) -> State:
        return {"velocity": weft.zeros_like(parameter)}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        pull = decayed(gradient, parameter, group) * learning_rate(group)
        parameter.add_(state["velocity"].mul_(group["momentum"]).sub_(pull))


class Nesterov(Optimizer):
    """Nesterov's momentum: the gradient is taken where the velocity is about to lead (N2 §3.4.4).

    v ← γ v − ε ∇J(θ + γ v),   θ ← θ + v

    `step` needs a closure, which it calls at θ + γ v. The points θ + γ v are the iterates of
    SGD(momentum=γ, nesterov=True) while ε stays the same.

    momentum: γ

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Nesterov([w], lr=0.25)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = w.square().sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item(), w.tolist()
    (5.0, [0.5, -1.0])
    """

    _as_real = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0.9,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        check_options(lr=lr, momentum=momentum, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, maximize=maximize))

    def _start(self, parameter: Tensor, group: Group) -> State:
        return {"velocity": weft.zeros_like(parameter)}

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Look ahead, take loss and gradient there with `closure`, and move."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter in self.state:
                    parameter.add_(self.state[parameter]["velocity"].mul_(group["momentum"]))
        with enable_grad():
            loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update_one(parameter, parameter.grad, group)
        return loss

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        pull = decayed(gradient, parameter, group) * learning_rate(group)
        state["velocity"].sub_(pull)
        parameter.sub_(pull)
