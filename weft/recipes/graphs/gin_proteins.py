"""gin-proteins: an isomorphism network on PROTEINS, 1,113 proteins, enzymes and others; Errica et al. (2020) report 73.3 % for it and 75.8 % for bags of vertices.

Not yet run; its goal has not been seen reached.
"""

from __future__ import annotations

from ..base import Goal
from .molecules import Molecules

__all__ = ["GINProteins", "recipe"]


class GINProteins(Molecules):
    """Four layers of sums over neighbours, each read out."""

    title = "PROTEINS, an isomorphism network, ten folds with a choice inside"
    goal = Goal(
        "test_accuracy",
        at_least=0.73,
        data="1,113 proteins, each in one of ten test folds",
        baseline="the most frequent class",
        margin=0.05,
    )
    dataset = "PROTEINS"


recipe = GINProteins()
