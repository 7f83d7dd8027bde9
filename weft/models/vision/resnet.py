"""Residual networks for ImageNet: ResNet-18 … 152 (He et al. 2015), ResNeXt (Xie et al. 2016), wide ResNets.

Wide ones are Zagoruyko and Komodakis's (2016). Names of parts, options and initial values are torchvision's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import nn
from ...errors import OptionError
from ...io.atomic import Path
from ...tensor import Tensor
from ..pretrained.torchvision import build
from .blocks import Maker, conv1x1, conv3x3, fill, he_fan_out

__all__ = [
    "BasicBlock",
    "Bottleneck",
    "ResNet",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "resnext101_32x8d",
    "resnext101_64x4d",
    "wide_resnet50_2",
    "wide_resnet101_2",
]


class BasicBlock(nn.Module):
    """y = relu(s(x) + F(x)), F: conv 3×3, norm, relu, conv 3×3, norm; s = `downsample`, or the identity.

    Shape: (B, inplanes, H, W) → (B, planes, H/stride, W/stride)
    """

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Maker | None = None,
    ) -> None:
        super().__init__()
        if (groups, base_width, dilation) != (1, 64, 1):
            raise OptionError("BasicBlock: groups, widths and dilation are options of Bottleneck")
        norm = norm_layer or nn.BatchNorm2d
        self.conv1, self.bn1 = conv3x3(inplanes, planes, stride), norm(planes)
        self.conv2, self.bn2 = conv3x3(planes, planes), norm(planes)
        self.relu, self.downsample, self.stride = nn.ReLU(), downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """y = relu(s(x) + F(x)), F: conv 1×1 to `width` channels, conv 3×3 in groups, conv 1×1 to 4 · planes, with norms.

    width = planes · base_width/64 · groups. The 3×3 convolution has the stride ("ResNet v1.5"; the paper gave it to the
    first). Shape: (B, inplanes, H, W) → (B, 4 · planes, H/stride, W/stride)
    """

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Maker | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        width, outputs = int(planes * base_width / 64) * groups, planes * self.expansion
        self.conv1, self.bn1 = conv1x1(inplanes, width), norm(width)
        self.conv2, self.bn2 = conv3x3(width, width, stride, groups, dilation), norm(width)
        self.conv3, self.bn3 = conv1x1(width, outputs), norm(outputs)
        self.relu, self.downsample, self.stride = nn.ReLU(), downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Stem (7×7 convolution and pooling, size / 4), four stages of blocks (size / 2 after the first), mean, linear.

    layers: blocks of each stage. zero_init_residual starts every block as the identity. replace_stride_with_dilation:
    for each of the last three stages, whether it keeps its size and spreads its kernels instead.
    width: channels of the stem; stages have width · (1, 2, 4, 8) planes. Shape: (B, in_channels, H, W) → (B, num_classes)

    >>> model = ResNet(BasicBlock, [2, 2, 2, 2], num_classes=10)
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: Maker | None = None,
        *,
        in_channels: int = 3,
        width: int = 64,
    ) -> None:
        super().__init__()
        dilate = replace_stride_with_dilation or (False, False, False)
        if len(layers) != 4 or len(dilate) != 3:
            raise OptionError(f"ResNet: expected 4 numbers of blocks and 3 choices of dilation, got {layers}, {dilate}")
        self._block, self._norm = block, norm_layer or nn.BatchNorm2d
        self._grouping = {"groups": groups, "base_width": width_per_group, "norm_layer": self._norm}
        self._channels, self._dilation = width, 1
        self.conv1 = nn.Conv2d(in_channels, width, 7, stride=2, padding=3, bias=False)
        self.bn1, self.relu = self._norm(width), nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self._stage(width, layers[0], 1, False)
        self.layer2 = self._stage(2 * width, layers[1], 2, dilate[0])
        self.layer3 = self._stage(4 * width, layers[2], 2, dilate[1])
        self.layer4 = self._stage(8 * width, layers[3], 2, dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(self._channels, num_classes)
        fill(self, nn.Conv2d, he_fan_out)
        if zero_init_residual:
            _silence(self)

    def _stage(self, planes: int, blocks: int, stride: int, dilate: bool) -> nn.Sequential:
        """Blocks of one width; the first one changes size and width."""
        first_dilation, outputs = self._dilation, planes * self._block.expansion
        if dilate:
            self._dilation, stride = self._dilation * stride, 1
        shortcut = None
        if stride != 1 or self._channels != outputs:
            shortcut = nn.Sequential(conv1x1(self._channels, outputs, stride), self._norm(outputs))
        first = self._block(self._channels, planes, stride, shortcut, dilation=first_dilation, **self._grouping)
        others = [self._block(outputs, planes, dilation=self._dilation, **self._grouping) for _ in range(1, blocks)]
        self._channels = outputs
        return nn.Sequential(first, *others)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))  # (B, 64, H/4, W/4)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))  # (B, 512 · expansion, H/32, W/32)
        return self.fc(self.avgpool(x).flatten(1))  # (B, C, 1, 1) → (B, C) → (B, classes)


def _silence(model: ResNet) -> None:
    """The last norm of every block starts at 0, and with it the whole branch (Goyal et al. 2017)."""
    for block in model.modules():
        if isinstance(block, (BasicBlock, Bottleneck)):
            nn.init.zeros_((block.bn2 if isinstance(block, BasicBlock) else block.bn3).weight)


# ------------------------------------------------------------------------------------------- sizes


def resnet18(*, weights: Path | None = None, **options: Any) -> ResNet:
    """11,689,512 parameters."""
    return build(ResNet, weights, BasicBlock, (2, 2, 2, 2), **options)


def resnet34(*, weights: Path | None = None, **options: Any) -> ResNet:
    """21,797,672 parameters."""
    return build(ResNet, weights, BasicBlock, (3, 4, 6, 3), **options)


def resnet50(*, weights: Path | None = None, **options: Any) -> ResNet:
    """25,557,032 parameters."""
    return build(ResNet, weights, Bottleneck, (3, 4, 6, 3), **options)


def resnet101(*, weights: Path | None = None, **options: Any) -> ResNet:
    """44,549,160 parameters."""
    return build(ResNet, weights, Bottleneck, (3, 4, 23, 3), **options)


def resnet152(*, weights: Path | None = None, **options: Any) -> ResNet:
    """60,192,808 parameters."""
    return build(ResNet, weights, Bottleneck, (3, 8, 36, 3), **options)


def resnext50_32x4d(*, weights: Path | None = None, **options: Any) -> ResNet:
    """32 groups of 4 channels: 25,028,904 parameters."""
    return build(ResNet, weights, Bottleneck, (3, 4, 6, 3), **{"groups": 32, "width_per_group": 4} | options)


def resnext101_32x8d(*, weights: Path | None = None, **options: Any) -> ResNet:
    """32 groups of 8 channels: 88,791,336 parameters."""
    return build(ResNet, weights, Bottleneck, (3, 4, 23, 3), **{"groups": 32, "width_per_group": 8} | options)


def resnext101_64x4d(*, weights: Path | None = None, **options: Any) -> ResNet:
    """64 groups of 4 channels: 83,455,272 parameters."""
    return build(ResNet, weights, Bottleneck, (3, 4, 23, 3), **{"groups": 64, "width_per_group": 4} | options)


def wide_resnet50_2(*, weights: Path | None = None, **options: Any) -> ResNet:
    """The 3×3 convolutions twice as wide: 68,883,240 parameters."""
    return build(ResNet, weights, Bottleneck, (3, 4, 6, 3), **{"width_per_group": 128} | options)


def wide_resnet101_2(*, weights: Path | None = None, **options: Any) -> ResNet:
    """The 3×3 convolutions twice as wide: 126,886,696 parameters."""
    return build(ResNet, weights, Bottleneck, (3, 4, 23, 3), **{"width_per_group": 128} | options)
