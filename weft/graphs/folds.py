"""Folds for sets of small graphs, with a choice inside each: figures that no test fold has chosen.

The usual fault is to report the best epoch or setting on the test fold itself. Here each fold has a part for training, one
for validation, which chooses, and one for test, which is looked at once (Errica et al. 2020).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data.dataset import k_fold
from ..errors import OptionError
from ..io.errors import LayoutError
from ..tensor import Tensor

__all__ = ["Fold", "NestedResult", "nested_evaluation", "nested_folds", "read_folds"]


class Fold(NamedTuple):
    """Numbers of graphs, int64 arrays: those that train, those that choose, those that are tested."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


def read_folds(path: str | os.PathLike[str], count: int | None = None) -> list[Fold]:
    """The folds in a file of the fair comparison of graph networks (NAME_splits.json), checked.

    count: how many graphs the set has; then each must be tested in exactly one fold

    >>> folds = weft.graphs.read_folds("tu-splits/ENZYMES_splits.json", 600)  # doctest: +SKIP
    """
    try:
        rows = json.loads(Path(path).read_text("utf-8"))
        folds = [
            Fold(*(np.asarray(part, np.int64) for part in (first["train"], first["validation"], row["test"])))
            for row in rows
            for first in [row["model_selection"][0]]
        ]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise LayoutError(f"{os.fspath(path)}: no folds with 'test' and 'model_selection': {error!r}") from None
    check_folds(folds, count)
    return folds


def nested_folds(labels: Tensor | Sequence[int], k: int = 10, val: float = 0.1, seed: int = 0) -> list[Fold]:
    """k folds in which every graph is tested once; of the others of a fold a share `val` chooses. Classes are balanced.

    labels: the class of each graph, (N,)

    >>> folds = weft.graphs.nested_folds([0, 1] * 20, 4)
    >>> [len(part) for part in folds[0]]
    [27, 3, 10]
    """
    codes = np.asarray(labels.array if isinstance(labels, Tensor) else labels)
    if not 0 < val < 1:
        raise OptionError(f"nested_folds: expected val in (0, 1), got {val}")
    folds = []
    for number, (rest, test) in enumerate(k_fold(len(codes), k, shuffle=True, seed=seed, stratify=codes)):
        parts = max(2, round(1 / val))
        inner = k_fold(len(rest), parts, shuffle=True, seed=seed + 1 + number, stratify=codes[rest])
        chosen_by = inner[0][1]
        folds.append(Fold(np.delete(rest, chosen_by), rest[chosen_by], test))
    check_folds(folds, len(codes))
    return folds


def check_folds(folds: Sequence[Fold], count: int | None = None) -> None:
    """Raise if parts of a fold overlap, or not every graph is tested once."""
    for number, fold in enumerate(folds):
        together = np.concatenate(fold)
        if len(np.unique(together)) != len(together):
            raise LayoutError(f"fold {number}: a graph is in two of training, validation and test")
        if count is not None and together.size and not 0 <= together.min() <= together.max() < count:
            raise LayoutError(f"fold {number}: expected graphs of 0..{count - 1}, got {together.max()}")
    if count is not None and sorted(np.concatenate([fold.test for fold in folds])) != list(range(count)):
        raise LayoutError(f"folds: expected each of {count} graphs to be tested in exactly one fold")


class NestedResult(NamedTuple):
    """test: the figure of each fold, mean and deviation over folds, and what was chosen in each."""

    test: list[float]
    mean: float
    deviation: float
    chosen: list[Any]


def nested_evaluation(
    folds: Sequence[Fold],
    candidates: Sequence[Any],
    fit: Callable[[Any, np.ndarray, np.ndarray], tuple[float, Any]],
    test: Callable[[Any, np.ndarray], float],
    repeats: int = 1,
) -> NestedResult:
    """For each fold the candidate with the best validation figure, tested once: no test fold chooses anything.

    candidates: settings of any kind
    fit: (candidate, training, validation) → (the figure on validation, higher is better; the model at that moment)
    test: (model, test) → its figure
    repeats: how often the chosen candidate is fitted anew, the mean of its test figures being that of the fold

    >>> folds = weft.graphs.nested_folds([0, 1] * 20, 4)
    >>> fit = lambda candidate, train, val: (candidate, candidate)
    >>> weft.graphs.nested_evaluation(folds, [0.1, 0.3, 0.2], fit, lambda model, rows: model).mean
    0.3
    """
    if not candidates or not folds or repeats < 1:
        raise OptionError("nested_evaluation: expected at least one fold, one candidate and one repetition")
    figures, chosen = [], []
    for fold in folds:
        tried = [(fit(candidate, fold.train, fold.val), candidate) for candidate in candidates]
        (_, model), best = max(tried, key=lambda row: row[0][0])
        models = [model, *(fit(best, fold.train, fold.val)[1] for _ in range(repeats - 1))]
        figures.append(float(np.mean([test(model, fold.test) for model in models])))
        chosen.append(best)
    return NestedResult(figures, float(np.mean(figures)), float(np.std(figures)), chosen)
