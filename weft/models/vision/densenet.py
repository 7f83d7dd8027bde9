"""DenseNet-BC (Huang, Liu, van der Maaten, Weinberger 2016): every layer sees the maps of all before it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...io.atomic import Path
from ...tensor import Tensor
from ..pretrained.torchvision import build
from .blocks import conv1x1, conv3x3, fill

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]

F = nn.functional


class DenseNet(nn.Module):
    """Stem (size / 4), blocks of dense layers with transitions between them that halve size and width, mean, linear.

    growth_rate: channels that each layer adds; block_config: layers of each block; bn_size: the 1×1 convolution of a
    layer narrows to bn_size · growth_rate channels. Shape: (B, in_channels, H, W) → (B, num_classes)
    """

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: Sequence[int] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0.0,
        num_classes: int = 1000,
        *,
        in_channels: int = 3,
    ) -> None:
        super().__init__()
        channels = num_init_features
        parts: OrderedDict[str, nn.Module] = OrderedDict(
            conv0=nn.Conv2d(in_channels, channels, 7, stride=2, padding=3, bias=False),
            norm0=nn.BatchNorm2d(channels),
            relu0=nn.ReLU(),
            pool0=nn.MaxPool2d(3, stride=2, padding=1),
        )
        for number, layers in enumerate(block_config, 1):
            parts[f"denseblock{number}"] = _DenseBlock(layers, channels, growth_rate, bn_size, drop_rate)
            channels += layers * growth_rate
            if number < len(block_config):
                parts[f"transition{number}"] = _transition(channels, channels // 2)
                channels //= 2
        parts["norm5"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(parts)
        self.classifier = nn.Linear(channels, num_classes)
        fill(self, nn.Conv2d, nn.init.kaiming_normal_)
        fill(self, nn.Linear)

    def forward(self, x: Tensor) -> Tensor:
        features = self.features(x).relu()  # (B, C, H/32, W/32)
        return self.classifier(F.adaptive_avg_pool2d(features, 1).flatten(1))  # (B, C, 1, 1) → (B, C) → (B, classes)


class _DenseBlock(nn.ModuleDict):
    """xₗ = layerₗ([x₀, x₁, …, xₗ₋₁]): (B, inputs, H, W) → (B, inputs + layers · growth, H, W)."""

    def __init__(self, layers: int, inputs: int, growth: int, bn_size: int, drop_rate: float) -> None:
        super().__init__()
        for number in range(layers):
            layer = _DenseLayer(inputs + number * growth, growth, bn_size, drop_rate)
            self.add_module(f"denselayer{number + 1}", layer)

    def forward(self, x: Tensor) -> Tensor:
        seen = [x]
        for layer in self.values():
            seen.append(layer(weft.cat(seen, 1)))
        return weft.cat(seen, 1)


class _DenseLayer(nn.Module):
    """norm, relu, conv 1×1, norm, relu, conv 3×3, dropout: (B, inputs, H, W) → (B, growth, H, W)."""

    def __init__(self, inputs: int, growth: int, bn_size: int, drop_rate: float) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inputs), conv1x1(inputs, bn_size * growth)
        self.norm2, self.conv2 = nn.BatchNorm2d(bn_size * growth), conv3x3(bn_size * growth, growth)
        self.drop_rate = float(drop_rate)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(self.norm1(x).relu())
        y = self.conv2(self.norm2(y).relu())
        return F.dropout(y, self.drop_rate, self.training) if self.drop_rate else y

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        """torchvision's ImageNet files write `norm.1.weight` for `norm1.weight`: renamed before the parts look."""
        for key in [key for key in state_dict if key.startswith((f"{prefix}norm.", f"{prefix}conv."))]:
            kind, _, rest = key.removeprefix(prefix).partition(".")
            state_dict[f"{prefix}{kind}{rest}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _transition(inputs: int, outputs: int) -> nn.Sequential:
    """(B, inputs, H, W) → (B, outputs, H/2, W/2)."""
    return nn.Sequential(
        OrderedDict(norm=nn.BatchNorm2d(inputs), relu=nn.ReLU(), conv=conv1x1(inputs, outputs), pool=nn.AvgPool2d(2))
    )


def densenet121(*, weights: Path | None = None, **options: Any) -> DenseNet:
    """7,978,856 parameters."""
    return build(DenseNet, weights, 32, (6, 12, 24, 16), 64, **options)


def densenet161(*, weights: Path | None = None, **options: Any) -> DenseNet:
    """28,681,000 parameters."""
    return build(DenseNet, weights, 48, (6, 12, 36, 24), 96, **options)


def densenet169(*, weights: Path | None = None, **options: Any) -> DenseNet:
    """14,149,480 parameters."""
    return build(DenseNet, weights, 32, (6, 12, 32, 32), 64, **options)


def densenet201(*, weights: Path | None = None, **options: Any) -> DenseNet:
    """20,013,928 parameters."""
    return build(DenseNet, weights, 32, (6, 12, 48, 32), 64, **options)
