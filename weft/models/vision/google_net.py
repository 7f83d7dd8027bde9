"""GoogLeNet, "Going deeper with convolutions" (Szegedy et al. 2014): four branches of different reach side by side.

As torchvision's: with batch normalisation, and with a 3×3 kernel where the paper has 5×5 (branch 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import weft

from ... import nn
from ...io.atomic import Path
from ...tensor import Tensor
from ..pretrained.torchvision import build, read_state_dict
from .blocks import fill

__all__ = ["GoogLeNet", "GoogLeNetOutputs", "Inception", "googlenet"]

F = nn.functional

# Table 1 of the paper: branch 1; narrowing and result of branches 2 and 3; branch 4. None halves the size.
INCEPTIONS: dict[str, tuple[int, int, int, int, int, int] | None] = {
    "inception3a": (64, 96, 128, 16, 32, 32),
    "inception3b": (128, 128, 192, 32, 96, 64),
    "maxpool3": None,
    "inception4a": (192, 96, 208, 16, 48, 64),
    "inception4b": (160, 112, 224, 24, 64, 64),
    "inception4c": (128, 128, 256, 24, 64, 64),
    "inception4d": (112, 144, 288, 32, 64, 64),
    "inception4e": (256, 160, 320, 32, 128, 128),
    "maxpool4": None,
    "inception5a": (256, 160, 320, 32, 128, 128),
    "inception5b": (384, 192, 384, 48, 128, 128),
}
AUXILIARY = {"inception4a": "aux1", "inception4d": "aux2"}  # after which part each auxiliary classifier listens


class GoogLeNetOutputs(NamedTuple):
    """Scores in training: of the network, and of its two auxiliary classifiers, (B, num_classes) each."""

    logits: Tensor
    aux_logits2: Tensor
    aux_logits1: Tensor


class GoogLeNet(nn.Module):
    """Stem, nine inceptions, mean, linear: 6,624,904 parameters, 13,004,888 with the auxiliary classifiers.

    With aux_logits the model returns `GoogLeNetOutputs` in training, else scores; the paper adds the auxiliary losses
    with weight 0.3. transform_input takes images normalised by ImageNet's statistics to the range (−1, 1) that
    torchvision's ImageNet weights expect. width_mult: all widths, scaled. Shape: (B, 3, H, W) → (B, num_classes)
    """

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool = True,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
        *,
        width_mult: float = 1.0,
    ) -> None:
        super().__init__()
        scaled = lambda *widths: tuple(max(1, round(width_mult * width)) for width in widths)
        stem, channels = scaled(64, 192)
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.conv1 = BasicConv2d(3, stem, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2 = BasicConv2d(stem, stem, kernel_size=1)
        self.conv3 = BasicConv2d(stem, channels, kernel_size=3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        heard = {}
        for name, widths in INCEPTIONS.items():
            inception = widths and Inception(channels, *scaled(*widths))
            self.add_module(name, inception or nn.MaxPool2d(3 if name == "maxpool3" else 2, stride=2, ceil_mode=True))
            channels = inception.out_channels if inception else channels
            heard[name] = channels
        for part, name in AUXILIARY.items():
            narrow = scaled(128, 1024)
            self.add_module(name, InceptionAux(heard[part], num_classes, dropout_aux, narrow) if aux_logits else None)
        self.avgpool, self.dropout = nn.AdaptiveAvgPool2d(1), nn.Dropout(dropout)
        self.fc = nn.Linear(channels, num_classes)
        if init_weights:
            fill(self, (nn.Conv2d, nn.Linear), partial(nn.init.trunc_normal_, std=0.01), bias=None)

    def forward(self, x: Tensor) -> Tensor | GoogLeNetOutputs:
        x = _to_unit_range(x) if self.transform_input else x
        x = self.conv3(self.conv2(self.maxpool1(self.conv1(x))))  # (B, 192, H/4, W/4)
        x, auxiliary = self.maxpool2(x), {}
        for name in INCEPTIONS:
            x = getattr(self, name)(x)
            if name in AUXILIARY and self.aux_logits and self.training:
                auxiliary[name] = getattr(self, AUXILIARY[name])(x)
        y = self.fc(self.dropout(self.avgpool(x).flatten(1)))  # (B, 1024, 1, 1) → (B, 1024) → (B, classes)
        return GoogLeNetOutputs(y, auxiliary["inception4d"], auxiliary["inception4a"]) if auxiliary else y


class Inception(nn.Module):
    """1×1 ∥ 1×1 → 3×3 ∥ 1×1 → 3×3 ∥ pooling → 1×1, side by side: (B, in_channels, H, W) → (B, Σ widths, H, W)."""

    def __init__(
        self, in_channels: int, ch1x1: int, ch3x3red: int, ch3x3: int, ch5x5red: int, ch5x5: int, pool_proj: int
    ) -> None:
        super().__init__()
        narrowed = lambda narrow, width: nn.Sequential(
            BasicConv2d(in_channels, narrow, kernel_size=1), BasicConv2d(narrow, width, kernel_size=3, padding=1)
        )
        self.branch1 = BasicConv2d(in_channels, ch1x1, kernel_size=1)
        self.branch2 = narrowed(ch3x3red, ch3x3)
        self.branch3 = narrowed(ch5x5red, ch5x5)
        pool = nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True)
        self.branch4 = nn.Sequential(pool, BasicConv2d(in_channels, pool_proj, kernel_size=1))
        self.out_channels = ch1x1 + ch3x3 + ch5x5 + pool_proj

    def forward(self, x: Tensor) -> Tensor:
        return weft.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionAux(nn.Module):
    """A classifier halfway up, for gradients that reach the early layers: (B, in_channels, H, W) → (B, num_classes)."""

    def __init__(
        self, in_channels: int, num_classes: int, dropout: float = 0.7, widths: Sequence[int] = (128, 1024)
    ) -> None:
        super().__init__()
        narrow, hidden = widths
        self.conv = BasicConv2d(in_channels, narrow, kernel_size=1)
        self.fc1, self.fc2 = nn.Linear(narrow * 4 * 4, hidden), nn.Linear(hidden, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(F.adaptive_avg_pool2d(x, 4)).flatten(1)  # (B, 128, 4, 4) → (B, 2048)
        return self.fc2(self.dropout(self.fc1(x).relu()))


class BasicConv2d(nn.Module):
    """relu(bn(conv x))."""

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **options)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(self.conv(x)).relu()


def _to_unit_range(x: Tensor) -> Tensor:
    """(pixel − mean) / std of ImageNet → (pixel − 0.5) / 0.5, channel by channel: (B, 3, H, W) → the same."""
    mean, std = weft.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]], dtype=x.dtype)[..., None, None]  # (3, 1, 1)
    return x * (std / 0.5) + (mean - 0.5) / 0.5


def googlenet(*, weights: Path | None = None, **options: Any) -> GoogLeNet:
    """GoogLeNet. With a file of weights, auxiliary classifiers are made if the file has them.

    torchvision's ImageNet weights want transform_input=True.
    """
    if weights is not None:
        options.setdefault("aux_logits", any(key.startswith("aux") for key in read_state_dict(weights)))
    return build(GoogLeNet, weights, **options)
