"""Relatives of Adam: Adamax (largest gradient), NAdam (Nesterov's momentum), RAdam (rectified start)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft

from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import (
    Group,
    State,
    average,
    average_square,
    check_options,
    choose,
    counter,
    decayed,
    learning_rate,
    number,
    shrink,
)

__all__ = ["Adamax", "NAdam", "RAdam"]


class Adamax(Optimizer):
    """Adam with the (forgetting) largest gradient in place of the root mean square (Kingma and Ba, 2015).

    m ← β₁ m + (1 − β₁) g,   u ← max(β₂ u, |g| + δ),   θ ← θ − ε / (1 − β₁ᵗ) · m / u

    betas: β₁ and β₂

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Adamax([w], lr=0.25)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, -1.75]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        flags = dict(foreach=foreach, maximize=maximize, differentiable=differentiable, capturable=capturable)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay) | flags)

    def _start(self, parameter: Tensor, group: Group) -> State:
        zeros = weft.zeros_like
        return {"step": counter(), "exp_avg": zeros(parameter), "exp_inf": zeros(parameter)}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        beta1, beta2 = group["betas"]
        t = number(state["step"].add_(1))
        gradient = decayed(gradient, parameter, group)
        mean = average(state["exp_avg"], gradient, beta1)
        largest = state["exp_inf"]
        largest.copy_(weft.maximum(largest.mul_(beta2), gradient.abs().add_(group["eps"])))
        parameter.sub_((mean / largest).mul_(learning_rate(group) / (1 - beta1**t)))


class NAdam(Optimizer):
    """Adam with Nesterov's momentum, which warms up (Dozat, 2016).

    μ_t = β₁ (1 − ½ · 0.96^(t ψ)),   P_t = μ₁ … μ_t,   s = √(v / (1 − β₂ᵗ)) + δ
    θ ← θ − ε [ (1 − μ_t) / (1 − P_t) · g + μ_{t+1} / (1 − P_{t+1}) · m ] / s

    betas: β₁ and β₂, the memory of the averages m of g and v of g²
    momentum_decay: ψ
    decoupled_weight_decay: let the decay act on the weights, as in `AdamW`

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.NAdam([w], lr=0.25)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> [round(x, 3) for x in w.tolist()]
    [0.736, -1.736]
    """

    _counters = ("step", "mu_product")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay, momentum_decay=momentum_decay)
        options = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        flags = dict(maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable)
        super().__init__(params, options | dict(decoupled_weight_decay=decoupled_weight_decay) | flags)

    def _start(self, parameter: Tensor, group: Group) -> State:
        averages = {"exp_avg": weft.zeros_like(parameter), "exp_avg_sq": weft.zeros_like(parameter)}
        return {"step": counter(), "mu_product": counter(1.0)} | averages

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        (beta1, beta2), lr = group["betas"], learning_rate(group)
        t = number(state["step"].add_(1))
        if group["decoupled_weight_decay"]:
            shrink(parameter, group)
        else:
            gradient = decayed(gradient, parameter, group)
        now, soon = (beta1 * (1 - 0.5 * 0.96 ** (u * group["momentum_decay"])) for u in (t, t + 1))
        product = number(state["mu_product"].mul_(now))
        mean = average(state["exp_avg"], gradient, beta1)
        square = average_square(state["exp_avg_sq"], gradient, beta2)
        spread = (square / (1 - beta2**t)).sqrt_().add_(group["eps"])
        ahead = gradient * ((1 - now) / (1 - product))
        ahead.add_(mean * (soon / (1 - product * soon)))
        parameter.sub_(ahead.div_(spread).mul_(lr))


class RAdam(Optimizer):
    """Adam that waits until the variance of its learning rate is finite (Liu et al., 2020).

    ρ_∞ = 2 / (1 − β₂) − 1,   ρ_t = ρ_∞ − 2 t β₂ᵗ / (1 − β₂ᵗ),   m̂ = m / (1 − β₁ᵗ)
    ρ_t > 5:  θ ← θ − ε m̂ r_t √(1 − β₂ᵗ) / (√v + δ),   r_t² = (ρ_t−4)(ρ_t−2) ρ_∞ / ((ρ_∞−4)(ρ_∞−2) ρ_t)
    else:     θ ← θ − ε m̂

    betas: β₁ and β₂, the memory of the averages m of g and v of g²
    decoupled_weight_decay: let the decay act on the weights, as in `AdamW`

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.RAdam([w], lr=0.25)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.5, -1.0]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        options = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize, foreach=foreach)
        flags = dict(
            capturable=capturable, decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable
        )
        super().__init__(params, options | flags)

    def _start(self, parameter: Tensor, group: Group) -> State:
        zeros = weft.zeros_like
        return {"step": counter(), "exp_avg": zeros(parameter), "exp_avg_sq": zeros(parameter)}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        beta1, beta2 = group["betas"]
        t = number(state["step"].add_(1))
        if group["decoupled_weight_decay"]:
            shrink(parameter, group)
        else:
            gradient = decayed(gradient, parameter, group)
        mean = average(state["exp_avg"], gradient, beta1)
        square = average_square(state["exp_avg_sq"], gradient, beta2)
        trusted, rectified = _rectification(beta2, t)
        scale = choose(trusted, rectified / square.sqrt().add_(group["eps"]), 1.0)
        parameter.sub_(mean * scale * (learning_rate(group) / (1 - beta1**t)))


def _rectification(beta2: float, t: Any) -> tuple[Any, Any]:
    """Whether ρ_t > 5, and r_t √(1 − β₂ᵗ)."""
    correction = 1 - beta2**t
    most = 2 / (1 - beta2) - 1
    rho = most - 2 * t * beta2**t / correction
    trusted = rho > 5
    rho, most = choose(trusted, rho, 5.0), max(most, 5.0)  # where it is not trusted any number will do
    squared = (rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho)
    return trusted, (squared * correction) ** 0.5
