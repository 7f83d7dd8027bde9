"""cifar10-cnn: five convolutions on 10,000 images of CIFAR-10, shifted and mirrored at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import nn
from ...data.augment import Compose, RandomCrop, RandomHorizontalFlip, on_images
from ...data.sources import CIFAR10
from ..base import Goal, Root, Splits, Trained
from ..baselines import FEATURES_BASELINE, features_accuracy
from ..settings import option
from ..shared import ImageSettings, classifier, classify_images, conv_block, image_splits


@dataclass(kw_only=True)
class Cifar10CNNSettings(ImageSettings):
    """Settings of cifar10-cnn."""

    epochs: int = 10
    batch_size: int = 100
    lr: float = 0.01
    weight_decay: float = 0.01
    holdout: int = 500
    limit: int | None = 10_000
    width: int = option(32, "channels of the first two convolutions; then 2× and 4× as many", at_least=1)
    dropout: float = option(0.2, "share of channel pixels left out after pooling", at_least=0, at_most=0.9)


class Cifar10CNN(Trained):
    """Five 3×3 convolutions with batch normalisation, two poolings, the mean over the image, one linear layer."""

    title = "CIFAR-10, the subset of 10,000 images, a convolutional network with augmentation"
    Settings = Cifar10CNNSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.60,
        data="CIFAR-10's test images (the first 2,000 in the subset)",
        baseline=FEATURES_BASELINE,
        margin=0.1,
    )
    example = "a picture, or an array (3, 32, 32)"

    def data(self, settings: Cifar10CNNSettings, root: Root = None) -> Splits:
        moved = Compose([RandomCrop(32, padding=4), RandomHorizontalFlip()])
        return image_splits(settings, CIFAR10, root, on_images(moved))

    def task(self, settings: Cifar10CNNSettings, splits: Splits | None = None) -> nn.Module:
        return classifier(network(settings.width, settings.dropout), settings, splits)

    def baseline(self, settings: Cifar10CNNSettings, splits: Splits) -> float:
        return features_accuracy(splits, settings.seed)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_images(task, input, (3, 32, 32), list(CIFAR10.classes))


def network(width: int, dropout: float) -> nn.Sequential:
    """(B, 3, 32, 32) → (B, width, 16, 16) → (B, 2 width, 8, 8) → (B, 4 width) → (B, 10)."""
    return nn.Sequential(
        conv_block(3, width),
        conv_block(width, width),
        nn.MaxPool2d(2),
        nn.Dropout(dropout),
        conv_block(width, 2 * width),
        conv_block(2 * width, 2 * width),
        nn.MaxPool2d(2),
        nn.Dropout(dropout),
        conv_block(2 * width, 4 * width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, 10),
    )


recipe = Cifar10CNN()
