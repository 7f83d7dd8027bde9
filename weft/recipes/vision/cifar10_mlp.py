"""cifar10-mlp: two hidden layers with batch normalisation on 10,000 images of CIFAR-10, mirrored at random."""

from __future__ import annotations

from dataclasses import dataclass

from ...data.sources import CIFAR10
from ..base import Goal
from ..baselines import FEATURES_BASELINE
from .pixels import MLPOnPixels, MLPSettings


@dataclass(kw_only=True)
class Cifar10MLPSettings(MLPSettings):
    """Settings of cifar10-mlp."""

    epochs: int = 15
    batch_size: int = 100
    lr: float = 0.002
    weight_decay: float = 0.1
    holdout: int = 1000
    limit: int | None = 10_000
    normalized: bool = True


class Cifar10MLP(MLPOnPixels):
    """3072 → 256 → 256 → 10 with batch normalisation."""

    title = "CIFAR-10, the subset of 10,000 images, a network with two hidden layers"
    Settings = Cifar10MLPSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.46,
        data="CIFAR-10's test images (the first 2,000 in the subset)",
        baseline=FEATURES_BASELINE,
        margin=0.03,
    )
    example = "a picture, or an array (3, 32, 32)"
    source, shape, mirrored = CIFAR10, (3, 32, 32), True


recipe = Cifar10MLP()
