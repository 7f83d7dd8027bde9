"""adversarial-mnist: the network of mnist-mlp trained on the worst images within ε of those it is given."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

from ... import nn, optim
from ...train import Trainer
from ...train.methods.adversarial import AdversarialTraining, Attack, Robustness, pgd, robustness
from ...train.supervised import accuracy
from ..base import Goal, Root, Run, Splits, Trained
from ..settings import option
from ..shared import loaders, one_cycle
from . import mnist_mlp


@dataclass(kw_only=True)
class AdversarialSettings(mnist_mlp.MnistMLPSettings):
    """Settings of adversarial-mnist."""

    epochs: int = 4
    dropout: float = 0.0
    holdout: int = 1000
    epsilon: float = option(0.1, "largest change of a pixel", at_least=0)
    steps: int = option(5, "steps of an attack in training", at_least=1)
    test_steps: int = option(20, "steps of an attack in the test", at_least=1)
    plain_epochs: int = option(2, "passes of the networks that it is compared with", at_least=0)


class AdversarialMnist(Trained):
    """Projected gradient ascent inside every training step (Madry et al. 2018), beside a network trained plainly."""

    title = "MNIST, a network that withstands small changes of its images"
    Settings = AdversarialSettings
    goal = Goal(
        "test_robust_acc",
        at_least=0.85,
        data="MNIST's 10,000 test images under attack (PGD, ε = 0.1)",
        baseline="the same network trained on random changes of that size",
        margin=0.2,
    )
    example = mnist_mlp.MnistMLP.example

    def data(self, settings: AdversarialSettings, root: Root = None) -> Splits:
        return mnist_mlp.recipe.data(settings, root)

    def task(self, settings: AdversarialSettings, splits: Splits | None = None) -> nn.Module:
        return AdversarialTraining(
            mnist_mlp.recipe.task(settings).model,
            attack(settings, settings.steps),
            test_attack=attack(settings, settings.test_steps),
            metrics={"accuracy": accuracy},
            optimizer=lambda parameters: optim.AdamW(parameters, settings.lr, weight_decay=settings.weight_decay),
            scheduler=one_cycle(settings, splits),
        )

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        """The robust network as any other, then a plain one to compare with."""
        figures, task = super().fit(run)
        found = unattacked(run.settings, self.data(run.settings, run.root))
        return {**figures, "plain_accuracy": found.clean, "plain_robust_acc": found.robust}, task

    def baseline(self, settings: AdversarialSettings, splits: Splits) -> float:
        return unattacked(settings, splits, settings.epsilon).robust

    def predict(self, task: nn.Module, input: Any) -> Any:
        return mnist_mlp.recipe.predict(task, input)


def unattacked(settings: AdversarialSettings, splits: Splits, noise: float = 0.0) -> Robustness:
    """How a network withstands the attack that never saw one: pixels of its training images change by ±noise at random."""
    settings = settings.replace(epochs=settings.plain_epochs)
    images, labels = splits.train.dataset.tensors
    sides = weft.Generator().manual_seed(settings.seed).bernoulli(0.5, tuple(images.shape), np.float32)
    changed = (images + noise * (2 * weft.tensor(sides) - 1)).clamp(0, 1)
    train = loaders(settings, (changed, labels), None, splits.test.dataset.tensors).train
    weft.manual_seed(settings.seed)
    plain = mnist_mlp.recipe.task(settings, splits)
    Trainer(max_epochs=settings.epochs, run_folder=False, progress=False).fit(plain, train)
    return robustness(plain.model, splits.test, attack(settings, settings.test_steps))


def attack(settings: AdversarialSettings, steps: int) -> Attack:
    """Projected gradient ascent from a random start, images kept in [0, 1]."""
    return functools.partial(pgd, epsilon=settings.epsilon, steps=steps)


recipe = AdversarialMnist()
