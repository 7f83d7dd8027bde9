"""Adafactor: second moments of matrices from their row and column means alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft

from ..errors import InvalidValueError, StateError
from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import (
    Group,
    State,
    at_least,
    average,
    average_square,
    check_options,
    choose,
    counter,
    learning_rate,
    number,
)

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Adaptive learning rates with memory for a row and a column of each matrix (Shazeer and Stern, 2018).

    For G of shape (*, n, m), with β_t = 1 − t^τ:
    R ← β_t R + (1 − β_t) mean_m G²,   C ← β_t C + (1 − β_t) mean_n G²,   V = R C / max(mean_n R, δ₁)
    U = G / √max(V, δ₁²),   θ ← (1 − ε λ) θ − max(δ₂, RMS θ) · min(ε, 1/√t) · U / max(1, RMS U / d)
    Vectors keep all of V.

    beta2_decay: τ, below 0
    eps: δ₁ and δ₂; δ₁ = None is the machine epsilon of the parameter
    d: the largest root mean square of an update
    weight_decay: λ, which acts on the weights

    >>> w = weft.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Adafactor([w], lr=0.25)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> [round(x, 3) for x in w.tolist()]
    [0.605, -1.605]
    """

    _elementwise = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_options(tensor_lr=lr)
        _check(0.0 <= lr, f"Learning rate should be >= 0 but is: {lr}")
        _check(beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        _check(eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}")
        _check(eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}")
        _check(d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}")
        _check(weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}")
        options = dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay)
        super().__init__(params, options | dict(foreach=foreach, maximize=maximize))

    def _start(self, parameter: Tensor, group: Group) -> State:
        if parameter.is_complex():
            raise StateError("Adafactor does not support complex parameters")
        if parameter.ndim < 2:
            return {"step": counter(), "variance": weft.zeros_like(parameter)}
        rows = weft.zeros_like(parameter[..., :1])  # (*, n, 1)
        columns = weft.zeros_like(parameter[..., :1, :])  # (*, 1, m)
        return {"step": counter(), "row_var": rows, "col_var": columns}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        small, smallest_scale = group["eps"]
        small = weft.finfo(parameter.dtype).eps if small is None else small
        lr, t = learning_rate(group), number(state["step"].add_(1))
        scale = at_least(smallest_scale, _root_mean_square(parameter)) * _smaller(lr, t**-0.5)
        if group["weight_decay"]:
            parameter.mul_(1 - lr * group["weight_decay"])
        variance = _second_moment(gradient, state, 1 - t ** group["beta2_decay"], small)
        update = gradient * variance.clamp(min=small * small).rsqrt_()
        parameter.sub_(update.mul_(scale / at_least(1.0, _root_mean_square(update) / group["d"])))


def _second_moment(gradient: Tensor, state: State, keep: Any, small: float) -> Tensor:
    """The estimate V of the mean squared gradient, and its parts in `state` brought up to date."""
    if "variance" in state:
        return average_square(state["variance"], gradient, keep)
    square = gradient * gradient
    rows = average(state["row_var"], square.mean(-1, keepdim=True), keep)  # (*, n, 1)
    columns = average(state["col_var"], square.mean(-2, keepdim=True), keep)  # (*, 1, m)
    return (rows @ columns).div_(rows.mean(-2, keepdim=True).clamp(min=small))


def _root_mean_square(x: Tensor) -> Any:
    return number(x.norm() / x.numel() ** 0.5)


def _smaller(a: Any, b: Any) -> Any:
    return choose(a < b, a, b)


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidValueError(message)
