"""Adadelta: updates in the units of the weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft

from ..errors import InvalidValueError
from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import Group, State, average_square, check_options, counter, decayed, learning_rate

__all__ = ["Adadelta"]


class Adadelta(Optimizer):
    """Adagrad with forgetting, scaled by the size of past updates (N2 §3.4.5; Zeiler, 2012).

    v ← ρ v + (1 − ρ) g²,   Δ = g √(u + δ) / √(v + δ),   u ← ρ u + (1 − ρ) Δ²,   θ ← θ − ε Δ

    rho: ρ, the memory of the two averages

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Adadelta([w])
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> [round(x, 3) for x in w.tolist()]
    [0.997, -1.997]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise InvalidValueError(f"Invalid rho value: {rho}")
        flags = dict(maximize=maximize, capturable=capturable, foreach=foreach, differentiable=differentiable)
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay) | flags)

    def _start(self, parameter: Tensor, group: Group) -> State:
        zeros = weft.zeros_like
        return {"step": counter(), "square_avg": zeros(parameter), "acc_delta": zeros(parameter)}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        rho, eps = group["rho"], group["eps"]
        state["step"].add_(1)
        gradient = decayed(gradient, parameter, group)
        spread = average_square(state["square_avg"], gradient, rho).add(eps).sqrt_()
        delta = (state["acc_delta"] + eps).sqrt_().div_(spread).mul_(gradient)
        average_square(state["acc_delta"], delta, rho)
        parameter.sub_(delta * learning_rate(group))
