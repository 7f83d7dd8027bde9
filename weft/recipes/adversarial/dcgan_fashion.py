"""dcgan-fashion: a convolutional game on Fashion-MNIST, with its Fréchet distance in features of the classifier of fashion-cnn.

Such distances mean something only beside others in the same features: that of as many training images (the floor), and
that of draws of a Gaussian fitted to the pixels. `weft train fashion-cnn` first, or the classifier is trained on the way.
Seen at seed 101, in five minutes of one core: 40.9, where the Gaussian has 116.4 and the floor is 0.18.
"""

from __future__ import annotations

from dataclasses import dataclass

import weft

from ...data.sources import FashionMNIST
from ...metrics.samples import calculate_metrics
from ...models.generative.baselines import FullGaussian
from ...tensor import Tensor
from ..base import Goal, Root, Run, Splits
from ..features import classifier_features
from ..settings import option
from .images import ImageGAN, ImageGANSettings

__all__ = ["DCGANFashion", "FashionGANSettings", "recipe"]


@dataclass(kw_only=True)
class FashionGANSettings(ImageGANSettings):
    """Settings of dcgan-fashion."""

    epochs: int = 6
    features: str = option("", "folder of a run of fashion-cnn; empty: the latest, or a new one")


class DCGANFashion(ImageGAN):
    """28×28 grey images; 10,000 draws against the 10,000 test images."""

    title = "DCGAN on Fashion-MNIST, judged in features of its own classifier"
    Settings = FashionGANSettings
    goal = Goal(
        "frechet_distance",
        at_most=60.0,
        data="10,000 draws and the test images of Fashion-MNIST, in features of fashion-cnn",
        baseline="a Gaussian fitted to the pixels",
        margin=0.5,
        relative=True,
    )
    channels = 1

    def images(self, settings: FashionGANSettings, root: Root) -> tuple[Tensor, Tensor]:
        sources = (FashionMNIST(root=root, train=part, download=root is None) for part in (True, False))
        return tuple(s.as_tensors(normalize=False).tensors[0][: settings.limit] for s in sources)

    def figures(self, run: Run, samples: Tensor, splits: Splits) -> dict[str, float]:
        features = classifier_features("fashion-cnn", run.settings.features or None, root=run.root)
        train, test = ((part.dataset.tensors[0] + 1) / 2 for part in (splits.train, splits.test))
        distance = lambda images: calculate_metrics(images, test, features=features, fid=True)["frechet_distance"]
        run.folder.log(f"features of {features.name}, digest {features.digest}")
        pixels = (
            FullGaussian(784)
            .fit(train.flatten(1), ridge=1e-3)
            .sample(len(samples), generator=weft.Generator().manual_seed(run.settings.seed))
        )
        return {
            "frechet_distance": distance(samples),
            self.goal.beside: distance(pixels.reshape(-1, 1, 28, 28).clamp(0, 1).float()),
            "floor": distance(train[: len(samples)]),
        }


recipe = DCGANFashion()
