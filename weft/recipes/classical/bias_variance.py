"""bias-variance: polynomials of rising degree on many training sets; their error taken apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import NDArray

import weft

from ...train.selection import bias_variance
from .. import pictures
from ..base import Goal, Recipe, Run
from ..settings import Settings, option
from .polynomial_fit import truth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("error", "bias_squared", "variance", "noise")


@dataclass(kw_only=True)
class BiasVarianceSettings(Settings):
    """Settings of bias-variance."""

    examples: int = option(50, "points of each training set", at_least=3)
    repeats: int = option(200, "training sets drawn for each degree", at_least=2)
    noise: float = option(0.3, "standard deviation of the noise", above=0)
    degrees: tuple[int, ...] = option(tuple(range(1, 13)), "degrees of the polynomials", at_least=0)


class BiasVarianceStudy(Recipe):
    """E(y − f)² = noise + bias² + variance: bias falls with the degree, variance rises, the best lies between."""

    title = "Bias and variance of polynomials of rising degree"
    Settings = BiasVarianceSettings
    goal = Goal(
        "excess",
        at_most=0.05,
        data="50 points: error of the best degree above the noise",
        baseline="the better of the lowest and the highest degree",
        margin=0.02,
    )

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        rows = {degree: self.decomposed(run.settings, degree) for degree in run.settings.degrees}
        for degree, parts in rows.items():
            run.folder.append({"kind": "epoch", "epoch": degree, "step": degree, **parts})
        run.draw(lambda: _picture(rows))
        best = min(rows, key=lambda degree: rows[degree]["error"])
        excess = {degree: parts["error"] - parts["noise"] for degree, parts in rows.items()}
        ends = min(excess[min(rows)], excess[max(rows)])
        return {"best_degree": best, "excess": excess[best], self.goal.beside: ends, **rows[best]}, None

    def decomposed(self, settings: BiasVarianceSettings, degree: int) -> dict[str, float]:
        """Means over the test points of error, bias², variance and noise."""
        points = np.linspace(-0.95, 0.95, 50)
        draws = weft.Generator().manual_seed(settings.seed).fold_in(1).normal((50, 200), np.float64)
        targets = truth(points)[:, None] + settings.noise * draws  # (points, draws)
        parts = bias_variance(
            lambda generator: _training_set(settings, generator),
            lambda x, y: _fitted(x, y, degree),
            points,
            targets,
            repeats=settings.repeats,
            seed=settings.seed,
        )
        return parts.summary()


def _training_set(settings: BiasVarianceSettings, generator: weft.Generator) -> tuple[NDArray, NDArray]:
    x = generator.uniform((settings.examples,), np.float64, -1.0, 1.0)
    return x, truth(x) + settings.noise * generator.normal((settings.examples,), np.float64)


def _fitted(x: NDArray, y: NDArray, degree: int) -> Callable[[NDArray], NDArray]:
    """The least-squares polynomial."""
    return Chebyshev.fit(x, y, degree, domain=[-1, 1])


def _picture(rows: dict[int, dict[str, float]]) -> Figure:
    figure, axes = pictures.blank("bias-variance: error of polynomials = noise + bias² + variance")
    for name, colour in zip(PARTS, ("black", *pictures.COLOURS), strict=False):
        label = {"bias_squared": "bias²"}.get(name, name)
        axes.plot(list(rows), [parts[name] for parts in rows.values()], "o-", ms=3, color=colour, label=label)
    axes.set(xlabel="degree", ylabel="mean squared error", yscale="log")
    axes.legend(fontsize=8)
    return figure


recipe = BiasVarianceStudy()
