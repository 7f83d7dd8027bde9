"""Initial values of parameters: the distributions of `torch.nn.init`, and the rules of the lecture notes.

Every function writes into its first argument without recording, and returns it. For a weight of shape
(out, in, k₁, …): fan_in = in · k₁ · …, fan_out = out · k₁ · … .
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import weft

from ..errors import ArgumentError, InvalidValueError
from ..refusal import reword
from ..runtime.lazy import later as _later
from ..tape.modes import no_grad
from ..tensor import Tensor
from .parameter import is_lazy

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "fan_in_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "lsuv_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sign_constant_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_skipping: ContextVar[bool] = ContextVar("skipping", default=False)  # models that other threads build are not touched


@contextlib.contextmanager
def skipping() -> Iterator[None]:
    """Inside, the functions of this file leave their arguments as they are (`nn.utils.skip_init`)."""
    before = _skipping.set(True)
    try:
        yield
    finally:
        _skipping.reset(before)


def initializer(fill: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Run `fill` without recording; tensors without elements and skipped ones come back as they are."""

    @functools.wraps(fill)
    def initialize(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if _skipping.get():
            return tensor
        try:
            if tensor.numel() == 0 and not is_lazy(tensor):
                warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
                return tensor
            with no_grad():
                return fill(tensor, *args, **kwargs)
        except Exception as error:
            reword(error, f"init.{fill.__name__}", (tensor, *args), kwargs)
            raise

    return initialize


# ------------------------------------------------------------------------------------------- sizes and gains

_GAINS: dict[str, float] = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d"), 1.0),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"), 1.0),
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
    "selu": 3 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much weights must grow to make up for the nonlinearity: √2 for ReLU, √(2 / (1 + a²)) for leaky ReLU."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise InvalidValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise InvalidValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs one output of a weight (out, in, *kernel) sees, and how many outputs one input reaches."""
    if tensor.ndim < 2:
        raise InvalidValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    fans = dict(zip(("fan_in", "fan_out"), _calculate_fan_in_and_fan_out(tensor), strict=True))
    if str(mode).lower() not in fans:
        raise InvalidValueError(f"Mode {mode} not supported, please use one of {list(fans)}")
    return fans[mode.lower()]


# ------------------------------------------------------------------------------------------- plain distributions


@initializer
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """w ~ U(a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@initializer
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """w ~ N(mean, std²)."""
    return tensor.normal_(mean, std, generator=generator)


@initializer
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """w ~ N(mean, std²) given a ≤ w ≤ b: w = mean + std √2 erf⁻¹(u), u uniform between the values at a and b."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=3,
        )
    low, high = (math.erf((edge - mean) / (std * math.sqrt(2))) for edge in (a, b))
    u = weft.empty(tensor.shape, dtype=weft.float64).uniform_(low, high, generator=generator)
    return tensor.copy_((u.erfinv() * (std * math.sqrt(2)) + mean).clamp(a, b))


@initializer
def constant_(tensor: Tensor, val: float) -> Tensor:
    """w = val."""
    return tensor.fill_(val)


@initializer
def ones_(tensor: Tensor) -> Tensor:
    """w = 1."""
    return tensor.fill_(1.0)


@initializer
def zeros_(tensor: Tensor) -> Tensor:
    """w = 0."""
    return tensor.fill_(0.0)


@initializer
def sign_constant_(tensor: Tensor, val: float = 0.1, generator: Any = None) -> Tensor:
    """w = +val or −val with equal probability: the first of the three small random schemes of N1 §1.6.1."""
    return tensor.bernoulli_(0.5, generator=generator).mul_(2 * val).sub_(val)


# ------------------------------------------------------------------------------------------- scaled by the fan


@initializer
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """w ~ U(−a, a), a = gain · √(6 / (fan_in + fan_out)): keeps the variance of signals and of gradients."""
    bound = gain * math.sqrt(6 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return tensor.uniform_(-bound, bound, generator=generator)


@initializer
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """w ~ N(0, σ²), σ = gain · √(2 / (fan_in + fan_out))."""
    std = gain * math.sqrt(2 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return tensor.normal_(0.0, std, generator=generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


@initializer
def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """w ~ U(−b, b), b = gain · √(3 / fan): the variance survives layers with this nonlinearity (N2 §3.8.3)."""
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor.uniform_(-bound, bound, generator=generator)


@initializer
def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """w ~ N(0, σ²), σ = gain / √fan."""
    return tensor.normal_(0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator=generator)


@initializer
def fan_in_(tensor: Tensor, generator: Any = None) -> Tensor:
    """w ~ U(−1/√n, 1/√n) with n = fan_in, the number of neurons of the layer before (N1 definition 1.8)."""
    bound = 1 / math.sqrt(_calculate_fan_in_and_fan_out(tensor)[0])
    return tensor.uniform_(-bound, bound, generator=generator)


# ------------------------------------------------------------------------------------------- structured


@initializer
def eye_(tensor: Tensor) -> Tensor:
    """w = I, so that a linear layer passes on what it gets."""
    if tensor.ndim != 2:
        raise InvalidValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(weft.eye(*tensor.shape, dtype=tensor.dtype))


@initializer
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A delta in the middle of the kernel, so that a convolution (of each group) passes on its channels."""
    if not 3 <= tensor.ndim <= 5:
        raise InvalidValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise InvalidValueError("dim 0 must be divisible by groups")
    out_channels = tensor.shape[0] // groups
    middle = [size // 2 for size in tensor.shape[2:]]
    tensor.fill_(0.0)
    for group in range(groups if out_channels else 0):
        for channel in range(min(out_channels, tensor.shape[1])):
            tensor[(group * out_channels + channel, channel, *middle)] = 1
    return tensor


@initializer
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """gain · Q, Q uniform among matrices with orthonormal rows (or columns): the QR factor of a normal matrix.

    Shape: (n, *) is taken as the matrix (n, Π*).
    """
    if tensor.ndim < 2:
        raise InvalidValueError("Only tensors with 2 or more dimensions are supported")
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    normal = weft.empty(max(rows, columns), min(rows, columns), dtype=tensor.dtype).normal_(generator=generator)
    q, r = weft.linalg.qr(normal)
    q = q * r.diagonal().sign()  # makes the factor unique, hence uniform
    return tensor.copy_((q if rows >= columns else q.mT).reshape(tensor.shape) * gain)


@initializer
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """w ~ N(0, std²), then in every column the share `sparsity` of the rows, at random, becomes 0."""
    if tensor.ndim != 2:
        raise InvalidValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    tensor.normal_(0.0, std, generator=generator)
    for column in range(columns):
        chosen = weft.randperm(rows, generator=generator)[: math.ceil(sparsity * rows)]
        tensor[chosen, column] = 0
    return tensor


# ------------------------------------------------------------------------------------------- from data


def lsuv_(module: Any, batch: Any, tolerance: float = 0.01, max_iterations: int = 10) -> Any:
    """Layer-sequential unit variance: make every linear and convolutional layer give outputs of variance 1 on `batch`.

    In the order in which the layers run: orthonormal weights, then W ← W / √Var[y] until |Var[y] − 1| ≤ tolerance.
    Goes with the variance argument of N2 §3.8.3 (Mishkin and Matas, "All you need is a good init", 2016).
    """
    with no_grad():
        for layer in _layers_in_order(module, batch):
            orthogonal_(layer.weight)
            for _ in range(max_iterations):
                variance = float(_output_of(layer, module, batch).var())
                if abs(variance - 1) <= tolerance or variance == 0:
                    break
                layer.weight.div_(math.sqrt(variance))
    return module


def _layers_in_order(module: Any, batch: Any) -> list[Any]:
    """The parts with a weight of two or more dimensions and one tensor as output, in the order of their first call."""
    if not hasattr(module, "modules"):
        raise ArgumentError(f"lsuv_: expected a module, got {type(module).__name__}")
    order: list[Any] = []

    def note(layer: Any, args: Any, output: Any) -> None:
        if isinstance(output, Tensor) and layer not in order:
            order.append(layer)

    weighted = [m for m in module.modules() if isinstance(getattr(m, "weight", None), Tensor) and m.weight.ndim > 1]
    handles = [m.register_forward_hook(note) for m in weighted]
    _call(module, batch)
    for handle in handles:
        handle.remove()
    return order


def _output_of(layer: Any, module: Any, batch: Any) -> Tensor:
    """What `layer` gives while `module` works on the batch."""
    seen: list[Tensor] = []
    handle = layer.register_forward_hook(lambda _, args, output: seen.append(output))
    _call(module, batch)
    handle.remove()
    return seen[0]


def _call(module: Any, batch: Any) -> Any:
    return module(*batch) if isinstance(batch, tuple) else module(batch)


# ------------------------------------------------------------------------------------------- older names


def _deprecated(fill: Callable[..., Tensor]) -> Callable[..., Tensor]:
    old = fill.__name__.removesuffix("_")

    def renamed(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{fill.__name__}`.", FutureWarning, stacklevel=2
        )
        return fill(*args, **kwargs)

    renamed.__name__, renamed.__doc__ = old, f"The older name of `{fill.__name__}`."
    return renamed


uniform, normal, constant, eye, dirac = map(_deprecated, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal = map(_deprecated, (xavier_uniform_, xavier_normal_))
kaiming_uniform, kaiming_normal = map(_deprecated, (kaiming_uniform_, kaiming_normal_))
orthogonal, sparse = map(_deprecated, (orthogonal_, sparse_))

__getattr__, __dir__ = _later(__name__)
