"""perceptron-2d: the perceptron's learning rule on points that a line separates, within Novikoff's bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

from ... import nn
from ...models.classical.perceptron import Perceptron, mistake_bound
from .. import pictures
from ..base import Goal, Recipe, Root, Run, Splits
from ..baselines import pixels_accuracy
from ..inputs import as_rows
from ..settings import Settings, option
from ..shared import Pair, in_order

NORMAL, OFFSET = (0.8, -0.6), 0.1  # the true line: 0.8 x₁ − 0.6 x₂ + 0.1 = 0


@dataclass(kw_only=True)
class PerceptronSettings(Settings):
    """Settings of perceptron-2d."""

    examples: int = option(200, "training points; as many for testing", at_least=2)
    margin: float = option(0.05, "least distance of the points to the true line", above=0, at_most=0.5)
    epochs: int = option(200, "passes over the points at most", at_least=1)
    lr: float = option(1.0, "size of a correction", above=0)


class Perceptron2D(Recipe):
    """w ← w + lr · s x for every point on the wrong side, until there is none: at most R² / γ² corrections."""

    title = "A line between two classes, found by the perceptron's rule"
    Settings = PerceptronSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.97,
        data="200 fresh points, separated by the same line",
        baseline="the line of ridge regression",
    )
    example = "points like 0.5,-0.2; 1,1"

    def data(self, settings: PerceptronSettings, root: Root = None) -> Splits:
        train, test = (separable(settings.examples, settings.margin, settings.seed, part) for part in range(2))
        return Splits(in_order(train), None, in_order(test))

    def task(self, settings: PerceptronSettings, splits: Splits | None = None) -> nn.Module:
        return Perceptron(2)

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        train, test = (separable(settings.examples, settings.margin, settings.seed, part) for part in range(2))
        model = Perceptron(2)
        history = model.fit(*train, max_epochs=settings.epochs, lr=settings.lr)
        for epoch, mistakes in enumerate(history.mistakes):
            run.folder.append(
                {"kind": "epoch", "epoch": epoch, "step": (epoch + 1) * len(train[1]), "corrections": mistakes}
            )
        run.keep(model)
        run.draw(lambda: _picture(model, *train))
        bound = mistake_bound(weft.tensor(NORMAL), weft.tensor([OFFSET]), *train)
        accuracy = (model(test[0])[:, 0] == test[1]).float().mean().item()
        figures = self.judged({"test_accuracy": accuracy}, settings, self.data(settings))
        return {**figures, "corrections": history.total, "bound": bound}, model

    def baseline(self, settings: PerceptronSettings, splits: Splits) -> float:
        return pixels_accuracy(splits)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return [{"label": int(label)} for label in task(as_rows(input, 2))[:, 0].tolist()]


def separable(count: int, margin: float, seed: int, part: int) -> Pair:
    """Points of the square [−1, 1]² at least `margin` from the true line, with the side they lie on: 0 or 1."""
    generator = weft.Generator().manual_seed(seed).fold_in(part)
    points = generator.uniform((8 * count + 64, 2), np.float64, -1.0, 1.0)
    distance = points @ np.array(NORMAL) + OFFSET
    points, distance = (a[np.abs(distance) >= margin][:count] for a in (points, distance))
    return weft.tensor(points.astype(np.float32)), weft.tensor((distance > 0).astype(np.int64))


def _picture(model: Perceptron, x: weft.Tensor, y: weft.Tensor) -> Any:
    scale = 3 / model.weight.detach().norm().item()

    def score(grid: np.ndarray) -> np.ndarray:
        return scale * model.score(weft.tensor(grid)).detach().numpy()[:, 0]

    return pictures.decision_boundary("perceptron-2d: the line found", score, x.numpy(), y.numpy())


recipe = Perceptron2D()
