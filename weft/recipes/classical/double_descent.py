"""double-descent: least squares with more and more random features, beyond the point where the data are fitted exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ...models.classical.polynomial import random_relu
from ...train.selection import SweepPoint, double_descent
from .. import pictures
from ..base import Goal, Recipe, Run
from ..settings import Settings, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(kw_only=True)
class DoubleDescentSettings(Settings):
    """Settings of double-descent."""

    examples: int = option(40, "rows of the training set", at_least=2)
    inputs: int = option(10, "variables of a row", at_least=1)
    noise: float = option(0.3, "standard deviation of the noise", at_least=0)
    repeats: int = option(10, "training sets that errors are averaged over", at_least=1)
    widths: tuple[int, ...] = option(
        (2, 4, 8, 12, 16, 20, 25, 30, 34, 37, 40, 43, 47, 52, 60, 70, 85, 100, 150, 200, 300, 500, 800, 1200),
        "numbers of random features",
        at_least=1,
    )


class DoubleDescent(Recipe):
    """w = Φ⁺ y: the test error peaks where features equal rows and falls again, below its first minimum or near it."""

    title = "Double descent of least squares on random features"
    Settings = DoubleDescentSettings
    goal = Goal(
        "peak_over_widest",
        at_least=100,
        data="1,000 test rows: largest error over that of the widest model",
        baseline="the best model with fewer features than rows",
        margin=0.1,
        relative=True,
    )

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        points = self.sweep(settings)
        for point in points:
            row = {"train_error": point.train_error, "test_error": point.test_error, "norm": point.norm}
            run.folder.append({"kind": "epoch", "epoch": point.features, "step": point.features, **row})
        run.draw(lambda: _picture(points, settings.examples))
        peak = max(points, key=lambda point: point.test_error)
        widest, narrow = points[-1].test_error, first_minimum(points, settings.examples)
        figures = {"peak_at": peak.features, "peak_error": peak.test_error, "widest_error": widest}
        figures |= {"first_minimum": narrow, "peak_over_widest": peak.test_error / widest}
        return {**figures, self.goal.beside: peak.test_error / narrow}, None

    def sweep(self, settings: DoubleDescentSettings) -> list[SweepPoint]:
        """Errors of the least-norm fit for each width, from the narrowest to the widest."""
        weight = _normal(settings.seed, 1, settings.inputs) / np.sqrt(settings.inputs)
        test = _normal(settings.seed, 2, 1000, settings.inputs)

        def draw(generator: weft.Generator) -> tuple[NDArray, NDArray]:
            x = generator.normal((settings.examples, settings.inputs), np.float64)
            return x, np.tanh(x @ weight) + settings.noise * generator.normal((settings.examples,), np.float64)

        def features(x: NDArray, width: int) -> NDArray:
            return random_relu(weft.tensor(x), width, settings.seed).numpy()

        target = np.tanh(test @ weight)
        return double_descent(
            draw, features, sorted(settings.widths), (test, target), repeats=settings.repeats, seed=settings.seed
        )


def first_minimum(points: list[SweepPoint], rows: int) -> float:
    """The least test error of models with fewer features than rows: chosen by the test error itself, which no model
    selection could better."""
    return min((point.test_error for point in points if point.features < rows), default=float("nan"))


def _normal(seed: int, stream: int, *shape: int) -> NDArray[np.float64]:
    return weft.Generator().manual_seed(seed).fold_in(stream).normal(shape, np.float64)


def _picture(points: list[SweepPoint], rows: int) -> Figure:
    figure, (left, right) = pictures.blank("double-descent: random features and least norm", columns=2, width=5)
    widths = [point.features for point in points]
    left.plot(widths, [point.test_error for point in points], "o-", ms=3, color=pictures.COLOURS[1], label="test")
    left.plot(
        widths,
        [max(point.train_error, 1e-6) for point in points],
        "o-",
        ms=3,
        color=pictures.COLOURS[0],
        label="training",
    )
    right.plot(widths, [point.norm for point in points], "o-", ms=3, color=pictures.COLOURS[2])
    for axes, label in ((left, "mean squared error"), (right, "norm of the weights")):
        axes.axvline(rows, color="grey", ls=":", label="features = rows")
        axes.set(xlabel="features", ylabel=label, xscale="log", yscale="log")
    left.legend(fontsize=8)
    return figure


recipe = DoubleDescent()
