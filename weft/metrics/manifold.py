"""Fidelity and diversity told apart, by balls around samples that reach to their k-th neighbour.

A set of samples stands for the union of those balls: precision and recall (Kynkäänniemi, Karras, Laine, Lehtinen, Aila
2019) ask who lies inside of the other's union, density and coverage (Naeem, Oh, Uh, Choi, Yoo 2020) count balls around
real samples alone, so that one outlier among the generated ones covers nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError
from .base import NoDataError, two_sides

__all__ = ["DensityCoverage", "PrecisionRecall", "density_coverage", "neighbour_radii", "precision_recall_of_samples"]

AT_ONCE = 2000  # rows of distances that are held at a time
ROUNDING = 1e-12  # of squared distances, as a share of squared lengths


class PrecisionRecall(NamedTuple):
    """Shares of generated samples that look real, and of real ones that the generator could have made."""

    precision: float
    recall: float

    @property
    def f_score(self) -> float:
        """Their harmonic mean."""
        return 2 * self.precision * self.recall / max(self.precision + self.recall, 1e-300)


class DensityCoverage(NamedTuple):
    """How many real balls a generated sample lies in, as a share of k (1 for samples of the same law; may be above it),
    and the share of real balls that hold a generated sample."""

    density: float
    coverage: float


def precision_recall_of_samples(pred: Any, target: Any, k: int = 3) -> PrecisionRecall:
    """Precision and recall of generated features (N, D) beside real ones (M, D).

    precision = share of xⱼ with ‖xⱼ − yᵢ‖ ≤ rₖ(yᵢ) for some i; recall is the same with the sides exchanged.
    rₖ is the distance of a sample to its k-th nearest neighbour on its own side, itself not counted.

    >>> x = weft.randn(300, 2, generator=weft.Generator().manual_seed(0))
    >>> precision_recall_of_samples(x, x)
    PrecisionRecall(precision=1.0, recall=1.0)
    """
    x, y = _shifted(pred, target, k, "precision_recall_of_samples")
    around_x, around_y = _squared_radii(x, k), _squared_radii(y, k)
    inside_y, inside_x = np.zeros(len(x), bool), np.zeros(len(y), bool)
    for part, distance in _distances(x, y):
        inside_y[part] = (distance <= around_y).any(1)
        inside_x |= (distance <= around_x[part, None]).any(0)
    return PrecisionRecall(float(inside_y.mean()), float(inside_x.mean()))


def density_coverage(pred: Any, target: Any, k: int = 5) -> DensityCoverage:
    """Density and coverage of generated features (N, D) beside real ones (M, D).

    density = Σⱼ Σᵢ [‖xⱼ − yᵢ‖ ≤ rₖ(yᵢ)] / (k N),   coverage = share of yᵢ with ‖xⱼ − yᵢ‖ ≤ rₖ(yᵢ) for some j
    The coverage that real samples have of themselves, drawn anew, is 1 − (M−1)…(M−k) / ((2M−1)…(2M−k)) for N = M, about
    1 − 2⁻ᵏ.
    """
    x, y = _shifted(pred, target, k, "density_coverage")
    around = _squared_radii(y, k)
    hits, covered = 0, np.zeros(len(y), bool)
    for _, distance in _distances(x, y):
        inside = distance <= around
        hits += int(inside.sum())
        covered |= inside.any(0)
    return DensityCoverage(hits / (k * len(x)), float(covered.mean()))


def neighbour_radii(x: Any, k: int) -> NDArray[np.float64]:
    """The distance of each row to its k-th nearest other row: (N, D) → (N,)"""
    rows, _ = _shifted(x, x, k, "neighbour_radii")
    return np.sqrt(_squared_radii(rows, k))


# ---- distances ---------------------------------------------------------------------------------------------


def _shifted(pred: Any, target: Any, k: int, name: str) -> tuple[NDArray, NDArray]:
    """Both sides around the mean of the second, where products keep the digits of distances."""
    x, y = two_sides(pred, target, name)
    if k < 1:
        raise OptionError(f"{name}: expected k ≥ 1, got {k}")
    if min(len(x), len(y)) <= k:
        raise NoDataError(f"{name}: expected {k + 1} samples of each side or more, got {len(x)} and {len(y)}")
    return x - y.mean(0), y - y.mean(0)


def _distances(x: NDArray, y: NDArray) -> Iterator[tuple[slice, NDArray]]:
    """Squared distances of some rows of x at a time to all of y: equal points are 0 apart, whatever products round to."""
    own, other = (x * x).sum(1), (y * y).sum(1)
    for start in range(0, len(x), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        lengths = own[part, None] + other
        found = lengths - 2 * (x[part] @ y.T)
        found[found <= ROUNDING * lengths] = 0
        yield part, found


def _squared_radii(x: NDArray, k: int) -> NDArray:
    parts = [np.partition(distance, k, axis=1)[:, k] for _, distance in _distances(x, x)]  # 0 is the row itself
    return np.concatenate(parts)
