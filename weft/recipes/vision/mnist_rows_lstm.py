"""mnist-rows-lstm: an LSTM that reads a picture of MNIST row by row, 98 %."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import nn
from ...data.sources import MNIST
from ...models.sequences.recurrent_models import SequenceClassifier
from ..base import Goal, Root, Splits, Trained
from ..baselines import FEATURES_BASELINE, features_accuracy
from ..settings import option
from ..shared import ImageSettings, classifier, classify_digits, image_splits


@dataclass(kw_only=True)
class MnistRowsSettings(ImageSettings):
    """Settings of mnist-rows-lstm."""

    epochs: int = 5
    lr: float = 0.005
    hidden: int = option(96, "units of the LSTM", at_least=1)


class MnistRowsLSTM(Trained):
    """28 steps of 28 pixels; the label is read from the last state."""

    title = "MNIST row by row, an LSTM"
    Settings = MnistRowsSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.98,
        data="MNIST's 10,000 test images",
        baseline=FEATURES_BASELINE,
        margin=0.02,
    )
    example = "a picture of one digit, or an array (28, 28), light ink on a dark ground"

    def data(self, settings: MnistRowsSettings, root: Root = None) -> Splits:
        return image_splits(settings, MNIST, root)

    def task(self, settings: MnistRowsSettings, splits: Splits | None = None) -> nn.Module:
        reader = SequenceClassifier(28, settings.hidden, 10, cell="lstm")
        rows = nn.Flatten(1, 2)  # (B, 1, 28, 28) → (B, 28, 28): the rows in time
        return classifier(nn.Sequential(rows, reader), settings, splits)

    def baseline(self, settings: MnistRowsSettings, splits: Splits) -> float:
        return features_accuracy(splits, settings.seed)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_digits(task, input, 28)


recipe = MnistRowsLSTM()
