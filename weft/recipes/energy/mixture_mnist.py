"""mixture-mnist: 500 components of independent pixels on fixed-binarised MNIST, by expectation maximisation, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ...models.generative.baselines import BernoulliMixture
from ...models.generative.evaluation import evaluate
from ..base import Goal, Run, Splits
from ..settings import option
from .bits import PIXELS, BitsSettings, OnBits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MixtureMnist", "MixtureSettings", "recipe"]


@dataclass(kw_only=True)
class MixtureSettings(BitsSettings):
    """Settings of mixture-mnist."""

    epochs: int = option(30, "iterations of expectation maximisation", at_least=0)
    components: int = option(500, "components", at_least=1)
    strength: float = option(1.0, "examples' worth of the mean image in each component", above=0)
    restarts: int = option(1, "starts, the best of which goes on", at_least=1)


class MixtureMnist(OnBits):
    """p(x) = Σₖ πₖ Πᵢ p_ki^xᵢ (1 − p_ki)^(1 − xᵢ)."""

    title = "A mixture of 500 Bernoulli components on MNIST's bits"
    Settings = MixtureSettings
    goal = Goal(
        "test_log_likelihood",
        at_least=-140.0,
        data="10,000 images of fixed-binarised MNIST: nats an image, exact",
        baseline="independent pixels (a product of Bernoullis)",
        margin=50.0,
    )

    def task(self, settings: MixtureSettings, splits: Splits | None = None) -> BernoulliMixture:
        return BernoulliMixture(settings.components, PIXELS)

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        splits = self.data(settings, run.root)
        run.check_folder()
        generator = weft.Generator().manual_seed(settings.seed)
        mixture, train = self.task(settings), splits.train.dataset.tensors[0]

        def log(iteration: int, value: float) -> None:
            run.folder.append({"kind": "epoch", "epoch": iteration, "step": iteration + 1, "train_loss": -value})

        options = {"restarts": settings.restarts, "strength": settings.strength, "generator": generator}
        mixture.fit(train, settings.epochs, log=log, **options)
        run.keep(mixture)
        run.draw(lambda: _means(mixture))
        found = evaluate(mixture, splits.test.dataset.tensors[0], binarisation=self.binarisation).likelihoods[0]
        with weft.no_grad():
            validation = mixture.log_prob(splits.validation.dataset.tensors[0]).mean().item()
        figures = {
            "test_log_likelihood": found.nats,
            "test_log_likelihood_error": found.error,
            "val_log_likelihood": validation,
        }
        return self.judged(figures, settings, splits), mixture


def _means(mixture: BernoulliMixture) -> Figure:
    """The heaviest 64 components."""
    from ...inspect.drawing import tiles

    heaviest = mixture.log_share.argsort(descending=True)[:64]
    return tiles(weft.sigmoid(mixture.logits[heaviest]).detach().reshape(-1, 28, 28).numpy())


recipe = MixtureMnist()
