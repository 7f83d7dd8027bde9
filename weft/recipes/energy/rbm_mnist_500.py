"""rbm-mnist-500: an RBM with 500 hidden units on fixed-binarised MNIST, its likelihood enclosed from both sides.

2⁵⁰⁰ hidden states cannot be summed: annealed importance sampling says too much, its reverse from samples of the model too
little. Persistent chains, the centred gradient and a rate that falls to nothing keep the two together. Where chains from
the data have not forgotten them the sides may change places: the smaller one is the figure. Seen: −88.11 ± .32 by AIS and
−88.09 ± .27 by its reverse (seed 101, a minute and a half of one core).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import weft

from ...models.energy.annealing import base_rates
from ...models.energy.contrastive import PersistentContrastiveDivergence
from ...models.energy.rbm import BernoulliRBM
from ..base import Goal, Run, Splits
from ..settings import option
from .bits import PIXELS, BitsSettings, OnBits, chain_pictures, energy_curve, filters, learn, linear_decay, sides

__all__ = ["RBM500Settings", "RBMMnist500", "recipe"]

WATCHED = 200  # images whose pseudo-likelihood is logged on the way


@dataclass(kw_only=True)
class RBM500Settings(BitsSettings):
    """Settings of rbm-mnist-500."""

    epochs: int = 60
    lr: float = 0.2
    hidden: int = option(500, "hidden units", at_least=1)
    steps: int = option(1, "Gibbs steps of the chains between two updates", at_least=1)
    weight_decay: float = option(0.0, "decay of the weights", at_least=0)
    chains: int = option(100, "chains of annealed importance sampling, forward and back", at_least=2)
    temperatures: int = option(5000, "its steps", at_least=10)
    seeds: int = option(2, "independent runs of it", at_least=1)


class RBMMnist500(OnBits):
    """p(v) ∝ exp(bᵀv) Πⱼ (1 + exp(cⱼ + W_:ⱼᵀv)): a product of 500 experts."""

    title = "An RBM with 500 hidden units on MNIST's bits, its likelihood from both sides"
    Settings = RBM500Settings
    goal = Goal(
        "test_log_likelihood",
        at_least=-92.0,
        data="10,000 images of fixed-binarised MNIST: nats an image, the smaller of AIS and reverse AIS",
        baseline="independent pixels (a product of Bernoullis)",
        margin=100.0,
    )

    def task(self, settings: RBM500Settings, splits: Splits | None = None) -> BernoulliRBM:
        return BernoulliRBM(PIXELS, settings.hidden)

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        splits = self.data(settings, run.root)
        run.check_folder()
        generator = weft.Generator().manual_seed(settings.seed)
        rbm = self._trained(run, splits, generator)
        run.keep(rbm)
        test = splits.test.dataset.tensors[0]
        self._draw(run, rbm, test, generator)
        how = {"chains": settings.chains, "temperatures": settings.temperatures, "seeds": settings.seeds}
        figures = sides(rbm, splits.train.dataset.tensors[0], test, **how)
        figures["test_log_likelihood"] = min(figures["test_lower"], figures["test_upper"])
        return self.judged(figures, settings, splits), rbm

    def _trained(self, run: Run, splits: Splits, generator: Any) -> BernoulliRBM:
        settings, train = run.settings, splits.train.dataset.tensors[0]
        weft.manual_seed(settings.seed)
        rbm = self.task(settings)
        with weft.no_grad():
            rbm.visible_bias.copy_(base_rates(train, 1e-3))
        batch = splits.train.batch_size
        learning = PersistentContrastiveDivergence(rbm, batch, settings.steps, centred=True, generator=generator)
        learning.centre(train[:: max(len(train) // 5000, 1)])

        def after(epoch: int) -> None:
            """The pseudo-likelihood is no likelihood, but needs no Z: what can be watched."""
            with weft.no_grad():
                loss = -rbm.pseudo_log_likelihood(train[:WATCHED]).mean().item()
            run.folder.append(
                {"kind": "epoch", "epoch": epoch, "step": (epoch + 1) * len(splits.train), "train_loss": loss}
            )

        rate = linear_decay(settings.lr)
        options = {"generator": generator, "weight_decay": settings.weight_decay, "after": after}
        learn(learning, splits.train, settings.epochs, rate, **options)
        return rbm

    def _draw(self, run: Run, rbm: BernoulliRBM, test: Any, generator: Any) -> None:
        start = weft.bernoulli(weft.full((8, PIXELS), 0.5), generator=generator)
        run.draw(lambda: filters(rbm.weight))
        run.draw(lambda: chain_pictures(rbm, start, generator, rbm.reconstruct), "chains")
        run.draw(lambda: energy_curve("rbm-mnist-500: chains from noise", rbm, test, generator), "energies")


recipe = RBMMnist500()
