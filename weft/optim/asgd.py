"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft

from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import Group, State, at_least, check_options, counter, decayed, learning_rate, number

__all__ = ["ASGD"]


class ASGD(Optimizer):
    """SGD that keeps the average of its iterates from step t₀ on (Polyak and Juditsky, 1992).

    θ ← (1 − λ η_t) θ − η_t g,   η_t = ε / (1 + λ ε t)^α,   a ← a + μ_t (θ − a),   μ_t = 1 / max(1, t − t₀)

    The average a is state 'ax'.

    lambd: λ, which pulls towards 0 and slows down (`lambda` is a word of Python's)
    alpha: α, the power with which the step η falls
    t0: t₀
    weight_decay: the factor of θ that is added to the gradient, beside λ

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.ASGD([w], lr=0.25)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> [round(x, 3) for x in w.tolist()]
    [0.5, -1.0]
    """

    _counters = ("step", "eta", "mu")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, weight_decay=weight_decay)
        flags = dict(foreach=foreach, maximize=maximize, differentiable=differentiable, capturable=capturable)
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay) | flags)

    def _start(self, parameter: Tensor, group: Group) -> State:
        eta = counter(float(group["lr"]))
        return {"step": counter(), "eta": eta, "mu": counter(1.0), "ax": weft.zeros_like(parameter)}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        gradient = decayed(gradient, parameter, group)
        lr, decay, eta, mean = learning_rate(group), group["lambd"], number(state["eta"]), state["ax"]
        parameter.mul_(1 - decay * eta).sub_(gradient * eta)
        mean.lerp_(parameter, number(state["mu"]))
        t = number(state["step"].add_(1))
        state["eta"].fill_(lr / (1 + decay * lr * t) ** group["alpha"])
        state["mu"].fill_(1 / at_least(1.0, t - group["t0"]))
