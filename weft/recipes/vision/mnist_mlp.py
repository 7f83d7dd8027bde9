"""mnist-mlp: two hidden layers with dropout on MNIST's 784 pixels."""

from __future__ import annotations

from dataclasses import dataclass

from ...data.sources import MNIST
from ..base import Goal
from ..baselines import FEATURES_BASELINE
from .pixels import MLPOnPixels, MLPSettings

__all__ = ["MnistMLP", "MnistMLPSettings", "recipe"]


@dataclass(kw_only=True)
class MnistMLPSettings(MLPSettings):
    """Settings of mnist-mlp."""

    epochs: int = 8
    lr: float = 0.003


class MnistMLP(MLPOnPixels):
    """784 → 256 → 256 → 10."""

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
    source, shape = MNIST, (1, 28, 28)


recipe = MnistMLP()
