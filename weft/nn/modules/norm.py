"""Normalisation by statistics of the single example (layer, group, root mean square, local response), and ActNorm.

Those that keep running statistics, batch and instance normalisation, are in `batchnorm.py`.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import weft

from ...errors import InvalidValueError, ShapeError
from ...tape.modes import no_grad
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter

__all__ = ["ActNorm", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class Scaled(Module):
    """A normalisation that may end in y · weight + bias, which start as 1 and 0.

    eps: ε, which keeps the division finite
    """

    def _make_affine(self, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            value = Parameter(weft.empty(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


def _as_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, numbers.Integral) else tuple(shape)


class LayerNorm(Scaled):
    """y = (x − μ) / √(σ² + ε) · weight + bias, μ and σ² over the last dimensions (N2 §3.7.5).

    Shape: (*, normalized_shape) → the same

    normalized_shape: the sizes of the last dimensions, or the size of the last one
    elementwise_affine: whether there is a weight (and a bias), of the shape normalized_shape
    bias: whether there is a bias beside the weight

    >>> nn.LayerNorm(4)(weft.tensor([[1.0, 2.0, 3.0, 4.0]])).tolist()[0][:2]
    [-1.3416354656219482, -0.4472118318080902]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._make_affine(self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Scaled):
    """y = x / √(mean(x²) + ε) · weight, the mean over the last dimensions.

    Shape: (*, normalized_shape) → the same

    normalized_shape: the sizes of the last dimensions, or the size of the last one
    eps: ε; None is the machine epsilon of the type computed in
    elementwise_affine: whether there is a weight, of the shape normalized_shape

    >>> nn.RMSNorm(2)(weft.tensor([3.0, 4.0])).square().mean().item()
    1.0
    """

    bias = None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = weft.empty(self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", Parameter(weight) if elementwise_affine else None)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Scaled):
    """y = (x − μ) / √(σ² + ε) · weight + bias, μ and σ² over each group of channels.

    Shape: (N, C, *) → the same, weight and bias (C,)

    num_groups: into how many groups the channels fall; 1 is a layer norm over (C, *), C an instance norm
    num_channels: C
    affine: whether there is a weight (and a bias)
    bias: whether there is a bias beside the weight

    >>> nn.GroupNorm(2, 6)(weft.randn(3, 6, 5, 5)).shape
    weft.Size([3, 6, 5, 5])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise InvalidValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        self._make_affine(num_channels, affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """y_c = x_c / (k + α/size · Σ x²)^β, the sum over `size` channels around c (AlexNet). Shape: (N, C, *) → the same.

    size: how many neighbouring channels dampen each other
    alpha, beta, k: α, β and k of the formula

    >>> nn.LocalResponseNorm(2)(weft.ones(1, 4, 3)).shape
    weft.Size([1, 4, 3])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class ActNorm(Module):
    """y = (x + bias) · exp(log_scale) for each channel, set by the first training batch (N1 def. 10.5).

    The first batch seen in training gives bias = −μ and log_scale = −log σ, so that its output has mean 0 and
    variance 1 in each channel; from then on both are ordinary parameters, and train and eval agree.
    log |det ∂y/∂x| = number of places · Σ log_scale. Shape: (N, C, *) → the same

    num_features: C
    eps: added to σ, so that a constant channel can be scaled

    >>> y = nn.ActNorm(2)(5 + 3 * weft.randn(1000, 2))
    >>> abs(float(y.mean())) < 1e-4, round(float(y.std()), 2)
    (True, 1.0)
    """

    def __init__(self, num_features: int, eps: float = 1e-6, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_features, self.eps = num_features, eps
        self.bias = Parameter(weft.zeros(num_features, device=device, dtype=dtype))
        self.log_scale = Parameter(weft.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("initialized", weft.tensor(False))

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        if self.training and not bool(self.initialized):
            self._initialize(input.detach())
        return (input + self._per_channel(self.bias, input)) * self._per_channel(self.log_scale, input).exp()

    def inverse(self, output: Tensor) -> Tensor:
        """x from y: y · exp(−log_scale) − bias."""
        self._check(output)
        return output * (-self._per_channel(self.log_scale, output)).exp() - self._per_channel(self.bias, output)

    def log_abs_det(self, input: Tensor) -> Tensor:
        """log |det ∂y/∂x| of each example. Shape: (N, C, *) → (N,)"""
        return (self.log_scale.sum() * input.shape[2:].numel()).expand(input.shape[0])

    @no_grad()
    def _initialize(self, x: Tensor) -> None:
        dims = (0, *range(2, x.ndim))
        self.bias.copy_(-x.mean(dims))
        self.log_scale.copy_(-(x.var(dims, correction=0) + self.eps).log() / 2)
        self.initialized.fill_(True)

    def _per_channel(self, parameter: Tensor, x: Tensor) -> Tensor:
        return parameter.reshape(-1, *(1,) * (x.ndim - 2))  # (C, 1, …)

    def _check(self, x: Tensor) -> None:
        if x.ndim < 2 or x.shape[1] != self.num_features:
            raise ShapeError(f"ActNorm: expected (N, {self.num_features}, *), got shape {tuple(x.shape)}")

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}"
