"""Adam and AdamW: momentum and a learning rate for each weight together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft

from ..errors import InvalidValueError
from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import Group, State, average, average_square, check_options, counter, decayed, learning_rate, number, shrink

__all__ = ["Adam", "AdamW"]


class _AdamBase(Optimizer):
    """The update that Adam and AdamW share.

    betas: β₁ and β₂, the memory of the two averages; 0 forgets at once, 1 never
    amsgrad: use the largest v so far (Reddi et al., 2018)
    """

    _refuses_sparse = "Adam does not support sparse gradients, please consider SparseAdam instead"

    def __init__(self, params: Iterable[Any], options: dict[str, Any]) -> None:
        betas = options["betas"]
        check_options(lr=options["lr"], eps=options["eps"], betas=betas, weight_decay=options["weight_decay"])
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise InvalidValueError("betas must be either both floats or both Tensors")
        super().__init__(params, options)

    def _start(self, parameter: Tensor, group: Group) -> State:
        zeros = weft.zeros_like
        state = {"step": counter(), "exp_avg": zeros(parameter), "exp_avg_sq": zeros(parameter)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros(parameter)
        return state

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        beta1, beta2 = group["betas"]
        t = number(state["step"].add_(1))
        if group["decoupled_weight_decay"]:
            shrink(parameter, group)
        else:
            gradient = decayed(gradient, parameter, group)
        mean = average(state["exp_avg"], gradient, beta1)
        square = average_square(state["exp_avg_sq"], gradient, beta2)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"].copy_(weft.maximum(state["max_exp_avg_sq"], square))
        spread = square.sqrt().mul_((1 - beta2**t) ** -0.5).add_(group["eps"])
        parameter.sub_((mean / spread).mul_(learning_rate(group) / (1 - beta1**t)))


class Adam(_AdamBase):
    """Moving averages of the gradient and of its square, corrected for their start at zero (Kingma and Ba, 2015).

    m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   θ ← θ − ε · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + δ)

    N2 §3.4.6.

    decoupled_weight_decay: let the decay act on the weights, which makes it `AdamW`

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Adam([w], lr=0.25)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, -1.75]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        options = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize)
        flags = dict(foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused)
        super().__init__(params, options | flags | dict(decoupled_weight_decay=decoupled_weight_decay))


class AdamW(_AdamBase):
    """Adam whose weight decay acts on the weights, not through the gradient (Loshchilov and Hutter, 2019).

    θ ← (1 − ε λ) θ, then Adam's step with λ = 0

    weight_decay: λ

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.AdamW([w], lr=0.25, weight_decay=0.0)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, -1.75]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        options = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize)
        flags = dict(foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused)
        super().__init__(params, options | flags | dict(decoupled_weight_decay=True))
