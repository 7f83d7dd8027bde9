"""MobileNets: convolutions taken apart into one kernel a channel and a 1×1 mixture of channels.

V1 (Howard et al. 2017) is a chain of such pairs; V2 (Sandler et al. 2018) widens, filters and narrows, with a skip
between the narrow ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ... import nn
from ...errors import OptionError
from ...io.atomic import Path
from ...tensor import Tensor
from ..pretrained.torchvision import build
from .blocks import ConvNormActivation, Maker, conv1x1, fill, he_fan_out, make_divisible

__all__ = ["InvertedResidual", "MobileNetV1", "MobileNetV2", "mobilenet_v1", "mobilenet_v2"]

# Table 1 of V1: channels and stride of each depth-wise separable convolution.
V1_LAYERS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
# Table 2 of V2: expansion, channels, repetitions, stride of the first.
V2_STAGES = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)


class _MobileNet(nn.Module):
    """`features`, mean over the image, dropout and one linear layer: (B, in_channels, H, W) → (B, num_classes)."""

    def __init__(self, features: Sequence[nn.Module], channels: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(channels, num_classes))
        fill(self, nn.Conv2d, he_fan_out)
        fill(self, nn.Linear, partial(nn.init.normal_, std=0.01))

    def forward(self, x: Tensor) -> Tensor:
        features = self.features(x)  # (B, C, H/32, W/32)
        return self.classifier(nn.functional.adaptive_avg_pool2d(features, 1).flatten(1))  # (B, C, 1, 1) → (B, C)


class MobileNetV1(_MobileNet):
    """4,231,976 parameters with width_mult 1 and 1000 classes; the paper's α is width_mult.

    layers: channels and stride of each pair of convolutions. Shape: (B, in_channels, H, W) → (B, num_classes)
    """

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        layers: Sequence[tuple[int, int]] = V1_LAYERS,
        dropout: float = 0.001,
        *,
        in_channels: int = 3,
    ) -> None:
        widths = [make_divisible(width_mult * width) for width in (32, *(width for width, _ in layers))]
        pairs = [
            nn.Sequential(ConvNormActivation(a, a, stride=stride, groups=a), ConvNormActivation(a, b, 1))
            for a, b, (_, stride) in zip(widths, widths[1:], layers, strict=False)
        ]
        super().__init__(
            [ConvNormActivation(in_channels, widths[0], stride=2), *pairs], widths[-1], num_classes, dropout
        )


class MobileNetV2(_MobileNet):
    """3,504,872 parameters with width_mult 1 and 1000 classes; torchvision's names of parts and options.

    inverted_residual_setting: rows (expansion, channels, repetitions, stride). Widths are rounded to multiples of
    round_nearest. last_channel: width before the linear layer. Shape: (B, in_channels, H, W) → (B, num_classes)
    """

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: Sequence[Sequence[int]] | None = None,
        round_nearest: int = 8,
        norm_layer: Maker | None = None,
        dropout: float = 0.2,
        *,
        in_channels: int = 3,
        last_channel: int = 1280,
    ) -> None:
        stages, norm = inverted_residual_setting or V2_STAGES, norm_layer or nn.BatchNorm2d
        if any(len(stage) != 4 for stage in stages):
            raise OptionError(f"MobileNetV2: expected rows (expansion, channels, repetitions, stride), got {stages}")
        rounded = lambda width: make_divisible(width, round_nearest)
        six = partial(ConvNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        channels, last = rounded(32 * width_mult), rounded(last_channel * max(1.0, width_mult))
        features: list[nn.Module] = [six(in_channels, channels, stride=2)]
        for expansion, width, repetitions, stride in stages:
            for number in range(repetitions):
                outputs = rounded(width * width_mult)
                features.append(InvertedResidual(channels, outputs, 1 if number else stride, expansion, norm))
                channels = outputs
        super().__init__([*features, six(channels, last, kernel_size=1)], last, num_classes, dropout)


class InvertedResidual(nn.Module):
    """1×1 to expand_ratio times the width, 3×3 one kernel a channel, 1×1 back without activation; a skip if sizes agree.

    Shape: (B, inp, H, W) → (B, oup, H/stride, W/stride)
    """

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: float, norm_layer: Maker | None = None) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise OptionError(f"InvertedResidual: expected a stride of 1 or 2, got {stride}")
        norm, hidden = norm_layer or nn.BatchNorm2d, round(inp * expand_ratio)
        six = partial(ConvNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        widen = [] if expand_ratio == 1 else [six(inp, hidden, kernel_size=1)]
        filtered = six(hidden, hidden, stride=stride, groups=hidden)
        self.use_res_connect = stride == 1 and inp == oup
        self.conv = nn.Sequential(*widen, filtered, conv1x1(hidden, oup), norm(oup))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


def mobilenet_v1(*, weights: Path | None = None, **options: Any) -> MobileNetV1:
    """4,231,976 parameters."""
    return build(MobileNetV1, weights, **options)


def mobilenet_v2(*, weights: Path | None = None, **options: Any) -> MobileNetV2:
    """3,504,872 parameters."""
    return build(MobileNetV2, weights, **options)
