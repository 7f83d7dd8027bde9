"""Areas under curves: ROC-AUC and average precision, binary, multi-class (one class against the rest) and multi-label.

    binary        scores (N,), targets (N,) in {0, 1}
    multi-class   scores (N, C), targets (N,) in [0, C)
    multi-label   scores (N, L), targets (N, L) in {0, 1}

average: None for one figure per class or label; "macro" is their mean; "weighted" that by the number of positives;
"micro" takes every (sample, class) pair as one binary sample. Equal scores are one point of a curve, as in scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, ShapeError
from ..tensor import Tensor, wrap
from .base import Metric, State, array_of, chosen, numbers
from .curves import Groups, grouped, zero_or_one
from .labels import in_range, whole

__all__ = ["AUROC", "AveragePrecision", "auroc", "average_precision"]


class _Ranking(Metric):
    """Keeps every score (exact), or with `thresholds` the counts between equally spaced thresholds.

    thresholds: None, or the number n of thresholds k / (n − 1): scores, which must lie in [0, 1], are rounded down
    to one of them, and an accumulator takes 16 n bytes a class, however many samples it sees.
    """

    def __init__(self, *, average: str | None = "macro", thresholds: int | None = None) -> None:
        super().__init__()
        self.average = chosen(average, (None, "none", "macro", "weighted", "micro"), f"{type(self).__name__}: average")
        if thresholds is not None and thresholds < 2:
            raise OptionError(f"{type(self).__name__}: expected thresholds ≥ 2, got {thresholds}")
        self.thresholds = thresholds
        self.fields = ("scores", "positive", "count") if thresholds is None else ("positive", "negative", "count")

    def measure(self, pred: Any, target: Any) -> State:
        scores, positive = _columns(numbers(pred), array_of(target), type(self).__name__)
        if self.thresholds is None:
            return {"scores": [scores.copy()], "positive": [positive.copy()], "count": len(scores)}
        bins = [_histogram(*column, self.thresholds) for column in zip(scores.T, positive.T, strict=True)]
        return {
            "positive": np.array([b[0] for b in bins]),
            "negative": np.array([b[1] for b in bins]),
            "count": len(scores),
        }

    def restored(self, parts: dict[str, NDArray]) -> State:
        if self.thresholds is None:
            return {**parts, "scores": [parts["scores"]], "positive": [parts["positive"]]}
        return parts

    def summarise(self, state: State) -> float | Tensor:
        groups = self._exact(state) if self.thresholds is None else self._binned(state)
        figures = np.array([self.figure(group) for group in groups])
        if len(figures) == 1:
            return float(figures[0])
        if self.average in (None, "none"):
            return wrap(figures)
        weights = np.array([group.positive.sum() for group in groups])
        return float(np.average(figures, weights=weights if self.average == "weighted" and weights.any() else None))

    def _exact(self, state: State) -> list[Groups]:
        scores, positive = (np.concatenate(state[name]) for name in ("scores", "positive"))  # (N, C)
        if self.average == "micro":
            scores, positive = scores.reshape(-1, 1), positive.reshape(-1, 1)
        return [grouped(*column) for column in zip(scores.T, positive.T, strict=True)]

    def _binned(self, state: State) -> list[Groups]:
        positive, negative = state["positive"], state["negative"]  # (C, n)
        if self.average == "micro":
            positive, negative = positive.sum(0, keepdims=True), negative.sum(0, keepdims=True)
        return [_occupied(*column) for column in zip(positive, negative, strict=True)]

    def figure(self, groups: Groups) -> float:
        raise NotImplementedError


class AUROC(_Ranking):
    """The area under the ROC curve, P(s⁺ > s⁻) + ½ P(s⁺ = s⁻). NaN where a class has no positives or no negatives.

    >>> AUROC().once([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    0.75
    """

    def figure(self, groups: Groups) -> float:
        return groups.area()


class AveragePrecision(_Ranking):
    """Σ (Rₙ₋₁ − Rₙ) Pₙ over thresholds, without interpolation. 0 where a class has no positives."""

    def figure(self, groups: Groups) -> float:
        return groups.average_precision()


def auroc(pred: Any, target: Any, **options: Any) -> float | Tensor:
    """`AUROC(**options)` of one set."""
    return AUROC(**options).once(pred, target)


def average_precision(pred: Any, target: Any, **options: Any) -> float | Tensor:
    """`AveragePrecision(**options)` of one set."""
    return AveragePrecision(**options).once(pred, target)


def _columns(scores: NDArray, target: NDArray, name: str) -> tuple[NDArray, NDArray]:
    """Scores and bools, (N, C) each, one column for each binary question."""
    if scores.shape == target.shape and scores.ndim in (1, 2):
        columns = (len(scores), *(scores.shape[1:] or (1,)))
        return scores.reshape(columns), zero_or_one(target, name).reshape(columns)
    if scores.ndim == 2 and target.shape == scores.shape[:1]:
        labels = whole(target)
        in_range(labels, scores.shape[1], name)
        return scores, labels[:, None] == np.arange(scores.shape[1])
    raise ShapeError(
        f"{name}: expected scores (N,) with targets (N,), or scores (N, C) with labels (N,) or targets (N, C); "
        f"got {scores.shape} and {target.shape}"
    )


def _histogram(scores: NDArray, positive: NDArray, n: int) -> tuple[NDArray, NDArray]:
    """Counts of positive and of negative scores from each threshold up to the next."""
    if not ((scores >= 0) & (scores <= 1)).all():
        raise OptionError("ranking: with `thresholds`, expected scores in [0, 1] (apply sigmoid or softmax to logits)")
    at = np.searchsorted(np.linspace(0, 1, n), scores, side="right") - 1
    return np.bincount(at[positive], minlength=n), np.bincount(at[~positive], minlength=n)


def _occupied(positive: NDArray, negative: NDArray) -> Groups:
    taken = positive + negative > 0
    return Groups(np.linspace(0, 1, len(positive))[taken], positive[taken], negative[taken])
