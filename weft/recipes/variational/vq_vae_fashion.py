"""vq-vae-fashion: images of clothes as 7×7 whole numbers below 128, and a PixelCNN that draws such numbers.

The prior learns beside the autoencoder, from the codes as they are; no gradient goes from it to the codebook. What must be
reached is a codebook in use: its perplexity over all test images, as a share of its size. Beside it stand the error of the
images and that of k-means on patches of 4×4 pixels, which writes an image with as many numbers as small. The prior is
small, and three epochs are few for it: what it draws has the texture of clothes, seldom their shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ... import nn, optim
from ...data.sources import FashionMNIST
from ...metrics.modes import CodeUsage
from ...models.classical.clustering import minibatch_kmeans, nearest
from ...models.variational.quantizers import VectorQuantizer
from ...models.variational.vq_vae import CodePrior, ConvolutionalVQVAE
from ...tensor import Tensor
from ...train import Task
from ..base import Root, Splits, Trained
from ..goal import Goal
from ..inputs import as_images
from ..settings import TrainSettings, option
from ..shared import image_splits, one_cycle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["VQVAEFashion", "VQVAESettings", "recipe"]

F = nn.functional
PATCH = 4


@dataclass(kw_only=True)
class VQVAESettings(TrainSettings):
    """Settings of vq-vae-fashion."""

    epochs: int = 3
    batch_size: int = 100
    lr: float = 0.002
    codes: int = option(128, "entries of the codebook: 2, 4, 8 …", at_least=2)
    dimension: int = option(16, "numbers of an entry", at_least=1)
    width: int = option(32, "channels of the first convolution", at_least=1)
    decay: float = option(0.9, "of the moving means that entries are", at_least=0, at_most=0.999)
    features: int = option(6, "of the prior, for each binary digit of a code", at_least=1)
    layers: int = option(3, "of the prior", at_least=1)
    holdout: int = option(5000, "training images kept apart for validation; 0 keeps none", at_least=0)
    limit: int | None = option(None, "use only so many training and test images", at_least=1)


class Coding(Task):
    """The autoencoder by its own objective, the prior by the likelihood of the codes, in one step."""

    def __init__(self, model: ConvolutionalVQVAE, settings: VQVAESettings, splits: Splits | None) -> None:
        super().__init__()
        self.model, self.settings = model, settings
        self.usage = {stage: CodeUsage(settings.codes) for stage in ("train", "val", "test")}
        self.schedule = one_cycle(settings, splits, warm_up=0.05)

    def training_step(self, batch: Any) -> Tensor:
        codes = self.model.codes(batch[0])
        loss, told = self.model.loss(batch[0]), -self.model.prior.log_prob(codes).mean()
        self.log("train_loss", loss, prog_bar=True)
        self.log("train_code_nats", told, prog_bar=True)
        self.measure("train_perplexity", self.usage["train"], codes, prog_bar=True)
        return loss + told

    def validation_step(self, batch: Any) -> None:
        self.judge(batch, "val")

    def test_step(self, batch: Any) -> None:
        self.judge(batch, "test")

    def judge(self, batch: Any, stage: str) -> None:
        """Error of a pixel, the bound, and how many codes are in use over the whole set."""
        x = batch[0]
        self.log(f"{stage}_error", F.mse_loss(self.model.reconstruct(x), x), prog_bar=True)
        self.log(f"{stage}_negative_elbo", -self.model.elbo(x).mean())
        self.measure(f"{stage}_perplexity", self.usage[stage], self.model.codes(x), prog_bar=True)

    def configure_optimizers(self) -> Any:
        optimizer = optim.Adam(self.parameters(), lr=self.settings.lr)
        return {"optimizer": optimizer, "lr_scheduler": self.schedule(optimizer)}


class VQVAEFashion(Trained):
    """x → 7×7 entries of a codebook → x, and P(codes)."""

    title = "A VQ-VAE with a PixelCNN over its codes on Fashion-MNIST"
    Settings = VQVAESettings
    goal = Goal(
        "test_code_share",
        at_least=0.5,
        data="the codes of Fashion-MNIST's 10,000 test images: perplexity / codes, 0 if one of them is never used",
        baseline="k-means on patches of 4×4 pixels",
        margin=0.2,
    )
    example = "a picture of a piece of clothing, light on dark, or an array (28, 28)"

    def data(self, settings: VQVAESettings, root: Root = None) -> Splits:
        return image_splits(settings, FashionMNIST, root)

    def task(self, settings: VQVAESettings, splits: Splits | None = None) -> Coding:
        quantizer = VectorQuantizer(settings.codes, settings.dimension, decay=settings.decay)
        prior = CodePrior(settings.codes, (7, 7), settings.features, settings.layers)
        model = ConvolutionalVQVAE(
            (1, 28, 28), width=settings.width, likelihood="shared_variance", quantizer=quantizer, prior=prior
        )
        return Coding(model, settings, splits)

    def further(self, task: Any, splits: Splits) -> dict[str, float]:
        """The codebook's use on all test images, and the error of a codebook of patches."""
        usage = CodeUsage(task.settings.codes)
        task.eval()
        for batch in splits.test:
            usage.update(task.model.codes(batch[0]))
        patches, _ = patch_codebook(splits, task.settings)
        return {"test_code_share": code_share(usage), "test_codes_used": float(usage.used), "patches_error": patches}

    def baseline(self, settings: VQVAESettings, splits: Splits) -> float:
        """The use of a codebook of patches."""
        return code_share(patch_codebook(splits, settings)[1])

    def picture(self, task: Any, splits: Splits) -> Figure | None:
        """Test images, what is left of them, and images from drawn codes: two rows each."""
        from ...inspect.drawing import tiles

        test = splits.test.dataset.tensors[0]
        some = test[:: max(len(test) // 16, 1)][:16]
        with weft.no_grad():
            drawn = task.model.decode(task.model.prior_draws(32, generator=weft.Generator().manual_seed(1)))
            rows = weft.cat([some, task.model.reconstruct(some), drawn]).clamp(0, 1)
        return tiles(rows.squeeze(1).numpy())

    def predict(self, task: Any, input: Any) -> Any:
        images = as_images(input, (1, 28, 28))[0]
        with weft.no_grad():
            return [{"codes": found} for found in task.model.codes(images).tolist()]


def code_share(usage: CodeUsage) -> float:
    """Perplexity as a share of the codebook; 0 if an entry was never used."""
    return usage.compute() / usage.codes if usage.used == usage.codes else 0.0


@weft.no_grad()
def patch_codebook(splits: Splits, settings: VQVAESettings) -> tuple[float, CodeUsage]:
    """Each patch as the nearest of as many, by k-means on training images: mean squared error of a pixel, use of codes."""
    train, test = splits.train.dataset.tensors[0], splits.test.dataset.tensors[0]
    generator = weft.Generator().manual_seed(settings.seed)
    some = _patches(train[weft.randint(0, len(train), (2000,), generator=generator)])
    centres = minibatch_kmeans(some, min(settings.codes, len(some)), generator=generator).centres
    error, usage = 0.0, CodeUsage(settings.codes)
    for part in test.split(500):
        codes, squares = nearest(_patches(part), centres)
        error += squares.double().sum().item()
        usage.update(codes)
    return error / test.numel(), usage


def _patches(images: Tensor) -> Tensor:
    """(B, 1, H, W) → (B · places, 16)"""
    return F.unfold(images, PATCH, stride=PATCH).mT.reshape(-1, PATCH * PATCH)


recipe = VQVAEFashion()
