"""fashion-linear: softmax regression on Fashion-MNIST's 784 pixels."""

from __future__ import annotations

from dataclasses import dataclass

from ...data.sources import FashionMNIST
from ..base import Goal
from ..baselines import PIXELS_BASELINE
from ..shared import ImageSettings
from .pixels import LinearOnPixels


@dataclass(kw_only=True)
class FashionLinearSettings(ImageSettings):
    """Settings of fashion-linear."""

    epochs: int = 10
    lr: float = 0.005
    weight_decay: float = 0.0


class FashionLinear(LinearOnPixels):
    """7,850 parameters."""

    title = "Fashion-MNIST, softmax regression"
    Settings = FashionLinearSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.84,
        data="Fashion-MNIST's 10,000 test images",
        baseline=PIXELS_BASELINE,
        margin=0.01,
    )
    example = "a picture of a piece of clothing, light on dark, or an array (28, 28)"
    source, shape = FashionMNIST, (1, 28, 28)


recipe = FashionLinear()
