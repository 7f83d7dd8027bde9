"""Metrics of real-valued predictions. Targets (N,) or (N, …) with predictions of the same shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ShapeError
from ..tensor import Tensor, wrap
from .base import Averaged, Metric, State, chosen, numbers, same_shape

__all__ = [
    *("ExplainedVariance", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredError", "R2"),
    *("RootMeanSquaredError", "explained_variance", "mean_absolute_error", "mean_absolute_percentage_error"),
    *("mean_squared_error", "r2", "root_mean_squared_error"),
]

OUTPUTS = ("uniform_average", "raw_values", "variance_weighted")


class _MeanOfErrors(Averaged):
    """The mean of a function of the error over all elements."""

    def measure(self, pred: Any, target: Any) -> State:
        pred, target = numbers(pred), numbers(target)
        same_shape(pred, target, type(self).__name__)
        return {"total": float(self.errors(pred, target).sum()), "count": target.size}

    def errors(self, pred: NDArray, target: NDArray) -> NDArray:
        raise NotImplementedError


class MeanSquaredError(_MeanOfErrors):
    """Mean of (ŷ − y)²."""

    def errors(self, pred: NDArray, target: NDArray) -> NDArray:
        return np.square(pred - target)


class MeanAbsoluteError(_MeanOfErrors):
    """Mean of |ŷ − y|."""

    def errors(self, pred: NDArray, target: NDArray) -> NDArray:
        return np.abs(pred - target)


class MeanAbsolutePercentageError(_MeanOfErrors):
    """Mean of |ŷ − y| / max(|y|, ε), ε = 2⁻⁵²; a share, not per cent."""

    def errors(self, pred: NDArray, target: NDArray) -> NDArray:
        return np.abs(pred - target) / np.maximum(np.abs(target), np.finfo(np.float64).eps)


class RootMeanSquaredError(Metric):
    """√ of the mean of (ŷ − y)² over all elements."""

    fields = MeanSquaredError.fields

    def measure(self, pred: Any, target: Any) -> State:
        return MeanSquaredError().measure(pred, target)

    def summarise(self, state: State) -> float:
        return float(np.sqrt(state["total"] / state["count"]))


class _Explained(Metric):
    """1 − (what is left) / (variance of the targets) for each output, averaged.

    multioutput: "uniform_average" is the mean over outputs, "variance_weighted" that by the targets' variances,
    "raw_values" one figure for each output. An output with constant targets has 1 if nothing is left, else 0.
    """

    fields = ("count", "mean", "deviation", "squares")  # of rows [target, error], (2, D) each

    def __init__(self, *, multioutput: str = "uniform_average") -> None:
        super().__init__()
        self.multioutput = chosen(multioutput, OUTPUTS, f"{type(self).__name__}: multioutput")

    def measure(self, pred: Any, target: Any) -> State:
        pred, target = numbers(pred), numbers(target)
        same_shape(pred, target, type(self).__name__)
        if not target.ndim:
            raise ShapeError(f"{type(self).__name__}: expected targets (N,) or (N, D), got a single number")
        rows = np.stack([target, target - pred]).reshape(2, len(target), -1 if target.size else 1)  # (2, N, D)
        mean = rows.mean(1) if target.size else np.zeros((2, 1))
        deviation = np.square(rows - mean[:, None]).sum(1)
        return {"count": len(target), "mean": mean, "deviation": deviation, "squares": np.square(rows).sum(1)}

    def combine(self, first: State, second: State) -> State:
        n, m = int(first["count"]), int(second["count"])
        if not n or not m:
            return first if n else second
        shift = second["mean"] - first["mean"]
        return {
            "count": n + m,
            "mean": first["mean"] + shift * (m / (n + m)),
            "deviation": first["deviation"] + second["deviation"] + shift**2 * (n * m / (n + m)),
            "squares": first["squares"] + second["squares"],
        }

    def summarise(self, state: State) -> float | Tensor:
        if state["count"] < 2:
            return float("nan")
        left, spread = self.left(state), state["deviation"][0]
        share = np.divide(left, spread, out=(left != 0).astype(np.float64), where=spread != 0)
        if self.multioutput == "raw_values":
            return wrap(1 - share)
        weights = spread if self.multioutput == "variance_weighted" and spread.any() else None
        return float(np.average(1 - share, weights=weights))

    def left(self, state: State) -> NDArray:
        raise NotImplementedError


class R2(_Explained):
    """1 − Σ (y − ŷ)² / Σ (y − ȳ)²: 1 is perfect, 0 the mean of the targets. NaN for a single sample.

    multioutput: "uniform_average" | "raw_values" | "variance_weighted", over the columns of (N, D)
    """

    def left(self, state: State) -> NDArray:
        return state["squares"][1]


class ExplainedVariance(_Explained):
    """1 − Var(y − ŷ) / Var(y): `R2` that forgives a constant error."""

    def left(self, state: State) -> NDArray:
        return state["deviation"][1]


def mean_squared_error(pred: Any, target: Any) -> float:
    """Mean of (ŷ − y)²."""
    return MeanSquaredError().once(pred, target)


def root_mean_squared_error(pred: Any, target: Any) -> float:
    """√ of the mean of (ŷ − y)²."""
    return RootMeanSquaredError().once(pred, target)


def mean_absolute_error(pred: Any, target: Any) -> float:
    """Mean of |ŷ − y|."""
    return MeanAbsoluteError().once(pred, target)


def mean_absolute_percentage_error(pred: Any, target: Any) -> float:
    """Mean of |ŷ − y| / |y|, a share."""
    return MeanAbsolutePercentageError().once(pred, target)


def r2(pred: Any, target: Any, **options: Any) -> float | Tensor:
    """`R2(**options)` of one set."""
    return R2(**options).once(pred, target)


def explained_variance(pred: Any, target: Any, **options: Any) -> float | Tensor:
    """`ExplainedVariance(**options)` of one set."""
    return ExplainedVariance(**options).once(pred, target)
