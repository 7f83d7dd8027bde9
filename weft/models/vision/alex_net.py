"""AlexNet (Krizhevsky, Sutskever, Hinton 2012) in the one-column form of "One weird trick" (2014), as torchvision's."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...io.atomic import Path
from ...tensor import Tensor
from ..pretrained.torchvision import build

__all__ = ["AlexNet", "alexnet"]


class AlexNet(nn.Module):
    """Five convolutions with ReLU, three poolings, three linear layers with dropout; 61,100,840 parameters.

    channels, hidden: widths of the convolutions and of the two hidden linear layers.
    Shape: (B, in_channels, H, W) with H, W ≥ 63 → (B, num_classes)
    """

    def __init__(
        self,
        num_classes: int = 1000,
        dropout: float = 0.5,
        *,
        in_channels: int = 3,
        channels: tuple[int, int, int, int, int] = (64, 192, 384, 256, 256),
        hidden: int = 4096,
    ) -> None:
        super().__init__()
        a, b, c, d, e = channels
        self.features = nn.Sequential(  # sizes for images of 224 pixels
            *(nn.Conv2d(in_channels, a, 11, stride=4, padding=2), nn.ReLU()),  # 55
            nn.MaxPool2d(3, stride=2),  # 27
            *(nn.Conv2d(a, b, 5, padding=2), nn.ReLU()),
            nn.MaxPool2d(3, stride=2),  # 13
            *(nn.Conv2d(b, c, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(c, d, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(d, e, 3, padding=1), nn.ReLU()),
            nn.MaxPool2d(3, stride=2),  # 6
        )
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            *(nn.Dropout(dropout), nn.Linear(e * 6 * 6, hidden), nn.ReLU()),
            *(nn.Dropout(dropout), nn.Linear(hidden, hidden), nn.ReLU()),
            nn.Linear(hidden, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))  # (B, 256, 6, 6) → (B, 9216) → (B, classes)


def alexnet(*, weights: Path | None = None, **options: Any) -> AlexNet:
    """AlexNet; weights: a file with a state dict of torchvision's."""
    return build(AlexNet, weights, **options)
