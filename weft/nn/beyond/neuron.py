"""Neurons of the lecture notes that PyTorch lacks: arctangent, Swish, temperature, and two binary neurons.

A binary neuron has slope 0 almost everywhere, so its gradient is a straight-through one: backward, the step
is taken for a function with a slope. All keep the shape of their input.
"""

from __future__ import annotations

from typing import Any

import weft

from ...errors import InvalidValueError
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..modules.activation import Activation
from ..parameter import Parameter

__all__ = ["Arctan", "BinaryThreshold", "StochasticBinary", "Swish", "TemperatureSoftmax"]


class Arctan(Activation):
    """y = arctan x, in (−π/2, π/2) (N0 §1.5).

    >>> nn.Arctan()(weft.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7854,  0.0000,  0.7854])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.arctan()


class Swish(Activation):
    """y = x · σ(β x) with a learned β: one, or one for each channel of dimension 1 (N1 def. 1.15).

    β = 1 is `SiLU`, β = 0 the linear x/2, β → ∞ ReLU. Shape: (N, C, *) → the same

    num_parameters: 1, or the number of channels
    init: the β to start with

    >>> nn.Swish(init=0.0)(weft.tensor([-2.0, 3.0])).tolist()
    [-1.0, 1.5]
    """

    shown = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 1.0, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.beta = Parameter(weft.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.constant_(self.beta, self.init)

    def forward(self, input: Tensor) -> Tensor:
        spatial = max(input.ndim - 2, 0) if self.num_parameters > 1 else 0
        beta = self.beta.reshape(-1, *(1,) * spatial)  # (C, 1, …)
        return input * (input * beta).sigmoid()


class TemperatureSoftmax(Activation):
    """yᵢ = exp(xᵢ / T) / Σⱼ exp(xⱼ / T) along `dim` (N2 §2.4.7).

    T → 0 puts all mass on the largest entry, T → ∞ spreads it evenly; T may be changed between calls.

    temperature: T, greater than 0
    dim: the dimension whose entries sum to 1
    learnable: whether T is a parameter

    >>> nn.TemperatureSoftmax(0.01)(weft.tensor([1.0, 2.0]))
    tensor([3.7835e-44, 1.0000e+00])
    """

    shown = ("dim",)

    def __init__(self, temperature: float = 1.0, dim: int = -1, learnable: bool = False) -> None:
        super().__init__()
        if not temperature > 0:
            raise InvalidValueError(f"TemperatureSoftmax: temperature must be positive, got {temperature}")
        self.dim = dim
        self.temperature = Parameter(weft.tensor(float(temperature))) if learnable else temperature

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input / self.temperature, self.dim)

    def extra_repr(self) -> str:
        return f"temperature={float(self.temperature)}, dim={self.dim}"


class BinaryThreshold(Activation):
    """y = 1 where x ≥ 0, else 0: the McCulloch–Pitts neuron (N2 §2.4.1).

    width: backward the slope is 1 where |x| ≤ width, else 0, that of a hard sigmoid; None: 1 everywhere

    >>> nn.BinaryThreshold()(weft.tensor([-0.1, 0.0, 3.0]))
    tensor([0., 1., 1.])
    """

    shown = ("width",)

    def __init__(self, width: float | None = 1.0) -> None:
        super().__init__()
        self.width = width

    def forward(self, input: Tensor) -> Tensor:
        surrogate = input if self.width is None else input.clamp(-self.width, self.width)
        return _straight_through((input.detach() >= 0).to(input.dtype), surrogate)


class StochasticBinary(Activation):
    """y = 1 with probability σ(x), else 0 (N2 §2.2.3); E[y] = σ(x).

    Backward the slope is that of the mean, σ'(x) = σ(x) (1 − σ(x)).

    sample_in_eval: go on drawing in evaluation; otherwise the mean σ(x) is returned there

    >>> nn.StochasticBinary().eval()(weft.tensor([0.0, 100.0]))
    tensor([0.5000, 1.0000])
    """

    shown = ("sample_in_eval",)
    random_in_training = True

    def __init__(self, sample_in_eval: bool = False) -> None:
        super().__init__()
        self.sample_in_eval = sample_in_eval

    def forward(self, input: Tensor) -> Tensor:
        probability = input.sigmoid()
        if not (self.training or self.sample_in_eval):
            return probability
        return _straight_through(weft.bernoulli(probability.detach()), probability)


def _straight_through(value: Tensor, surrogate: Tensor) -> Tensor:
    """`value` forward, exactly; the gradient of `surrogate` backward."""
    return value + (surrogate - surrogate.detach())
