"""Muon: momentum made orthogonal by Newton–Schulz iterations, for weight matrices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft

from ..errors import InvalidValueError
from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import Group, State, average, check_options, learning_rate, shrink

__all__ = ["Muon"]


class Muon(Optimizer):
    """All singular values of the update of a matrix become about 1 (Jordan et al., 2024).

    B ← μ B + (1 − μ) G,   M = (1 − μ) G + μ B (Nesterov) or B,   θ ← (1 − ε λ) θ − ε s · orthogonal(M)
    s = √max(1, n/m) ('original') or 0.2 √max(n, m) ('match_rms_adamw') for θ of shape (n, m)

    Where PyTorch iterates in bfloat16, this computes in the type of the parameter.

    params: matrices; vectors and embeddings belong to another optimiser, such as `AdamW`
    weight_decay: λ, which acts on the weights
    momentum: μ
    nesterov: whether M looks ahead
    ns_coefficients: of the polynomial a X + b X Xᵀ X + c (X Xᵀ)² X that is iterated
    eps: the least norm that M is divided by before the iteration
    ns_steps: how often it is iterated
    adjust_lr_fn: which s: None or 'original', or 'match_rms_adamw', with which Adam's learning rates can be kept

    >>> w = weft.eye(3, requires_grad=True)
    >>> optimizer = optim.Muon([w], lr=0.1, weight_decay=0.0)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> bool((w.diagonal() < 0.95).all())
    True
    """

    _elementwise = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_options(tensor_lr=lr)
        for name, value in {"Learning rate": lr, "momentum": momentum, "weight decay": weight_decay}.items():
            if not 0.0 <= value:
                raise InvalidValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise InvalidValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        iteration = dict(ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps, adjust_lr_fn=adjust_lr_fn)
        super().__init__(
            params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov) | iteration
        )
        for parameter in self._parameters():
            if parameter.ndim != 2:
                raise InvalidValueError(
                    f"Muon only supports 2D parameters whereas we found a parameter with size: {parameter.shape}"
                )

    def _start(self, parameter: Tensor, group: Group) -> State:
        return {"momentum_buffer": weft.zeros_like(parameter)}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        momentum = group["momentum"]
        mean = average(state["momentum_buffer"], gradient, momentum)
        if group["nesterov"]:
            mean = gradient * (1 - momentum) + mean * momentum
        update = orthogonalised(mean, group["ns_coefficients"], group["ns_steps"], group["eps"])
        shrink(parameter, group)
        parameter.sub_(update.mul_(learning_rate(group) * _scale(parameter, group["adjust_lr_fn"])))


def _scale(parameter: Tensor, rule: str | None) -> float:
    rows, columns = parameter.shape
    return 0.2 * max(rows, columns) ** 0.5 if rule == "match_rms_adamw" else max(1, rows / columns) ** 0.5


def orthogonalised(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """About U Vᵀ for `matrix` = U Σ Vᵀ, by the iteration X ← a X + (b A + c A²) X with A = X Xᵀ, from X / ‖X‖.

    Shape: (n, m) → (n, m)
    """
    if steps >= 100:
        raise InvalidValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise InvalidValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.mT if tall else matrix
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = x * a + (gram * b + gram @ gram * c) @ x
    return x.mT if tall else x
