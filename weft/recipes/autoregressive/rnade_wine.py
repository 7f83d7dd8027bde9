"""rnade-wine: densities of red wines, ten folds, in nats on standardised measurements (Uria, Murray, Larochelle 2013).

Protocol: see `folds.py`. Published: RNADE −9.36, mixtures of factor analysers −10.19, one Gaussian −13.18.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...models.autoregressive.heads import GaussianMixtureHead, LaplaceMixtureHead
from ...models.autoregressive.nade import RNADE
from ..base import Goal
from ..folds import FoldSettings, WineFolds
from ..settings import option

__all__ = ["RNADEWine", "WineSettings", "recipe"]

HEADS = {"gaussian": GaussianMixtureHead, "laplace": LaplaceMixtureHead}


@dataclass(kw_only=True)
class WineSettings(FoldSettings):
    """Settings of rnade-wine."""

    hidden: int = option(50, "units of each hidden layer", at_least=1)
    components: int = option(10, "components of each mixture", at_least=1)
    kind: Literal["gaussian", "laplace"] = option("gaussian", "of the components")


class RNADEWine(WineFolds):
    """p(x) = Πᵢ Σₘ πₘ N(xᵢ; μₘ, σₘ²), all parameters functions of x_<i."""

    title = "Densities of red wines, RNADE, ten folds"
    Settings = WineSettings
    goal = Goal(
        "test_log_likelihood",
        at_least=-9.8,
        data="1,599 red wines, each once in a test fold: nats a wine, standardised",
        baseline="one Gaussian with full covariance",
        margin=1.0,
    )

    def model(self, settings: WineSettings, features: int) -> RNADE:
        return RNADE(features, settings.hidden, HEADS[settings.kind](settings.components))


recipe = RNADEWine()
