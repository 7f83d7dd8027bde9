"""What recipes of convolutional games share: images in [−1, 1], the two players, draws in batches, a picture."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ...data import DataLoader, TensorDataset
from ...models.adversarial.dcgan import DCDiscriminator, DCGenerator
from ...models.adversarial.gan import GAN
from ...models.adversarial.pacgan import Packed
from ...models.adversarial.training import AdversarialTraining
from ...tensor import Tensor
from ...train.callbacks import EMA
from ..base import Recipe, Root, Run, Splits
from ..inputs import as_images
from ..settings import TrainSettings, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ImageGAN", "ImageGANSettings", "drawn"]


@dataclass(kw_only=True)
class ImageGANSettings(TrainSettings):
    """Settings of convolutional games."""

    batch_size: int = 64
    lr: float = 2e-4
    ratio: float = option(2.0, "the discriminator's learning rate, as a multiple of the generator's", above=0)
    latent: int = option(64, "size of z", at_least=1)
    width: int = option(32, "channels of the largest maps of both players, doubled at each smaller size", at_least=1)
    pack: int = option(1, "images that the discriminator judges together (PacGAN)", at_least=1)
    average: float = option(0.999, "decay of the mean of the generator's weights that is tested", at_least=0)
    draws: int = option(10_000, "draws that are judged", at_least=2)
    limit: int | None = option(None, "use only so many training and test images", at_least=2)


class ImageGAN(Recipe):
    """A DCGAN with a spectrally normalised discriminator under the hinge loss; a recipe states data and figures."""

    channels: int
    size = 28
    example = "images of 28×28 pixels"

    @abstractmethod
    def images(self, settings: Any, root: Root) -> tuple[Tensor, Tensor]:
        """Training and test images in [0, 1]: (N, C, H, W) each"""

    @abstractmethod
    def figures(self, run: Run, samples: Tensor, splits: Splits) -> dict[str, float]:
        """Of draws in [0, 1], with the baseline's."""

    def data(self, settings: Any, root: Root = None) -> Splits:
        train, test = (TensorDataset(2 * part - 1) for part in self.images(settings, root))
        size = min(settings.batch_size, len(train) - len(train) % settings.pack)
        shuffled = DataLoader(train, batch_size=size, shuffle=True, drop_last=True, seed=settings.seed)
        return Splits(shuffled, None, DataLoader(test, batch_size=500))

    def task(self, settings: Any, splits: Splits | None = None) -> AdversarialTraining:
        tell = DCDiscriminator(self.channels * settings.pack, self.size, settings.width, norm="spectral")
        make = DCGenerator(settings.latent, self.channels, self.size, settings.width)
        gan = GAN(make, Packed(tell, settings.pack) if settings.pack > 1 else tell, settings.latent, "hinge")
        rates = settings.lr, settings.ratio * settings.lr
        return AdversarialTraining(gan, rates, betas=(0.0, 0.9), epochs=settings.epochs)

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        splits = self.data(settings, run.root)
        task = self.task(settings, splits)
        average = [EMA(settings.average, part="model.generator")] if settings.average else []
        run.trainer(callbacks=average).fit(task, splits.train, resume=run.resume)
        task.eval()
        samples = drawn(task.model, settings.draws, settings.seed + 1)
        run.draw(lambda: self.picture(samples))
        return self.figures(run, samples, splits), task

    def predict(self, task: Any, input: Any) -> Any:
        """The discriminator's scores: above 0 where it takes an image for data."""
        images = 2 * as_images(input, (self.channels, self.size, self.size))[0] - 1
        with weft.no_grad():
            return [{"score": round(value, 4)} for value in task.model.discriminator(images).tolist()]

    def picture(self, samples: Tensor) -> Figure:
        """64 draws."""
        from ...inspect.drawing import tiles

        return tiles(samples[:64].movedim(1, -1).squeeze(-1).numpy())  # (64, H, W, 3), or (64, H, W)


@weft.no_grad()
def drawn(model: GAN, n: int, seed: int, at_once: int = 500) -> Tensor:
    """n draws in [0, 1]: (n, C, H, W)"""
    generator = weft.Generator().manual_seed(seed)
    parts = [model.sample(min(at_once, n - start), generator=generator) for start in range(0, n, at_once)]
    return (weft.cat(parts) + 1) / 2
