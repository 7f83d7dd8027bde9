"""maf-mnist: a masked autoregressive flow of five MADEs on MNIST in logit space (Papamakarios, Pavlakou and Murray 2017).

Protocol: logit(α + (1 − 2α) (k + u) / 256) with α = 10⁻⁶ and uniform u, drawn once; nats of these logits, so figures of other α
cannot be compared. Published: MADE −1393.7, MAF(5) −1272.7. One MADE is
`weft train maf-mnist --set transforms=1`, which had −1335 at seed 101 after ten epochs. Seen after two epochs, on the whole
test set at a fresh seed: −1302.4, one Gaussian −1366.4; ten epochs were not run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import weft

from ...models.flows.maf import MaskedAutoregressiveFlow
from ...models.generative.baselines import FullGaussian
from ...tensor import Tensor
from ..base import Root, Splits
from ..goal import Goal
from ..settings import option
from ..shared import loaders
from .pixels import GreySettings, GreyTask, GreyTrained, grey, in_bins

__all__ = ["MAFMnist", "MAFSettings", "recipe"]

ALPHA = 1e-6


@dataclass(kw_only=True)
class MAFSettings(GreySettings):
    """Settings of maf-mnist."""

    epochs: int = 10
    lr: float = 0.001
    transforms: int = option(5, "MADEs, one after the other", at_least=1)
    hidden: tuple[int, ...] = option((512,), "units of each hidden layer", at_least=1)


class _Logits(GreyTask):
    """Maximum likelihood of logits, in nats."""

    def training_step(self, batch: Any) -> Tensor:
        loss = self.model.forward_kld(batch[0])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Any) -> None:
        self.log("val_log_likelihood", self.model.log_prob(batch[0]).mean(), prog_bar=True)

    def test_step(self, batch: Any) -> None:
        self.log("test_log_likelihood", self.model.log_prob(batch[0]).mean())


class MAFMnist(GreyTrained):
    """x = f₁(… f₅(z)), each fᵢ the map of a MADE with normal conditionals."""

    title = "Masked autoregressive flow of 5 MADEs on MNIST in logit space"
    Settings = MAFSettings
    goal = Goal(
        "test_log_likelihood",
        at_least=-1310.0,
        data="the 10,000 test images of MNIST, logits with α = 1e-6: nats an image",
        baseline="one Gaussian with full covariance",
        margin=30.0,
    )

    def data(self, settings: MAFSettings, root: Root = None) -> Splits:
        parts = [in_bins(part.flatten(1), ALPHA, seed) for seed, part in enumerate(grey(root, settings.limit))]
        train, validation, test = ((part, weft.zeros(len(part))) for part in parts)
        return loaders(settings, train, validation, test)

    def task(self, settings: MAFSettings, splits: Splits | None = None) -> _Logits:
        return _Logits(MaskedAutoregressiveFlow(784, settings.hidden, settings.transforms), settings, splits)

    def baseline(self, settings: MAFSettings, splits: Splits) -> float:
        train, test = (part.dataset.tensors[0].double() for part in (splits.train, splits.test))
        return FullGaussian(train.shape[1], dtype=weft.float64).fit(train).log_prob(test).mean().item()

    def picture(self, task: Any, splits: Splits) -> Any:
        """Samples above, images of the test set below, as grey."""
        from ...inspect.drawing import tiles

        drawn = task.model.sample(32, generator=weft.Generator().manual_seed(1))
        test = splits.test.dataset.tensors[0]
        rows = weft.cat([drawn, test[:: max(len(test) // 16, 1)][:16]]).sigmoid()
        return tiles(rows.reshape(-1, 28, 28).numpy())


recipe = MAFMnist()
