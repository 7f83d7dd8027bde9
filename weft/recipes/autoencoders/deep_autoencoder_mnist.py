"""deep-autoencoder-mnist: 784-1000-500-250-30 and back, beside 30 principal components (N0 §8.1, N1 §7.1).

Protocol of Hinton and Salakhutdinov (2006): squared error per test image, pixels in [0, 1]. They report 3.00, and 13.87
for principal components, which must come out here as well. They needed a stack of Boltzmann machines to start from;
smooth units, He's weights and Adam do without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import weft

from ... import optim
from ...models.autoencoders.autoencoder import Autoencoder
from ...models.autoencoders.deep import DeepAutoencoder
from ...models.autoencoders.linear import LinearAutoencoder
from ...tensor import Tensor
from ...train import Task
from ..base import Goal, Root, Splits, Trained
from ..inputs import as_images
from ..settings import TrainSettings, option
from ..shared import one_cycle
from .digits import PIXELS, beside, digit_splits

__all__ = ["DeepAutoencoderMnist", "DeepAutoencoderSettings", "recipe"]


@dataclass(kw_only=True)
class DeepAutoencoderSettings(TrainSettings):
    """Settings of deep-autoencoder-mnist."""

    epochs: int = 20
    batch_size: int = 200
    lr: float = 1.5e-3
    hidden: tuple[int, ...] = option((1000, 500, 250), "widths of the layers above the pixels", at_least=1)
    code: int = option(30, "numbers of a code, and principal components beside them", at_least=1, at_most=PIXELS)
    error: Literal["cross_entropy", "squared_error"] = option("cross_entropy", "what training minimises")
    holdout: int = option(5000, "training images kept apart for validation", at_least=0)
    limit: int | None = option(None, "use only so many training and test images", at_least=1)


class DeepAutoencoderMnist(Trained):
    """Four layers down to 30 numbers, four up again."""

    title = "A deep autoencoder on MNIST, 30 numbers an image"
    Settings = DeepAutoencoderSettings
    goal = Goal(
        "test_squared_error",
        at_most=4.0,
        data="10,000 images of MNIST: squared error per image, pixels in [0, 1]",
        baseline="as many principal components",
        margin=5.0,
    )
    example = "an image of 28×28 pixels"

    def data(self, settings: DeepAutoencoderSettings, root: Root = None) -> Splits:
        return digit_splits(settings, root)

    def task(self, settings: DeepAutoencoderSettings, splits: Splits | None = None) -> Task:
        model = DeepAutoencoder(PIXELS, settings.hidden, settings.code, settings.error, "silu", "he")
        return Reconstruction(model, settings.lr, one_cycle(settings, splits, warm_up=0.1))

    def baseline(self, settings: DeepAutoencoderSettings, splits: Splits) -> float:
        flat = LinearAutoencoder(PIXELS, settings.code)
        flat.solve(_all_training(splits))
        return flat.squared_error(splits.test.dataset.tensors[0]).mean().item()

    def picture(self, task: Reconstruction, splits: Splits) -> Any:
        flat = LinearAutoencoder(PIXELS, len(task.model.encoder.output.bias))
        flat.solve(_all_training(splits))
        return beside(splits.test.dataset.tensors[0][:8], task.model.eval(), flat)

    def predict(self, task: Reconstruction, input: Any) -> Any:
        images, _ = as_images(input, (1, 28, 28), ink=True)
        with weft.no_grad():
            codes, lost = task.model.encode(images.flatten(1)), task.model.squared_error(images.flatten(1))
        return [
            {"squared_error": round(error, 3), "code": [round(value, 3) for value in code]}
            for code, error in zip(codes.tolist(), lost.tolist(), strict=True)
        ]


class Reconstruction(Task):
    """Training an autoencoder by Adam; figures are squared errors per image, whatever is minimised."""

    def __init__(self, model: Autoencoder, lr: float, schedule: Any) -> None:
        super().__init__()
        self.model, self.lr, self.schedule = model, lr, schedule

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)

    def training_step(self, batch: Any) -> Tensor:
        loss = self.model.loss(batch[0])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Any) -> None:
        self.log("val_squared_error", self.model.squared_error(batch[0]).mean(), prog_bar=True)

    def test_step(self, batch: Any) -> None:
        self.log("test_squared_error", self.model.squared_error(batch[0]).mean())
        self.log(f"test_{self.model.error}", self.model.reconstruction_error(batch[0]).mean())

    def configure_optimizers(self) -> Any:
        optimizer = optim.Adam(self.parameters(), lr=self.lr)
        return {"optimizer": optimizer, "lr_scheduler": self.schedule(optimizer)}


def _all_training(splits: Splits) -> Tensor:
    """Training and validation images together: principal components have nothing to choose. (N, 784)"""
    parts = [splits.train, *([splits.validation] if splits.validation else [])]
    return weft.cat([part.dataset.tensors[0] for part in parts])


recipe = DeepAutoencoderMnist()
