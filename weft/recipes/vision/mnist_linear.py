"""mnist-linear: softmax regression on MNIST's 784 pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import nn
from ...data.sources import MNIST
from ...models.classical.linear_models import SoftmaxRegression
from ..base import Goal, Root, Splits, Trained
from ..baselines import PIXELS_BASELINE, pixels_accuracy
from ..shared import ImageSettings, classifier, classify_digits, image_splits


@dataclass(kw_only=True)
class MnistLinearSettings(ImageSettings):
    """Settings of mnist-linear."""

    epochs: int = 5
    lr: float = 0.005
    weight_decay: float = 0.0


class MnistLinear(Trained):
    """p(digit | x) = softmax(W x + b): 7,850 parameters."""

    title = "MNIST, softmax regression"
    Settings = MnistLinearSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.92,
        data="MNIST's 10,000 test images",
        baseline=PIXELS_BASELINE,
        margin=0.03,
    )
    example = "a picture of one digit, or an array (28, 28), light ink on a dark ground"

    def data(self, settings: MnistLinearSettings, root: Root = None) -> Splits:
        return image_splits(settings, MNIST, root)

    def task(self, settings: MnistLinearSettings, splits: Splits | None = None) -> nn.Module:
        return classifier(nn.Sequential(nn.Flatten(), SoftmaxRegression(784, 10)), settings, splits)

    def baseline(self, settings: MnistLinearSettings, splits: Splits) -> float:
        return pixels_accuracy(splits)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_digits(task, input, 28)


recipe = MnistLinear()
