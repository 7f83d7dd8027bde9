"""Labelling functions: rules that name the class of some examples and keep silent on the others (Ratner et al. 2016).

Their votes on N examples are a matrix L (N, M) of classes 0 … K − 1 and −1 for an abstention, in snorkel's convention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import OptionError, ShapeError
from ...tensor import Tensor, wrap

__all__ = ["ABSTAIN", "LFAnalysis", "LFApplier", "LabelingFunction", "labeling_function", "read_votes"]

ABSTAIN = -1


class LabelingFunction:
    """A rule with a name: example → class, or ABSTAIN.

    resources: further arguments by name, such as lists of words
    """

    def __init__(self, name: str, f: Callable[..., int], resources: Mapping[str, Any] | None = None) -> None:
        self.name, self.f, self.resources = name, f, dict(resources or {})

    def __call__(self, x: Any) -> int:
        """The vote on one example."""
        found = self.f(x, **self.resources)
        if isinstance(found, bool | np.bool_) or not isinstance(found, int | np.integer) or found < ABSTAIN:
            raise OptionError(f"{self.name}: a vote is a class 0, 1, … or ABSTAIN (−1), got {found!r}")
        return int(found)

    def __repr__(self) -> str:
        return f"LabelingFunction({self.name})"


def labeling_function(
    name: str | None = None, resources: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., int]], LabelingFunction]:
    """A decorator that makes a function a labelling function.

    >>> @labeling_function()
    ... def praises(text):
    ...     return 1 if "good" in text else ABSTAIN
    >>> praises("a good film"), praises("a film"), praises.name
    (1, -1, 'praises')
    """
    if callable(name):
        raise OptionError("labeling_function is called before it decorates: @labeling_function()")
    return lambda f: LabelingFunction(name or f.__name__, f, resources)


class LFApplier:
    """Asks every function about every example.

    >>> short = LabelingFunction("short", lambda text: 0 if len(text) < 4 else ABSTAIN)
    >>> LFApplier([short]).apply(["no", "certainly"]).tolist()
    [[0], [-1]]
    """

    def __init__(self, lfs: Sequence[LabelingFunction]) -> None:
        names = [lf.name for lf in lfs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if not lfs or twice:
            raise OptionError(f"LFApplier: {'two functions are called ' + twice[0] if twice else 'no functions'}")
        self.lfs = list(lfs)

    def apply(self, examples: Iterable[Any]) -> Tensor:
        """The votes: N examples → (N, M) int64"""
        rows = [[lf(x) for lf in self.lfs] for x in examples]
        return wrap(np.array(rows, np.int64).reshape(len(rows), len(self.lfs)))


def read_votes(L: Any, cardinality: int | None = None) -> np.ndarray:
    """The votes as an array (N, M) of whole numbers from −1 on, checked."""
    votes = np.asarray(L.array if isinstance(L, Tensor) else L)
    if votes.ndim != 2:
        raise ShapeError(f"votes: expected a matrix (examples, functions), got {votes.shape}")
    if votes.dtype.kind not in "iu":
        raise OptionError(f"votes: expected whole numbers with −1 for an abstention, got {votes.dtype}")
    if votes.size and votes.min() < ABSTAIN:
        raise OptionError(f"votes: −1 is an abstention, the smallest vote is {votes.min()}")
    if cardinality is not None and votes.size and votes.max() >= cardinality:
        raise OptionError(
            f"votes: {cardinality} classes are numbered to {cardinality - 1}, the largest vote is {votes.max()}"
        )
    return votes.astype(np.int64)


class LFAnalysis:
    """How much the functions say, and how often they agree.

    >>> found = LFAnalysis([[0, 0], [1, 0], [-1, 1], [-1, -1]])
    >>> found.lf_coverages().tolist(), found.lf_conflicts().tolist(), found.label_coverage()
    ([0.5, 0.75], [0.25, 0.25], 0.75)
    """

    def __init__(self, L: Any, lfs: Sequence[LabelingFunction] | None = None) -> None:
        self.votes = read_votes(L)
        count = self.votes.shape[1]
        if lfs is not None and len(lfs) != count:
            raise ShapeError(f"LFAnalysis: {count} columns of votes, {len(lfs)} functions")
        self.names = [lf.name for lf in lfs] if lfs is not None else [f"{number}" for number in range(count)]

    @property
    def _said(self) -> np.ndarray:
        return self.votes != ABSTAIN

    def _shares(self, marked: np.ndarray) -> np.ndarray:
        return marked.mean(0) if len(marked) else np.zeros(marked.shape[1])

    def _against(self) -> np.ndarray:
        """Where a function names another class than one of the others: (N, M)"""
        said = self._said
        differs = (self.votes[:, :, None] != self.votes[:, None, :]) & said[:, :, None] & said[:, None, :]
        return differs.any(2)

    def lf_coverages(self) -> np.ndarray:
        """The share of examples that each function votes on: (M,)"""
        return self._shares(self._said)

    def lf_overlaps(self) -> np.ndarray:
        """The share on which it votes and another does, too: (M,)"""
        return self._shares(self._said & (self._said.sum(1, keepdims=True) > 1))

    def lf_conflicts(self) -> np.ndarray:
        """The share on which another names another class: (M,)"""
        return self._shares(self._against())

    def lf_polarities(self) -> list[list[int]]:
        """The classes that each function ever names."""
        return [sorted({int(vote) for vote in column if vote != ABSTAIN}) for column in self.votes.T]

    def lf_empirical_accuracies(self, Y: Any) -> np.ndarray:
        """The share of right votes among the votes of each function, NaN where it has none: (M,)"""
        truth = np.asarray(Y.array if isinstance(Y, Tensor) else Y)
        if truth.shape != (len(self.votes),):
            raise ShapeError(f"lf_empirical_accuracies: {len(self.votes)} examples, labels {truth.shape}")
        right = ((self.votes == truth[:, None]) & self._said).sum(0)
        said = self._said.sum(0)
        return np.where(said > 0, right / np.maximum(said, 1), np.nan)

    def label_coverage(self) -> float:
        """The share of examples with a vote."""
        return float(self._said.any(1).mean()) if len(self.votes) else 0.0

    def label_overlap(self) -> float:
        """The share with two votes or more."""
        return float((self._said.sum(1) > 1).mean()) if len(self.votes) else 0.0

    def label_conflict(self) -> float:
        """The share with votes for different classes."""
        return float(self._against().any(1).mean()) if len(self.votes) else 0.0

    def lf_summary(self, Y: Any = None) -> list[dict[str, Any]]:
        """A row for each function: its name, polarity, coverage, overlaps, conflicts, and with labels its accuracy."""
        columns: dict[str, Any] = {
            "name": self.names,
            "polarity": self.lf_polarities(),
            "coverage": self.lf_coverages().tolist(),
            "overlaps": self.lf_overlaps().tolist(),
            "conflicts": self.lf_conflicts().tolist(),
        }
        if Y is not None:
            columns["accuracy"] = self.lf_empirical_accuracies(Y).tolist()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
