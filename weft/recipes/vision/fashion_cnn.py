"""fashion-cnn: three convolutions with batch normalisation on Fashion-MNIST, images mirrored at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import nn
from ...data.augment import RandomHorizontalFlip, on_images
from ...data.sources import FashionMNIST
from ..base import Goal, Root, Splits, Trained
from ..baselines import FEATURES_BASELINE, features_accuracy
from ..settings import option
from ..shared import ImageSettings, classifier, classify_images, conv_block, image_splits


@dataclass(kw_only=True)
class FashionCNNSettings(ImageSettings):
    """Settings of fashion-cnn."""

    epochs: int = 7
    lr: float = 0.005
    weight_decay: float = 0.05
    width: int = option(16, "channels of the first convolution, doubled twice", at_least=1)
    dropout: float = option(0.25, "share of units left out before the linear layers", at_least=0, at_most=0.9)


class FashionCNN(Trained):
    """Convolution, normalisation, ReLU and pooling three times, then two linear layers."""

    title = "Fashion-MNIST, a convolutional network with batch normalisation"
    Settings = FashionCNNSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.91,
        data="Fashion-MNIST's 10,000 test images",
        baseline=FEATURES_BASELINE,
        margin=0.05,
    )
    example = "a picture of a piece of clothing, light on dark, or an array (28, 28)"

    def data(self, settings: FashionCNNSettings, root: Root = None) -> Splits:
        return image_splits(settings, FashionMNIST, root, on_images(RandomHorizontalFlip()))

    def task(self, settings: FashionCNNSettings, splits: Splits | None = None) -> nn.Module:
        return classifier(network(settings.width, settings.dropout), settings, splits)

    def baseline(self, settings: FashionCNNSettings, splits: Splits) -> float:
        return features_accuracy(splits, settings.seed)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_images(task, input, (1, 28, 28), list(FashionMNIST.classes))


def network(width: int, dropout: float) -> nn.Sequential:
    """(B, 1, 28, 28) → (B, width, 14, 14) → (B, 2 width, 7, 7) → (B, 4 width, 3, 3) → (B, 128) → (B, 10)."""
    return nn.Sequential(
        conv_block(1, width),
        nn.MaxPool2d(2),
        conv_block(width, 2 * width),
        nn.MaxPool2d(2),
        conv_block(2 * width, 4 * width),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(4 * width * 9, 128),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(128, 10),
    )


recipe = FashionCNN()
