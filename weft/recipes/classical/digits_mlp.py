"""digits-mlp: a network with two hidden layers reads handwritten digits of 8×8 pixels that come with Weft."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import weft

from ... import nn
from ...data import load_digits
from ...models.classical.mlp import MLP
from ..base import Goal, Root, Splits, Trained
from ..baselines import PIXELS_BASELINE, pixels_accuracy
from ..settings import TrainSettings, option
from ..shared import Pair, classifier, classify_digits, loaders

__all__ = ["digit_splits"]


@dataclass(kw_only=True)
class DigitsSettings(TrainSettings):
    """Settings of digits-mlp."""

    epochs: int = 40
    batch_size: int = 32
    lr: float = 0.005
    weight_decay: float = option(0.05, "decay of the weights (AdamW)", at_least=0)
    hidden: tuple[int, ...] = option((256, 256), "widths of the hidden layers", at_least=1)
    dropout: float = option(0.4, "share of hidden units left out at each step", at_least=0, at_most=0.9)


class DigitsMLP(Trained):
    """64 → hidden → 10 with ReLU and dropout, AdamW on a one-cycle schedule."""

    title = "Handwritten digits of 8×8 pixels, a network with two hidden layers"
    Settings = DigitsSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.97,
        data="the 360 digits kept for testing (every fifth)",
        baseline=PIXELS_BASELINE,
        margin=0.02,
    )
    example = "a picture of one digit, or an array (8, 8) with brightness 0 (ground) to 16 (ink)"

    def data(self, settings: DigitsSettings, root: Root = None) -> Splits:
        return digit_splits(settings)

    def task(self, settings: DigitsSettings, splits: Splits | None = None) -> nn.Module:
        model = nn.Sequential(nn.Flatten(), MLP(64, settings.hidden, 10, dropout=settings.dropout))
        return classifier(model, settings, splits)

    def baseline(self, settings: DigitsSettings, splits: Splits) -> float:
        return pixels_accuracy(splits)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_digits(task, input, 8, white=16)


def digit_splits(settings: TrainSettings) -> Splits:
    """Digits 0, 5, 10 … for testing, 1, 11, 21 … for validation, the other 70 % for training; brightness in [0, 1]."""
    images, labels = load_digits()
    x = weft.tensor(images[:, None], dtype=weft.float32) / 16  # (1797, 8, 8) → (1797, 1, 8, 8)
    y = weft.tensor(labels, dtype=weft.int64)
    place = weft.arange(len(y))
    test, validation = place % 5 == 0, place % 10 == 1
    train = ~(test | validation)
    return loaders(settings, *(_where(part, x, y) for part in (train, validation, test)))


def _where(part: weft.Tensor, x: weft.Tensor, y: weft.Tensor) -> Pair:
    return x[part], y[part]


recipe = DigitsMLP()
