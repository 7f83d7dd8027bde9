"""What votes say without a model of who is right how often, and with one that is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import OptionError, ShapeError
from ...tensor import Tensor, wrap
from .labelling import ABSTAIN, read_votes

__all__ = ["MajorityLabelVoter", "Voter", "independent_vote"]

TIES = ("abstain", "random", "true-random")


class Voter:
    """What makes chances of classes out of votes; a subclass says how."""

    def __init__(self, cardinality: int = 2) -> None:
        if cardinality < 2:
            raise OptionError(f"{type(self).__name__}: at least two classes, got {cardinality}")
        self.cardinality = cardinality

    def predict_proba(self, L: Any) -> Tensor:
        """(N, M) → chances of the classes (N, K)"""
        raise NotImplementedError

    def predict(self, L: Any, tie_break_policy: str = "abstain", generator: Any = None) -> Tensor:
        """(N, M) → the likeliest class of each example (N,)

        tie_break_policy: what is said where several are likeliest: "abstain" (−1), "random" (one of them, the same for
        the same example's number) or "true-random" (drawn by the generator)
        """
        if tie_break_policy not in TIES:
            raise OptionError(f"tie_break_policy is one of {', '.join(TIES)}, got {tie_break_policy!r}")
        chances = self.predict_proba(L).array
        best = np.isclose(chances, chances.max(1, keepdims=True, initial=0.0), rtol=0.0, atol=1e-7)
        found = best.argmax(1)
        tied = best.sum(1) > 1
        if tie_break_policy == "abstain":
            found[tied] = ABSTAIN
        else:
            rows = np.flatnonzero(tied)
            draws = _draws(len(found), generator if tie_break_policy == "true-random" else None)
            for row in rows:
                places = np.flatnonzero(best[row])
                found[row] = places[int(draws[row] * len(places))]
        return wrap(found.astype(np.int64))

    def score(self, L: Any, Y: Any, tie_break_policy: str = "random") -> float:
        """The share of examples whose class is Y."""
        truth = np.asarray(Y.array if isinstance(Y, Tensor) else Y)
        found = self.predict(L, tie_break_policy).array
        if truth.shape != found.shape:
            raise ShapeError(f"score: {len(found)} examples, labels {truth.shape}")
        return float((found == truth).mean()) if len(found) else float("nan")


def _draws(count: int, generator: Any) -> np.ndarray:
    import weft

    return weft.rand(count, generator=weft.Generator().manual_seed(0) if generator is None else generator).array


class MajorityLabelVoter(Voter):
    """Every vote counts alike: chances are shares of votes, equal ones where nobody votes.

    >>> MajorityLabelVoter(2).predict_proba([[0, 0, 1], [-1, 1, -1], [-1, -1, -1]]).tolist()
    [[0.6666666865348816, 0.3333333432674408], [0.0, 1.0], [0.5, 0.5]]
    """

    def predict_proba(self, L: Any) -> Tensor:
        votes = read_votes(L, self.cardinality)
        counts = (votes[:, :, None] == np.arange(self.cardinality)).sum(1)
        counts[counts.sum(1) == 0] = 1
        return wrap((counts / counts.sum(1, keepdims=True)).astype(np.float32))


def independent_vote(L: Any, conditionals: Any, class_balance: Any) -> Tensor:
    """Bayes' rule for functions that are independent given the class: p(y | L) ∝ p(y) Πⱼ p(Lⱼ | y)

    conditionals: (M, K + 1, K), p(vote | class) with the abstention in row 0; class_balance: (K,)
    """
    theta = np.asarray(conditionals.array if isinstance(conditionals, Tensor) else conditionals, np.float64)
    balance = np.asarray(class_balance.array if isinstance(class_balance, Tensor) else class_balance, np.float64)
    votes = read_votes(L, theta.shape[2])
    if theta.shape[:2] != (votes.shape[1], theta.shape[2] + 1) or balance.shape != theta.shape[2:]:
        raise ShapeError(f"independent_vote: votes {votes.shape}, conditionals {theta.shape}, balance {balance.shape}")
    return wrap(posterior(votes, theta, balance)[0])


def posterior(votes: np.ndarray, theta: np.ndarray, balance: np.ndarray) -> tuple[np.ndarray, float]:
    """p(y | L): (N, K), and the mean of log p(L)"""
    with np.errstate(divide="ignore"):
        logs = np.log(theta)
        joint = np.log(balance) + sum(logs[j][votes[:, j] + 1] for j in range(votes.shape[1]))
    joint = np.broadcast_to(joint, (len(votes), len(balance)))
    top = joint.max(1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    weights = np.exp(joint - top)
    total = weights.sum(1, keepdims=True)
    found = np.where(total > 0, weights / np.where(total > 0, total, 1.0), balance)
    with np.errstate(divide="ignore"):
        said = float((np.log(total) + top).mean()) if len(votes) else 0.0
    return found, said
