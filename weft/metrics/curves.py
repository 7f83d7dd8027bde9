"""ROC and precision–recall curves of binary scores: data with a `plot` method.

Scores are grouped by value first, so that equal scores are one point of the curve, whatever order they came in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError
from ..runtime.extras import extra
from ..tensor import Tensor, wrap
from .base import NoDataError, array_of, numbers, same_shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PrecisionRecallCurve", "RocCurve", "precision_recall_curve", "roc_curve"]


@dataclass(frozen=True)
class Groups:
    """Distinct scores, ascending, with the number of positive and negative samples that have each."""

    scores: NDArray
    positive: NDArray
    negative: NDArray

    def roc(self) -> tuple[NDArray, NDArray]:
        """False and true positive rates from (0, 0) to (1, 1), by falling threshold; NaN without such samples."""
        return _rates(self.negative), _rates(self.positive)

    def area(self) -> float:
        """The area under the ROC curve: P(positive above negative) + ½ P(equal)."""
        false, true = self.roc()
        return float(np.trapezoid(true, false))

    def precision_recall(self) -> tuple[NDArray, NDArray]:
        """At each distinct score as threshold, ascending, and last (1, 0). Without positives recall is 1."""
        true, false = _from_above(self.positive), _from_above(self.negative)
        precision = true / (true + false)
        recall = true / true[0] if true[0] else np.ones(len(true))
        return np.append(precision, 1.0), np.append(recall, 0.0)

    def average_precision(self) -> float:
        """Σ (Rₙ₋₁ − Rₙ) Pₙ over the points of the precision–recall curve, ascending thresholds."""
        precision, recall = self.precision_recall()
        return float(-np.sum(np.diff(recall) * precision[:-1]))


@dataclass(frozen=True)
class RocCurve:
    """False positive rate, true positive rate and the thresholds (score ≥ t) that give them, falling from ∞."""

    fpr: Tensor
    tpr: Tensor
    thresholds: Tensor
    area: float

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw into `ax`, or into new axes, and return them."""
        return _draw(
            ax, self.fpr, self.tpr, f"area = {self.area:.3f}", "false positive rate", "true positive rate", style
        )


@dataclass(frozen=True)
class PrecisionRecallCurve:
    """Precision and recall at thresholds (score ≥ t), ascending; the last point, (1, 0), has no threshold."""

    precision: Tensor
    recall: Tensor
    thresholds: Tensor
    average_precision: float

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw into `ax`, or into new axes, and return them."""
        label = f"average precision = {self.average_precision:.3f}"
        style = {"drawstyle": "steps-post", **style}
        return _draw(ax, self.recall, self.precision, label, "recall", "precision", style)


def roc_curve(pred: Any, target: Any) -> RocCurve:
    """The curve of scores and targets in {0, 1}, one point for each distinct score.

    >>> roc_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]).area
    0.75
    """
    groups = grouped(*_binary(pred, target, "roc_curve"))
    fpr, tpr = groups.roc()
    return RocCurve(wrap(fpr), wrap(tpr), wrap(np.append(np.inf, groups.scores[::-1])), groups.area())


def precision_recall_curve(pred: Any, target: Any) -> PrecisionRecallCurve:
    """The curve of scores and targets in {0, 1}, one point for each distinct score and the point (1, 0)."""
    groups = grouped(*_binary(pred, target, "precision_recall_curve"))
    precision, recall = groups.precision_recall()
    return PrecisionRecallCurve(wrap(precision), wrap(recall), wrap(groups.scores.copy()), groups.average_precision())


# ---- groups ------------------------------------------------------------------------------------------------


def grouped(scores: NDArray, positive: NDArray) -> Groups:
    """(M,) scores and (M,) bools in groups of equal score."""
    if np.isnan(scores).any():
        raise OptionError(f"ranking: {np.isnan(scores).sum()} of {scores.size} scores are NaN; they cannot be ordered")
    order = np.argsort(scores, kind="stable")
    scores, positive = scores[order], positive[order]
    starts = np.flatnonzero(np.append(True, scores[1:] != scores[:-1]))
    hits = np.add.reduceat(positive.astype(np.float64), starts)
    sizes = np.diff(np.append(starts, len(scores)))
    return Groups(scores[starts], hits, sizes - hits)


def zero_or_one(target: NDArray, name: str) -> NDArray[np.bool_]:
    """Targets as bools."""
    positive = target == 1
    if not (positive | (target == 0)).all():
        raise OptionError(f"{name}: expected binary targets, 0 and 1; got {np.unique(target)[:5].tolist()} …")
    return positive


def _binary(pred: Any, target: Any, name: str) -> tuple[NDArray, NDArray]:
    scores, target = numbers(pred), array_of(target)
    same_shape(scores, target, name)
    if not scores.size:
        raise NoDataError(f"{name}: no samples")
    return scores.reshape(-1), zero_or_one(target, name).reshape(-1)


def _from_above(counts: NDArray) -> NDArray:
    """How many samples have each score or more."""
    return np.cumsum(counts[::-1])[::-1]


def _rates(counts: NDArray) -> NDArray:
    running = np.append(0.0, np.cumsum(counts[::-1]))
    return running / running[-1] if running[-1] else np.full(len(running), np.nan)


def _draw(ax: Axes | None, x: Tensor, y: Tensor, label: str, x_name: str, y_name: str, style: dict[str, Any]) -> Axes:
    ax = _axes() if ax is None else ax
    ax.plot(x.array, y.array, **{"label": label, **style})
    ax.set(xlabel=x_name, ylabel=y_name, xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    ax.legend(loc="best")
    return ax


def _axes() -> Axes:
    return extra("matplotlib.pyplot", "plot needs").subplots()[1]
