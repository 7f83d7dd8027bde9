"""manifold-mnist: a VAE whose codes are two numbers, and the plane of digits that it draws (Kingma and Welling 2014, fig. 4).

`picture.png` has 20×20 images at quantiles of the prior, so that each stands for 1/400 of what the model draws.
Seen at seed 101, in two minutes of one core: 136.4 nats (100 importance samples).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...models.variational.base import DenseVAE
from ..base import Splits
from ..goal import Goal
from ..settings import option
from .bits import DynamicBits, DynamicSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ManifoldMnist", "ManifoldSettings", "recipe"]


@dataclass(kw_only=True)
class ManifoldSettings(DynamicSettings):
    """Settings of manifold-mnist."""

    epochs: int = 20
    lr: float = 0.002
    samples: int = 100
    mixture: int = 0
    hidden: tuple[int, ...] = option((400, 200), "units of each hidden layer of the encoder", at_least=1)
    side: int = option(20, "images in a row of the picture", at_least=2)


class ManifoldMnist(DynamicBits):
    """Two numbers for 784 pixels."""

    title = "The plane of digits: a VAE with codes of two numbers on dynamically binarised MNIST"
    Settings = ManifoldSettings
    goal = Goal(
        "test_nll",
        at_most=145.0,
        data="the 10,000 test images of dynamically binarised MNIST: nats an image",
        baseline="independent pixels (a product of Bernoullis)",
        margin=50.0,
    )

    def model(self, settings: ManifoldSettings) -> DenseVAE:
        return DenseVAE(784, settings.hidden, 2, activation="relu")

    def picture(self, task: Any, splits: Splits) -> Figure | None:
        """The plane."""
        from ...inspect.latent import latent_manifold

        return latent_manifold(task.model.decode, task.settings.side, shape=(28, 28)).figure()


recipe = ManifoldMnist()
