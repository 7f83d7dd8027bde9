"""Active learning: a network that says which examples it would be worth having labels of, and the loop that asks for them.

>>> learning = ActiveLearning(x, labels, fit, ScoreQuery(entropy), start=20, batch=20, seed=0)
>>> for found in learning.rounds(budget=500, evaluate=test_accuracy):
...     print(found.labelled, found.figure)
"""

from ....runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "pool": ("ActiveLearning", "Pool", "Round"),
    "queries": (
        "CoreSetQuery",
        "Query",
        "RandomQuery",
        "ScoreQuery",
        "chances",
        "committee_chances",
        "dropout_chances",
    ),
    "scores": (
        "bald",
        "consensus_divergence",
        "entropy",
        "k_center_greedy",
        "least_confident",
        "margin",
        "vote_entropy",
    ),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
