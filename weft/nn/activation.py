"""Activation functions as modules: bends, smooth bends, gates, and distributions over classes.

Every module calls the function of the same meaning in `nn.functional`; shapes are kept unless said otherwise.
The neurons of the lecture notes that PyTorch lacks are in `neuron.py`.
"""

from __future__ import annotations

import warnings
from typing import Any

import weft

from ..errors import ShapeError
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "SwiGLU",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class Activation(Module):
    """What an activation shows of itself: the arguments named in `shown`, then `inplace` if it is on."""

    shown: tuple[str, ...] = ()
    inplace = False

    def extra_repr(self) -> str:
        parts = [f"{name}={getattr(self, name)!r}" for name in self.shown]
        return ", ".join(parts + ["inplace=True"] * self.inplace)


class InplaceActivation(Activation):
    """An activation whose only option is to overwrite its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


# --------------------------------------------------------------------------------- bent straight lines


class ReLU(InplaceActivation):
    """y = max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class Hardtanh(Activation):
    """y = min(max(x, min_val), max_val)."""

    shown = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        self.min_val = _renamed("min_value", "min_val", min_value, min_val)
        self.max_val = _renamed("max_value", "max_val", max_value, max_val)
        self.inplace = inplace
        if not self.max_val > self.min_val:
            raise AssertionError(f"Hardtanh: max_val must be larger than min_val, got {self.max_val} ≤ {self.min_val}")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


def _renamed(old: str, name: str, given: float | None, value: float) -> float:
    if given is None:
        return value
    warnings.warn(f"keyword argument `{old}` is deprecated and rename to `{name}`", FutureWarning, stacklevel=3)
    return given


class ReLU6(Hardtanh):
    """y = min(max(x, 0), 6)."""

    shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Threshold(Activation):
    """y = x where x > threshold, else `value`."""

    shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class LeakyReLU(Activation):
    """y = x for x > 0, negative_slope · x below."""

    shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class PReLU(Activation):
    """y = x for x > 0, a · x below, with a learned slope a: one, or one for each channel. Shape: (N, C, *) → the same."""

    shown = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(weft.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)


class RReLU(Activation):
    """y = x for x > 0, a · x below: a from U(lower, upper) in training, (lower + upper) / 2 otherwise."""

    shown = ("lower", "upper")
    random_in_training = True

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardsigmoid(InplaceActivation):
    """y = min(max(x + 3, 0), 6) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(InplaceActivation):
    """y = x · min(max(x + 3, 0), 6) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Shrink(Activation):
    """An activation with one threshold `lambd` around 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(Shrink):
    """y = x where |x| > lambd, else 0."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(Shrink):
    """y = x − lambd for x > lambd, x + lambd for x < −lambd, 0 between."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


# ---------------------------------------------------------------------------------------- smooth bends


class Sigmoid(Activation):
    """y = 1 / (1 + e⁻ˣ)."""

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()


class Tanh(Activation):
    """y = (eˣ − e⁻ˣ) / (eˣ + e⁻ˣ)."""

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


class ELU(Activation):
    """y = x for x > 0, α (eˣ − 1) below."""

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(Activation):
    """y = x for x > 0, α (e^(x/α) − 1) below."""

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class SELU(InplaceActivation):
    """y = λ x for x > 0, λ α (eˣ − 1) below, λ and α such that mean 0 and variance 1 are kept."""

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class GELU(Activation):
    """y = x · Φ(x), Φ the normal distribution function; approximate='tanh' for the usual approximation."""

    shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)


class SiLU(InplaceActivation):
    """y = x · σ(x); with a learned slope inside σ it is `Swish`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(InplaceActivation):
    """y = x · tanh(log(1 + eˣ))."""

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Softplus(Activation):
    """y = log(1 + e^(β x)) / β, and x itself where β x > threshold."""

    shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class LogSigmoid(Activation):
    """y = log σ(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Activation):
    """y = x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Activation):
    """y = x − tanh x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class GLU(Activation):
    """y = a · σ(b), a and b the halves of x along `dim`. Shape: (*, 2n, *) → (*, n, *)."""

    shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


class SwiGLU(Activation):
    """y = silu(a) · b, a and b the halves of x along `dim` (Shazeer 2020). Shape: (*, 2n, *) → (*, n, *)."""

    shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.swiglu(input, self.dim)


# ------------------------------------------------------------------------------ distributions over classes


class AlongDimension(Activation):
    """A distribution along `dim`; None lets the function guess, with its warning."""

    shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmax(AlongDimension):
    """yᵢ = exp(xᵢ) / Σⱼ exp(xⱼ)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(AlongDimension):
    """yᵢ = xᵢ − log Σⱼ exp(xⱼ)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmin(AlongDimension):
    """yᵢ = exp(−xᵢ) / Σⱼ exp(−xⱼ)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Activation):
    """Softmax over the channels of every place. Shape: (N, C, H, W) or (C, H, W) → the same."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3, _stacklevel=5)
