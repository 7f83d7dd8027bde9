"""Choosing models: splits, cross validation, searches over settings, bias and variance, double descent.

Everything here is a pure function of its arguments and seeds; what runs a model is given by the caller. Searches have their
home in `searches.py`.

>>> [len(split.validation) for split in k_fold(10, 4)]
[3, 3, 2, 2]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import OptionError
from ..random import Generator
from .generalization import (
    BiasVariance,
    SweepPoint,
    bias_variance,
    decompose,
    double_descent,
    ridge_bias_variance,
)
from .searches import (
    AsynchronousHalving,
    Choice,
    Finished,
    Grid,
    Integer,
    LogUniform,
    Random,
    Search,
    SuccessiveHalving,
    Trial,
    Uniform,
    parse_space,
)

__all__ = [
    "AsynchronousHalving",
    "BiasVariance",
    "Choice",
    "CrossValidation",
    "Finished",
    "Grid",
    "Integer",
    "LogUniform",
    "Random",
    "Search",
    "Split",
    "SuccessiveHalving",
    "SweepPoint",
    "Trial",
    "Uniform",
    "bias_variance",
    "cross_validate",
    "decompose",
    "double_descent",
    "hold_out",
    "k_fold",
    "parse_space",
    "ridge_bias_variance",
]


@dataclass(frozen=True)
class Split:
    """Row numbers to train on and to validate with."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]


def hold_out(n: int, fraction: float = 0.2, *, seed: int = 0, stratify: ArrayLike | None = None) -> Split:
    """Keep round(fraction · n) of n rows, at least 1, for validation; of each class its share where labels are given."""
    if not 0 < fraction < 1 or n < 2:
        raise OptionError(f"hold_out: expected n >= 2 and a fraction between 0 and 1, got n {n}, fraction {fraction}")
    held = min(max(round(fraction * n), 1), n - 1)
    order = _shuffled(n, seed)
    if stratify is not None:
        order = order[np.argsort(_place_in_class(_labels(stratify, n)[order]), kind="stable")]
    return Split(np.sort(order[held:]), np.sort(order[:held]))


def k_fold(n: int, k: int = 5, *, seed: int | None = 0, stratify: ArrayLike | None = None) -> list[Split]:
    """k splits; each row is in one validation set, their sizes differ by at most 1. seed None: stretches of rows.

    With labels each class is spread evenly: its counts in two validation sets differ by at most 1.
    """
    if not 2 <= k <= n:
        raise OptionError(f"k_fold: expected 2 <= k <= n, got k {k}, n {n}")
    order = _shuffled(n, seed)
    if stratify is not None:
        order = order[np.argsort(_labels(stratify, n)[order], kind="stable")]
        folds = [order[i::k] for i in range(k)]  # neighbours, of one class, go to different folds
    else:
        folds = np.array_split(order, k)
    return [Split(np.setdiff1d(order, fold), np.sort(fold)) for fold in folds]


def _shuffled(n: int, seed: int | None) -> NDArray[np.int64]:
    return np.arange(n) if seed is None else Generator().manual_seed(seed).permutation(n)


def _labels(stratify: ArrayLike, n: int) -> NDArray[np.int64]:
    labels = np.unique(np.asarray(stratify), return_inverse=True)[1]
    if labels.shape != (n,):
        raise OptionError(f"stratify: expected {n} labels, got shape {labels.shape}")
    return labels


def _place_in_class(labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """(p + ½) / c for member p of a class of c: sorted by it, every stretch has all classes in proportion."""
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return place


@dataclass(frozen=True)
class CrossValidation:
    """Scores of each fold on what it was trained with and on what it was not."""

    train: list[float]
    validation: list[float]

    @property
    def mean(self) -> float:
        return float(np.mean(self.validation))

    @property
    def std(self) -> float:
        return float(np.std(self.validation))


def cross_validate(
    fit: Callable[[NDArray], Any], score: Callable[[Any, NDArray], float], splits: Iterable[Split]
) -> CrossValidation:
    """model = fit(rows), then score(model, rows) on both sides of each split."""
    train, validation = [], []
    for split in splits:
        model = fit(split.train)
        train.append(float(score(model, split.train)))
        validation.append(float(score(model, split.validation)))
    return CrossValidation(train, validation)
