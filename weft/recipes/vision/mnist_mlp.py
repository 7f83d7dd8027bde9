"""mnist-mlp: two hidden layers with dropout on MNIST's 784 pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import nn
from ...data.sources import MNIST
from ...models.classical.mlp import MLP
from ..base import Goal, Root, Splits, Trained
from ..baselines import FEATURES_BASELINE, features_accuracy
from ..settings import option
from ..shared import ImageSettings, classifier, classify_digits, image_splits


@dataclass(kw_only=True)
class MnistMLPSettings(ImageSettings):
    """Settings of mnist-mlp."""

    epochs: int = 8
    lr: float = 0.003
    hidden: tuple[int, ...] = option((256, 256), "widths of the hidden layers", at_least=1)
    dropout: float = option(0.2, "share of hidden units left out at each step", at_least=0, at_most=0.9)


class MnistMLP(Trained):
    """784 → 256 → 256 → 10 with ReLU."""

    title = "MNIST, a network with two hidden layers"
    Settings = MnistMLPSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.98,
        data="MNIST's 10,000 test images",
        baseline=FEATURES_BASELINE,
        margin=0.02,
    )
    example = "a picture of one digit, or an array (28, 28), light ink on a dark ground"

    def data(self, settings: MnistMLPSettings, root: Root = None) -> Splits:
        return image_splits(settings, MNIST, root)

    def task(self, settings: MnistMLPSettings, splits: Splits | None = None) -> nn.Module:
        model = nn.Sequential(nn.Flatten(), MLP(784, settings.hidden, 10, dropout=settings.dropout))
        return classifier(model, settings, splits)

    def baseline(self, settings: MnistMLPSettings, splits: Splits) -> float:
        return features_accuracy(splits, settings.seed)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_digits(task, input, 28)


recipe = MnistMLP()
