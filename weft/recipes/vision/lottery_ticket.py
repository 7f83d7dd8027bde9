"""lottery-ticket: the network of mnist-mlp pruned in rounds, rewound to its first weights and trained again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import weft

from ... import nn
from ...train import Task, Trainer
from ...train.methods.lottery import Lottery, lottery_ticket
from ...train.methods.pruning import identity, prunable
from ..base import Goal, Recipe, Root, Run, Splits
from ..settings import option
from . import mnist_mlp


@dataclass(kw_only=True)
class LotterySettings(mnist_mlp.MnistMLPSettings):
    """Settings of lottery-ticket."""

    epochs: int = 4
    rounds: int = option(3, "rounds of training and pruning", at_least=1)
    sparsity: float = option(0.8, "share of weights pruned after the last round", above=0, at_most=0.99)
    repeats: int = option(1, "networks that accuracies are averaged over", at_least=1)


class LotteryTicket(Recipe):
    """Tickets of the lottery (Frankle and Carbin 2019), and controls: the same masks with new weights."""

    title = "MNIST, lottery tickets: pruned networks trained from their first weights"
    Settings = LotterySettings
    goal = Goal(
        "ticket_over_dense",
        at_least=-0.005,
        data="MNIST's 10,000 test images: the accuracy of the ticket less that of the dense network",
        baseline="the same masks with new weights",
        margin=0.0001,
    )
    example = mnist_mlp.MnistMLP.example

    def data(self, settings: LotterySettings, root: Root = None) -> Splits:
        return mnist_mlp.recipe.data(settings, root)

    def task(self, settings: LotterySettings, splits: Splits | None = None) -> nn.Module:
        """The network of mnist-mlp with masks on its weights, which keep all until they are pruned."""
        task = mnist_mlp.recipe.task(settings, splits)
        for weight in prunable(task):
            identity(*weight)
        return task

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        study = self.study(run, self.data(run.settings, run.root))
        for row in study.rows:
            figures = {"sparsity": row.sparsity, "ticket": row.ticket}
            figures |= {} if row.round == 0 else {"control": row.control}
            run.folder.append({"kind": "epoch", "epoch": row.round, "step": row.round, **figures})
        run.folder.log(str(study))
        run.keep(study.task)
        run.draw(lambda: study.figure("test accuracy"))
        last = study.rows[-1]
        figures = {"sparsity": last.sparsity, "dense_accuracy": study.dense, "test_accuracy": last.ticket}
        figures |= {"control_accuracy": last.control, "ticket_over_dense": last.ticket - study.dense}
        return {**figures, self.goal.beside: last.control - study.dense}, study.task

    def study(self, run: Run, splits: Splits) -> Lottery:
        """Every round of training, pruning and rewinding, and the controls."""
        settings = run.settings

        def make(seed: int) -> Task:
            weft.manual_seed(seed)
            return self.task(settings, splits)

        def fit(task: Task) -> float:
            trainer = Trainer(max_epochs=settings.epochs, run_folder=False, progress=False)
            trainer.fit(task, splits.train)
            return trainer.test(task, splits.test)["test_accuracy"]

        amount = 1 - (1 - settings.sparsity) ** (1 / settings.rounds)
        seeds = range(settings.seed, settings.seed + settings.repeats)
        return lottery_ticket(make, fit, rounds=settings.rounds, amount=amount, seeds=seeds)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return mnist_mlp.recipe.predict(task, input)


recipe = LotteryTicket()
