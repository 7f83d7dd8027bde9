"""Residual networks for images of 32 pixels: CIFAR ResNets, pre-activation ResNets and wide ResNets.

CIFAR ResNets: He et al. 2015, §4.2. Pre-activation: He et al. 2016, "Identity mappings in deep residual networks".
Wide: Zagoruyko and Komodakis 2016. All have a 3×3 stem and stages that halve the size from the second on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .blocks import conv1x1, conv3x3, fill, he_fan_out
from .resnet import BasicBlock

__all__ = [
    "CifarResNet",
    "PadShortcut",
    "PreActBlock",
    "PreActBottleneck",
    "PreActResNet",
    "preact_resnet18",
    "preact_resnet34",
    "preact_resnet50",
    "preresnet20",
    "preresnet56",
    "preresnet110",
    "preresnet164",
    "preresnet1001",
    "resnet20",
    "resnet32",
    "resnet44",
    "resnet56",
    "resnet110",
    "resnet1202",
    "wide_resnet",
    "wide_resnet16_8",
    "wide_resnet28_10",
    "wide_resnet40_4",
]

F = nn.functional


class PadShortcut(nn.Module):
    """Option A of the paper: every `stride`-th pixel, and `extra` channels of zeros; no parameters.

    Shape: (B, C, H, W) → (B, C + extra, H/stride, W/stride)
    """

    def __init__(self, extra: int, stride: int) -> None:
        super().__init__()
        self.extra, self.stride = extra, stride

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.extra))

    def extra_repr(self) -> str:
        return f"extra={self.extra}, stride={self.stride}"


def _projection(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Option B of the paper: a 1×1 convolution with a norm."""
    return nn.Sequential(conv1x1(inputs, outputs, stride), nn.BatchNorm2d(outputs))


SHORTCUTS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "A": lambda inputs, outputs, stride: PadShortcut(outputs - inputs, stride),
    "B": _projection,
}


class CifarResNet(nn.Module):
    """3×3 stem, stages of basic blocks, mean, linear; three stages of n blocks have 6 n + 2 layers.

    shortcut: "A" (zeros for new channels, as in the paper's CIFAR experiments) or "B" (projections).
    Shape: (B, in_channels, H, W) → (B, num_classes)

    >>> sum(p.numel() for p in CifarResNet([3, 3, 3]).parameters())  # resnet20: the paper's 0.27 million
    269722
    """

    def __init__(
        self,
        layers: Sequence[int],
        num_classes: int = 10,
        *,
        widths: Sequence[int] = (16, 32, 64),
        shortcut: str = "A",
        in_channels: int = 3,
    ) -> None:
        super().__init__()
        if shortcut not in SHORTCUTS:
            raise OptionError(f"CifarResNet: shortcut must be 'A' or 'B', got {shortcut!r}")
        join = SHORTCUTS[shortcut]
        self.conv1, self.bn1 = conv3x3(in_channels, widths[0]), nn.BatchNorm2d(widths[0])
        before = (widths[0], *widths)
        self.stages = len(widths)
        for number, (inputs, width, blocks) in enumerate(zip(before, widths, layers, strict=False), 1):
            stride = 1 if number == 1 else 2
            first = BasicBlock(inputs, width, stride, None if number == 1 else join(inputs, width, stride))
            others = [BasicBlock(width, width) for _ in range(1, blocks)]
            self.add_module(f"layer{number}", nn.Sequential(first, *others))
        self.fc = nn.Linear(widths[-1], num_classes)
        fill(self, nn.Conv2d, he_fan_out)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv1(x)).relu()  # (B, 16, H, W)
        for number in range(1, self.stages + 1):
            x = getattr(self, f"layer{number}")(x)
        return self.fc(x.mean((2, 3)))  # (B, 64, H/4, W/4) → (B, 64) → (B, classes)


# ------------------------------------------------------------------------------------------- pre-activation


class PreActBlock(nn.Module):
    """y = s + conv2(drop(relu(bn2(conv1 h)))),  h = relu(bn1 x);  s = x, or downsample(h) where sizes change.

    Shape: (B, inputs, H, W) → (B, planes, H/stride, W/stride)
    """

    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), conv3x3(inputs, planes, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(planes), conv3x3(planes, planes)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.downsample = conv1x1(inputs, planes, stride) if stride != 1 or inputs != planes else None

    def forward(self, x: Tensor) -> Tensor:
        h = self.bn1(x).relu()
        y = self.conv2(self.dropout(self.bn2(self.conv1(h)).relu()))
        return y + (x if self.downsample is None else self.downsample(h))


class PreActBottleneck(nn.Module):
    """Norm and relu before each of three convolutions, 1×1, 3×3, 1×1 to 4 · planes; the sum as in `PreActBlock`.

    Shape: (B, inputs, H, W) → (B, 4 · planes, H/stride, W/stride)
    """

    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        outputs = self.expansion * planes
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), conv1x1(inputs, planes)
        self.bn2, self.conv2 = nn.BatchNorm2d(planes), conv3x3(planes, planes, stride)
        self.bn3, self.conv3 = nn.BatchNorm2d(planes), conv1x1(planes, outputs)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.downsample = conv1x1(inputs, outputs, stride) if stride != 1 or inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        h = self.bn1(x).relu()
        y = self.conv2(self.bn2(self.conv1(h)).relu())
        y = self.conv3(self.dropout(self.bn3(y).relu()))
        return y + (x if self.downsample is None else self.downsample(h))


class PreActResNet(nn.Module):
    """3×3 stem, stages of pre-activation blocks, norm, relu, mean, linear: the skips form an identity throughout.

    stem: channels of the first convolution, widths[0] unless given. Shape: (B, in_channels, H, W) → (B, num_classes)
    """

    def __init__(
        self,
        block: type[PreActBlock] | type[PreActBottleneck],
        layers: Sequence[int],
        num_classes: int = 10,
        *,
        widths: Sequence[int] = (16, 32, 64),
        stem: int | None = None,
        dropout: float = 0.0,
        in_channels: int = 3,
    ) -> None:
        super().__init__()
        channels = stem or widths[0]
        self.conv1 = conv3x3(in_channels, channels)
        self.stages = len(widths)
        for number, (planes, blocks) in enumerate(zip(widths, layers, strict=True), 1):
            outputs = planes * block.expansion
            first = block(channels, planes, 1 if number == 1 else 2, dropout)
            others = [block(outputs, planes, 1, dropout) for _ in range(1, blocks)]
            self.add_module(f"layer{number}", nn.Sequential(first, *others))
            channels = outputs
        self.bn = nn.BatchNorm2d(channels)
        self.fc = nn.Linear(channels, num_classes)
        fill(self, nn.Conv2d, he_fan_out)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for number in range(1, self.stages + 1):
            x = getattr(self, f"layer{number}")(x)
        return self.fc(self.bn(x).relu().mean((2, 3)))  # (B, C, H/4, W/4) → (B, C) → (B, classes)


def wide_resnet(depth: int, width: int, **options: Any) -> PreActResNet:
    """WRN-depth-width: stages of (depth − 4) / 6 pre-activation blocks with width · (16, 32, 64) channels."""
    blocks, rest = divmod(depth - 4, 6)
    if rest or blocks < 1:
        raise OptionError(f"wide_resnet: expected a depth of 6 n + 4 (10, 16, 22, 28, 40 …), got {depth}")
    return PreActResNet(PreActBlock, (blocks,) * 3, widths=(16 * width, 32 * width, 64 * width), stem=16, **options)


# ------------------------------------------------------------------------------------------- sizes


def resnet20(num_classes: int = 10, **options: Any) -> CifarResNet:
    """269,722 parameters (272,474 with shortcut "B")."""
    return CifarResNet((3, 3, 3), num_classes, **options)


def resnet32(num_classes: int = 10, **options: Any) -> CifarResNet:
    """464,154 parameters."""
    return CifarResNet((5, 5, 5), num_classes, **options)


def resnet44(num_classes: int = 10, **options: Any) -> CifarResNet:
    """658,586 parameters."""
    return CifarResNet((7, 7, 7), num_classes, **options)


def resnet56(num_classes: int = 10, **options: Any) -> CifarResNet:
    """853,018 parameters."""
    return CifarResNet((9, 9, 9), num_classes, **options)


def resnet110(num_classes: int = 10, **options: Any) -> CifarResNet:
    """1,727,962 parameters."""
    return CifarResNet((18, 18, 18), num_classes, **options)


def resnet1202(num_classes: int = 10, **options: Any) -> CifarResNet:
    """19,421,274 parameters."""
    return CifarResNet((200, 200, 200), num_classes, **options)


def preresnet20(num_classes: int = 10, **options: Any) -> PreActResNet:
    """Pre-activation ResNet-20: 272,282 parameters."""
    return PreActResNet(PreActBlock, (3, 3, 3), num_classes, **options)


def preresnet56(num_classes: int = 10, **options: Any) -> PreActResNet:
    """Pre-activation ResNet-56: 855,578 parameters."""
    return PreActResNet(PreActBlock, (9, 9, 9), num_classes, **options)


def preresnet110(num_classes: int = 10, **options: Any) -> PreActResNet:
    """Pre-activation ResNet-110 of the paper: 1,730,522 parameters."""
    return PreActResNet(PreActBlock, (18, 18, 18), num_classes, **options)


def preresnet164(num_classes: int = 10, **options: Any) -> PreActResNet:
    """Pre-activation ResNet-164 of the paper (bottlenecks): 1,703,258 parameters."""
    return PreActResNet(PreActBottleneck, (18, 18, 18), num_classes, **options)


def preresnet1001(num_classes: int = 10, **options: Any) -> PreActResNet:
    """Pre-activation ResNet-1001 of the paper (bottlenecks): 10,327,706 parameters."""
    return PreActResNet(PreActBottleneck, (111, 111, 111), num_classes, **options)


def preact_resnet18(num_classes: int = 10, **options: Any) -> PreActResNet:
    """ResNet-18's four stages with pre-activation and a 3×3 stem: 11,172,170 parameters."""
    return PreActResNet(PreActBlock, (2, 2, 2, 2), num_classes, **{"widths": (64, 128, 256, 512)} | options)


def preact_resnet34(num_classes: int = 10, **options: Any) -> PreActResNet:
    """ResNet-34's four stages with pre-activation and a 3×3 stem: 21,280,330 parameters."""
    return PreActResNet(PreActBlock, (3, 4, 6, 3), num_classes, **{"widths": (64, 128, 256, 512)} | options)


def preact_resnet50(num_classes: int = 10, **options: Any) -> PreActResNet:
    """ResNet-50's four stages with pre-activation and a 3×3 stem: 23,513,162 parameters."""
    return PreActResNet(PreActBottleneck, (3, 4, 6, 3), num_classes, **{"widths": (64, 128, 256, 512)} | options)


def wide_resnet16_8(num_classes: int = 10, **options: Any) -> PreActResNet:
    """WRN-16-8: 10,961,370 parameters."""
    return wide_resnet(16, 8, num_classes=num_classes, **options)


def wide_resnet28_10(num_classes: int = 10, **options: Any) -> PreActResNet:
    """WRN-28-10: 36,479,194 parameters; the paper's dropout is 0.3."""
    return wide_resnet(28, 10, num_classes=num_classes, **options)


def wide_resnet40_4(num_classes: int = 10, **options: Any) -> PreActResNet:
    """WRN-40-4: 8,949,210 parameters."""
    return wide_resnet(40, 4, num_classes=num_classes, **options)
