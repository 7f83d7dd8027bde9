"""A model of who is right how often, learned from votes alone (Dawid and Skene 1979, Ratner et al. 2019).

Functions are taken to be independent given the class, so that p(y, L) = p(y) Πⱼ p(Lⱼ | y). Abstentions speak, too: a function
that only ever names one class says something of the others by keeping silent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import OptionError, ShapeError, StateError
from ...tensor import Tensor, wrap
from .completion import completed
from .labelling import read_votes
from .voting import MajorityLabelVoter, Voter, posterior

__all__ = ["LabelModel", "rank_one"]

METHODS = ("em", "moments", "completion")
STRUCTURES = ("confusion", "accuracy")
ABSTENTIONS = ("counted", "missing")
LEAST = 1e-4  # of a probability that was found from moments


class LabelModel(Voter):
    """p(vote | class) of every function and p(class), and by Bayes' rule the chances of the classes of an example.

    structure: "confusion" (a table of p(vote | class) for each function) or "accuracy" (one number: how often a vote is
    right, wrong votes spread evenly)
    abstains: "counted" as a vote of their own, or "missing" at random, as Dawid and Skene have it; functions that name one
    class alone tell nothing by their votes if their silence is not counted

    >>> votes = weft.tensor([[1, 1, -1], [0, 0, 0], [1, 1, 0], [0, -1, 0], [1, 1, 1]])
    >>> LabelModel(2).fit(votes).predict(votes).tolist()
    [1, 0, 1, 0, 1]
    """

    def __init__(self, cardinality: int = 2, structure: str = "confusion", abstains: str = "counted") -> None:
        super().__init__(cardinality)
        _chosen("structure", structure, STRUCTURES)
        _chosen("abstains", abstains, ABSTENTIONS)
        self.structure, self.abstains = structure, abstains
        self.conditionals: np.ndarray | None = None  # (M, K + 1, K): p(vote | class), abstentions in row 0
        self.class_balance: np.ndarray | None = None
        self.log_likelihoods: list[float] = []  # mean log p(L) before each turn of EM

    def fit(
        self,
        L: Any,
        class_balance: Any = None,
        method: str = "em",
        n_epochs: int = 500,
        tol: float = 1e-9,
        smoothing: float = 0.1,
    ) -> LabelModel:
        """Learn from votes (N, M) without labels.

        class_balance: p(class), where it is known; else EM learns it, and moments take the shares of majority votes
        method: "em" climbs the likelihood from the majority's chances; "moments" completes the rank-one covariance of the
        votes of each class against the others, which needs three functions and no start
        n_epochs, tol: turns of EM, and the gain of mean log p(L) at which they end; smoothing: votes added to every count
        """
        votes = read_votes(L, self.cardinality)
        _chosen("method", method, METHODS)
        if not len(votes) or not votes.shape[1]:
            raise ShapeError(f"LabelModel.fit: votes {votes.shape}: there is nothing to learn from")
        start = MajorityLabelVoter(self.cardinality).predict_proba(votes).array.astype(np.float64)
        balance = None if class_balance is None else _balance(class_balance, self.cardinality)
        if method == "moments":
            self.class_balance = start.mean(0) if balance is None else balance
            self.conditionals = self._from_moments(votes, self.class_balance)
            return self
        if method == "completion":
            self.class_balance = start.mean(0) if balance is None else balance
            first = self._tables(votes, start, max(smoothing, LEAST))
            self.conditionals = completed(votes, self.class_balance, first, n_epochs, tol)
            return self
        self.log_likelihoods = []
        chances = start
        for _ in range(n_epochs):
            self.class_balance = chances.mean(0) if balance is None else balance
            self.conditionals = self._tables(votes, chances, smoothing)
            chances, said = posterior(votes, self.conditionals, self.class_balance)
            self.log_likelihoods.append(said)
            if len(self.log_likelihoods) > 1 and said - self.log_likelihoods[-2] < tol:
                break
        return self

    def _tables(self, votes: np.ndarray, chances: np.ndarray, smoothing: float) -> np.ndarray:
        """p(vote | class) that is likeliest for these chances: (M, K + 1, K)"""
        marks = votes[:, :, None] == np.arange(-1, self.cardinality)  # (N, M, K + 1)
        counts = np.einsum("nml,ny->mly", marks, chances)
        if self.structure == "confusion" and self.abstains == "counted":
            counts = counts + smoothing
            return counts / counts.sum(1, keepdims=True)
        silent = marks[:, :, 0].mean(0)[:, None, None]  # (M, 1, 1)
        named = counts[:, 1:] + smoothing
        if self.structure == "accuracy":
            total = named.sum((1, 2))
            right = np.trace(named, axis1=1, axis2=2) / np.where(total > 0, total, 1.0)
            wrong = (1 - right) / (self.cardinality - 1)
            same = np.eye(self.cardinality, dtype=bool)
            tables = np.where(same, right[:, None, None], wrong[:, None, None])
        else:
            total = named.sum(1, keepdims=True)
            tables = np.where(total > 0, named / np.where(total > 0, total, 1.0), 1 / self.cardinality)
        silences = np.broadcast_to(silent, (len(tables), 1, self.cardinality))
        return np.concatenate([silences, (1 - silent) * tables], 1)

    def _from_moments(self, votes: np.ndarray, balance: np.ndarray) -> np.ndarray:
        """Each class against the others: votes v ∈ {1, −1, 0} have Cov(vᵢ, vⱼ) = p (1 − p) dᵢ dⱼ with dᵢ = E[vᵢ | c] −
        E[vᵢ | not c], and Cov(vᵢ, |vⱼ|) = p (1 − p) dᵢ eⱼ, e the same difference of coverages."""
        count = votes.shape[1]
        if count < 3:
            raise OptionError(f"LabelModel: moments need three functions or more, got {count}; fit by method='em'")
        tables = np.zeros((count, self.cardinality + 1, self.cardinality))
        said = (votes >= 0).astype(np.float64)
        for c in range(self.cardinality):
            p = balance[c]
            v = np.where(votes == c, 1.0, -said)
            spread = np.sqrt(max(p * (1 - p), 1e-12))
            joint = np.cov(np.concatenate([v, said], 1).T, bias=True)
            z = rank_one(joint[:count, :count])
            others = ~np.eye(count, dtype=bool)
            sizes = np.maximum((others * z**2).sum(1), 1e-12)
            w = (others * joint[:count, count:].T * z).sum(1) / sizes
            d, e = z / spread, w / spread
            mean, coverage = v.mean(0), said.mean(0)
            tables[:, c + 1, :] = (((coverage - p * e) + (mean - p * d)) / 2)[:, None]  # given any other class
            tables[:, c + 1, c] = ((coverage + (1 - p) * e) + (mean + (1 - p) * d)) / 2
            tables[:, 0, c] = 1 - (coverage + (1 - p) * e)
        tables = tables.clip(LEAST, 1.0)
        return tables / tables.sum(1, keepdims=True)

    def predict_proba(self, L: Any) -> Tensor:
        """p(y | L): (N, M) → (N, K)"""
        tables, balance = self._learned()
        votes = read_votes(L, self.cardinality)
        if votes.shape[1] != len(tables):
            raise ShapeError(f"predict_proba: {votes.shape[1]} columns of votes, fitted to {len(tables)}")
        return wrap(posterior(votes, tables, balance)[0].astype(np.float32))

    def get_conditional_probs(self) -> Tensor:
        """p(vote | class): (M, K + 1, K), abstentions in row 0"""
        return wrap(self._learned()[0].copy())

    def get_weights(self) -> Tensor:
        """How often a vote of each function is right, where it votes: (M,)"""
        tables, balance = self._learned()
        right = (np.einsum("myy->my", tables[:, 1:]) * balance).sum(1)
        said = (tables[:, 1:].sum(1) * balance).sum(1)
        return wrap(right / np.maximum(said, 1e-300))

    def _learned(self) -> tuple[np.ndarray, np.ndarray]:
        if self.conditionals is None or self.class_balance is None:
            raise StateError("LabelModel: call fit(votes) first")
        return self.conditionals, self.class_balance


def rank_one(matrix: np.ndarray, turns: int = 500) -> np.ndarray:
    """z with zᵢ zⱼ nearest to the elements off the diagonal, by least squares in turn; most of z is positive."""
    others = ~np.eye(len(matrix), dtype=bool)
    off = np.where(others, matrix, 0.0)
    values, vectors = np.linalg.eigh(off)
    z = vectors[:, -1] * np.sqrt(max(values[-1], 1e-12))
    for _ in range(turns):
        before = z.copy()
        for i in range(len(z)):
            rest = np.delete(z, i)
            z[i] = np.delete(off[i], i) @ rest / max(rest @ rest, 1e-12)
        if np.abs(z - before).max() < 1e-12:
            break
    return z if z.sum() >= 0 else -z


def _balance(given: Any, cardinality: int) -> np.ndarray:
    balance = np.asarray(given.array if isinstance(given, Tensor) else given, np.float64)
    if balance.shape != (cardinality,) or (balance < 0).any() or not np.isclose(balance.sum(), 1.0, atol=1e-4):
        raise OptionError(f"class_balance: expected {cardinality} probabilities that sum to 1, got {given}")
    return balance


def _chosen(name: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise OptionError(f"LabelModel: {name} is one of {', '.join(known)}, got {given!r}")
