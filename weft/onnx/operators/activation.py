"""Activations, and softmax along an axis."""

from __future__ import annotations

import math

import numpy as np

import weft

from ...nn import functional as F
from ...tensor import Tensor
from .registry import rule

__all__ = ["hard_sigmoid"]


@rule("Relu")
def relu(x: Tensor) -> Tensor:
    return F.relu(x)


@rule("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return F.leaky_relu(x, alpha)


@rule("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    return weft.where(x < 0, slope * x, x)


@rule("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.elu(x, alpha)


@rule("Selu")
def selu(x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    return gamma * F.elu(x, alpha)


@rule("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.celu(x, alpha)


@rule("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate=approximate)


@rule("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return weft.clamp(alpha * x + beta, 0, 1)


@rule("HardSwish")
def hard_swish(x: Tensor) -> Tensor:
    return F.hardswish(x)


@rule("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.silu(x) if alpha == 1 else x * weft.sigmoid(alpha * x)


@rule("Mish")
def mish(x: Tensor) -> Tensor:
    return F.mish(x)


@rule("Softplus")
def softplus(x: Tensor) -> Tensor:
    return weft.logaddexp(x, weft.zeros_like(x))


@rule("Softsign")
def softsign(x: Tensor) -> Tensor:
    return F.softsign(x)


@rule("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return weft.where(x > alpha, x, weft.zeros_like(x))


@rule("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    moved = weft.where(x < -lambd, x + bias, weft.where(x > lambd, x - bias, weft.zeros_like(x)))
    return moved.to(x.dtype)


@rule("Softmax", 13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return weft.softmax(x, axis)


@rule("LogSoftmax", 13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return weft.log_softmax(x, axis)


@rule("Hardmax", 13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    places = weft.arange(x.shape[axis]).reshape([-1, *[1] * (x.ndim - 1 - axis % x.ndim)])
    return (x.argmax(axis, keepdim=True) == places).to(x.dtype)


def _as_rows(x: Tensor, axis: int) -> Tensor:
    """Before opset 13 all dimensions from `axis` on are one line."""
    axis %= max(x.ndim, 1)
    return x.reshape(math.prod(x.shape[:axis]), -1)


@rule("Softmax")
def softmax_old(x: Tensor, *, axis: int = 1) -> Tensor:
    return weft.softmax(_as_rows(x, axis), 1).reshape(x.shape)


@rule("LogSoftmax")
def log_softmax_old(x: Tensor, *, axis: int = 1) -> Tensor:
    return weft.log_softmax(_as_rows(x, axis), 1).reshape(x.shape)


@rule("Hardmax")
def hardmax_old(x: Tensor, *, axis: int = 1) -> Tensor:
    return hardmax(_as_rows(x, axis)).reshape(x.shape)


@rule("SwiGLU")
def swiglu(x: Tensor, gate: Tensor | None = None, *, alpha: float = 1.0, axis: int = -1) -> Tensor:
    """swish(a) · b of two tensors, or of the halves of one."""
    a, b = (x, gate) if gate is not None else x.chunk(2, axis)
    return a * weft.sigmoid(alpha * a) * b


@rule("Dropout")
def dropout_old(x: Tensor, *, ratio: float = 0.5, is_test: int = 1, outputs: int = 1) -> tuple[Tensor, ...]:
    return (x, weft.ones_like(x, dtype=weft.bool))[: max(outputs, 1)]


@rule("Dropout", 12, numbers=(1, 2))
def dropout(
    x: Tensor,
    ratio: np.ndarray | None = None,
    training_mode: np.ndarray | None = None,
    *,
    seed: int = 0,
    outputs: int = 1,
) -> tuple[Tensor, ...] | Tensor:
    """x itself, unless training is asked for; the mask says what was kept."""
    p = 0.5 if ratio is None else float(ratio)
    if training_mode is None or not bool(training_mode) or p == 0:
        return (x, weft.ones_like(x, dtype=weft.bool))[:outputs]
    with weft.random.fork_rng():
        weft.manual_seed(seed)
        kept = weft.rand_like(x) >= p
    return (x * kept / (1 - p), kept)[:outputs]
