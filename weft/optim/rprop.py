"""Resilient back-propagation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft

from ..errors import InvalidValueError
from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import Group, State, check_options, counter

__all__ = ["Rprop"]


class Rprop(Optimizer):
    """Each weight has a step size of its own; only the sign of the gradient counts (Riedmiller and Braun, 1993).

    Δ ← Δ η₊ where g keeps its sign, Δ η₋ where it changes (there g counts as 0), held within bounds;
    θ ← θ − Δ sign g. For full batches: noise turns signs.

    lr: the Δ to start with
    etas: η₋ and η₊
    step_sizes: the smallest and the largest Δ

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Rprop([w], lr=0.25)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, -1.75]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise InvalidValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        flags = dict(foreach=foreach, maximize=maximize, differentiable=differentiable, capturable=capturable)
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes) | flags)

    def _start(self, parameter: Tensor, group: Group) -> State:
        lr = float(group["lr"])
        size = weft.full_like(parameter, complex(lr, lr) if parameter.is_complex() else lr)
        return {"step": counter(), "prev": weft.zeros_like(parameter), "step_size": size}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        (shrinking, growing), (smallest, largest) = group["etas"], group["step_sizes"]
        state["step"].add_(1)
        agreement = gradient * state["prev"]
        turned = agreement < 0
        factor = weft.ones_like(parameter).masked_fill_(turned, shrinking).masked_fill_(agreement > 0, growing)
        size = state["step_size"].mul_(factor).clamp_(smallest, largest)
        gradient = gradient.masked_fill(turned, 0.0)
        parameter.sub_(gradient.sign() * size)
        state["prev"].copy_(gradient)
