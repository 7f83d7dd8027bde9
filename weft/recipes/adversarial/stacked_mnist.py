"""stacked-mnist: three digits as red, green and blue, a thousand modes (Metz et al. 2017); PacGAN's discriminator sees pairs.

Published, of larger networks: DCGAN finds 99 modes, VEEGAN 150, PacGAN with pairs 1,000. A draw's mode is what the classifier
of mnist-cnn says of its three channels.

Seen at seed 101, in five minutes of one core: 959 modes in 26,000 draws, KL 0.61. The test stacks have all 1,000 and 0.05, a
Gaussian of the pixels 0.80: noise is told to be digits as well, so that the picture counts for as much as the number of modes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import weft

from ...data.sources import MNIST
from ...data.synthetic.mixtures import stacked_digits
from ...metrics.modes import label_counts
from ...metrics.samples import FeatureExtractor
from ...models.generative.baselines import FullGaussian
from ...tensor import Tensor
from ..base import Goal, Root, Run, Splits
from ..features import classifier_features
from ..settings import option
from .images import ImageGAN, ImageGANSettings

__all__ = ["StackedMNIST", "StackedSettings", "modes_of", "recipe"]

LEAST_MODES = 900


@dataclass(kw_only=True)
class StackedSettings(ImageGANSettings):
    """Settings of stacked-mnist."""

    epochs: int = 12
    pack: int = 2
    draws: int = option(26_000, "draws whose modes are counted", at_least=2)
    examples: int = option(60_000, "stacks to learn from; a fifth as many to test on", at_least=10)
    features: str = option("", "folder of a run of mnist-cnn; empty: the latest, or a new one")


class StackedMNIST(ImageGAN):
    """28×28 images of three channels. Noise finds modes too, but not evenly; fewer than 900 count as 99 nats."""

    title = "Stacked MNIST: how many of a thousand modes a game finds"
    Settings = StackedSettings
    goal = Goal(
        "kl",
        at_most=1.0,
        data="26,000 draws, classified by mnist-cnn: nats to equal shares of 1,000 modes, of which 900 are found",
        baseline="a Gaussian fitted to the pixels of single digits",
    )
    channels = 3

    def images(self, settings: StackedSettings, root: Root) -> tuple[Tensor, Tensor]:
        streams = weft.Generator().manual_seed(settings.seed).split(2)
        found = []
        for part, count, own in zip((True, False), (1.0, 0.2), streams, strict=True):
            source = MNIST(root=root, train=part, download=root is None).as_tensors(normalize=False)
            grey, labels = (tensor[: settings.limit] for tensor in source.tensors)
            found.append(stacked_digits(grey, labels, int(settings.examples * count), generator=own)[0])
        return tuple(found)

    def figures(self, run: Run, samples: Tensor, splits: Splits) -> dict[str, float]:
        features = classifier_features("mnist-cnn", run.settings.features or None, root=run.root)
        run.folder.log(f"classes by {features.name}, digest {features.digest}")
        found = label_counts(modes_of(samples, features), 1000)
        real = label_counts(modes_of((splits.test.dataset.tensors[0] + 1) / 2, features), 1000)
        noise = label_counts(modes_of(self.pixels(splits, len(samples), run.settings.seed), features), 1000)
        return {
            "kl": found.kl if found.modes >= LEAST_MODES else 99.0,
            self.goal.beside: noise.kl,
            **{"modes": float(found.modes), "data_modes": float(real.modes), "data_kl": real.kl},
        }

    def pixels(self, splits: Splits, n: int, seed: int) -> Tensor:
        """Draws of a Gaussian with the digits' mean and covariance, three a stack: (n, 3, 28, 28)"""
        train = (splits.train.dataset.tensors[0].reshape(-1, 784)[:60_000] + 1) / 2
        model = FullGaussian(784).fit(train, ridge=1e-3)
        return model.sample(3 * n, generator=weft.Generator().manual_seed(seed)).clamp(0, 1).reshape(n, 3, 28, 28)


def modes_of(images: Tensor, features: FeatureExtractor) -> np.ndarray:
    """100 red + 10 green + blue: (N, 3, 28, 28) → (N,)"""
    digits = features.labels(images.reshape(-1, 1, 28, 28)).reshape(-1, 3)
    return (digits * weft.tensor([100, 10, 1])).sum(1).numpy()


recipe = StackedMNIST()
