"""Whether a label model is worth having: where it goes against the majority, and whether its assumption holds.

A label model gains by weighing votes, so there is nothing to gain where hardly two functions vote on an example (the majority is
then every model's answer) or where all are equally good. It loses where functions copy each other: it takes their agreement for
accuracy, and the majority, which counts each copy once, may be better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .completion import joint_chances
from .label_model import LabelModel
from .labelling import read_votes
from .voting import MajorityLabelVoter

__all__ = ["Diagnosis", "diagnose"]


@dataclass(frozen=True)
class Diagnosis:
    """What votes say of a label model without a single label.

    changed: the share of examples whose class the model sees otherwise than the majority (ties do not count)
    expected_gain: by how much it would be more accurate than the majority, ties as even chances, if it is right
    votes_each: votes on an example, in the mean
    dependence: (M, M), how much the joint votes of two functions differ from what the model allows them, as total variation;
        0 on the diagonal
    noise: the total variation that counts of so many examples have by chance, an upper estimate
    copies: the pairs of functions above three times that, the most dependent first
    """

    changed: float
    expected_gain: float
    votes_each: float
    dependence: np.ndarray
    noise: float
    copies: list[tuple[int, int]]

    @property
    def prefers_majority(self) -> bool:
        """Whether the majority is the safer choice: functions that are not independent, or nothing to gain."""
        return bool(self.copies) or self.expected_gain <= 0.001

    def __str__(self) -> str:
        said = f"{self.votes_each:.2f} votes an example; {self.changed:.1%} of the classes differ from the majority's"
        if self.copies:
            i, j = self.copies[0]
            return (
                f"{said}; functions {i} and {j} are not independent given the class (total variation "
                f"{self.dependence[i, j]:.3f}, chance {self.noise:.3f}): leave one of them out, or take the majority"
            )
        advice = "nothing is gained over the majority" if self.prefers_majority else "the model is worth having"
        return f"{said}; expected gain {self.expected_gain:.1%}: {advice}"


def diagnose(model: LabelModel, L: Any) -> Diagnosis:
    """Look at a fitted label model and the votes that it was fitted to.

    model: after `fit`; L: votes (N, M)

    >>> votes = weft.tensor([[1, 1, -1], [0, 0, 0], [1, 1, 0], [0, -1, 0], [1, 1, 1]] * 40)
    >>> diagnose(LabelModel(2).fit(votes), votes).prefers_majority
    True
    """
    votes = read_votes(L, model.cardinality)
    chances = model.predict_proba(votes).array.astype(np.float64)
    shares = MajorityLabelVoter(model.cardinality).predict_proba(votes).array
    best = np.isclose(shares, shares.max(1, keepdims=True, initial=0.0))
    majority = (chances * best).sum(1) / best.sum(1)  # what the model gives the majority's answer, ties drawn
    changed = (best.sum(1) == 1) & ~best[np.arange(len(votes)), chances.argmax(1)]
    dependence = _dependence(model, votes)
    noise = _chance(votes, model.cardinality)
    rows, columns = np.nonzero(np.triu(dependence > 3 * noise, 1))
    order = np.argsort(-dependence[rows, columns], kind="stable")
    return Diagnosis(
        float(changed.mean()),
        float((chances.max(1) - majority).mean()),
        float((votes >= 0).sum(1).mean()),
        dependence,
        noise,
        [(int(rows[k]), int(columns[k])) for k in order],
    )


def _dependence(model: LabelModel, votes: np.ndarray) -> np.ndarray:
    """½ Σ |Oᵢⱼ − μᵢ P μⱼᵀ| of each pair: (M, M)"""
    tables, balance = model.get_conditional_probs().array, np.asarray(model.class_balance)
    said = np.einsum("iak,k,jbk->ijab", tables, balance, tables)
    found = 0.5 * np.abs(joint_chances(votes, model.cardinality) - said).sum((2, 3))
    np.fill_diagonal(found, 0.0)
    return found


def _chance(votes: np.ndarray, classes: int) -> float:
    """½ √((cells − 1) / N): a bound on the mean total variation between N draws and the chances they come from."""
    return 0.5 * float(np.sqrt(((classes + 1) ** 2 - 1) / max(len(votes), 1)))
