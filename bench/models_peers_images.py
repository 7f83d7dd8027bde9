"""PyTorch's side of image models that torchvision does not have; see `models_peers`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F


def MLP(in_features: int, hidden: Sequence[int], out_features: int) -> nn.Sequential:
    widths = [in_features, *hidden]
    layers = [part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(widths[-1], out_features))


def LeNet5(num_classes: int = 10) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, num_classes)),
    )


class PreActBlock(nn.Module):
    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(planes), nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        changed = stride != 1 or inputs != planes
        self.downsample = nn.Conv2d(inputs, planes, 1, stride, bias=False) if changed else None

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.bn1(x), inplace=True)
        y = self.conv2(F.relu(self.bn2(self.conv1(h)), inplace=True))
        return y + (x if self.downsample is None else self.downsample(h))


def pre_activation(stem: int, widths: Sequence[int], blocks: int, num_classes: int) -> nn.Sequential:
    parts, before = [nn.Conv2d(3, stem, 3, padding=1, bias=False)], stem
    for stage, width in enumerate(widths):
        for number in range(blocks):
            parts.append(PreActBlock(before, width, 2 if stage and not number else 1))
            before = width
    end = [nn.BatchNorm2d(before), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*parts, *end, nn.Linear(before, num_classes))


def preresnet20(num_classes: int = 10) -> nn.Sequential:
    return pre_activation(16, (16, 32, 64), 3, num_classes)


def wide_resnet(depth: int, width: int, num_classes: int = 10) -> nn.Sequential:
    return pre_activation(16, (16 * width, 32 * width, 64 * width), (depth - 4) // 6, num_classes)


def normed(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def MobileNetV1(num_classes: int = 1000, width_mult: float = 1.0) -> nn.Sequential:
    rows = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
    before = int(32 * width_mult)
    parts: list[nn.Module] = [normed(3, before, stride=2)]
    for width, stride in rows:
        after = int(width * width_mult)
        parts += [normed(before, before, stride=stride, groups=before), normed(before, after, 1)]
        before = after
    return nn.Sequential(
        *parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.001), nn.Linear(before, num_classes)
    )
