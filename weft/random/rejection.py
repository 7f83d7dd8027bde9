"""One round of gamma, poisson and binomial: blocks (4, N), parameters (N,) → values (N,), accepted (N,)."""

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..runtime.lazy import LazyModule
from .bits import _angle, _open, _radius, _signed, _unit

xlog1py = LazyModule("scipy.special").xlog1py

INVERSION_LIMIT = 10.0  # the mean below which poisson and binomial invert; the rejections are proved above it
STIRLING_TABLE = np.array([math.lgamma(k + 1) - (k * math.log(k) - k if k else 0.0) for k in range(16)])


def _gamma_round(blocks: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
    d = np.where(alpha < 1, alpha + 1, alpha) - 1 / 3
    z = _radius(blocks[0]) * np.cos(_angle(blocks[1]))
    y = z / np.sqrt(9 * d)
    excess = y * (3 + y * (3 + y))  # v - 1 for v = (1 + y)³
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        accepted = np.log(_open(blocks[2])) < 0.5 * z * z + d * (np.log1p(excess) - excess)  # False where v ≤ 0
        value = d * (1 + excess)
        small = np.flatnonzero(alpha < 1)
        value[small] *= _open(blocks[3, small]) ** (1 / alpha[small])
    return value, accepted


def _poisson_round(blocks: NDArray, mean: NDArray) -> tuple[NDArray, NDArray]:
    return _by_size(mean < INVERSION_LIMIT, _poisson_inverse, _poisson_transformed, blocks, mean)


def _binomial_round(blocks: NDArray, n: NDArray, p: NDArray) -> tuple[NDArray, NDArray]:
    return _by_size(n * p < INVERSION_LIMIT, _binomial_inverse, _binomial_transformed, blocks, n, p)


def _by_size(small: NDArray, inverse: Callable, transformed: Callable, *arguments: NDArray) -> tuple[NDArray, NDArray]:
    """`inverse`, whose values are final, where small; a round of `transformed` elsewhere."""
    if not small.any():
        return transformed(*arguments)
    value, accepted = np.empty(small.shape), small.copy()
    value[small] = inverse(*(argument[..., small] for argument in arguments))
    value[~small], accepted[~small] = transformed(*(argument[..., ~small] for argument in arguments))
    return value, accepted


def _poisson_inverse(blocks: NDArray, mean: NDArray) -> NDArray:
    return _invert(_unit(blocks[0]), np.exp(-mean), lambda k: mean / k)


def _binomial_inverse(blocks: NDArray, n: NDArray, p: NDArray) -> NDArray:
    none, odds = np.exp(n * np.log1p(-p)), p / (1 - p)
    return np.minimum(_invert(_unit(blocks[0]), none, lambda k: (n + 1 - k) / k * odds), n)


def _poisson_transformed(blocks: NDArray, mean: NDArray) -> tuple[NDArray, NDArray]:
    """Hörmann's PTRS."""
    b = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * b
    k, v, margin = _transform(blocks, a, b, mean + 0.43)
    accepted = (margin >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    rest = np.flatnonzero(~accepted & (k >= 0))
    k_rest, mean, scale = k[rest], mean[rest], 1.1239 + 1.1328 / (b[rest] - 3.4)
    bound = -_deviance(k_rest, mean) - _stirling_remainder(k_rest)
    accepted[rest] = np.log(v[rest] * scale / _slope(a[rest], b[rest], margin[rest])) <= bound
    return k, accepted


def _binomial_transformed(blocks: NDArray, n: NDArray, p: NDArray) -> tuple[NDArray, NDArray]:
    """Hörmann's BTRS, 0 < p ≤ ½."""
    deviation = np.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    k, v, margin = _transform(blocks, a, b, n * p + 0.5)
    accepted = (margin >= 0.07) & (v <= 0.92 - 4.2 / b)
    rest = np.flatnonzero(~accepted & (k >= 0) & (k <= n))
    n, p, scale = n[rest], p[rest], (2.83 + 5.1 / b[rest]) * deviation[rest]
    bound = _binomial_log(k[rest], n, p) - _binomial_log(np.floor((n + 1) * p), n, p)
    accepted[rest] = np.log(v[rest] * scale / _slope(a[rest], b[rest], margin[rest])) <= bound
    return k, accepted


def _transform(blocks: NDArray, a: NDArray, b: NDArray, centre: NDArray) -> tuple[NDArray, ...]:
    """The proposal k = ⌊(2a / s + b) U + centre⌋, V, and the margin s = ½ - |U|."""
    u = _signed(blocks[0])
    margin = np.maximum(0.5 - np.abs(u), 2.0**-54)
    return np.floor((2 * a / margin + b) * u + centre), _open(blocks[1]), margin


def _slope(a: NDArray, b: NDArray, margin: NDArray) -> NDArray:
    """The slope of the transformation, by which its density falls."""
    return a / (margin * margin) + b


def _invert(u: NDArray, probability: NDArray, ratio: Callable[[int], NDArray]) -> NDArray:
    """The number of k with P(X ≤ k) ≤ u, from P(X = 0) and ratio(k) = P(X = k) / P(X = k - 1)."""
    count, cumulative = np.zeros(u.shape), probability.copy()
    for k in itertools.count(1):
        above = (u >= cumulative) & (probability > 2.0**-60)  # far in the tail rounding keeps the sum below u
        if not above.any():
            return count
        count += above
        probability = probability * ratio(k)
        cumulative += probability


def _deviance(k: NDArray, mean: NDArray) -> NDArray:
    """k ln(k / mean) + mean - k, without cancellation where k is near a large mean."""
    x = (k - mean) / mean
    return mean * (xlog1py(1 + x, x) - x)


def _stirling_remainder(k: NDArray) -> NDArray:
    """ln k! - (k ln k - k), 0 at 0: a table below 16, then ½ ln 2πk + 1/12k - 1/360k³."""
    small = np.minimum(k, 15.0).astype(np.int64)
    large = np.maximum(k, 16.0)
    series = 0.5 * np.log(2 * math.pi * large) + (1 / 12 - 1 / (360 * large * large)) / large
    return np.where(k < 16, STIRLING_TABLE[small], series)


def _binomial_log(k: NDArray, n: NDArray, p: NDArray) -> NDArray:
    """ln P(X = k) up to a constant (Loader 2000)."""
    remainders = _stirling_remainder(k) + _stirling_remainder(n - k)
    return -remainders - _deviance(k, n * p) - _deviance(n - k, n * (1 - p))
