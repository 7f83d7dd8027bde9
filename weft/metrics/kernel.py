"""Kernel distance between two sets of features (KID; Bińkowski, Sutherland, Arbel, Gretton 2018): unbiased at any size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError
from .base import NoDataError, two_sides

__all__ = ["KernelDistance", "kernel_distance", "squared_mmd"]

AT_ONCE = 2000  # rows of a kernel matrix that are held at a time


class KernelDistance(NamedTuple):
    """`mean` of the squared MMD over random subsets, and their standard deviation."""

    mean: float
    std: float


def kernel_distance(
    pred: Any,
    target: Any,
    *,
    subsets: int = 100,
    subset_size: int = 1000,
    degree: int = 3,
    gamma: float | None = None,
    coef0: float = 1.0,
    seed: int = 2020,
) -> KernelDistance:
    """`squared_mmd` of `subsets` pairs of subsets of generated and real features, (N, D) and (M, D).

    Each subset is drawn without replacement by `seed`. The estimate is unbiased, so it may come out below 0.

    >>> x = weft.randn(200, 4, generator=weft.Generator().manual_seed(0))
    >>> found = kernel_distance(x, x + 1, subset_size=100)
    >>> found.mean > 10 * found.std / 100**0.5
    True
    """
    x, y = two_sides(pred, target, "kernel_distance")
    if subsets < 1 or subset_size < 2:
        raise OptionError(f"kernel_distance: expected subsets ≥ 1 and subset_size ≥ 2, got {subsets} and {subset_size}")
    if min(len(x), len(y)) < subset_size:
        raise NoDataError(
            f"kernel_distance: expected {subset_size} samples of each side or more, got {len(x)} and {len(y)}; draw more, "
            f"or lower subset_size"
        )
    rng = np.random.default_rng(seed)
    chosen = lambda rows: rows[rng.choice(len(rows), subset_size, replace=False)]
    options = {"degree": degree, "gamma": gamma, "coef0": coef0}
    found = np.array([squared_mmd(chosen(x), chosen(y), **options) for _ in range(subsets)])
    return KernelDistance(float(found.mean()), float(found.std()))


def squared_mmd(pred: Any, target: Any, *, degree: int = 3, gamma: float | None = None, coef0: float = 1.0) -> float:
    """MMD² under k(x, y) = (γ xᵀy + c)^degree, γ = 1/D if it is None: the unbiased estimate from all pairs.

    Σ_{i≠j} k(xᵢ, xⱼ) / N(N−1) + Σ_{i≠j} k(yᵢ, yⱼ) / M(M−1) − 2 Σᵢⱼ k(xᵢ, yⱼ) / NM
    Shape: (N, D), (M, D) → a float
    """
    x, y = two_sides(pred, target, "squared_mmd")
    if min(len(x), len(y)) < 2:
        raise NoDataError(f"squared_mmd: expected 2 samples of each side or more, got {len(x)} and {len(y)}")
    rate = 1 / max(x.shape[1], 1) if gamma is None else gamma
    kernel = lambda inner: (rate * inner + coef0) ** degree
    within = [(_sum(kernel, a, a) - kernel((a * a).sum(1)).sum()) / (len(a) * (len(a) - 1)) for a in (x, y)]
    return float(sum(within) - 2 * _sum(kernel, x, y) / (len(x) * len(y)))


def _sum(kernel: Any, x: NDArray, y: NDArray) -> float:
    """Σᵢⱼ k(xᵢ, yⱼ), some rows at a time."""
    parts = range(0, len(x), AT_ONCE)
    return sum(float(kernel(x[start : start + AT_ONCE] @ y.T).sum()) for start in parts)
