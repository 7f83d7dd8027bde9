"""Lion: the sign of an interpolated momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft

from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import Group, State, average, check_options, learning_rate, shrink

__all__ = ["Lion"]


class Lion(Optimizer):
    """Every weight moves by ε in the direction of the sign of its momentum (Chen et al., 2023).

    θ ← (1 − ε λ) θ − ε sign(β₁ m + (1 − β₁) g),   m ← β₂ m + (1 − β₂) g

    One state tensor, half of Adam's; learning rates 3 to 10 times smaller than Adam's.

    betas: β₁, how much of the momentum makes the direction, and β₂, its memory
    weight_decay: λ, which acts on the weights

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Lion([w], lr=0.25)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, -1.75]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        check_options(lr=lr, betas=betas, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    def _start(self, parameter: Tensor, group: Group) -> State:
        return {"exp_avg": weft.zeros_like(parameter)}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        beta1, beta2 = group["betas"]
        shrink(parameter, group)
        direction = (state["exp_avg"] * beta1).add_(gradient * (1 - beta1)).sign_()
        parameter.sub_(direction.mul_(learning_rate(group)))
        average(state["exp_avg"], gradient, beta2)
