"""cifar10-linear: softmax regression on the 3,072 numbers of an image, on 10,000 images of CIFAR-10."""

from __future__ import annotations

from dataclasses import dataclass

from ...data.sources import CIFAR10
from ..base import Goal
from ..baselines import PIXELS_BASELINE
from ..shared import ImageSettings
from .pixels import LinearOnPixels


@dataclass(kw_only=True)
class Cifar10LinearSettings(ImageSettings):
    """Settings of cifar10-linear."""

    epochs: int = 20
    batch_size: int = 100
    lr: float = 0.001
    weight_decay: float = 0.1
    holdout: int = 1000
    limit: int | None = 10_000


class Cifar10Linear(LinearOnPixels):
    """30,730 parameters."""

    title = "CIFAR-10, the subset of 10,000 images, softmax regression"
    Settings = Cifar10LinearSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.36,
        data="CIFAR-10's test images (the first 2,000 in the subset)",
        baseline=PIXELS_BASELINE,
    )
    example = "a picture, or an array (3, 32, 32)"
    source, shape, mirrored = CIFAR10, (3, 32, 32), True


recipe = Cifar10Linear()
