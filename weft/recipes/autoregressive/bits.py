"""What recipes on fixed-binarised MNIST share: the data, the loss, the baseline, pictures of samples."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ... import nn, optim
from ...data.sources import BinarizedMNIST
from ...models.autoregressive.base import Autoregressive
from ...models.generative.baselines import ProductOfBernoullis
from ...tensor import Tensor
from ...train import Task
from ...train.callbacks import EMA
from ..base import Root, Splits, Trained
from ..inputs import as_images
from ..settings import TrainSettings, option
from ..shared import loaders, one_cycle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "INDEPENDENT",
    "MARGIN",
    "BinarySettings",
    "Density",
    "FixedBits",
    "images",
    "independent_nll",
    "nats",
    "start_at_rates",
]

INDEPENDENT = "independent pixels (a product of Bernoullis)"
MARGIN = 80.0  # nats that a model must be better than that


@dataclass(kw_only=True)
class BinarySettings(TrainSettings):
    """Settings of models of fixed-binarised MNIST."""

    batch_size: int = 100
    weight_decay: float = option(0.0, "decay of the weights (AdamW)", at_least=0)
    average: float = option(0.999, "decay of the mean of the weights that is tested; 0 tests the last ones", at_least=0)
    limit: int | None = option(None, "use only so many images of each part, drawn at random", at_least=1)


class Density(Task):
    """Maximum likelihood: the loss is −log p(x), in nats an image.

    loss: what a training step minimises where that is not −log p(x) itself: model, x → scalar
    """

    def __init__(
        self,
        model: Autoregressive,
        settings: BinarySettings,
        splits: Splits | None,
        loss: Callable[[Any, Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.settings, self.loss = model, settings, loss
        self.schedule = one_cycle(settings, splits, warm_up=0.05)

    def training_step(self, batch: Any) -> Tensor:
        loss = -self.model.log_prob(batch[0]).mean() if self.loss is None else self.loss(self.model, batch[0])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Any) -> None:
        self.log("val_nll", -self.model.log_prob(batch[0]).mean(), prog_bar=True)

    def test_step(self, batch: Any) -> None:
        self.log("test_nll", -self.model.log_prob(batch[0]).mean())

    def configure_optimizers(self) -> Any:
        settings = self.settings
        optimizer = optim.AdamW(self.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
        return {"optimizer": optimizer, "lr_scheduler": self.schedule(optimizer)}


class FixedBits(Trained):
    """A density of fixed-binarised MNIST; a recipe states its model."""

    Settings = BinarySettings
    example = "an image of 28×28 pixels"
    shape: tuple[int, ...] = (784,)  # of an image, as the model takes it

    @abstractmethod
    def model(self, settings: Any) -> Autoregressive:
        """A fresh model."""

    def data(self, settings: Any, root: Root = None) -> Splits:
        parts = (images(root, part, settings.limit).reshape(-1, *self.shape) for part in ("train", "valid", "test"))
        train, validation, test = ((part, weft.zeros(len(part))) for part in parts)
        return loaders(settings, train, validation, test)

    def task(self, settings: Any, splits: Splits | None = None) -> Density:
        task = Density(self.model(settings), settings, splits)
        if splits is not None:
            start_at_rates(task.model, splits.train.dataset.tensors[0])
        return task

    def trainer_options(self, settings: Any) -> dict[str, Any]:
        return {"callbacks": [EMA(settings.average)] if settings.average else []}

    def baseline(self, settings: Any, splits: Splits) -> float:
        return independent_nll(*(part.dataset.tensors[0] for part in (splits.train, splits.test)))

    def further(self, task: Any, splits: Splits) -> dict[str, float]:
        """The standard error of the figure, and how many weights the model has."""
        each = nats(task.model, splits.test.dataset.tensors[0])
        count = sum(p.numel() for p in task.parameters())
        return {"test_nll_error": each.std().item() / len(each) ** 0.5, "model_parameters": float(count)}

    def picture(self, task: Any, splits: Splits) -> Figure | None:
        """Samples above, images of the test set below."""
        from ...inspect.drawing import tiles

        drawn = task.model.sample(32, generator=weft.Generator().manual_seed(1)).reshape(32, -1)
        test = splits.test.dataset.tensors[0].flatten(1)
        rows = weft.cat([drawn, test[:: max(len(test) // 16, 1)][:16]])
        side = round(rows.shape[1] ** 0.5)
        return tiles(rows.reshape(-1, side, side).numpy())

    def predict(self, task: Any, input: Any) -> Any:
        side = round(math.prod(self.shape) ** 0.5)
        bits = (as_images(input, (1, side, side), ink=True)[0] > 0.5).float().reshape(-1, *self.shape)
        with weft.no_grad():
            return [{"log_prob": round(value, 3)} for value in task.model.log_prob(bits).tolist()]


@weft.no_grad()
def nats(model: Autoregressive, images: Tensor, at_once: int = 500) -> Tensor:
    """−log p of each image: (N, …) → (N,)"""
    ask = weft.compile(lambda x: -model.log_prob(x))
    return weft.cat([ask(part) for part in images.split(at_once)])


def independent_nll(train: Tensor, test: Tensor) -> float:
    """Of a product of Bernoullis with the training images' rates."""
    rows = train.flatten(1)
    return -ProductOfBernoullis(rows.shape[1]).fit(rows).log_prob(test.flatten(1)).mean().item()


@weft.no_grad()
def start_at_rates(model: nn.Module, train: Tensor) -> None:
    """Where a model has a bias for every pixel, the logits of the pixels' rates are a better start than 0."""
    rates = ProductOfBernoullis(train[0].numel()).fit(train.flatten(1)).rates
    for name in ("output_bias", "bias"):
        bias = getattr(model, name, None)
        if isinstance(bias, nn.Parameter) and bias.numel() == rates.numel():
            bias.copy_(rates.logit().reshape(bias.shape))
    output = getattr(model, "output", None)
    if isinstance(output, nn.Linear) and output.out_features == rates.numel():
        output.bias.copy_(rates.logit())


def images(root: Root, part: str, limit: int | None) -> Tensor:
    """Images of a part: all, or some drawn at random, since the test images are sorted by digit: (N, 1, 28, 28)"""
    found = BinarizedMNIST(root, part, download=root is None)
    return found.as_tensors().tensors[0] if limit is None else found.drawn(min(limit, len(found)))
