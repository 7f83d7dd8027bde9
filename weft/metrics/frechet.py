"""Fréchet distance between Gaussians fitted to features (the FID of Heusel et al., 2017, on features of your choice)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, ShapeError
from .base import Metric, NoDataError, State, numbers, rows_of

__all__ = ["FrechetDistance", "frechet_distance", "gaussian_frechet_distance"]


class FrechetDistance(Metric):
    """|μ₁ − μ₂|² + tr(Σ₁ + Σ₂ − 2 (Σ₁ Σ₂)^½) of generated and real features, (N, D) each.

    Updated with (generated, real); either may be None, so that real features need be seen only once. Means and sums of
    squared deviations are kept in float64 and combined by Chan's formula: 16 (D² + D) bytes, however many samples.
    D samples or fewer of a side are refused: their covariance is singular whatever they were drawn from, and the distance
    that comes of it is large for that reason alone.
    """

    fields = ("count", "mean", "scatter")  # (2,), (2, D), (2, D, D); 0: generated, 1: real

    def measure(self, pred: Any = None, target: Any = None) -> State:
        given = [rows_of(x, "FrechetDistance") for x in (pred, target) if x is not None]
        if not given:
            raise OptionError("FrechetDistance: expected generated or real features, got neither")
        if len({x.shape[1] for x in given}) > 1:
            raise ShapeError(f"FrechetDistance: numbers of features differ, {given[0].shape} and {given[1].shape}")
        absent = np.zeros((0, given[0].shape[1]))
        sides = [moments(absent if x is None else rows_of(x, "FrechetDistance")) for x in (pred, target)]
        return {name: np.stack([side[name] for side in sides]) for name in self.fields}

    def combine(self, first: State, second: State) -> State:
        if first["mean"].shape != second["mean"].shape:
            widths = first["mean"].shape[1], second["mean"].shape[1]
            raise ShapeError(f"FrechetDistance: began with {widths[0]} features, got {widths[1]}")
        return combine_moments(first, second)

    def summarise(self, state: State) -> float:
        least = state["mean"].shape[1] + 1
        if state["count"].min() < least:
            raise NoDataError(
                f"FrechetDistance: expected {least} samples of each side or more, got {state['count'].tolist()}: the "
                f"covariance of {least - 1} features is singular with fewer; draw more samples, or take kernel_distance"
            )
        covariance = state["scatter"] / (state["count"] - 1)[:, None, None]
        return gaussian_frechet_distance(state["mean"][0], covariance[0], state["mean"][1], covariance[1])


def frechet_distance(pred: Any, target: Any) -> float:
    """`FrechetDistance` of two sets of features, (N, D) and (M, D)."""
    return FrechetDistance().once(pred, target)


def gaussian_frechet_distance(mean1: Any, cov1: Any, mean2: Any, cov2: Any) -> float:
    """The distance (squared, as is usual) of two Gaussians, (D,), (D, D), (D,), (D, D).

    With Σ = F Fᵀ, tr (Σ₁ Σ₂)^½ is the sum of the singular values of F₁ᵀ F₂: no square root of a product that rounding
    has made negative, and singular covariances need no special case.
    """
    means, covariances = [numbers(mean1), numbers(mean2)], [numbers(cov1), numbers(cov2)]
    size = means[0].shape[0] if means[0].ndim else 0
    if any(m.shape != (size,) for m in means) or any(c.shape != (size, size) for c in covariances):
        shapes = [x.shape for x in (*means, *covariances)]
        raise ShapeError(f"gaussian_frechet_distance: expected means (D,) and covariances (D, D), got {shapes}")
    factors = [_factor(c) for c in covariances]
    overlap = np.linalg.svd(factors[0].T @ factors[1], compute_uv=False).sum()
    shift = means[0] - means[1]
    return float(shift @ shift + np.trace(covariances[0]) + np.trace(covariances[1]) - 2 * overlap)


# ---- moments -----------------------------------------------------------------------------------------------


def moments(x: NDArray) -> State:
    """Number, mean and scatter Σ (x − μ)(x − μ)ᵀ of rows: (N, D) → (), (D,), (D, D)"""
    mean = x.mean(0) if len(x) else np.zeros(x.shape[1])
    centred = x - mean
    return {"count": np.array(len(x)), "mean": mean, "scatter": centred.T @ centred}


def combine_moments(first: State, second: State) -> State:
    """Moments of the union (Chan, Golub, LeVeque 1979); leading dimensions are independent sets."""
    n, m = first["count"], second["count"]
    total = np.maximum(n + m, 1)
    shift = second["mean"] - first["mean"]
    between = shift[..., :, None] * shift[..., None, :] * (n * m / total)[..., None, None]
    return {
        "count": n + m,
        "mean": first["mean"] + shift * (m / total)[..., None],
        "scatter": first["scatter"] + second["scatter"] + between,
    }


def _factor(covariance: NDArray) -> NDArray:
    """F with F Fᵀ = the symmetric part of a covariance, whose rounding may have left small negative eigenvalues."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    if values.size and values[0] < -1e-6 * max(values[-1], 0):
        raise OptionError(
            f"gaussian_frechet_distance: expected covariances, got a matrix with eigenvalue {values[0]:.3g}"
        )
    return vectors * np.sqrt(np.maximum(values, 0))
