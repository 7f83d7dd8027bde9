"""Activation functions, softmax and its relatives, `normalize` and `one_hot`.

Every function is a composite of tensor operations; names ending in `_`, and `inplace=True`, write
into the input. Slopes at kinks are PyTorch's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import weft

from ...dtypes import BOOL, INTEGER, int64
from ...errors import DivisionError, DtypeError, IndexRangeError, InvalidValueError, ShapeError
from ...ops.core.primitive import update, write_out
from ...ops.core.together import with_slope
from ...ops.index.places import check_places
from ...refusal import need_flag
from ...sizes import wrap_dim
from ...tape.interpreter import interpreter_of
from ...tensor import Tensor
from ._common import any_true, log1pexp, pointwise, require_float, require_tensor

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "normalize",
    "one_hot",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "swiglu",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]

SELU_ALPHA = 1.6732632423543772848170429916717  # the fixed point of Klambauer et al. (2017)
SELU_SCALE = 1.0507009873554804934193349852946

# --------------------------------------------------------------------------------- bent straight lines


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0), element by element; the slope at 0 is 0. Shape: any → the same."""
    require_tensor(input, "relu")
    return input.relu_() if need_flag(inplace, "relu", "inplace") else input.relu()


def relu_(input: Tensor) -> Tensor:
    """In-place `relu`."""
    return relu(input, True)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """min(max(x, min_val), max_val); the slope is 1 strictly between the two, else 0. Shape: any → the same."""
    require_tensor(input, "hardtanh")
    if min_val > max_val:
        raise InvalidValueError(f"hardtanh: min_val cannot be greater than max_val, got {min_val} > {max_val}")
    kind = input.dtype
    if kind.is_complex or kind.category == BOOL:
        raise DtypeError(f"hardtanh: {kind} inputs are not supported; convert with .float()")
    if kind.category == INTEGER:
        if min_val < 0 and not kind.is_signed:
            raise DtypeError(f"hardtanh: cannot do hardtanh on the unsigned type {kind} with negative limit {min_val}")
        min_val, max_val = int(min_val), int(max_val)
    if inplace:
        return update(input, hardtanh, (min_val, max_val), {}, "hardtanh_")
    below = weft.where(input <= min_val, min_val, input)
    return weft.where(input >= max_val, max_val, below)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """In-place `hardtanh`."""
    return hardtanh(input, min_val, max_val, True)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6). Shape: any → the same."""
    return hardtanh(input, 0, 6, inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else `value`. Shape: any → the same."""
    require_tensor(input, "threshold")
    if input.is_complex() or input.dtype.category == BOOL:
        raise DtypeError(f"threshold: {input.dtype} inputs are not supported; convert with .float()")
    if input.dtype.category == INTEGER:
        threshold, value = int(threshold), int(value)
    body = lambda x: weft.where(x <= threshold, value, x)
    return update(input, body, (), {}, "threshold_") if inplace else body(input)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """In-place `threshold`."""
    return _threshold(input, threshold, value, True)


_threshold = threshold  # for `threshold_`, whose parameter has the function's own name


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x for x > 0, negative_slope · x below. Shape: any → the same."""
    return pointwise("leaky_relu", input, inplace, lambda x: weft.where(x > 0, x, x * negative_slope))


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """In-place `leaky_relu`."""
    return leaky_relu(input, negative_slope, True)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x for x > 0, a · x below, with one learned slope a, or one for each channel (dimension 1).

    Shape: (N, C, *) with weight (C,) or (1,) → (N, C, *)
    """
    require_tensor(input, "prelu")
    require_tensor(weight, "prelu", "weight")
    require_float(input, "prelu")
    if weight.dtype is not input.dtype:
        raise DtypeError(f"prelu: type promoting not supported, got {input.dtype} and {weight.dtype}; convert one")
    if weight.ndim > 1:
        raise ShapeError(f"prelu: expected `weight` to be a scalar or 1D tensor, got shape {tuple(weight.shape)}")
    if weight.numel() != 1:
        if input.ndim == 0:
            raise ShapeError(f"prelu: a zero-dim input takes one slope, got weight of shape {tuple(weight.shape)}")
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.numel() != channels:
            raise ShapeError(
                f"prelu: mismatch of parameter numbers and input channel size: weight has {weight.numel()}, input of "
                f"shape {tuple(input.shape)} has {channels} channels in dimension 1"
            )
        weight = weight.reshape(-1, *(1,) * (input.ndim - 2))  # (C, 1, …)
    elif weight.ndim > input.ndim:
        weight = weight.reshape(())
    return weft.where(input > 0, input, weight * input)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """x for x > 0, a · x below: a drawn from U(lower, upper) for each element in training, else its mean.

    Shape: any → the same
    """
    if lower > upper:
        raise InvalidValueError(
            f"rrelu: lower bound should be less than or equal to the upper bound, got {lower} > {upper}"
        )
    if not training:
        y = leaky_relu(input, (lower + upper) / 2, inplace)
        return y if inplace else y.contiguous()

    def body(x: Tensor) -> Tensor:
        slope = weft.rand_like(x) * (upper - lower) + lower
        return weft.where(x > 0, x, x * slope)

    y = pointwise("rrelu", input, inplace, body)
    return y if inplace else y.contiguous()


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """In-place `rrelu`."""
    return rrelu(input, lower, upper, training, True)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6. Shape: any → the same."""
    return pointwise("hardsigmoid", input, inplace, lambda x: hardtanh(x + 3, 0, 6) / 6)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · min(max(x + 3, 0), 6) / 6. Shape: any → the same."""
    return pointwise("hardswish", input, inplace, lambda x: x * hardtanh(x + 3, 0, 6) / 6)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x where |x| > lambd, else 0. Shape: any → the same."""
    return pointwise("hardshrink", input, False, lambda x: weft.where((x >= -lambd) & (x <= lambd), 0, x))


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x − lambd for x > lambd, x + lambd for x < −lambd, 0 between. Shape: any → the same."""
    if not lambd >= 0:
        raise InvalidValueError(f"softshrink: lambda must be at least 0, but found {lambd}")
    return pointwise("softshrink", input, False, lambda x: x - x.clamp(-lambd, lambd))


# ---------------------------------------------------------------------------------------- smooth bends


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + e⁻ˣ). Shape: any → the same."""
    return weft.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """(eˣ − e⁻ˣ) / (eˣ + e⁻ˣ). Shape: any → the same."""
    return weft.tanh(input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x for x > 0, α (eˣ − 1) below. Shape: any → the same."""
    return pointwise("elu", input, inplace, lambda x: x.relu() + alpha * x.clamp(max=0).expm1())


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place `elu`."""
    return elu(input, alpha, True)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """λ x for x > 0, λ α (eˣ − 1) below, with α ≈ 1.6733 and λ ≈ 1.0507 that keep mean 0 and variance 1.

    Shape: any → the same
    """

    def body(x: Tensor) -> Tensor:
        return SELU_SCALE * x.relu() + (SELU_SCALE * SELU_ALPHA) * x.clamp(max=0).expm1()

    return pointwise("selu", input, inplace, body)


def selu_(input: Tensor) -> Tensor:
    """In-place `selu`."""
    return selu(input, True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x for x > 0, α (e^(x/α) − 1) below: an `elu` with a continuous slope. Shape: any → the same."""
    if alpha == 0:
        raise DivisionError("celu: alpha cannot be 0 for CELU; take relu instead")
    return pointwise("celu", input, inplace, lambda x: x.relu() + alpha * (x.clamp(max=0) / alpha).expm1())


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place `celu`."""
    return celu(input, alpha, True)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e^(β x)) / β, and x itself where β x > threshold. Shape: any → the same."""

    def body(x: Tensor) -> Tensor:
        scaled = x if beta == 1 else x * beta
        straight = scaled > threshold
        soft = weft.where(straight, 0, scaled).exp().log1p()
        return weft.where(straight, x, soft if beta == 1 else soft / beta)

    return pointwise("softplus", input, False, body, keep=with_slope)


def logsigmoid(input: Tensor) -> Tensor:
    """log(1 / (1 + e⁻ˣ)) = −log(1 + e⁻ˣ), without overflow. Shape: any → the same."""
    return pointwise("logsigmoid", input, False, lambda x: -log1pexp(-x)).contiguous()


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x · σ(x), also called swish. Shape: any → the same."""
    return pointwise("silu", input, inplace, lambda x: x * x.sigmoid(), complex_too=True, keep=with_slope)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · tanh(log(1 + eˣ)). Shape: any → the same."""
    return pointwise("mish", input, inplace, lambda x: x * log1pexp(x).tanh(), keep=with_slope)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x · Φ(x), Φ the distribution function of the standard normal: x/2 · (1 + erf(x/√2)).

    With approximate='tanh': x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))). Shape: any → the same
    """
    if isinstance(approximate, str) and approximate == "none":
        body = lambda x: x * ((x * math.sqrt(0.5)).erf() * 0.5 + 0.5)
        return pointwise("gelu", input, False, body, keep=with_slope)
    if not (isinstance(approximate, str) and approximate == "tanh"):
        raise InvalidValueError(f"gelu: approximate argument must be either none or tanh, got {approximate!r}")

    def body(x: Tensor) -> Tensor:
        inner = x * (x * x * (0.044715 * math.sqrt(2 / math.pi)) + math.sqrt(2 / math.pi))
        return x * (inner.tanh() * 0.5 + 0.5)

    return pointwise("gelu", input, False, body, keep=with_slope)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|). Shape: any → the same."""
    require_tensor(input, "softsign")
    if input.dtype.category == BOOL:
        raise DtypeError('softsign: "abs" not implemented for bool; convert with .float()')
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """x − tanh x. Shape: any → the same."""
    require_tensor(input, "tanhshrink")
    return input - input.tanh()


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a · σ(b), where a and b are the two halves of the input along `dim`.

    Shape: (*, 2n, *) → (*, n, *)
    """
    return _halves_joined("glu", input, dim, lambda value, gate: value * gate.sigmoid())


def swiglu(input: Tensor, dim: int = -1) -> Tensor:
    """silu(a) · b = a σ(a) · b, where a and b are the two halves of the input along `dim` (Shazeer 2020).

    The gate is the first half, as in Llama's layers; `glu` has it second. Shape: (*, 2n, *) → (*, n, *)
    """
    return _halves_joined("swiglu", input, dim, lambda gate, value: gate * gate.sigmoid() * value)


def _halves_joined(name: str, input: Tensor, dim: int, body: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    require_tensor(input, name)
    require_float(input, name)
    if input.ndim == 0:
        raise ShapeError(f"{name}: does not support scalars because halving size must be even")
    dim = wrap_dim(dim, input.ndim, name)
    size = input.shape[dim]
    if size % 2:
        raise ShapeError(
            f"{name}: halving dimension must be even, but dimension {dim} of shape {tuple(input.shape)} is size {size}"
        )
    return pointwise(name, input, False, lambda x: body(*x.split(size // 2, dim)))


# ------------------------------------------------------------------------------ distributions over classes


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(xᵢ) / Σⱼ exp(xⱼ) along `dim`. Shape: any → the same."""
    require_tensor(input, "softmax")
    return input.softmax(_dim_or_guess("softmax", dim, input, _stacklevel), dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """log softmax(x) = xᵢ − log Σⱼ exp(xⱼ) along `dim`, without overflow. Shape: any → the same."""
    require_tensor(input, "log_softmax")
    return input.log_softmax(_dim_or_guess("log_softmax", dim, input, _stacklevel), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax(−x) along `dim`. Shape: any → the same."""
    require_tensor(input, "softmin")
    return (-input).softmax(_dim_or_guess("softmin", dim, input, _stacklevel), dtype=dtype)


def _dim_or_guess(name: str, dim: int | None, input: Tensor, stacklevel: int) -> int:
    """The dimension given, or PyTorch's old guess with its warning."""
    if dim is not None:
        return dim
    warnings.warn(
        f"{name}: implicit dimension choice for {name} has been deprecated; add dim=X as an argument",
        stacklevel=stacklevel,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A differentiable sample of a one-hot vector: softmax((logits + gumbel noise) / τ) along `dim`.

    `hard=True` returns the one-hot vector of the largest entry, with the gradient of the soft sample
    (straight-through). `eps` is accepted for PyTorch's sake and does nothing. Shape: any → the same
    """
    require_tensor(logits, "gumbel_softmax", "logits")
    require_float(logits, "gumbel_softmax")
    uniform = weft.rand_like(logits.detach())
    noise = -(-(-uniform).log1p()).log()  # −log(−log(1 − u)), u in [0, 1)
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one = weft.zeros_like(soft).scatter(dim, index, 1.0)
    return one - soft.detach() + soft


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """x / max(‖x‖ₚ, ε), the norm taken along `dim`. Shape: any → the same."""
    require_tensor(input, "normalize")
    require_float(input, "normalize", complex_too=True)
    result = input / input.norm(p, dim, keepdim=True).clamp(min=eps)
    return result if out is None else write_out(out, result, "normalize")


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Zeros with a 1 at the place that each class number names; num_classes=-1 counts to the largest.

    Shape: (*) of int64 → (*, num_classes) of int64
    """
    require_tensor(tensor, "one_hot", "tensor")
    if tensor.dtype is not int64:
        raise DtypeError(f"one_hot: is only applicable to index tensor of type int64, got {tensor.dtype}; use .long()")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise ShapeError("one_hot: can not infer total number of classes from empty tensor; give num_classes")
    elif num_classes > 0 and interpreter_of(tensor) is not None:
        check_places(tensor, num_classes, -1, "one_hot")
    elif any_true(tensor < 0):
        raise IndexRangeError(f"one_hot: class values must be non-negative, got {int(tensor.min())}")
    elif num_classes == -1:
        num_classes = int(tensor.max()) + 1
    elif num_classes < 1 or any_true(tensor >= num_classes):
        raise IndexRangeError(f"one_hot: class values must be smaller than num_classes={num_classes}")
    return (tensor.unsqueeze(-1) == weft.arange(num_classes)).long().contiguous()
