"""Images of which few are labelled, many draws of the labels: what the recipes mnist-vat, mnist-fixmatch … share.

Protocol: in each draw the labelled images (as many of each class), first weights and all orders come from one seed, `seed` and
on; the other training images are there without labels. The figure is the mean test error over draws, with the deviation
between them; beside it stand, for each draw, the same network taught by the same labels alone, and once the network that is
told all labels. Settings are chosen with `holdout`: then that many of the last training images are apart, and all figures are
theirs, so that no test image is looked at.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import weft

from ... import nn, optim
from ...data import DataLoader, TensorDataset
from ...data.sources import MNIST
from ...train import Classification, Trainer
from ...train.methods import semi
from .. import pictures
from ..base import Recipe, Root, Run
from ..settings import Settings, option
from ..shared import Pair, conv_block, in_order

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BASELINE", "FewImages", "FewSettings", "small_network"]

BASELINE = "the same network taught by the same labels alone"
SUPERVISED_BATCH = 50


@dataclass(kw_only=True)
class FewSettings(Settings):
    """Settings of classifiers of images of which few are labelled."""

    draws: int = option(10, "draws of labels and weights, at seeds from `seed` on", at_least=1)
    labels: int = option(100, "labelled images, as many of each class", at_least=1)
    steps: int = option(1000, "steps of the method", at_least=1)
    supervised_steps: int = option(400, "steps of the network that has labels alone", at_least=1)
    all_steps: int = option(1000, "steps of the network that is told all labels; 0 leaves it out", at_least=0)
    batch_size: int = option(32, "labelled images in a step", at_least=1)
    uratio: int = option(4, "unlabelled images for each labelled one", at_least=1)
    lr: float = option(2e-3, "learning rate, falling to 0 in the second half", above=0)
    holdout: int = option(0, "training images kept apart, whose figures then take the place of the test's", at_least=0)
    limit: int | None = option(None, "use only so many training and test images", at_least=1)


class FewImages(Recipe):
    """Many trainings with few labels; a recipe states network, method and views."""

    source: ClassVar[Any] = MNIST
    classes: ClassVar[int] = 10

    @abstractmethod
    def network(self, settings: Any) -> nn.Module:
        """A fresh network: images (B, C, H, W) → logits (B, classes)."""

    @abstractmethod
    def method(self, settings: Any, loader: semi.SemiLoader, options: dict[str, Any]) -> semi.SemiSupervised:
        """A fresh task around a fresh network."""

    def views(self, settings: Any) -> tuple[Any, Any]:
        """Weak and strong augmentation."""
        return None, None

    def descent(self, settings: Any, steps: int) -> dict[str, Any]:
        """Optimiser and schedule of a training of so many steps."""
        return descent(settings.lr, steps)

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        train, tested = self.images(settings, run.root)
        run.check_folder()
        rows, curves = [], []
        for seed in range(settings.seed, settings.seed + settings.draws):
            row, history = self.drawn(settings, seed, train, tested)
            rows.append(row)
            run.folder.append({"kind": "seed", "seed": seed, **row})
            curves = curves or history
        for row in curves:
            run.folder.append(row)
        run.draw(lambda: watched(self.title, curves))
        found = summary(rows)
        if settings.all_steps:
            found["all_labels_error"] = self.supervised(settings, settings.seed, train, tested, settings.all_steps)
        return found | {self.goal.beside: found["supervised_error"]}, None

    def images(self, settings: Any, root: Root) -> tuple[Pair, Pair]:
        """Training images with their labels, and those that figures are taken on."""
        parts = [self.source(root, train=part, download=root is None) for part in (True, False)]
        train, test = (tuple(x[: settings.limit] for x in p.as_tensors(normalize=False).tensors) for p in parts)
        if not settings.holdout:
            return train, test
        kept = len(train[1]) - settings.holdout
        return tuple(x[:kept] for x in train), tuple(x[kept:] for x in train)

    def drawn(
        self, settings: Any, seed: int, train: Pair, tested: Pair
    ) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """One draw of labels: the errors, and what was logged on the way."""
        labelled = semi.labelled_subset(train[1], settings.labels, seed=seed)
        weak, strong = self.views(settings)
        loader = semi.SemiLoader(
            *train,
            labelled,
            batch_size=settings.batch_size,
            uratio=settings.uratio,
            weak=weak,
            strong=strong,
            seed=seed,
        )
        weft.manual_seed(seed)
        task = self.method(settings, loader, self.descent(settings, settings.steps))
        trainer = Trainer(max_steps=settings.steps, run_folder=False, progress=False)
        history = trainer.fit(task, loader)
        few = tuple(x[weft.tensor(labelled)] for x in train)
        row = {"test_error": error(task, tested)}
        row["supervised_error"] = self.supervised(settings, seed, few, tested, settings.supervised_steps)
        last = history.rows[-1]
        return row | {k: v for k, v in last.items() if k.startswith("pseudo")}, history.rows

    def supervised(self, settings: Any, seed: int, train: Pair, tested: Pair, steps: int) -> float:
        """The error of the same network that learns from labelled images alone, seen in weak views."""
        weak, _ = self.views(settings)
        weft.manual_seed(seed)
        task = Classification(self.network(settings), **self.descent(settings, steps))
        size = min(SUPERVISED_BATCH, len(train[1]))
        change = None if weak is None else lambda batch, generator: (weak(batch[0], generator), batch[1])
        loader = DataLoader(
            TensorDataset(*train), size, shuffle=True, drop_last=True, seed=seed, batch_transform=change
        )
        Trainer(max_steps=steps, run_folder=False, progress=False).fit(task, loader)
        return error(task, tested)


def small_network(channels: int, width: int, classes: int = 10, depth: int = 1) -> nn.Sequential:
    """Two convolutions of every other place, `depth` more, and a mean over places: (B, channels, H, W) → (B, classes)

    Strides in place of pooling: layers over all places would take more time than the products of all others. With depth 1 a
    number of the last layer sees 17 pixels of a side, and 8 more with each further one: all of MNIST's 28 from 3 on.
    """
    deeper = [conv_block(4 * width, 4 * width) for _ in range(depth - 1)]
    return nn.Sequential(
        *_halving(channels, width, 5),
        *_halving(width, 2 * width, 3),
        *(conv_block(2 * width, 4 * width), *deeper),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, classes),
    )


def _halving(inputs: int, outputs: int, side: int) -> list[nn.Module]:
    """Convolution of every other place, batch normalisation, ReLU: (B, inputs, H, W) → (B, outputs, H / 2, W / 2)"""
    moved = nn.Conv2d(inputs, outputs, side, stride=2, padding=side // 2, bias=False)
    return [moved, nn.BatchNorm2d(outputs), nn.ReLU()]


def descent(lr: float, steps: int) -> dict[str, Any]:
    """Adam, its rate falling along a line to 0 in the second half."""
    kept = lambda step: min(1.0, 2 * (1 - min(step / steps, 1.0)))
    schedule = lambda o: {"scheduler": optim.lr_scheduler.LambdaLR(o, kept), "interval": "step"}
    return {"optimizer": lambda p: optim.Adam(p, lr=lr), "scheduler": schedule}


def error(task: Classification, tested: Pair) -> float:
    """The share of wrong answers."""
    found = Trainer(run_folder=False, progress=False).test(task, in_order(tested))
    return 1 - found["test_accuracy"]


def summary(rows: list[dict[str, float]]) -> dict[str, float]:
    """Means over draws, and deviations of the errors between them."""
    columns = {name: np.array([row[name] for row in rows], float) for name in rows[0]}
    found = {name: float(values.mean()) for name, values in columns.items()}
    spread = {
        f"{name}_deviation": float(columns[name].std(ddof=1)) if len(rows) > 1 else math.nan
        for name in ("test_error", "supervised_error")
    }
    return found | spread | {"draws": len(rows)}


def watched(title: str, rows: list[dict[str, Any]]) -> Figure | None:
    """Pseudo-labels over the first draw: how many are used, and how many of those are right."""
    if not rows or "pseudo_accuracy" not in rows[0]:
        return None
    steps = np.array([row["step"] for row in rows])
    names = ("pseudo_accuracy", "pseudo_utilisation")
    return pictures.curves(title, steps, {n.removeprefix("pseudo_"): np.array([r[n] for r in rows]) for n in names})
