"""RMSprop: gradients divided by their recent root mean square."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft

from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import Group, State, average, average_square, check_options, counter, decayed, learning_rate

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Adagrad with forgetting (N2 §3.4.5; Tieleman and Hinton, 2012), on wish centred and with momentum.

    v ← α v + (1 − α) g²,   d = g / (√v + δ),   b ← μ b + d,   θ ← θ − ε b

    alpha: α, the memory of the average
    momentum: μ
    centered: take √(v − m²) in place of √v, with m the moving average of g

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.RMSprop([w], lr=0.01)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> [round(x, 3) for x in w.tolist()]
    [0.9, -1.9]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        options = dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered, weight_decay=weight_decay)
        flags = dict(capturable=capturable, foreach=foreach, maximize=maximize, differentiable=differentiable)
        super().__init__(params, options | flags)

    def _start(self, parameter: Tensor, group: Group) -> State:
        state = {"step": counter(), "square_avg": weft.zeros_like(parameter)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = weft.zeros_like(parameter)
        if group["centered"]:
            state["grad_avg"] = weft.zeros_like(parameter)
        return state

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        alpha = group["alpha"]
        state["step"].add_(1)
        gradient = decayed(gradient, parameter, group)
        variance = average_square(state["square_avg"], gradient, alpha)
        if group["centered"]:
            mean = average(state["grad_avg"], gradient, alpha)
            variance = variance - mean * mean
        direction = gradient / variance.sqrt().add_(group["eps"])
        if group["momentum"] > 0:
            direction = state["momentum_buffer"].mul_(group["momentum"]).add_(direction)
        parameter.sub_(direction * learning_rate(group))
