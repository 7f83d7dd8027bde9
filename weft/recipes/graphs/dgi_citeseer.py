"""dgi-citeseer: codes by deep graph infomax, logistic regression on them; Veličković et al. (2019) report 71.8 %.

Seen at seeds 101 to 200: 71.1 ± 1.3 % (72.0 % in validation), 5 s of one core of an AMD EPYC (Zen 5) each. The regression was chosen anew, on validation papers, after two figures had been seen that missed the goal at
seeds from 0 on: 70.3 ± 1.6 % with codes over their mean size, 70.25 % with codes as they come, both stopped by validation accuracy.
"""

from __future__ import annotations

from ..base import Goal
from .dgi_cora import DGIPapers

__all__ = ["DGICiteseer", "recipe"]


class DGICiteseer(DGIPapers):
    """dgi-cora on another network."""

    title = "Citeseer, deep graph infomax, logistic regression on frozen codes"
    goal = Goal(
        "test_accuracy",
        at_least=0.705,
        data="Citeseer's 1,000 test papers, mean over seeds",
        baseline="label propagation",
        margin=0.03,
    )
    dataset = "citeseer"


recipe = DGICiteseer()
