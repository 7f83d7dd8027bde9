"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import InvalidValueError
from ..tape.modes import mode
from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import Group, State, check_options, decayed, learning_rate, scatter_sub, sparse_parts

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent on mini-batches (N2 §3.4.1), with momentum μ and dampening τ.

    b ← μ b + (1 − τ) g   (b = g at the first step),   d = g + μ b (Nesterov) or b,   θ ← θ − ε d

    A sparse gradient without momentum and weight decay moves only its own rows.

    momentum: μ; 0 takes the gradient as it is
    dampening: τ
    nesterov: look ahead, d = g + μ b; needs momentum and no dampening

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.SGD([w], lr=0.25, momentum=0.9)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.5, -1.0]
    """

    _as_real = False  # the update is linear: complex numbers need no special care
    _refuses_sparse = None

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise InvalidValueError("Nesterov momentum requires a momentum and zero dampening")
        flags = dict(nesterov=nesterov, maximize=maximize, foreach=foreach, differentiable=differentiable, fused=fused)
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay) | flags)

    def _start(self, parameter: Tensor, group: Group) -> State:
        return {"momentum_buffer": None} if group["momentum"] else {}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        if gradient.is_sparse:
            if not group["momentum"] and not group["weight_decay"]:
                places, values = sparse_parts(gradient)
                scatter_sub(parameter, places, values * learning_rate(group))
                return
            gradient = gradient.to_dense()
        gradient = decayed(gradient, parameter, group)
        if group["momentum"]:
            gradient = self._with_momentum(gradient, state, group)
        parameter.sub_(gradient * learning_rate(group))

    def _with_momentum(self, gradient: Tensor, state: State, group: Group) -> Tensor:
        momentum, buffer = group["momentum"], state.get("momentum_buffer")
        if buffer is None and mode.interpreter is not None and not group["dampening"]:
            buffer = state["momentum_buffer"] = mode.interpreter.zeros(gradient)  # the first step as any other: μ 0 + g
        if buffer is None:
            buffer = state["momentum_buffer"] = gradient.clone()
        else:
            buffer.mul_(momentum).add_(gradient * (1 - group["dampening"]) if group["dampening"] else gradient)
        return gradient + buffer * momentum if group["nesterov"] else buffer
