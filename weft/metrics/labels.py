"""Labels from what a classifier returns, in one form for all metrics: flat arrays of int64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DtypeError, OptionError, ShapeError
from .base import array_of, is_floating, same_shape

__all__ = ["class_count", "in_range", "labels_of", "score_rows", "whole"]


def labels_of(pred: Any, target: Any, threshold: float = 0.5, ignore_index: int | None = None) -> tuple[NDArray, ...]:
    """Predicted and actual labels, (M,) int64 each, without the targets equal to `ignore_index`."""
    pred, target = array_of(pred), array_of(target)
    if pred.ndim == target.ndim + 1:
        pred = _scores(pred, target).argmax(min(target.ndim, 1))
    same_shape(pred, target, "metrics")
    labels = pred > threshold if is_floating(pred) else pred
    labels, actual = whole(labels).reshape(-1), whole(target).reshape(-1)
    if ignore_index is None:
        return labels, actual
    kept = actual != ignore_index
    return labels[kept], actual[kept]


def score_rows(pred: NDArray, target: NDArray, ignore_index: int | None = None) -> tuple[NDArray, NDArray]:
    """Scores (N, C, …) as (M, C) and targets (N, …) as (M,), without the targets equal to `ignore_index`."""
    if pred.ndim != target.ndim + 1:
        raise ShapeError(f"metrics: expected scores (N, C, …) of targets (N, …), got {pred.shape} and {target.shape}")
    rows = np.moveaxis(_scores(pred, target), min(target.ndim, 1), -1)  # (N, C, …) → (N, …, C)
    rows, actual = rows.reshape(-1, rows.shape[-1]), whole(target).reshape(-1)
    if ignore_index is None:
        return rows, actual
    kept = actual != ignore_index
    return rows[kept], actual[kept]


def _scores(pred: NDArray, target: NDArray) -> NDArray:
    """The scores, if their shape but for dimension 1 is that of the targets."""
    axis = min(target.ndim, 1)
    if pred.shape[:axis] + pred.shape[axis + 1 :] != target.shape:
        last = pred.shape[:-1] == target.shape
        advice = "; move the classes to dimension 1: pred.movedim(-1, 1)" if last else ""
        raise ShapeError(f"metrics: scores {pred.shape} do not fit targets {target.shape}{advice}")
    if pred.shape[axis] == 1:
        raise ShapeError(f"metrics: one column of scores, {pred.shape}; for binary scores pass pred.squeeze({axis})")
    return pred


def whole(labels: NDArray) -> NDArray[np.int64]:
    """Labels as int64; floating ones must be whole numbers."""
    if labels.dtype.kind in "iub":
        return labels.astype(np.int64, copy=False)
    if not is_floating(labels):
        raise DtypeError(f"metrics: expected integer labels, got {labels.dtype}")
    with np.errstate(invalid="ignore"):
        rounded = labels.astype(np.int64)
    if not np.array_equal(rounded.astype(labels.dtype), labels):
        raise DtypeError(f"metrics: expected labels that are whole numbers, got {labels.dtype} with fractions or NaN")
    return rounded


def class_count(labels: NDArray, actual: NDArray, num_classes: int | None) -> int:
    """num_classes, or one more than the largest label; labels outside are refused."""
    largest = max((int(part.max()) for part in (labels, actual) if part.size), default=-1)
    size = largest + 1 if num_classes is None else num_classes
    for part in (labels, actual):
        in_range(part, size, "metrics")
    return size


def in_range(labels: NDArray, size: int, name: str) -> None:
    if labels.size and not (labels.min() >= 0 and labels.max() < size):
        wrong = labels[(labels < 0) | (labels >= size)][0]
        raise OptionError(f"{name}: expected labels in [0, {size}), got {wrong}; padding is left out by ignore_index")
