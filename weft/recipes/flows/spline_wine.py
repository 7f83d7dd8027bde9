"""spline-wine: densities of red wines by a neural spline flow, ten folds, in nats on standardised measurements.

Protocol: see `folds.py`. Beside it: RNADE reaches −9.60 here (`rnade-wine`), published −9.36 (Uria, Murray, Larochelle 2013).
The settings were chosen on validation rows of two folds; seen at a fresh seed: −9.36 ± 0.13.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...models.flows.neural_spline import NeuralSplineFlow
from ..base import Goal
from ..folds import FoldSettings, WineFolds
from ..settings import option

__all__ = ["SplineSettings", "SplineWine", "recipe"]


@dataclass(kw_only=True)
class SplineSettings(FoldSettings):
    """Settings of spline-wine."""

    epochs: int = 150
    lr: float = 0.02
    weight_decay: float = option(2.0, "decay of the weights (AdamW)", at_least=0)
    hidden: tuple[int, ...] = option((128,), "units of each hidden layer", at_least=1)
    transforms: int = option(2, "splines, each with a linear map", at_least=1)
    bins: int = option(8, "bins of each spline", at_least=1)
    bound: float = option(4.0, "where splines end", above=0)
    kind: Literal["coupling", "autoregressive"] = option("autoregressive", "of the maps")


class SplineWine(WineFolds):
    """x = f(z), f of rational-quadratic splines whose knots are functions of the elements before."""

    title = "Densities of red wines, neural spline flow, ten folds"
    Settings = SplineSettings
    goal = Goal(
        "test_log_likelihood",
        at_least=-9.6,
        data="1,599 red wines, each once in a test fold: nats a wine, standardised",
        baseline="one Gaussian with full covariance",
        margin=1.0,
    )

    def model(self, settings: SplineSettings, features: int) -> NeuralSplineFlow:
        return NeuralSplineFlow(
            features,
            settings.hidden,
            settings.transforms,
            bins=settings.bins,
            bound=settings.bound,
            kind=settings.kind,
        )


recipe = SplineWine()
