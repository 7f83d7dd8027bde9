"""dbm-mnist: a deep Boltzmann machine on fixed-binarised MNIST, and the lower bound of its likelihood.

Two RBMs, each with copies of the units that will hear from a second side, give its first weights; then mean fields for the
data and persistent chains over all three layers for the model (Salakhutdinov and Hinton 2009). Published: −84.6, also a bound.
Seen at seed 101, in three minutes of one core: at least −90.8 ± 0.3, independent pixels −205.8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import weft

from ...models.energy.annealing import base_rates
from ...models.energy.contrastive import ContrastiveDivergence, PersistentContrastiveDivergence
from ...models.energy.deep_boltzmann import DeepBoltzmannMachine
from ...models.energy.rbm import BernoulliRBM
from ...tensor import Tensor
from ..base import Goal, Run, Splits
from ..inputs import as_images
from ..settings import option
from .bits import PIXELS, BitsSettings, OnBits, chain_pictures, filters, learn, linear_decay, sides

__all__ = ["DBMMnist", "DBMSettings", "recipe"]


@dataclass(kw_only=True)
class DBMSettings(BitsSettings):
    """Settings of dbm-mnist."""

    epochs: int = 40
    lr: float = 0.05
    first: int = option(500, "units of the first hidden layer", at_least=1)
    second: int = option(500, "units of the second", at_least=1)
    pretraining: int = option(5, "epochs of each RBM before", at_least=0)
    pretraining_lr: float = option(0.05, "their learning rate", above=0)
    mean_field: int = option(5, "updates of the means of hidden units", at_least=1)
    chains: int = option(100, "chains of reverse annealed importance sampling", at_least=2)
    temperatures: int = option(5000, "its steps", at_least=10)
    seeds: int = option(2, "independent runs of it", at_least=1)


class DBMMnist(OnBits):
    """784 – 500 – 500 units without arrows."""

    title = "A deep Boltzmann machine on MNIST's bits, its likelihood from below"
    Settings = DBMSettings
    goal = Goal(
        "test_log_likelihood",
        at_least=-115.0,
        data="10,000 images of fixed-binarised MNIST: nats an image, variational bound less log Z from above",
        baseline="independent pixels (a product of Bernoullis)",
        margin=80.0,
    )

    def task(self, settings: DBMSettings, splits: Splits | None = None) -> DeepBoltzmannMachine:
        return DeepBoltzmannMachine(PIXELS, settings.first, settings.second, settings.mean_field)

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        splits = self.data(settings, run.root)
        run.check_folder()
        weft.manual_seed(settings.seed)
        generator = weft.Generator().manual_seed(settings.seed)
        machine, train = self.task(settings), splits.train.dataset.tensors[0]
        self._pretrained(machine, settings, splits, generator)
        self._trained(run, machine, splits, generator)
        run.keep(machine)
        start = weft.bernoulli(weft.full((8, PIXELS + settings.second), 0.5), generator=generator)
        shown = lambda states: machine.joint.reconstruct(states)[:, :PIXELS]
        run.draw(lambda: chain_pictures(machine.joint, start, generator, shown))
        run.draw(lambda: filters(machine.joint.weight[:PIXELS]), "filters")
        how = {"chains": settings.chains, "temperatures": settings.temperatures, "seeds": settings.seeds}
        figures = sides(machine, train, splits.test.dataset.tensors[0], **how)
        figures["test_log_likelihood"] = figures["test_lower"]
        return self.judged(figures, settings, splits), machine

    def _pretrained(self, machine: DeepBoltzmannMachine, settings: DBMSettings, splits: Splits, generator: Any) -> None:
        """Weights of `bottom`, whose visible units stand for both sides of the first layer, and of `top` likewise."""
        bottom = BernoulliRBM(PIXELS, settings.first, copies=(2, 1))
        top = BernoulliRBM(settings.first, settings.second, copies=(1, 2))
        with weft.no_grad():
            bottom.visible_bias.copy_(base_rates(splits.train.dataset.tensors[0], 1e-3))
        rate, epochs = linear_decay(settings.pretraining_lr), settings.pretraining
        learn(ContrastiveDivergence(bottom), splits.train, epochs, rate, generator=generator, prepare=lambda v: 2 * v)
        above = lambda v: bottom.encode(2 * v).detach()
        learn(ContrastiveDivergence(top), splits.train, epochs, rate, generator=generator, prepare=above)
        machine.start_from(bottom, top)

    def _trained(self, run: Run, machine: DeepBoltzmannMachine, splits: Splits, generator: Any) -> None:
        settings, train = run.settings, splits.train.dataset.tensors[0]
        batch = splits.train.batch_size
        learning = PersistentContrastiveDivergence(machine.joint, batch, centred=True, generator=generator)
        seen = train[:: max(len(train) // 5000, 1)]
        learning.centre(machine.completed(seen))

        def after(epoch: int) -> None:
            loss = -_pseudo(machine, seen[:500])
            run.folder.append(
                {"kind": "epoch", "epoch": epoch, "step": (epoch + 1) * len(splits.train), "train_loss": loss}
            )

        rate = linear_decay(settings.lr)
        learn(
            learning, splits.train, settings.epochs, rate, generator=generator, prepare=machine.completed, after=after
        )

    def predict(self, task: DeepBoltzmannMachine, input: Any) -> Any:
        images, _ = as_images(input, (1, 28, 28), ink=True)
        bits = (images.flatten(1) > 0.5).float()  # (N, 1, 28, 28) → (N, 784)
        with weft.no_grad():
            return [{"bound_less_log_z": round(value, 3)} for value in task.variational(bits).tolist()]


def _pseudo(machine: DeepBoltzmannMachine, v: Tensor) -> float:
    """Pseudo-likelihood of the pixels with the second layer at its means: what can be watched without Z."""
    with weft.no_grad():
        both = machine.completed(v)
        return machine.joint.pseudo_log_likelihood(both).mean().item()


recipe = DBMMnist()
