"""Layers that torchvision's models are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...models.vision.blocks import ConvNormActivation, Permute, StochasticDepth
from ...tensor import Tensor

__all__ = [
    "MLP",
    "Conv2dNormActivation",
    "FrozenBatchNorm2d",
    "Permute",
    "SqueezeExcitation",
    "StochasticDepth",
    "stochastic_depth",
]

Conv2dNormActivation = ConvNormActivation


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """x · b / (1 − p) with b = 0 of probability p: for each example ("row") or for all at once ("batch")."""
    layer = StochasticDepth(p, mode)
    return layer.train(training)(input)


class FrozenBatchNorm2d(nn.Module):
    """Batch normalisation whose numbers are buffers: y = (x − mean)/√(var + ε) · weight + bias. (N, C, H, W) → the same"""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name, start in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, weft.full((num_features,), start))

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()  # (C,)
        return x * scale[:, None, None] + (self.bias - self.running_mean * scale)[:, None, None]


class MLP(nn.Sequential):
    """Linear layers with norms, functions and dropout between them, the last without a function. (*, in) → (*, out)"""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: Sequence[int],
        norm_layer: Callable[..., nn.Module] | None = None,
        activation_layer: Callable[..., nn.Module] | None = nn.ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        if not hidden_channels:
            raise OptionError("MLP: expected one width or more in hidden_channels")
        options = {} if inplace is None else {"inplace": inplace}
        parts: list[nn.Module] = []
        for width in hidden_channels[:-1]:
            parts.append(nn.Linear(in_channels, width, bias=bias))
            parts += [] if norm_layer is None else [norm_layer(width)]
            parts += [] if activation_layer is None else [activation_layer(**options)]
            parts.append(nn.Dropout(dropout, **options))
            in_channels = width
        super().__init__(*parts, nn.Linear(in_channels, hidden_channels[-1], bias=bias), nn.Dropout(dropout, **options))


class SqueezeExcitation(nn.Module):
    """x · σ(W₂ φ(W₁ mean(x))), channel by channel (Hu et al., 2018). Shape: (N, C, H, W) → the same"""

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., Any] = nn.ReLU,
        scale_activation: Callable[..., Any] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation, self.scale_activation = activation(), scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        return self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input))))) * input
