"""What recipes of images by diffusion share: levels of grey, figures of samples in a classifier's features, pictures.

Samples are judged by the Fréchet distance to the test images in features of Weft's own classifier, divided by the distance
that as many training images have: the floor, 1, is what no model can be better than but by chance.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import weft

from ... import optim
from ...metrics.frechet import frechet_distance
from ...metrics.samples import FeatureExtractor
from ...models.diffusion.ddpm import Conditioned
from ...models.diffusion.unet import UNet
from ...tensor import Tensor
from ...train import Task
from ...train.callbacks import EMA
from ..base import Root, Splits, Trained
from ..features import classifier_features
from ..inputs import as_images
from ..settings import TrainSettings, option
from ..shared import image_splits, one_cycle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Diffusing", "GreyImages", "GreySettings", "GreySplits", "class_frequencies", "independent_bits"]

LEVELS, CLASSES = 256, 10
AT_ONCE = 500  # samples drawn together


@dataclass(kw_only=True)
class GreySettings(TrainSettings):
    """Settings of diffusions of images of 28×28 levels of grey."""

    epochs: int = 14
    batch_size: int = 128
    lr: float = 2e-3
    width: int = option(64, "channels of the U-Net's finest maps, in fours", at_least=4)
    multiples: tuple[int, ...] = option((1,), "channels of each size of maps, as multiples of the width", at_least=1)
    blocks: int = option(1, "residual blocks at each size of maps, one more on the way up", at_least=1)
    patch: int = option(4, "side of the squares of pixels that enter as channels", at_least=1)
    normals: int = option(
        2, "normal densities of a pixel's levels beside black; 0: the network says v itself", at_least=0
    )
    average: float = option(0.999, "decay of the mean of the weights that is tested; 0 tests the last ones", at_least=0)
    drawn: int = option(5000, "samples that are judged", at_least=130)
    steps: int = option(25, "steps of the sampler", at_least=1)
    guidance: float = option(2.0, "guidance of the samples whose classes are judged", at_least=0)
    holdout: int = option(5000, "training images kept apart for validation", at_least=0)
    judged: Literal["test", "validation"] = option("test", "images that figures are of")
    limit: int | None = option(None, "use only so many training and test images", at_least=1)


@dataclass
class GreySplits(Splits):
    """Loaders of images in [0, 1] and labels, and the features that samples are judged in."""

    root: Root = None
    classifier: str = "mnist-cnn"
    limit: int | None = None

    @functools.cached_property
    def features(self) -> FeatureExtractor:
        """Of the latest run of the classifier's recipe, or of one that is trained now."""
        settings = None if self.limit is None else [f"limit={self.limit}", "batch_size=50"]
        return classifier_features(self.classifier, root=self.root, settings=settings)


class Diffusing(Task):
    """Minimises the model's loss on images and their classes."""

    def __init__(self, model: Conditioned, settings: GreySettings, splits: Splits | None) -> None:
        super().__init__()
        self.model, self.settings = model, settings
        self.schedule = one_cycle(settings, splits, warm_up=0.05)

    def training_step(self, batch: Any) -> Tensor:
        loss = self.model.loss(*batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Any) -> None:
        self.log("val_loss", self.model.loss(*batch), prog_bar=True)

    def test_step(self, batch: Any) -> None:
        self.log("test_loss", self.model.loss(*batch))

    def configure_optimizers(self) -> Any:
        optimizer = optim.AdamW(self.parameters(), lr=self.settings.lr, weight_decay=0.0)
        return {"optimizer": optimizer, "lr_scheduler": self.schedule(optimizer)}


class GreyImages(Trained):
    """A diffusion of grey images with classes; a recipe states its model and how it is drawn."""

    Settings = GreySettings
    example = "an image of 28×28 pixels"
    source: ClassVar[Any]  # of the images
    shape: ClassVar[tuple[int, int, int]] = (1, 28, 28)
    classifier: ClassVar[str] = "mnist-cnn"  # the recipe whose features samples are judged in

    @abstractmethod
    def model(self, settings: Any) -> Conditioned:
        """A fresh model."""

    @abstractmethod
    def draw(self, model: Any, labels: Tensor, settings: Any, guidance: float | None, generator: Any) -> Tensor:
        """Images in [0, 1] of these classes: (n,) → (n, *shape)"""

    def network(self, settings: Any, out_channels: int = 1, time_scale: float = 1.0) -> UNet:
        """The U-Net that the settings describe; attention at its coarsest maps."""
        attention = (len(settings.multiples) - 1,)
        options = {"classes": CLASSES, "out_channels": out_channels, "time_scale": time_scale}
        options |= {"patch": settings.patch, "blocks": settings.blocks}
        return UNet(self.shape[0], settings.width, settings.multiples, attention=attention, **options)

    def data(self, settings: Any, root: Root = None) -> GreySplits:
        found = image_splits(settings, self.source, root)
        asked = found.test if settings.judged == "test" else found.validation
        return GreySplits(found.train, found.validation, asked, root, self.classifier, settings.limit)

    def task(self, settings: Any, splits: Splits | None = None) -> Diffusing:
        return Diffusing(self.model(settings), settings, splits)

    def trainer_options(self, settings: Any) -> dict[str, Any]:
        averages = [EMA(settings.average)] if settings.average else []
        return {"callbacks": averages, "gradient_clip_val": 1.0}

    def further(self, task: Any, splits: GreySplits) -> dict[str, float]:
        """The distance of samples to the test images beside that of training images, and whether classes come as asked."""
        settings, features = task.settings, splits.features
        task.eval()
        train, test = (part.dataset.tensors[0] for part in (splits.train, splits.test))
        generator = weft.Generator().manual_seed(settings.seed)
        chosen = weft.randperm(len(train), generator=generator)[: settings.drawn]
        samples = self.drawn(task, class_frequencies(splits, settings.drawn, generator), None, settings.seed + 1)
        ours, theirs, floor = (features.extract(x) for x in (samples, test, train[chosen]))
        asked = weft.arange(max(settings.drawn // 5, CLASSES)) % CLASSES
        guided = self.drawn(task, asked, settings.guidance, settings.seed + 2)
        distance, least = frechet_distance(ours, theirs), frechet_distance(floor, theirs)
        figures = {"frechet_distance": distance, "frechet_floor": least, "frechet_ratio": distance / least}
        figures["guided_accuracy"] = (features.labels(guided) == asked).float().mean().item()
        figures["model_parameters"] = float(sum(p.numel() for p in task.model.parameters()))
        return figures

    def drawn(self, task: Any, labels: Tensor, guidance: float | None, seed: int) -> Tensor:
        """Samples of these classes, a part at a time."""
        generator = weft.Generator().manual_seed(seed)
        size = min(AT_ONCE, len(labels))
        parts = [self.draw(task.model, part, task.settings, guidance, generator) for part in labels.split(size)]
        return weft.cat(parts)

    def picture(self, task: Any, splits: Splits) -> Figure | None:
        """Six samples of every class, guided, a column each but two; test images below."""
        from ...inspect.drawing import tiles

        labels = weft.arange(48) % 8
        samples = self.drawn(task, labels, task.settings.guidance, 1)
        shown = weft.cat([samples, splits.test.dataset.tensors[0][:16]])
        return tiles((shown[:, 0] if self.shape[0] == 1 else shown.permute(0, 2, 3, 1)).numpy())

    def predict(self, task: Any, input: Any) -> Any:
        images = as_images(input, self.shape, ink=self.classifier == "mnist-cnn")[0]
        bits = self.bits(task, images, weft.Generator().manual_seed(0))
        return [{"bits_per_dim": round(value, 3)} for value in bits.tolist()]

    @abstractmethod
    def bits(self, task: Any, images: Tensor, generator: Any) -> Tensor:
        """−log₂ p of images in [0, 1] for each pixel, from above or estimated: (B,)"""


def class_frequencies(splits: Splits, count: int, generator: Any) -> Tensor:
    """So many classes as often as training images have them: (count,)"""
    labels = splits.train.dataset.tensors[1]
    return labels[weft.randint(len(labels), (count,), generator=generator)]


def independent_bits(train: Tensor, test: Tensor) -> float:
    """Bits a pixel of test images if every pixel had its own histogram of levels: images (N, *event) in [0, 1]."""
    numbers = lambda x: (x.flatten(1) * (LEVELS - 1)).round().long()  # (N, D)
    seen, asked = numbers(train), numbers(test)
    places = weft.arange(seen.shape[1])
    counts = weft.zeros(seen.shape[1] * LEVELS, dtype=weft.float64)
    counts = counts.index_add(0, (places * LEVELS + seen).flatten(), weft.ones(seen.numel(), dtype=weft.float64))
    chances = (counts.reshape(-1, LEVELS) + 1 / LEVELS) / (len(seen) + 1)
    return -chances.log()[places, asked].mean().item() / math.log(2)
