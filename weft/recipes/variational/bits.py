"""What recipes on dynamically binarised MNIST share: bits drawn anew at every step, likelihoods by importance samples.

A pixel of brightness p is 1 with probability p. Training images are drawn anew whenever they come up; validation and test
images once, from a fixed seed, so that all models are judged on the same bits.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ... import nn, optim
from ...models.generative.baselines import BernoulliMixture, ProductOfBernoullis
from ...models.generative.evaluation import evaluate
from ...models.variational.base import LatentVariableModel
from ...tensor import Tensor
from ...train import Task
from ...train.callbacks import EMA
from ..autoencoders.digits import PIXELS, digit_rows
from ..base import Root, Splits, Trained
from ..inputs import as_images
from ..settings import TrainSettings, option
from ..shared import loaders, one_cycle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DynamicBits", "DynamicSettings", "Variational", "binarised", "start_at_rates"]

EVALUATION_SEED = 2016  # of the bits of validation and test images


@dataclass(kw_only=True)
class DynamicSettings(TrainSettings):
    """Settings of models of dynamically binarised MNIST."""

    batch_size: int = 100
    average: float = option(0.999, "decay of the mean of the weights that is tested; 0 tests the last ones", at_least=0)
    samples: int = option(5000, "importance samples for each test image", at_least=1)
    mixture: int = option(100, "components of the mixture that is printed beside; 0 leaves it out", at_least=0)
    holdout: int = option(5000, "training images kept apart for validation", at_least=0)
    limit: int | None = option(None, "use only so many training and test images", at_least=1)


class Variational(Task):
    """Maximises the model's objective on bits drawn at every step; validation is by the ELBO, −log p(x) is not above it."""

    def __init__(self, model: LatentVariableModel, settings: DynamicSettings, splits: Splits | None) -> None:
        super().__init__()
        self.model, self.settings = model, settings
        self.schedule = one_cycle(settings, splits, warm_up=0.05)

    def training_step(self, batch: Any) -> Tensor:
        loss = self.model.loss(weft.bernoulli(batch[0]))
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Any) -> None:
        self.log("val_negative_elbo", -self.model.elbo(batch[0]).mean(), prog_bar=True)

    def test_step(self, batch: Any) -> None:
        self.log("test_negative_elbo", -self.model.elbo(batch[0]).mean())

    def configure_optimizers(self) -> Any:
        optimizer = optim.Adam(self.parameters(), lr=self.settings.lr)
        return {"optimizer": optimizer, "lr_scheduler": self.schedule(optimizer)}


class DynamicBits(Trained):
    """A variational model of 784 bits; a recipe states its model."""

    Settings = DynamicSettings
    example = "an image of 28×28 pixels"
    binarisation = "dynamic"

    @abstractmethod
    def model(self, settings: Any) -> LatentVariableModel:
        """A fresh model."""

    def data(self, settings: Any, root: Root = None) -> Splits:
        """Brightness of training images; bits of the others. The first `holdout` training images are for validation."""
        generator = weft.Generator().manual_seed(EVALUATION_SEED)
        (test, digits), (train, labels) = (digit_rows(root, part, settings.limit) for part in (False, True))
        test = weft.bernoulli(test, generator=generator)
        held = min(settings.holdout, len(train) // 5)
        apart = (weft.bernoulli(train[:held], generator=generator), labels[:held]) if held else None
        return loaders(settings, (train[held:], labels[held:]), apart, (test, digits))

    def task(self, settings: Any, splits: Splits | None = None) -> Variational:
        model = self.model(settings)
        if splits is not None:
            start_at_rates(model, splits.train.dataset.tensors[0])
        return Variational(model, settings, splits)

    def trainer_options(self, settings: Any) -> dict[str, Any]:
        return {"callbacks": [EMA(settings.average)] if settings.average else []}

    def baseline(self, settings: Any, splits: Splits) -> float:
        train, test = binarised(splits, settings.seed)
        return -ProductOfBernoullis(PIXELS).fit(train).log_prob(test).mean().item()

    def further(self, task: Any, splits: Splits) -> dict[str, float]:
        """−log p(x) of the test images by importance samples, and of a mixture of Bernoullis, exactly."""
        settings, test = task.settings, splits.test.dataset.tensors[0]
        task.eval()
        found = evaluate(task.model, test, binarisation=self.binarisation, samples=(settings.samples,)).side("lower")
        figures = {"test_nll": -found.nats, "test_nll_error": found.error, "importance_samples": settings.samples}
        figures["model_parameters"] = sum(p.numel() for p in task.model.parameters())
        if settings.mixture:
            figures["mixture_nll"] = self._mixture_nll(settings, splits)
        return {name: float(value) for name, value in figures.items()}

    def _mixture_nll(self, settings: Any, splits: Splits) -> float:
        train, test = binarised(splits, settings.seed)
        mixture = BernoulliMixture(min(settings.mixture, len(train)), PIXELS)
        with weft.no_grad():
            fitted = mixture.fit(train, 20, generator=weft.Generator().manual_seed(settings.seed))
            return -fitted.log_prob(test).mean().item()

    def picture(self, task: Any, splits: Splits) -> Figure | None:
        """Two rows of test images, two of what comes back of them, four of means of images drawn from the model."""
        from ...inspect.drawing import tiles

        test = splits.test.dataset.tensors[0]
        some = test[:: max(len(test) // 16, 1)][:16]
        with weft.no_grad():
            drawn = task.model.decode(task.model.prior_draws(32, generator=weft.Generator().manual_seed(1)))
            rows = weft.cat([some, task.model.reconstruct(some), drawn])
        return tiles(rows.reshape(-1, 28, 28).numpy())

    def predict(self, task: Any, input: Any) -> Any:
        found = (as_images(input, (1, 28, 28), ink=True)[0] > 0.5).float().flatten(1)
        bound = task.model.log_prob_bound(found, samples=1000, generator=weft.Generator().manual_seed(0))
        return [{"log_prob_at_least": round(value, 3)} for value in bound.value.tolist()]


def binarised(splits: Splits, seed: int) -> tuple[Tensor, Tensor]:
    """Training images as bits, drawn once for methods that see them once, and the bits of the test images."""
    generator = weft.Generator().manual_seed(seed)
    return weft.bernoulli(splits.train.dataset.tensors[0], generator=generator), splits.test.dataset.tensors[0]


@weft.no_grad()
def start_at_rates(model: nn.Module, train: Tensor) -> None:
    """The decoder's last bias starts at the logits of the pixels' rates (Burda et al. 2016)."""
    last = [part for part in model.decoder.modules() if isinstance(part, nn.Linear)][-1]
    if last.out_features == train.shape[1]:
        last.bias.copy_(train.mean(0).clamp(1e-3, 1 - 1e-3).logit())
