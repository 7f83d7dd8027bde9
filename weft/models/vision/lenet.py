"""LeNet-5 (LeCun, Bottou, Bengio, Haffner 1998): convolutions and pooling in turn, then layers of full connections.

`LeNet5` is the network as it is taught today; `LeNet5Original` the one of the paper, parameter for parameter.
"""

from __future__ import annotations

import weft

from ... import nn
from ...tensor import Tensor

__all__ = ["LeNet5", "LeNet5Original"]

F = nn.functional


class LeNet5(nn.Module):
    """conv 5×5 → pool → conv 5×5 → pool → 120 → 84 → classes; 61,706 parameters with the defaults.

    activation: `nn.Tanh`, `nn.ReLU` … Images of 28 pixels are padded to 32 by the first convolution.
    Shape: (B, in_channels, 28, 28) → (B, num_classes)
    """

    def __init__(
        self, num_classes: int = 10, in_channels: int = 1, activation: type[nn.Module] = nn.Tanh, channels: int = 6
    ) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, channels, 5, padding=2),  # (B, 6, 28, 28)
            activation(),
            nn.AvgPool2d(2),  # (B, 6, 14, 14)
            nn.Conv2d(channels, 16, 5),  # (B, 16, 10, 10)
            activation(),
            nn.AvgPool2d(2),  # (B, 16, 5, 5)
        )
        self.classifier = nn.Sequential(
            nn.Linear(16 * 5 * 5, 120), activation(), nn.Linear(120, 84), activation(), nn.Linear(84, num_classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).flatten(1))  # (B, 16, 5, 5) → (B, 400) → (B, classes)


# Table I of the paper: which of the 6 maps of S2 each of the 16 maps of C3 sees.
C3_TABLE: tuple[tuple[int, ...], ...] = (
    *((0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5), (0, 4, 5), (0, 1, 5)),
    *((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (0, 3, 4, 5), (0, 1, 4, 5), (0, 1, 2, 5)),
    *((0, 1, 3, 4), (1, 2, 4, 5), (0, 2, 3, 5), (0, 1, 2, 3, 4, 5)),
)


class LeNet5Original(nn.Module):
    """The network of the paper with its 60,000 trainable parameters.

    C1 6 maps → S2 → C3 16 maps, each of which sees some of S2 → S4 → C5 120 → F6 84 → distances to fixed codes.
    S2 and S4 average 2×2 pixels, scale and shift; units are 1.7159 tanh(⅔ a). The outputs are the negative squared
    distances −‖f − w_c‖² of F6 to one code of ±1 for each class, so that the largest wins.
    Codes are drawn from `seed`, where the paper drew bitmaps of the characters. Shape: (B, 1, 32, 32) → (B, num_classes)
    """

    def __init__(self, num_classes: int = 10, seed: int = 0) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(1, 6, 5)
        self.s2 = Subsampling(6)
        self.c3 = nn.ModuleList(nn.Conv2d(len(maps), 1, 5) for maps in C3_TABLE)
        self.s4 = Subsampling(16)
        self.c5 = nn.Conv2d(16, 120, 5)
        self.f6 = nn.Linear(120, 84)
        signs = weft.Generator().manual_seed(seed).normal((num_classes, 84), "float32") >= 0
        self.register_buffer("codes", weft.tensor(2.0 * signs - 1, dtype=weft.float32))

    def forward(self, x: Tensor) -> Tensor:
        x = squash(self.s2(squash(self.c1(x))))  # (B, 6, 28, 28) → (B, 6, 14, 14)
        x = weft.cat([conv(x[:, list(maps)]) for conv, maps in zip(self.c3, C3_TABLE, strict=True)], 1)
        x = squash(self.s4(squash(x)))  # (B, 16, 10, 10) → (B, 16, 5, 5)
        x = squash(self.c5(x)).flatten(1)  # (B, 120, 1, 1) → (B, 120)
        f = squash(self.f6(x))  # (B, 84)
        return -((f[:, None] - self.codes) ** 2).sum(-1)  # (B, 1, 84) − (classes, 84) → (B, classes)


class Subsampling(nn.Module):
    """w_c · (mean of 2×2 pixels) + b_c: (B, channels, H, W) → (B, channels, H/2, W/2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(weft.ones(channels, 1, 1))
        self.bias = nn.Parameter(weft.zeros(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 2) * self.weight + self.bias


def squash(a: Tensor) -> Tensor:
    """1.7159 tanh(⅔ a), which is ±1 at a = ±1."""
    return 1.7159 * (2 / 3 * a).tanh()
