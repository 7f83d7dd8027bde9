"""Activation functions as modules: bends and smooth bends of single numbers.

Every module calls the function of the same meaning in `nn.functional`; shapes are kept. Gates and distributions over
classes are in `softmax.py`, the neurons of the lecture notes that PyTorch lacks in `nn/beyond/neuron.py`.
"""

from __future__ import annotations

import warnings
from typing import Any

import weft

from ...errors import ConditionError
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class Activation(Module):
    """What an activation shows of itself: the arguments named in `shown`, then `inplace` if it is on.

    inplace: overwrite the input with the result
    """

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
    """y = max(x, 0).

    >>> nn.ReLU()(weft.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class Hardtanh(Activation):
    """y = min(max(x, min_val), max_val).

    min_val, max_val: the bounds
    min_value, max_value: PyTorch's older names of the bounds

    >>> nn.Hardtanh()(weft.tensor([-3.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

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
            raise ConditionError(f"Hardtanh: max_val must be larger than min_val, got {self.max_val} ≤ {self.min_val}")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


def _renamed(old: str, name: str, given: float | None, value: float) -> float:
    if given is None:
        return value
    warnings.warn(f"keyword argument `{old}` is deprecated and rename to `{name}`", FutureWarning, stacklevel=3)
    return given


class ReLU6(Hardtanh):
    """y = min(max(x, 0), 6).

    >>> nn.ReLU6()(weft.tensor([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """

    shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Threshold(Activation):
    """y = x where x > threshold, else `value`.

    threshold: from where on x is let through
    value: what stands for everything else

    >>> nn.Threshold(1.0, -5.0)(weft.tensor([0.5, 1.0, 1.5]))
    tensor([-5.0000, -5.0000,  1.5000])
    """

    shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class LeakyReLU(Activation):
    """y = x for x > 0, negative_slope · x below.

    negative_slope: the slope below 0, so that no unit dies

    >>> nn.LeakyReLU(0.1)(weft.tensor([-2.0, 3.0]))
    tensor([-0.2000,  3.0000])
    """

    shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class PReLU(Activation):
    """y = x for x > 0, a · x below, with a learned slope a: one, or one for each channel. Shape: (N, C, *) → the same.

    num_parameters: 1, or the number of channels
    init: the slope to start with

    >>> layer = nn.PReLU(init=0.5)
    >>> layer(weft.tensor([-2.0, 3.0])).tolist()
    [-1.0, 3.0]
    """

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
    """y = x for x > 0, a · x below: a from U(lower, upper) in training, (lower + upper) / 2 otherwise.

    lower, upper: the bounds of the random slope

    >>> nn.RReLU(0.25, 0.75).eval()(weft.tensor([-2.0, 3.0]))
    tensor([-1.,  3.])
    """

    shown = ("lower", "upper")
    random_in_training = True

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardsigmoid(InplaceActivation):
    """y = min(max(x + 3, 0), 6) / 6.

    >>> nn.Hardsigmoid()(weft.tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(InplaceActivation):
    """y = x · min(max(x + 3, 0), 6) / 6.

    >>> nn.Hardswish()(weft.tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000, 0.6667, 4.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Shrink(Activation):
    """An activation with one threshold around 0.

    lambd: how far from 0 the dead zone reaches (`lambda` is a word of Python's)
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(Shrink):
    """y = x where |x| > lambd, else 0.

    >>> nn.Hardshrink(1.0)(weft.tensor([-2.0, 0.5, 1.5]))
    tensor([-2.0000,  0.0000,  1.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(Shrink):
    """y = x − lambd for x > lambd, x + lambd for x < −lambd, 0 between.

    >>> nn.Softshrink(1.0)(weft.tensor([-2.0, 0.5, 1.5]))
    tensor([-1.0000,  0.0000,  0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


# ---------------------------------------------------------------------------------------- smooth bends


class Sigmoid(Activation):
    """y = 1 / (1 + e⁻ˣ).

    >>> nn.Sigmoid()(weft.tensor([-2.0, 0.0, 2.0]))
    tensor([0.1192, 0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()


class Tanh(Activation):
    """y = (eˣ − e⁻ˣ) / (eˣ + e⁻ˣ).

    >>> nn.Tanh()(weft.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7616,  0.0000,  0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


class ELU(Activation):
    """y = x for x > 0, α (eˣ − 1) below.

    alpha: α; −α is the limit for x → −∞

    >>> nn.ELU()(weft.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(Activation):
    """y = x for x > 0, α (e^(x/α) − 1) below: unlike `ELU` smooth at 0 for every α.

    alpha: α; −α is the limit for x → −∞

    >>> nn.CELU(2.0)(weft.tensor([-1.0, 2.0]))
    tensor([-0.7869,  2.0000])
    """

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class SELU(InplaceActivation):
    """y = λ x for x > 0, λ α (eˣ − 1) below, λ and α such that mean 0 and variance 1 are kept.

    >>> nn.SELU()(weft.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class GELU(Activation):
    """y = x · Φ(x), Φ the normal distribution function.

    approximate: 'none', or 'tanh' for ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))

    >>> nn.GELU()(weft.tensor([-1.0, 1.0]))
    tensor([-0.1587,  0.8413])
    """

    shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)


class SiLU(InplaceActivation):
    """y = x · σ(x); with a learned slope inside σ it is `Swish`.

    >>> nn.SiLU()(weft.tensor([-1.0, 1.0]))
    tensor([-0.2689,  0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(InplaceActivation):
    """y = x · tanh(log(1 + eˣ)).

    >>> nn.Mish()(weft.tensor([-1.0, 1.0]))
    tensor([-0.3034,  0.8651])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Softplus(Activation):
    """y = log(1 + e^(β x)) / β, and x itself where β x > threshold.

    beta: β; the larger, the nearer to `ReLU`
    threshold: from where on the function is taken as straight

    >>> nn.Softplus()(weft.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """

    shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class LogSigmoid(Activation):
    """y = log σ(x), without overflow.

    >>> nn.LogSigmoid()(weft.tensor([-200.0, 0.0]))
    tensor([-200.0000,   -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Activation):
    """y = x / (1 + |x|).

    >>> nn.Softsign()(weft.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Activation):
    """y = x − tanh x.

    >>> nn.Tanhshrink()(weft.tensor([-1.0, 3.0]))
    tensor([-0.2384,  2.0049])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)
