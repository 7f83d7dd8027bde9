"""mnist-active: which digits to label: how many labels a small network needs for 95 %, when it may choose them.

Protocol of Gal, Islam and Ghahramani (2017): a network with dropout learns from scratch after every `batch` new labels; the
first `start` are drawn at random. What counts is the number of labels at which test accuracy first reaches 95 %, as a
share of what random labels need; they report 295 to 335 labels against 835.

Seen at seeds 100 to 104, which no setting was chosen with: entropy 246 ± 22 labels, BALD 234 ± 22, random ones 618 ± 90, so
0.40 and 0.38; two minutes of one core a seed. Steps and learning rate were chosen by what random labels reach on validation images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import weft

from ... import nn, optim
from ...nn import functional as F
from ...tensor import Tensor
from ...train.methods import active
from ..autoencoders.digits import digit_rows
from ..base import Goal, Recipe, Run
from ..graphs.citations import restarted
from ..settings import Settings, option
from ..shared import cycle

__all__ = ["ActiveSettings", "MnistActive", "recipe"]


@dataclass(kw_only=True)
class ActiveSettings(Settings):
    """Settings of mnist-active."""

    seeds: int = option(5, "loops of each query, at seeds from `seed` on", at_least=1)
    start: int = option(30, "labels, drawn at random, before the first question", at_least=1)
    batch: int = option(30, "labels that are asked for after each training", at_least=1)
    budget: int = option(1200, "labels at which a loop ends if it has not come so far", at_least=1)
    accuracy: float = option(0.95, "test accuracy to reach", above=0, at_most=1)
    queries: tuple[str, ...] = option(("random", "entropy", "bald"), "who chooses; also margin and coreset")
    candidates: int = option(3000, "images that a query looks at, drawn anew every time", at_least=1)
    samples: int = option(10, "draws of dropout for BALD", at_least=2)
    steps: int = option(300, "steps of each training", at_least=1)
    examples: int = option(64, "examples in one step, drawn with replacement", at_least=1)
    lr: float = option(0.003, "learning rate, the largest of its cycle", above=0)
    width: int = option(16, "channels of the first convolution, half of those of the second", at_least=1)
    judged: Literal["test", "validation"] = option("test", "images that accuracy is measured on")
    limit: int | None = option(None, "use only so many training and test images", at_least=1)


class MnistActive(Recipe):
    """Two convolutions, a hidden layer, dropout; entropy and BALD against labels drawn at random."""

    title = "MNIST, labels asked for by the network: how many 95 % takes"
    Settings = ActiveSettings
    goal = Goal(
        "label_share",
        at_most=0.6,
        data="labels for 95 % on MNIST's test images, as a share of random ones",
        baseline="labels drawn at random",
    )

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        parts = [digit_rows(run.root, train, settings.limit) for train in (True, False)]
        run.check_folder()
        (x, labels), test = ((rows.reshape(-1, 1, 28, 28), y) for rows, y in parts)
        held = min(5000, len(x) // 5)
        judged = test if settings.judged == "test" else (x[:held], labels[:held])
        learner = Learner(settings)
        needed: dict[str, list[int]] = {name: [] for name in settings.queries}
        curves: dict[str, list[list[tuple[int, float]]]] = {name: [] for name in settings.queries}
        for seed in range(settings.seed, settings.seed + settings.seeds):
            for name in settings.queries:
                loop = active.ActiveLearning(
                    x[held:],
                    labels[held:],
                    learner.fitting(seed),
                    queries(settings)[name],
                    start=settings.start,
                    batch=settings.batch,
                    seed=seed,
                )
                evaluate = lambda model: right(model, *judged)
                found = list(loop.rounds(settings.budget, evaluate, settings.accuracy))
                for row in found:
                    run.folder.append({"kind": "round", "query": name, "seed": seed, **_row(row)})
                needed[name].append(found[-1].labelled if found[-1].figure >= settings.accuracy else settings.budget)
                curves[name].append([(row.labelled, row.figure) for row in found])
        run.draw(lambda: _picture(curves, settings.accuracy))
        return self.figures(needed), None

    def figures(self, needed: dict[str, list[int]]) -> dict[str, float]:
        """Labels needed by each query, mean and deviation over seeds; the shares of random ones; the larger of them."""
        figures: dict[str, float] = {}
        for name, counts in needed.items():
            figures |= {f"labels_{name}": float(np.mean(counts)), f"labels_{name}_deviation": float(np.std(counts))}
        random = figures.get("labels_random", float("nan"))
        shares = {name: figures[f"labels_{name}"] / random for name in needed if name in ("entropy", "bald")}
        figures |= {f"{name}_share": share for name, share in shares.items()}
        return figures | {"label_share": max(shares.values(), default=float("nan")), "baseline_label_share": 1.0}


def _row(found: active.Round) -> dict[str, Any]:
    return {"epoch": found.number, "step": found.labelled, "test_accuracy": found.figure}


def queries(settings: ActiveSettings) -> dict[str, active.Query]:
    """All queries by name."""
    members = active.dropout_chances(settings.samples)
    return {
        "random": active.RandomQuery(),
        "entropy": active.ScoreQuery(active.entropy, candidates=settings.candidates),
        "margin": active.ScoreQuery(active.margin, candidates=settings.candidates),
        "bald": active.ScoreQuery(active.bald, members, settings.candidates),
        "coreset": active.CoreSetQuery(hidden, settings.candidates),
    }


def network(width: int) -> nn.Sequential:
    """(N, 1, 28, 28) → (N, 10)"""
    return nn.Sequential(
        *(nn.Conv2d(1, width, 5), nn.ReLU(), nn.MaxPool2d(2)),  # (N, width, 12, 12)
        *(nn.Conv2d(width, 2 * width, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),  # (N, 32 · width)
        *(nn.Dropout(0.25), nn.Linear(32 * width, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10)),
    )


def hidden(model: Any, x: Tensor) -> Tensor:
    """The hidden layer, (N, 128), in which core sets are measured."""
    model.eval()
    with weft.no_grad():
        return weft.cat([model[:-2](part) for part in x.split(1000)])


class Learner:
    """Trainings from scratch that share one compiled step and one compiled prediction."""

    def __init__(self, settings: ActiveSettings) -> None:
        self.settings, self.model = settings, network(settings.width)
        self.optimizer = optim.Adam(self.model.parameters(), lr=settings.lr)
        self.step = weft.compile(self._step)

    def _step(self, x: Tensor, labels: Tensor) -> None:
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(x), labels).backward()
        self.optimizer.step()

    def fitting(self, seed: int) -> Callable[[Tensor, Tensor, int], nn.Module]:
        """`fit` of a loop: weights, order and masks are those of the seed and the round."""

        def fit(x: Tensor, labels: Tensor, number: int) -> nn.Module:
            settings = self.settings
            weft.manual_seed(100_003 * seed + number)
            restarted(self.model, network(settings.width), self.optimizer)
            self.model.train()
            rows = weft.randint(len(x), (settings.steps, settings.examples))
            for done, row in enumerate(rows):
                self.optimizer.param_groups[0]["lr"] = settings.lr * cycle(done / settings.steps)
                self.step(x[row], labels[row])
            return self.model

        return fit


def right(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    """The share of images whose class is said."""
    return (active.chances(model, x).argmax(1) == labels).double().mean().item()


def _picture(curves: dict[str, list[list[tuple[int, float]]]], aim: float) -> Any:
    """Accuracy against labels, a thin line each seed."""
    from ...inspect.drawing import COLOURS, blank

    figure, axes = blank(1, 1, 5.2, 3.6)
    for (name, lines), colour in zip(curves.items(), COLOURS, strict=False):
        for number, line in enumerate(lines):
            axes[0, 0].plot(*zip(*line, strict=True), color=colour, lw=0.9, label=name if number == 0 else None)
    axes[0, 0].axhline(aim, color="#777777", lw=0.6, ls=":")
    axes[0, 0].set(xlabel="labels", ylabel="accuracy", ylim=(0.6, 1.0))
    axes[0, 0].legend(frameon=False)
    return figure


recipe = MnistActive()
