"""gin-enzymes: an isomorphism network on ENZYMES, 600 enzymes, six classes; Errica et al. (2020) report 59.6 % for it and 65.2 % for bags of vertices.

Seen at seeds 0 and 101: 59.8 ± 6.0 and 59.0 ± 6.5 % over the folds; bags of vertices 45.7 %, Weisfeiler and Leman's kernel 51.8 %, 84 s of one core of an
AMD EPYC that was loaded. (That bags do worse here than in the paper may be for want of its larger grid.)
"""

from __future__ import annotations

from ..base import Goal
from .molecules import Molecules

__all__ = ["GINEnzymes", "recipe"]


class GINEnzymes(Molecules):
    """Four layers of sums over neighbours, each read out."""

    title = "ENZYMES, an isomorphism network, ten folds with a choice inside"
    goal = Goal(
        "test_accuracy",
        at_least=0.55,
        data="600 enzymes, each in one of ten test folds",
        baseline="the most frequent class",
        margin=0.05,
    )
    dataset = "ENZYMES"


recipe = GINEnzymes()
