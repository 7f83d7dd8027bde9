"""Adagrad: learning rates that shrink with the squared gradients seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft

from ..errors import StateError
from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import (
    Group,
    State,
    check_options,
    counter,
    decayed,
    learning_rate,
    number,
    scatter_sub,
    sparse_parts,
)

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    """A learning rate for each weight, smaller where squared gradients summed up (N2 §3.4.5; Duchi et al., 2011).

    r ← r + g²,   θ ← θ − ε_t g / (√r + δ),   ε_t = ε / (1 + (t − 1) · lr_decay)

    A sparse gradient touches only its own rows of r and θ.

    lr_decay: how fast the learning rate falls
    initial_accumulator_value: where r starts

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Adagrad([w], lr=0.25)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, -1.75]
    """

    _refuses_sparse = None

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        first = initial_accumulator_value
        check_options(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=first, eps=eps)
        options = dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay, initial_accumulator_value=first)
        flags = dict(foreach=foreach, maximize=maximize, differentiable=differentiable, fused=fused)
        super().__init__(params, options | flags)

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with options of their own; their state starts at once."""
        super().add_param_group(param_group)
        for parameter in param_group["params"]:
            self.state[parameter] = self._start(parameter, param_group)

    def _start(self, parameter: Tensor, group: Group) -> State:
        first = group["initial_accumulator_value"]
        first = complex(first, first) if parameter.is_complex() else first
        return {"step": counter(), "sum": weft.full_like(parameter, first, requires_grad=False)}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        t = number(state["step"].add_(1))
        rate = learning_rate(group) / (1 + (t - 1) * group["lr_decay"])
        if gradient.is_sparse:
            self._update_rows(parameter, gradient, state["sum"], rate, group)
            return
        gradient = decayed(gradient, parameter, group)
        total = state["sum"].add_(gradient * gradient)
        parameter.sub_((gradient * rate).div_(total.sqrt().add_(group["eps"])))

    def _update_rows(self, parameter: Tensor, gradient: Tensor, total: Tensor, rate: Any, group: Group) -> None:
        if group["weight_decay"]:
            raise StateError("weight_decay option is not compatible with sparse gradients")
        places, values = sparse_parts(gradient)
        total.index_put_(places, values * values, accumulate=True)
        scatter_sub(parameter, places, values * rate / (total[places].sqrt() + group["eps"]))
