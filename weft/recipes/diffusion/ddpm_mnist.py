"""ddpm-mnist: denoising diffusion on MNIST in 256 levels of grey, with classes: likelihood, samples, guidance.

Wanted: at most 1.5 bits a pixel by the whole bound, samples at most 5 times as far from the test images as training images
are, 97 % of guided samples of the class asked for. Not yet run at full length: an epoch takes three to four minutes of one
processor core.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import weft

from ...data.sources import MNIST
from ...models.diffusion.ddpm import DDPM
from ...tensor import Tensor
from ..base import Splits
from ..goal import Goal
from ..settings import option
from .grey import CLASSES, LEVELS, SHAPE, Diffusing, GreyImages, GreySettings, independent_bits

__all__ = ["DDPMMnist", "DDPMSettings", "Denoising", "recipe"]

PIXELS = math.prod(SHAPE)


@dataclass(kw_only=True)
class DDPMSettings(GreySettings):
    """Settings of ddpm-mnist and ddpm-fashion."""

    timesteps: int = option(1000, "steps of the diffusion", at_least=2)
    draws: int = option(10, "steps that the bound of a test image is estimated from", at_least=1)


class Denoising(Diffusing):
    """Tests by the bound: bits a pixel, each term beside."""

    def test_step(self, batch: Any) -> None:
        bound = self.model.elbo(*batch, draws=self.settings.draws)
        self.log("test_bpd", -bound.mean() / (PIXELS * math.log(2)))


class DDPMMnist(GreyImages):
    """v-prediction on a cosine schedule, variances learned."""

    title = "Denoising diffusion of MNIST, a small U-Net"
    Settings = DDPMSettings
    source = MNIST
    goal = Goal(
        "test_bpd",
        at_most=1.5,
        data="MNIST's 10,000 test images: bits a pixel, upper bound",
        baseline="a histogram of levels for each pixel",
        margin=0.2,
    )

    def model(self, settings: DDPMSettings) -> DDPM:
        network = self.network(settings, 2, 1000 / settings.timesteps)
        options = {"prediction_type": "v_prediction", "variance_type": "learned_range"}
        return DDPM(network, SHAPE, "cosine", settings.timesteps, levels=LEVELS, classes=CLASSES, **options)

    def task(self, settings: DDPMSettings, splits: Splits | None = None) -> Denoising:
        return Denoising(self.model(settings), settings, splits)

    def draw(self, model: Any, labels: Tensor, settings: Any, guidance: float | None, generator: Any) -> Tensor:
        return model.sample(len(labels), labels, generator, sampler="dpm", steps=settings.steps, guidance=guidance)

    def baseline(self, settings: DDPMSettings, splits: Splits) -> float:
        return independent_bits(*(part.dataset.tensors[0] for part in (splits.train, splits.test)))

    def further(self, task: Any, splits: Any) -> dict[str, float]:
        """Figures of samples, and the terms of the bound on some test images, every step of them counted."""
        generator = weft.Generator().manual_seed(task.settings.seed)
        some = splits.test.dataset.tensors[0][:100]
        terms = task.model.terms(some, generator=generator).bits(PIXELS)
        parts = {"prior": terms.prior, "transitions": terms.transitions.sum(1), "decoder": terms.decoder}
        found = {f"bpd_{name}": part.mean().item() for name, part in parts.items()}
        return super().further(task, splits) | found

    def bits(self, task: Any, images: Tensor, generator: Any) -> Tensor:
        bound = task.model.elbo(images, generator=generator, draws=task.settings.draws)
        return -bound / (PIXELS * math.log(2))


recipe = DDPMMnist()
