"""digits-mlp: a network with two hidden layers reads handwritten digits of 8×8 pixels that come with Weft."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import weft

from ... import nn
from ...data import load_digits
from ...models.classical.mlp import MLP
from ..base import Goal, Root, Splits, Trained
from ..baselines import FEATURES_BASELINE, features_accuracy
from ..settings import TrainSettings, option
from ..shared import Pair, classifier, classify_digits, loaders

__all__ = ["digit_splits"]


@dataclass(kw_only=True)
class DigitsSettings(TrainSettings):
    """Settings of digits-mlp."""

    epochs: int = 20
    batch_size: int = 128
    lr: float = 0.01
    weight_decay: float = option(0.05, "decay of the weights (AdamW)", at_least=0)
    hidden: tuple[int, ...] = option((256, 256), "widths of the hidden layers", at_least=1)
    dropout: float = option(0.1, "share of hidden units left out at each step", at_least=0, at_most=0.9)


class DigitsMLP(Trained):
    """64 → hidden → 10 with ReLU and dropout, AdamW on a one-cycle schedule."""

    title = "Handwritten digits of 8×8 pixels, a network with two hidden layers"
    Settings = DigitsSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.97,
        data="the 360 digits kept for testing (every fifth)",
        baseline=FEATURES_BASELINE,
    )
    example = "a picture of one digit, or an array (8, 8) with brightness 0 (ground) to 16 (ink)"

    def data(self, settings: DigitsSettings, root: Root = None) -> Splits:
        """Each training digit nine times: as it is, and moved by a pixel in each direction."""
        plain = digit_splits(settings)
        parts = (plain.train, plain.validation, plain.test)
        train, *others = (part.dataset.tensors for part in parts)
        return loaders(settings, moved(*train), *others)

    def task(self, settings: DigitsSettings, splits: Splits | None = None) -> nn.Module:
        model = nn.Sequential(nn.Flatten(), MLP(64, settings.hidden, 10, dropout=settings.dropout))
        return classifier(model, settings, splits)

    def baseline(self, settings: DigitsSettings, splits: Splits) -> float:
        return features_accuracy(digit_splits(settings), settings.seed)  # moved digits make it no better

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


def moved(x: weft.Tensor, y: weft.Tensor) -> Pair:
    """Images moved by −1, 0 and 1 pixels down and across, with their labels. Shape: (N, 1, 8, 8), (N,) → (9 N, …)"""
    wide = nn.functional.pad(x, (1, 1, 1, 1))  # (N, 1, 10, 10)
    images = [wide[:, :, down : down + 8, across : across + 8] for down in range(3) for across in range(3)]
    return weft.cat(images), weft.cat([y] * 9)


def _where(part: weft.Tensor, x: weft.Tensor, y: weft.Tensor) -> Pair:
    return x[part], y[part]


recipe = DigitsMLP()
