"""fashion-simclr: clothes told apart without a label, by SimCLR; a hundred labels name them.

Protocol and what stands beside the figure: `unlabelled.py`. Seen (seed 101, ten epochs, 135 seconds of one core of an AMD EPYC
(Zen 5) with AVX-512, all that stands beside included): 0.708 ± 0.012 over draws, the same network with its first weights 0.650,
taught by the hundred labels 0.655, pixels 0.675. The nearest labelled image by features is right in 0.620 of the cases.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...data.augment import on_views
from ...models.fewlabels.simclr import SimCLR
from ..base import Goal
from ..settings import option
from .unlabelled import BETTER, Unlabelled, UnlabelledSettings, convolutions, moved

__all__ = ["FashionSimCLR", "SimCLRSettings", "recipe"]


@dataclass(kw_only=True)
class SimCLRSettings(UnlabelledSettings):
    """Settings of fashion-simclr."""

    width: int = option(16, "channels of the first convolution, doubled twice", at_least=1)
    hidden: int = option(256, "units of the projection head", at_least=1)
    projection: int = option(64, "numbers that the loss compares", at_least=1)
    temperature: float = option(0.2, "of the loss", above=0)
    scale: float = option(0.2, "least share of an image that a view shows", above=0, at_most=1)
    jitter: float = option(0.4, "how much brightness and contrast change", at_least=0, at_most=1)


class FashionSimCLR(Unlabelled):
    """Three convolutions; two windows of an image belong together, those of 255 others do not."""

    title = "Fashion-MNIST, SimCLR, a linear probe with 100 labels"
    Settings = SimCLRSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.70,
        data="Fashion-MNIST's 10,000 test images, mean over draws of 100 labels",
        baseline=BETTER,
        margin=0.05,
    )

    rivals = ("random_accuracy", "supervised_accuracy")

    def model(self, settings: SimCLRSettings) -> tuple[SimCLR, int]:
        sizes = {"hidden": settings.hidden, "projection": settings.projection}
        encoder = convolutions(settings.width)
        return SimCLR(encoder, 4 * settings.width, **sizes, temperature=settings.temperature), 4 * settings.width

    def views(self, settings: SimCLRSettings) -> on_views:
        return on_views(moved(settings.scale, settings.jitter))


recipe = FashionSimCLR()
