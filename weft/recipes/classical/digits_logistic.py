"""digits-logistic: softmax regression on handwritten digits; what one linear layer can do, beside digits-mlp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import nn
from ...models.classical.linear_models import SoftmaxRegression
from ..base import Goal, Root, Splits, Trained
from ..baselines import PIXELS_BASELINE, pixels_accuracy
from ..settings import TrainSettings, option
from ..shared import classifier, classify_digits
from .digits_mlp import digit_splits


@dataclass(kw_only=True)
class LogisticSettings(TrainSettings):
    """Settings of digits-logistic."""

    epochs: int = 30
    batch_size: int = 32
    lr: float = 0.02
    weight_decay: float = option(0.05, "decay of the weights (AdamW)", at_least=0)


class DigitsLogistic(Trained):
    """p(digit | x) = softmax(W x + b), a convex problem."""

    title = "Handwritten digits of 8×8 pixels, softmax regression"
    Settings = LogisticSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.94,
        data="the 360 digits kept for testing (every fifth)",
        baseline=PIXELS_BASELINE,
        margin=0.01,
    )
    example = "a picture of one digit, or an array (8, 8) with brightness 0 (ground) to 16 (ink)"

    def data(self, settings: LogisticSettings, root: Root = None) -> Splits:
        return digit_splits(settings)

    def task(self, settings: LogisticSettings, splits: Splits | None = None) -> nn.Module:
        return classifier(nn.Sequential(nn.Flatten(), SoftmaxRegression(64, 10)), settings, splits)

    def baseline(self, settings: LogisticSettings, splits: Splits) -> float:
        return pixels_accuracy(splits)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_digits(task, input, 8, white=16)


recipe = DigitsLogistic()
