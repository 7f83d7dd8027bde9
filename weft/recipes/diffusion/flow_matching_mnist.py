"""flow-matching-mnist: a straight flow from noise to MNIST's digits, drawn in twenty calls of the network.

Wanted: samples no farther from the test images than five times what training images are. Seen at seed 101, in ten minutes of
one core: 3.0 times (a Gaussian with full covariance 183), and 99.9 % of guided samples of the class asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import weft

from ...data.sources import MNIST
from ...metrics.frechet import frechet_distance
from ...models.diffusion.flow_matching import FlowMatching
from ...models.diffusion.pixels import PixelVelocity
from ...models.generative.baselines import FullGaussian
from ...tensor import Tensor
from ..base import Splits
from ..goal import Goal
from .grey import CLASSES, LEVELS, Diffusing, GreyImages, GreySettings

__all__ = ["FlowMatchingMnist", "FlowMatchingSettings", "recipe"]


@dataclass(kw_only=True)
class FlowMatchingSettings(GreySettings):
    """Settings of flow-matching-mnist."""

    steps: int = 20


class Matching(Diffusing):
    """Images in [−1, 1]."""

    def training_step(self, batch: Any) -> Tensor:
        return super().training_step((2 * batch[0] - 1, batch[1]))

    def validation_step(self, batch: Any) -> None:
        super().validation_step((2 * batch[0] - 1, batch[1]))

    def test_step(self, batch: Any) -> None:
        super().test_step((2 * batch[0] - 1, batch[1]))


class FlowMatchingMnist(GreyImages):
    """Straight lines between pairs of noise and data at random, Euler's steps."""

    title = "Flow matching on MNIST, a small U-Net"
    Settings = FlowMatchingSettings
    source = MNIST
    goal = Goal(
        "frechet_ratio",
        at_most=5,
        data="5,000 samples beside MNIST's test images, as multiples of the distance of training images",
        baseline="a Gaussian with full covariance",
        margin=1.0,
    )

    def model(self, settings: FlowMatchingSettings) -> FlowMatching:
        normals = settings.normals
        network: Any = self.network(settings, 3 * normals + 1 if normals else 1, time_scale=1000.0)
        network = PixelVelocity(network, normals=normals) if normals else network
        return FlowMatching(network, self.shape, classes=CLASSES)

    def task(self, settings: FlowMatchingSettings, splits: Splits | None = None) -> Matching:
        return Matching(self.model(settings), settings, splits)

    def draw(self, model: Any, labels: Tensor, settings: Any, guidance: float | None, generator: Any) -> Tensor:
        drawn = model.sample(len(labels), labels, generator, steps=settings.steps, guidance=guidance)
        return ((drawn + 1) / 2).clamp(0, 1)

    def baseline(self, settings: FlowMatchingSettings, splits: Any) -> float:
        """The ratio of a Gaussian's samples, in the same features."""
        train, test = (part.dataset.tensors[0] for part in (splits.train, splits.test))
        generator = weft.Generator().manual_seed(settings.seed)
        model = FullGaussian(math.prod(self.shape)).fit(train.flatten(1).double())
        drawn = model.sample(settings.drawn, generator=generator).float().clamp(0, 1).reshape(-1, *self.shape)
        chosen = weft.randperm(len(train), generator=generator)[: settings.drawn]
        ours, theirs, floor = (splits.features.extract(x) for x in (drawn, test, train[chosen]))
        return frechet_distance(ours, theirs) / frechet_distance(floor, theirs)

    def bits(self, task: Any, images: Tensor, generator: Any) -> Tensor:
        """By Hutchinson's trace, with the log-determinant of [0, 255] → [−1, 1] after uniform noise."""
        x = 2 * (images * (LEVELS - 1) + weft.rand(images.shape, generator=generator)) / LEVELS - 1
        density = task.model.log_prob(x, generator=generator, steps=20, trace="hutchinson")
        return -(density / task.model.elements + math.log(2 / LEVELS)) / math.log(2)


recipe = FlowMatchingMnist()
