"""ddpm-cifar10: the diffusion of ddpm-mnist on 10,000 colour images: bits, and pictures.

Ten thousand images and minutes of training are far too few for pictures that could be taken for photographs. Seen at seed 101
after 20 of the 40 epochs, in six minutes of one core: 5.21 bits (a histogram 7.90); all forty were not run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...data.sources import CIFAR10
from ..goal import Goal
from ..settings import option
from .ddpm_mnist import DDPMMnist, DDPMSettings

__all__ = ["CifarSettings", "DDPMCifar10", "recipe"]


@dataclass(kw_only=True)
class CifarSettings(DDPMSettings):
    """Settings of ddpm-cifar10."""

    epochs: int = 40
    width: int = 96
    average: float = 0.99  # of 2,800 steps: with 0.999 the first weights would still be heard
    holdout: int = 1000
    limit: int | None = option(10_000, "use only so many training and test images", at_least=1)


class DDPMCifar10(DDPMMnist):
    """v-prediction on a cosine schedule, levels of a colour as two normal densities."""

    title = "Denoising diffusion of 10,000 images of CIFAR-10, a small U-Net"
    Settings = CifarSettings
    source, classifier, shape, points = CIFAR10, "cifar10-cnn", (3, 32, 32), ()
    example = "a colour image of 32×32 pixels"
    goal = Goal(
        "test_bpd",
        at_most=5.0,
        data="2,000 test images of CIFAR-10: bits a colour of a pixel, upper bound",
        baseline="a histogram of levels for each colour of a pixel",
        margin=1.0,
    )

    def further(self, task: Any, splits: Any) -> dict[str, float]:
        """The terms of the bound; what so few images teach is no match for a distance between distributions."""
        return self.terms(task, splits)


recipe = DDPMCifar10()
