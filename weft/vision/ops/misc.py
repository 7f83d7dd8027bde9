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
    "DropBlock2d",
    "DropBlock3d",
    "FrozenBatchNorm2d",
    "Permute",
    "SqueezeExcitation",
    "StochasticDepth",
    "drop_block2d",
    "drop_block3d",
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


def drop_block2d(
    input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-6, training: bool = True
) -> Tensor:
    """Squares of block_size² places set to 0 so that a share p is, the rest scaled up (Ghiasi et al., 2018). (N, C, H, W)"""
    return _blocks_dropped(input, p, block_size, inplace, eps, training)


def drop_block3d(
    input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-6, training: bool = True
) -> Tensor:
    """Cubes of block_size³ places set to 0, the rest scaled up. (N, C, D, H, W) → the same"""
    return _blocks_dropped(input, p, block_size, inplace, eps, training)


def _blocks_dropped(x: Tensor, p: float, size: int, inplace: bool, eps: float, training: bool) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise OptionError(f"drop_block: expected p in [0, 1], got {p}")
    if not training or p == 0.0:
        return x
    sides = x.shape[2:]
    size = min(size, *sides)
    share = p / size ** len(sides)
    for side in sides:
        share *= side / (side - size + 1)
    seeds = weft.rand(*x.shape[:2], *(side - size + 1 for side in sides)) < share
    seeds = nn.functional.pad(seeds.to(x.dtype), [size // 2] * (2 * len(sides)))
    pool = nn.functional.max_pool2d if len(sides) == 2 else nn.functional.max_pool3d
    kept = 1 - pool(seeds, size, stride=1, padding=size // 2)
    kept = kept[(..., *(slice(side) for side in sides))]  # an even size leaves one place more
    kept = kept * (kept.numel() / (eps + kept.sum()))
    return x.mul_(kept) if inplace else x * kept


class DropBlock2d(nn.Module):
    """`drop_block2d` in training, nothing in evaluation."""

    drop: Callable[..., Tensor] = staticmethod(drop_block2d)

    def __init__(self, p: float, block_size: int, inplace: bool = False, eps: float = 1e-6) -> None:
        super().__init__()
        self.p, self.block_size, self.inplace, self.eps = p, block_size, inplace, eps

    def forward(self, input: Tensor) -> Tensor:
        return self.drop(input, self.p, self.block_size, self.inplace, self.eps, self.training)


class DropBlock3d(DropBlock2d):
    """`drop_block3d` in training, nothing in evaluation."""

    drop = staticmethod(drop_block3d)
