"""made-mnist: MADE with one hidden layer of 500 units on fixed-binarised MNIST, or wide with many masks.

Published under 32 masks: 88.04 nats for one wide layer, 86.64 for two; 94.5 for 500 units and one order (Germain et al. 2015).
Wider is `weft train made-mnist --set hidden=2000 --set epochs=12`; the densities of several masks (`masks=8`) are meant.
Weights from pixels straight to later ones are what 500 units gain most by: without them they stay near 100 nats in as many
epochs. Seen on the test images (seed 101, 35 and 72 seconds of one core): 90.88 ± .23 with 500 units, 88.41 ± .23 with 2,000.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ...models.autoregressive.made import MADE
from ...tensor import Tensor
from ..base import Splits
from ..goal import Goal
from ..settings import option
from .bits import INDEPENDENT, MARGIN, BinarySettings, Density, FixedBits, start_at_rates

__all__ = ["MADEMnist", "MADESettings", "recipe"]


@dataclass(kw_only=True)
class MADESettings(BinarySettings):
    """Settings of made-mnist."""

    epochs: int = 15
    lr: float = 0.002
    hidden: tuple[int, ...] = option((500,), "units of each hidden layer", at_least=1)
    masks: int = option(1, "masks, whose densities are meant", at_least=1)
    orders: Literal["natural", "random"] = option("natural", "orders of the masks")
    direct: bool = option(True, "weights from pixels straight to later ones")


class MADEMnist(FixedBits):
    """p(x) = Πᵢ p(xᵢ | x_<i) by an autoencoder with masked weights."""

    title = "MADE, 500 hidden units, on fixed-binarised MNIST"
    Settings = MADESettings
    goal = Goal(
        "test_nll",
        at_most=95.5,
        data="the 10,000 test images of fixed-binarised MNIST: nats an image",
        baseline=INDEPENDENT,
        margin=MARGIN,
    )

    def model(self, settings: MADESettings) -> MADE:
        options = {"masks": settings.masks, "orders": settings.orders, "direct": settings.direct}
        return MADE(784, settings.hidden, seed=settings.seed, **options)

    def task(self, settings: MADESettings, splits: Splits | None = None) -> Density:
        loss = None if settings.masks == 1 else _under_the_next
        task = Density(self.model(settings), settings, splits, loss)
        if splits is not None:
            start_at_rates(task.model, splits.train.dataset.tensors[0])
        return task


def _under_the_next(model: Any, x: Tensor) -> Tensor:
    """One mask a step: the mean density is for evaluation."""
    return -model.log_prob_under(x, model.next_mask()).mean()


recipe = MADEMnist()
