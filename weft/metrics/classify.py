"""Metrics of class labels: accuracy, top-k accuracy, precision, recall, F-scores, the confusion matrix.

Predictions may be

    scores (N, C, …) of targets (N, …)      the label is the first largest score of dimension 1
    floating scores of the targets' shape   binary: label 1 where score > threshold (0 for logits)
    integer labels of the targets' shape

With TPᶜ, Pᶜ, Aᶜ the counts of class c that are right, predicted and actual:

    precision = TP / P,   recall = TP / A,   F_β = (1 + β²) TP / (β² A + P)

average: None for one figure per class; "micro" adds the counts of all classes first; "macro" is the mean over classes,
"weighted" that by Aᶜ; "binary" takes class 1. Without `num_classes` the mean is over the classes that occur in either,
with it over all of them (scikit-learn without and with `labels`). 0/0 is `zero_division`: 0, 1 or NaN, and NaN is left
out of means.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, ShapeError
from ..tensor import Tensor, wrap
from .base import Averaged, Metric, State, array_of, chosen, is_floating, same_shape, simplified
from .labels import class_count, in_range, labels_of, score_rows

__all__ = [
    *("Accuracy", "ConfusionMatrix", "ExactMatch", "F1", "FBeta", "Precision", "Recall", "TopKAccuracy"),
    *("accuracy", "confusion_matrix", "exact_match", "f1", "fbeta", "precision", "recall", "top_k_accuracy"),
]

AVERAGES = (None, "none", "micro", "macro", "weighted", "binary")

# ---- accuracies --------------------------------------------------------------------------------------------


class Accuracy(Averaged):
    """The share of labels that are right. `Recall(average="macro")` is the balanced accuracy.

    >>> Accuracy().once([[0.1, 0.9], [0.8, 0.2]], [1, 1])
    0.5
    """

    def __init__(self, *, threshold: float = 0.5, ignore_index: int | None = None) -> None:
        super().__init__()
        self.threshold, self.ignore_index = threshold, ignore_index

    def measure(self, pred: Any, target: Any) -> State:
        labels, actual = labels_of(pred, target, self.threshold, self.ignore_index)
        return {"total": int(np.count_nonzero(labels == actual)), "count": actual.size}


class TopKAccuracy(Averaged):
    """The share of targets among the k largest scores. Equal scores count in the order of their classes.

    Shape: (N, C, …), (N, …); k = 1 is `Accuracy`. A target whose row has NaN above it, or itself, is a miss.
    """

    def __init__(self, k: int = 5, *, ignore_index: int | None = None) -> None:
        super().__init__()
        if k < 1:
            raise OptionError(f"TopKAccuracy: expected k ≥ 1, got {k}")
        self.k, self.ignore_index = k, ignore_index

    def measure(self, pred: Any, target: Any) -> State:
        rows, actual = score_rows(array_of(pred), array_of(target), self.ignore_index)
        in_range(actual, rows.shape[1], "TopKAccuracy")
        own = np.take_along_axis(rows, actual[:, None], 1)  # (M, 1)
        before = ~(rows <= own)
        before |= (rows == own) & (np.arange(rows.shape[1]) < actual[:, None])
        return {"total": int(np.count_nonzero(before.sum(1) < self.k)), "count": actual.size}


class ExactMatch(Averaged):
    """The share of samples of which every label is right: subset accuracy. Shape: (N, …) labels, as `Accuracy`."""

    def __init__(self, *, threshold: float = 0.5) -> None:
        super().__init__()
        self.threshold = threshold

    def measure(self, pred: Any, target: Any) -> State:
        shape = array_of(target).shape
        labels, actual = labels_of(pred, target, self.threshold)
        right = (labels == actual).reshape(shape[0], math.prod(shape[1:])).all(1)  # (N · …) → (N, …) → (N,)
        return {"total": int(np.count_nonzero(right)), "count": shape[0]}


# ---- the confusion matrix ----------------------------------------------------------------------------------


class ConfusionMatrix(Metric):
    """Entry (i, j): how many samples of class i were predicted as class j.

    normalize: "true" divides the rows, "pred" the columns, "all" everything by their sums (0 where a sum is 0).
    Shape of the result: (C, C), C = num_classes or one more than the largest label seen
    """

    fields = ("matrix", "count")

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        normalize: str | None = None,
        threshold: float = 0.5,
        ignore_index: int | None = None,
    ) -> None:
        super().__init__()
        self.num_classes, self.threshold, self.ignore_index = num_classes, threshold, ignore_index
        self.normalize = chosen(normalize, (None, "true", "pred", "all"), "ConfusionMatrix: normalize")

    def measure(self, pred: Any, target: Any) -> State:
        labels, actual = labels_of(pred, target, self.threshold, self.ignore_index)
        size = class_count(labels, actual, self.num_classes)
        matrix = np.bincount(actual * size + labels, minlength=size * size).reshape(size, size)
        return {"matrix": matrix, "count": actual.size}

    def combine(self, first: State, second: State) -> State:
        return _add_grown(first, second)

    def summarise(self, state: State) -> Tensor:
        matrix = state["matrix"]
        if self.normalize is None:
            return wrap(matrix.copy())
        total = matrix.sum(axis={"true": 1, "pred": 0, "all": None}[self.normalize], keepdims=True)
        return wrap(divide(matrix, total, 0.0))


# ---- precision, recall, F ----------------------------------------------------------------------------------


class _ByClass(Metric):
    """Counts of right, predicted and actual labels per class, and a ratio of them that is averaged."""

    fields = ("right", "predicted", "actual", "count")

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        average: str | None = "macro",
        multilabel: bool = False,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        zero_division: float = 0.0,
    ) -> None:
        """multilabel: targets (N, L, …) say for each of L labels whether it applies; the labels are the classes."""
        super().__init__()
        self.num_classes, self.multilabel, self.threshold = num_classes, multilabel, threshold
        self.average = chosen(average, AVERAGES, f"{type(self).__name__}: average")
        self.ignore_index, self.zero_division = ignore_index, zero_division
        if not (zero_division in (0, 1) or math.isnan(zero_division)):
            raise OptionError(f"{type(self).__name__}: expected zero_division of 0, 1 or NaN, got {zero_division}")

    def measure(self, pred: Any, target: Any) -> State:
        if self.multilabel:
            return self._measure_labels(array_of(pred), array_of(target))
        labels, actual = labels_of(pred, target, self.threshold, self.ignore_index)
        size = class_count(labels, actual, self.num_classes)
        parts = {"right": actual[labels == actual], "predicted": labels, "actual": actual}
        counts = {name: np.bincount(part, minlength=size) for name, part in parts.items()}
        return {**counts, "count": actual.size}

    def _measure_labels(self, pred: NDArray, target: NDArray) -> State:
        same_shape(pred, target, type(self).__name__)
        if target.ndim < 2:
            raise ShapeError(f"multilabel: expected targets (N, L, …), got shape {target.shape}")
        said, true = (_per_label(pred > self.threshold if is_floating(pred) else pred != 0), _per_label(target != 0))
        parts = {"right": said & true, "predicted": said, "actual": true}
        return {**{name: np.count_nonzero(part, 0) for name, part in parts.items()}, "count": len(target)}

    def combine(self, first: State, second: State) -> State:
        return _add_grown(first, second)

    def summarise(self, state: State) -> float | Tensor:
        right, predicted, actual = (state[name] for name in ("right", "predicted", "actual"))
        if self.average == "binary":
            right, predicted, actual = (part[1:2].sum() for part in (right, predicted, actual))
        if self.average == "micro":
            right, predicted, actual = right.sum(), predicted.sum(), actual.sum()
        ratio = self.ratio(right, predicted, actual)
        if self.average not in ("macro", "weighted"):
            return simplified(ratio)
        if self.num_classes is None and not self.multilabel:
            occurs = predicted + actual > 0
            ratio, actual = ratio[occurs], actual[occurs]
        return mean_of_defined(ratio, actual if self.average == "weighted" else None)

    def ratio(self, right: NDArray, predicted: NDArray, actual: NDArray) -> NDArray:
        raise NotImplementedError


class Precision(_ByClass):
    """Of the samples predicted as a class, the share that are: TP / (TP + FP)."""

    def ratio(self, right: NDArray, predicted: NDArray, actual: NDArray) -> NDArray:
        return divide(right, predicted, self.zero_division)


class Recall(_ByClass):
    """Of the samples of a class, the share that were found: TP / (TP + FN)."""

    def ratio(self, right: NDArray, predicted: NDArray, actual: NDArray) -> NDArray:
        return divide(right, actual, self.zero_division)


class FBeta(_ByClass):
    """(1 + β²) TP / (β² A + P): recall counts β times as much as precision."""

    def __init__(self, num_classes: int | None = None, *, beta: float = 1.0, **options: Any) -> None:
        super().__init__(num_classes, **options)
        if not 0 <= beta < math.inf:
            raise OptionError(f"FBeta: expected 0 ≤ beta < ∞, got {beta}")
        self.beta = beta

    def ratio(self, right: NDArray, predicted: NDArray, actual: NDArray) -> NDArray:
        square = self.beta**2
        return divide((1 + square) * right, square * actual + predicted, self.zero_division)


class F1(_ByClass):
    """2 TP / (A + P), the harmonic mean of precision and recall."""

    def ratio(self, right: NDArray, predicted: NDArray, actual: NDArray) -> NDArray:
        return divide(2 * right, actual + predicted, self.zero_division)


# ---- the same as functions ---------------------------------------------------------------------------------


def accuracy(pred: Any, target: Any, **options: Any) -> float:
    """`Accuracy(**options)` of one set."""
    return Accuracy(**options).once(pred, target)


def top_k_accuracy(pred: Any, target: Any, k: int = 5, **options: Any) -> float:
    """`TopKAccuracy(k, **options)` of one set."""
    return TopKAccuracy(k, **options).once(pred, target)


def exact_match(pred: Any, target: Any, **options: Any) -> float:
    """`ExactMatch(**options)` of one set."""
    return ExactMatch(**options).once(pred, target)


def confusion_matrix(pred: Any, target: Any, num_classes: int | None = None, **options: Any) -> Tensor:
    """`ConfusionMatrix(num_classes, **options)` of one set."""
    return ConfusionMatrix(num_classes, **options).once(pred, target)


def precision(pred: Any, target: Any, num_classes: int | None = None, **options: Any) -> float | Tensor:
    """`Precision(num_classes, **options)` of one set."""
    return Precision(num_classes, **options).once(pred, target)


def recall(pred: Any, target: Any, num_classes: int | None = None, **options: Any) -> float | Tensor:
    """`Recall(num_classes, **options)` of one set."""
    return Recall(num_classes, **options).once(pred, target)


def f1(pred: Any, target: Any, num_classes: int | None = None, **options: Any) -> float | Tensor:
    """`F1(num_classes, **options)` of one set."""
    return F1(num_classes, **options).once(pred, target)


def fbeta(pred: Any, target: Any, beta: float, num_classes: int | None = None, **options: Any) -> float | Tensor:
    """`FBeta(num_classes, beta=beta, **options)` of one set."""
    return FBeta(num_classes, beta=beta, **options).once(pred, target)


# ---- counts ------------------------------------------------------------------------------------------------


def _per_label(x: NDArray) -> NDArray:
    """(N, L, …) → (M, L)"""
    return np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])


def _add_grown(first: State, second: State) -> State:
    """The sum of two states whose arrays may have different sizes: absent classes have counts of 0."""
    return {name: _sum_grown(np.asarray(part), np.asarray(second[name])) for name, part in first.items()}


def _sum_grown(a: NDArray, b: NDArray) -> NDArray:
    if a.shape == b.shape:
        return a + b
    total = np.zeros(np.maximum(a.shape, b.shape), np.int64)
    for part in (a, b):
        total[tuple(slice(0, n) for n in part.shape)] += part
    return total


def divide(top: NDArray, bottom: NDArray, zero_division: float) -> NDArray[np.float64]:
    """top / bottom, `zero_division` where bottom is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(top, np.float64), np.asarray(bottom, np.float64))
    return np.divide(top, bottom, out=np.full(top.shape, float(zero_division)), where=bottom != 0)


def mean_of_defined(figures: NDArray, weights: NDArray | None = None) -> float:
    """The (weighted) mean of those that are not NaN; weights that are all 0 are left out."""
    defined = ~np.isnan(figures)
    if not defined.any():
        return math.nan
    weights = None if weights is None or not weights[defined].any() else weights[defined]
    return float(np.average(figures[defined], weights=weights))
