"""mnist-cnn: two convolutions and two linear layers on MNIST, 99 % within five epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import nn
from ...data.sources import MNIST
from ..base import Goal, Root, Splits, Trained
from ..baselines import FEATURES_BASELINE, features_accuracy
from ..settings import option
from ..shared import ImageSettings, classifier, classify_digits, image_splits

__all__ = ["MnistCNNSettings", "network", "recipe"]


@dataclass(kw_only=True)
class MnistCNNSettings(ImageSettings):
    """Settings of mnist-cnn."""

    epochs: int = 4
    lr: float = 0.01
    width: int = option(16, "channels of the first convolution; the second has twice as many", at_least=1)
    dropout: float = option(0.2, "share of units left out before the linear layers", at_least=0, at_most=0.9)


class MnistCNN(Trained):
    """Convolution, ReLU and pooling twice, then two linear layers."""

    title = "MNIST, a convolutional network"
    Settings = MnistCNNSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.99,
        data="MNIST's 10,000 test images",
        baseline=FEATURES_BASELINE,
        margin=0.03,
    )
    example = "a picture of one digit, or an array (28, 28), light ink on a dark ground"

    def data(self, settings: MnistCNNSettings, root: Root = None) -> Splits:
        return image_splits(settings, MNIST, root)

    def task(self, settings: MnistCNNSettings, splits: Splits | None = None) -> nn.Module:
        return classifier(network(settings.width, settings.dropout), settings, splits)

    def baseline(self, settings: MnistCNNSettings, splits: Splits) -> float:
        return features_accuracy(splits, settings.seed)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_digits(task, input, 28)


def network(width: int, dropout: float) -> nn.Sequential:
    """(B, 1, 28, 28) → (B, width, 14, 14) → (B, 2 width, 7, 7) → (B, 128) → (B, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width * 49, 128),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(128, 10),
    )


recipe = MnistCNN()
