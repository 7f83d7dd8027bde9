"""Metrics of probabilities: negative log-likelihood, perplexity, bits per dimension. Sums are kept in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, ShapeError
from .base import Averaged, Metric, State, array_of, numbers, same_shape
from .labels import in_range, score_rows, whole

__all__ = ["NLL", "BitsPerDim", "Perplexity", "bits_per_dim", "nll", "perplexity"]


class NLL(Averaged):
    """The mean of −ln p(target), in nats. A prediction is one of

        a tensor of logits (N, C, …)      targets (N, …), classes; `ignore_index` leaves targets out
        a distribution of weft            anything with log_prob(target)
        a pair (mean, std)                independent Gaussians of the targets' shape

    >>> round(NLL().once(([0.0], [1.0]), [0.0]), 4)      # ½ ln 2π
    0.9189
    """

    def __init__(self, *, ignore_index: int | None = None) -> None:
        super().__init__()
        self.ignore_index = ignore_index

    def measure(self, pred: Any, target: Any) -> State:
        if hasattr(pred, "log_prob"):
            return _sum_of(-numbers(pred.log_prob(target)))
        if isinstance(pred, tuple):
            return _sum_of(gaussian_nll(*pred, target))  # pyright: ignore[reportCallIssue]
        return _sum_of(categorical_nll(*score_rows(array_of(pred), array_of(target), self.ignore_index)))


class Perplexity(Metric):
    """exp of the mean −ln p(token): how many equally likely tokens the model hesitates between.

    Shape: logits or log-probabilities (…, C), the classes last; tokens (…). `ignore_index` leaves padding out.
    """

    fields = ("total", "count")

    def __init__(self, *, ignore_index: int | None = None) -> None:
        super().__init__()
        self.ignore_index = ignore_index

    def measure(self, pred: Any, target: Any) -> State:
        scores, tokens = array_of(pred), array_of(target)
        if scores.shape[:-1] != tokens.shape or not scores.ndim:
            raise ShapeError(f"Perplexity: expected logits (…, C) of tokens (…), got {scores.shape} and {tokens.shape}")
        scores, tokens = scores.reshape(-1, scores.shape[-1]), whole(tokens).reshape(-1)
        if self.ignore_index is not None:
            kept = tokens != self.ignore_index
            scores, tokens = scores[kept], tokens[kept]
        return _sum_of(categorical_nll(scores, tokens))

    def summarise(self, state: State) -> float:
        mean = state["total"] / state["count"]
        with np.errstate(over="ignore"):
            return float(np.exp(mean))


class BitsPerDim(Metric):
    """−log₂ p(x) / D, the mean number of bits that a code for x takes per dimension.

    Updated with (nll, x): the −ln p(x) of each sample, (N,), and either the samples (N, …), whose sizes give D, or D.
    levels: where x ∈ [0, 1] is (j + u) / levels for whole j and u ∈ [0, 1), the number of levels; log₂ levels bits are
    added, so that the figure is that of j (256 for images of bytes).
    """

    fields = ("total", "count")

    def __init__(self, *, levels: int | None = None) -> None:
        super().__init__()
        if levels is not None and levels < 1:
            raise OptionError(f"BitsPerDim: expected levels ≥ 1, got {levels}")
        self.levels = levels

    def measure(self, nll: Any, x: Any) -> State:
        nats = numbers(nll).reshape(-1)
        shape = array_of(x).shape
        if shape and shape[0] != len(nats):
            raise ShapeError(f"BitsPerDim: expected one nll for each of {shape[0]} samples, got {len(nats)}")
        dims = math.prod(shape[1:]) if shape else int(x)
        return {"total": float(nats.sum()), "count": len(nats) * dims}

    def summarise(self, state: State) -> float:
        extra = math.log2(self.levels) if self.levels else 0.0
        return float(state["total"] / state["count"] / math.log(2) + extra)


def nll(pred: Any, target: Any, **options: Any) -> float:
    """`NLL(**options)` of one set."""
    return NLL(**options).once(pred, target)


def perplexity(pred: Any, target: Any, **options: Any) -> float:
    """`Perplexity(**options)` of one set."""
    return Perplexity(**options).once(pred, target)


def bits_per_dim(nll: Any, x: Any, **options: Any) -> float:
    """`BitsPerDim(**options)` of one set."""
    return BitsPerDim(**options).once(nll, x)


# ---- of each sample ----------------------------------------------------------------------------------------


def categorical_nll(rows: NDArray, actual: NDArray) -> NDArray:
    """ln Σ exp(row) − row[actual], (M, C), (M,) → (M,). Computed in the dtype of the scores, float32 at least."""
    in_range(actual, rows.shape[1], "likelihood")
    rows = rows.astype(np.promote_types(np.float32, rows.dtype if rows.dtype.kind == "f" else np.float32), copy=False)
    if not len(rows):
        return np.zeros(0)
    largest = rows.max(1, keepdims=True)
    largest[~np.isfinite(largest)] = 0  # ±∞ − ±∞ would be NaN where the answer is ±∞
    with np.errstate(divide="ignore", over="ignore"):
        total = np.log(np.exp(rows - largest).sum(1))
    return total - (np.take_along_axis(rows, actual[:, None], 1) - largest)[:, 0]


def gaussian_nll(mean: Any, std: Any, target: Any) -> NDArray[np.float64]:
    """½ ((y − μ) / σ)² + ln σ + ½ ln 2π of each element."""
    mean, std, target = numbers(mean), numbers(std), numbers(target)
    same_shape(mean, target, "nll")
    if not (std > 0).all():
        raise OptionError("nll: expected standard deviations above 0")
    return 0.5 * ((target - mean) / std) ** 2 + np.log(std) + 0.5 * math.log(2 * math.pi)


def _sum_of(figures: NDArray) -> State:
    return {"total": float(figures.sum(dtype=np.float64)), "count": figures.size}
