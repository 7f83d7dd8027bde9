"""VGG-11 … VGG-19, with or without batch normalisation (Simonyan, Zisserman 2014): 3×3 convolutions all the way."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ... import nn
from ...io.atomic import Path
from ...tensor import Tensor
from ..pretrained.torchvision import build
from .blocks import fill, he_fan_out

__all__ = ["VGG", "make_layers", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"]

# Convolutions of the five stages by depth; a stage ends with a 2×2 pooling ("M").
DEPTHS: dict[int, tuple[int, int, int, int, int]] = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}
WIDTHS = (64, 128, 256, 512, 512)


class VGG(nn.Module):
    """`features`, then three linear layers with dropout; VGG-16 has 138,357,544 parameters.

    hidden: width of the two hidden linear layers. Shape: (B, 3, H, W) with H, W ≥ 32 → (B, num_classes)
    """

    def __init__(
        self,
        features: nn.Module,
        num_classes: int = 1000,
        init_weights: bool = True,
        dropout: float = 0.5,
        *,
        hidden: int = 4096,
    ) -> None:
        super().__init__()
        channels = [layer.out_channels for layer in features.modules() if isinstance(layer, nn.Conv2d)][-1]
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            *(nn.Linear(channels * 7 * 7, hidden), nn.ReLU(), nn.Dropout(dropout)),
            *(nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout)),
            nn.Linear(hidden, num_classes),
        )
        if init_weights:
            fill(self, nn.Conv2d, he_fan_out)
            fill(self, nn.Linear, partial(nn.init.normal_, std=0.01))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))  # (B, 512, 7, 7) → (B, 25088) → (B, classes)


def make_layers(plan: Sequence[int | str], batch_norm: bool = False, in_channels: int = 3) -> nn.Sequential:
    """Convolutions of the given widths with ReLU, and "M" for a 2×2 pooling: `make_layers([64, "M", 128, "M"])`."""
    layers: list[nn.Module] = []
    for width in plan:
        if width == "M":
            layers.append(nn.MaxPool2d(2))
            continue
        layers.append(nn.Conv2d(in_channels, width, 3, padding=1))
        layers += [nn.BatchNorm2d(width), nn.ReLU()] if batch_norm else [nn.ReLU()]
        in_channels = width
    return nn.Sequential(*layers)


def _vgg(depth: int, batch_norm: bool, weights: Path | None, in_channels: int = 3, **options: Any) -> VGG:
    plan = [part for width, count in zip(WIDTHS, DEPTHS[depth], strict=True) for part in (*(width,) * count, "M")]
    make = lambda **options: VGG(make_layers(plan, batch_norm, in_channels), **options)
    return build(make, weights, **options)


def vgg11(*, weights: Path | None = None, **options: Any) -> VGG:
    """132,863,336 parameters."""
    return _vgg(11, False, weights, **options)


def vgg11_bn(*, weights: Path | None = None, **options: Any) -> VGG:
    """132,868,840 parameters."""
    return _vgg(11, True, weights, **options)


def vgg13(*, weights: Path | None = None, **options: Any) -> VGG:
    """133,047,848 parameters."""
    return _vgg(13, False, weights, **options)


def vgg13_bn(*, weights: Path | None = None, **options: Any) -> VGG:
    """133,053,736 parameters."""
    return _vgg(13, True, weights, **options)


def vgg16(*, weights: Path | None = None, **options: Any) -> VGG:
    """138,357,544 parameters."""
    return _vgg(16, False, weights, **options)


def vgg16_bn(*, weights: Path | None = None, **options: Any) -> VGG:
    """138,365,992 parameters."""
    return _vgg(16, True, weights, **options)


def vgg19(*, weights: Path | None = None, **options: Any) -> VGG:
    """143,667,240 parameters."""
    return _vgg(19, False, weights, **options)


def vgg19_bn(*, weights: Path | None = None, **options: Any) -> VGG:
    """143,678,248 parameters."""
    return _vgg(19, True, weights, **options)
