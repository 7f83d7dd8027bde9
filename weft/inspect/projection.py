"""Principal components: the flat shadow of data that keeps the most of its variance."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError
from .drawing import COLOURS, Picture, blank, scatter, table_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Projection", "pca", "svd_projection"]

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Projection(Picture):
    """X − mean ≈ scores @ components: rows of `components` (k, D) are orthonormal directions, `scores` (N, k) coordinates.

    singular_values (k,); explained (k,): share of the variance (of Σ x², if nothing was subtracted) along each direction
    """

    mean: Array
    components: Array
    scores: Array
    singular_values: Array
    explained: Array

    def transform(self, x: Any) -> Array:
        """Coordinates of other rows: (N, D) → (N, k)."""
        return (table_of(x, "transform", 1) - self.mean) @ self.components.T

    def inverse(self, scores: Any) -> Array:
        """Rows at these coordinates: (N, k) → (N, D)."""
        return table_of(scores, "inverse", 1) @ self.components + self.mean

    def figure(self, labels: Any = None) -> Figure:
        """The first two coordinates, and the share of every direction."""
        figure, axes = blank(1, 2, 4.8, 4.4, width_ratios=[2.2, 1])
        left, right = axes[0]
        flat = self.scores if self.scores.shape[1] > 1 else np.pad(self.scores, ((0, 0), (0, 1)))
        scatter(left, flat, labels)
        left.set(xlabel="component 1", ylabel="component 2", title="principal components")
        right.bar(range(1, len(self.explained) + 1), self.explained, color=COLOURS[0])
        right.plot(range(1, len(self.explained) + 1), np.cumsum(self.explained), "o-", ms=3, color=COLOURS[1])
        right.set(xlabel="component", title="variance: share, sum", ylim=(0, 1.02))
        return figure


def pca(x: Any, components: int = 2) -> Projection:
    """The directions of largest variance, from the singular value decomposition X − mean = U S Vᵀ.

    The sign of each direction is chosen so that its largest entry is positive, as in scikit-learn.

    >>> pca(images.reshape(1797, 64), 10).explained.sum()
    """
    return _decomposed(table_of(x, "pca"), components, centred=True)


def svd_projection(x: Any, components: int = 2) -> Projection:
    """The same without subtracting the mean: the best approximation of X by rank k (Eckart–Young)."""
    return _decomposed(table_of(x, "svd_projection"), components, centred=False)


def _decomposed(x: Array, count: int, centred: bool) -> Projection:
    if not 1 <= count <= min(x.shape):
        raise OptionError(f"pca: expected between 1 and {min(x.shape)} components for {x.shape}, got {count}")
    mean = x.mean(0) if centred else np.zeros(x.shape[1])
    u, s, vt = np.linalg.svd(x - mean, full_matrices=False)
    signs = np.sign(vt[np.arange(len(vt)), np.abs(vt).argmax(1)])
    u, vt = u * signs, vt * signs[:, None]
    share = s**2 / max(float((s**2).sum()), 1e-300)
    return Projection(mean, vt[:count], u[:, :count] * s[:count], s[:count], share[:count])
