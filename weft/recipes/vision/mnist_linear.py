"""mnist-linear: softmax regression on MNIST's 784 pixels."""

from __future__ import annotations

from dataclasses import dataclass

from ...data.sources import MNIST
from ..base import Goal
from ..baselines import PIXELS_BASELINE
from ..shared import ImageSettings
from .pixels import LinearOnPixels


@dataclass(kw_only=True)
class MnistLinearSettings(ImageSettings):
    """Settings of mnist-linear."""

    epochs: int = 5
    lr: float = 0.005
    weight_decay: float = 0.0


class MnistLinear(LinearOnPixels):
    """7,850 parameters."""

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
    source, shape = MNIST, (1, 28, 28)


recipe = MnistLinear()
