"""Metrics of forecasts that state their uncertainty: coverage and score of intervals, quantile losses, CRPS."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, ShapeError
from ..tensor import Tensor, wrap
from .base import Averaged, State, numbers, same_shape
from .likelihood import gaussian_nll

__all__ = [
    *("CRPS", "Coverage", "IntervalScore", "PinballLoss"),
    *("coverage", "crps", "crps_ensemble", "crps_gaussian", "crps_quantile", "gaussian_interval"),
    *("interval_nll", "interval_score", "pinball_loss"),
]


class _MeanOf(Averaged):
    """The mean of one figure for each target."""

    def measure(self, pred: Any, target: Any) -> State:
        figures = self.figures(pred, target)
        return {"total": float(figures.sum()), "count": figures.size}

    def figures(self, pred: Any, target: Any) -> NDArray:
        raise NotImplementedError


class Coverage(_MeanOf):
    """The share of targets in their intervals [low, high]; an honest 90 % interval has 0.9.

    Updated with ((low, high), target); or, with `level`, with Gaussian forecasts ((mean, std), target), of which it
    takes the central interval of that probability.

    >>> Coverage().once(([0.0, 0.0], [1.0, 1.0]), [0.5, 2.0])
    0.5
    """

    def __init__(self, *, level: float | None = None) -> None:
        super().__init__()
        self.level = None if level is None else _level(level)

    def figures(self, pred: Any, target: Any) -> NDArray:
        low, high = _pair(pred, "Coverage") if self.level is None else _interval(*_pair(pred, "Coverage"), self.level)
        low, high, target = _fitting(target, low, high, name="Coverage")
        return (low <= target) & (target <= high)


class IntervalScore(_MeanOf):
    """Winkler's score of central intervals of probability `level`: width + (2 / α) · (distance outside), α = 1 − level.

    Smaller is better, and the true quantiles are best. Updated with ((low, high), target).
    """

    def __init__(self, level: float = 0.9) -> None:
        super().__init__()
        self.level = _level(level)

    def figures(self, pred: Any, target: Any) -> NDArray:
        low, high, target = _fitting(target, *_pair(pred, "IntervalScore"), name="IntervalScore")
        outside = np.maximum(low - target, 0) + np.maximum(target - high, 0)
        return high - low + 2 / (1 - self.level) * outside


class PinballLoss(_MeanOf):
    """max(τ (y − q), (τ − 1) (y − q)), the mean over targets and levels: least at the quantiles of levels τ.

    Shape: quantiles (…, Q) with `levels` (Q,), targets (…)
    """

    def __init__(self, levels: Any) -> None:
        super().__init__()
        self.levels = _levels(levels)

    def figures(self, pred: Any, target: Any) -> NDArray:
        return _pinball(pred, target, self.levels)


class CRPS(_MeanOf):
    """Continuous ranked probability score, ∫ (F(z) − 1[z ≥ y])² dz: the absolute error of a distribution.

    Updated with Gaussian forecasts ((mean, std), target), or with `levels` with quantiles ((…, Q), target), for which it
    is twice the mean pinball loss: the integral over τ by the midpoint rule at levels (i + ½) / Q.
    """

    def __init__(self, *, levels: Any = None) -> None:
        super().__init__()
        self.levels = None if levels is None else _levels(levels)

    def figures(self, pred: Any, target: Any) -> NDArray:
        if self.levels is None:
            return crps_gaussian(*_pair(pred, "CRPS"), target).array
        return crps_quantile(pred, target, self.levels).array


# ---- functions ---------------------------------------------------------------------------------------------


def coverage(pred: Any, target: Any, **options: Any) -> float:
    """`Coverage(**options)` of one set."""
    return Coverage(**options).once(pred, target)


def interval_score(pred: Any, target: Any, level: float = 0.9) -> float:
    """`IntervalScore(level)` of one set."""
    return IntervalScore(level).once(pred, target)


def pinball_loss(pred: Any, target: Any, levels: Any) -> float:
    """`PinballLoss(levels)` of one set."""
    return PinballLoss(levels).once(pred, target)


def crps(pred: Any, target: Any, **options: Any) -> float:
    """`CRPS(**options)` of one set."""
    return CRPS(**options).once(pred, target)


def interval_nll(pred: Any, target: Any, level: float = 0.9) -> float:
    """Mean −ln p(y) under the Gaussians whose central intervals of probability `level` are pred = (low, high)."""
    low, high, target = _fitting(target, *_pair(pred, "interval_nll"), name="interval_nll")
    std = (high - low) / (2 * _half_width(_level(level)))
    return float(gaussian_nll((low + high) / 2, std, target).mean())


def gaussian_interval(mean: Any, std: Any, level: float = 0.9) -> tuple[Tensor, Tensor]:
    """The central interval of probability `level` of Gaussians: mean ∓ Φ⁻¹((1 + level) / 2) · std."""
    low, high = _interval(mean, std, _level(level))
    return wrap(low), wrap(high)


def crps_gaussian(mean: Any, std: Any, target: Any) -> Tensor:
    """σ ( z (2 Φ(z) − 1) + 2 φ(z) − 1/√π ), z = (y − μ) / σ, of each target (Gneiting and Raftery 2007)."""
    from scipy.special import ndtr

    mean, std, target = _fitting(target, mean, std, name="crps_gaussian")
    if not (std > 0).all():
        raise OptionError("crps_gaussian: expected standard deviations above 0")
    z = (target - mean) / std
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return wrap(np.asarray(std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / math.sqrt(math.pi))))


def crps_quantile(quantiles: Any, target: Any, levels: Any) -> Tensor:
    """2 Σ_τ pinball_τ / Q of each target. Shape: (…, Q), (…), (Q,) → (…)"""
    return wrap(2 * _pinball(quantiles, target, _levels(levels)).mean(-1))


def crps_ensemble(samples: Any, target: Any) -> Tensor:
    """E|X − y| − ½ E|X − X′| of an ensemble as a distribution, by sorting. Shape: (…, M), (…) → (…)"""
    samples, target = numbers(samples), numbers(target)
    _last_extra(samples, target, "crps_ensemble")
    members = samples.shape[-1]
    if not members:
        raise ShapeError("crps_ensemble: expected at least one member, got none")
    # Σᵢⱼ |xᵢ − xⱼ| = 2 Σₖ (2k − M − 1) x₍ₖ₎ of the sorted members, k = 1 … M
    spread = np.sort(samples, -1) @ (2.0 * np.arange(1, members + 1) - members - 1) / members**2
    return wrap(np.asarray(np.abs(samples - target[..., None]).mean(-1) - spread))


# ---- parts -------------------------------------------------------------------------------------------------


def _half_width(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


def _interval(mean: Any, std: Any, level: float) -> tuple[NDArray, NDArray]:
    mean, half = numbers(mean), _half_width(level) * numbers(std)
    return np.asarray(mean - half), np.asarray(mean + half)


def _pinball(quantiles: Any, target: Any, levels: NDArray) -> NDArray:
    """(…, Q) losses"""
    quantiles, target = numbers(quantiles), numbers(target)
    _last_extra(quantiles, target, "quantiles")
    if quantiles.shape[-1] != len(levels):
        raise ShapeError(f"quantiles: expected the last dimension to hold {len(levels)} levels, got {quantiles.shape}")
    above = target[..., None] - quantiles
    return np.maximum(levels * above, (levels - 1) * above)


def _pair(pred: Any, name: str) -> tuple[Any, Any]:
    if not isinstance(pred, (tuple, list)) or len(pred) != 2:
        raise OptionError(f"{name}: expected a prediction of two parts, as (low, high) or (mean, std)")
    return pred[0], pred[1]


def _fitting(target: Any, *parts: Any, name: str) -> list[NDArray]:
    """The parts of a forecast, then the target; the first part has the target's shape, the others broadcast."""
    first, *others = [numbers(part) for part in parts]
    target = numbers(target)
    same_shape(first, target, name)
    try:
        others = [np.broadcast_to(part, target.shape) for part in others]
    except ValueError:
        raise ShapeError(f"{name}: {[p.shape for p in others]} do not fit targets {target.shape}") from None
    return [first, *others, target]


def _last_extra(values: NDArray, target: NDArray, name: str) -> None:
    if values.shape[:-1] != target.shape or not values.ndim:
        raise ShapeError(f"{name}: expected shapes (…, Q) and (…), got {values.shape} and {target.shape}")


def _level(level: float) -> float:
    if not 0 < level < 1:
        raise OptionError(f"forecast: expected a level between 0 and 1, got {level}")
    return float(level)


def _levels(levels: Any) -> NDArray:
    levels = numbers(levels).reshape(-1)
    if not levels.size or not ((levels > 0) & (levels < 1)).all():
        raise OptionError(f"forecast: expected levels between 0 and 1, got {levels.tolist()}")
    return levels
