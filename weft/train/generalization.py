"""Why models fail on new data: bias, variance and noise (N0 §3.2), and the double descent of the error (N1 §1.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, ShapeError
from ..random import Generator

__all__ = ["BiasVariance", "SweepPoint", "bias_variance", "decompose", "double_descent", "ridge_bias_variance"]

Predictor = Callable[[NDArray], NDArray]
Fit = Callable[[NDArray, NDArray], Predictor]
Draw = Callable[[Generator], tuple[NDArray, NDArray]]


@dataclass(frozen=True)
class BiasVariance:
    """The parts of the expected squared error at each test point, (N,) each; `summary()` has their means.

    error = noise + bias² + variance
    """

    noise: NDArray
    bias_squared: NDArray
    variance: NDArray
    error: NDArray

    def summary(self) -> dict[str, float]:
        names = ("noise", "bias_squared", "variance", "error")
        return {name: float(np.mean(getattr(self, name))) for name in names}


def decompose(predictions: NDArray, targets: NDArray) -> BiasVariance:
    """Bias and variance of an ensemble: predictions (M, N) of M models at N points, targets (N, K), K draws of each.

    f̄ = meanₘ fₘ, ȳ = meanₖ yₖ; bias² = (f̄ − ȳ)², variance = meanₘ (fₘ − f̄)², noise = meanₖ (yₖ − ȳ)². Over all pairs
    (m, k) the mean of (fₘ − yₖ)² is their sum exactly: the mixed terms are products of deviations that sum to 0.
    """
    f, y = np.asarray(predictions, np.float64), np.asarray(targets, np.float64)
    if f.ndim != 2 or y.ndim != 2 or f.shape[1] != len(y) or not f.size or not y.size:
        raise ShapeError(f"decompose: expected predictions (M, N) and targets (N, K), got {f.shape} and {y.shape}")
    error = np.mean([((y - row[:, None]) ** 2).mean(1) for row in f], axis=0)
    return BiasVariance(y.var(1), (f.mean(0) - y.mean(1)) ** 2, f.var(0), error)


def bias_variance(
    draw: Draw, fit: Fit, points: NDArray, targets: NDArray, *, repeats: int = 100, seed: int = 0
) -> BiasVariance:
    """Train on `repeats` independent training sets, then `decompose` the predictions at fixed test points.

    draw(generator) → x, y gives a training set, fit(x, y) → predict a model; repetition r draws from (seed, r).
    points: test inputs (N, …); targets (N, K): K draws of the target at each.
    """
    if repeats < 1:
        raise OptionError(f"bias_variance: expected repeats >= 1, got {repeats}")
    root = Generator().manual_seed(seed)
    models = (fit(*draw(root.fold_in(r))) for r in range(repeats))
    return decompose(np.stack([np.asarray(predict(points)).reshape(len(points)) for predict in models]), targets)


def ridge_bias_variance(x: NDArray, weight: NDArray, sigma: float, points: NDArray, ridge: float = 0.0) -> BiasVariance:
    """The closed form for y = X w + σ ε with normal ε and fixed X (n, D), fitted by ridge regression without bias.

    With A = (XᵀX + λ I)⁻¹ and test point p: bias = −λ pᵀA w, variance = σ² pᵀ A XᵀX A p, noise = σ². Without penalty
    bias is 0, and the mean of the variance over the rows of X is σ² D / n.
    """
    gram = x.T @ x
    reached = np.linalg.solve(gram + ridge * np.eye(len(gram)), points.T)  # A p, (D, N)
    bias_squared = (ridge * (weight @ reached)) ** 2
    variance = sigma**2 * np.einsum("in,ij,jn->n", reached, gram, reached)
    noise = np.full(len(points), float(sigma) ** 2)
    return BiasVariance(noise, bias_squared, variance, noise + bias_squared + variance)


# ------------------------------------------------------------------------------------------- double descent


@dataclass(frozen=True)
class SweepPoint:
    """Mean squared errors and ‖w‖ of the least-norm fit with so many features, over all repetitions."""

    features: int
    train_error: float
    test_error: float
    norm: float


def double_descent(
    draw: Draw,
    features: Callable[[NDArray, int], NDArray],
    widths: Iterable[int],
    test: tuple[NDArray, NDArray],
    *,
    repeats: int = 1,
    seed: int = 0,
) -> list[SweepPoint]:
    """Fit w = Φ⁺ y for each number of features: least squares, of least norm once there are more features than rows.

    draw(generator) → x, y gives a training set; features(x, width) → Φ (n, width); test: inputs and targets. As the
    width grows the test error falls, rises to a peak where the width meets the number of rows and the training error
    becomes 0, and falls again (Belkin et al. 2019): beyond the peak more features mean shorter weights.
    """
    sets = [draw(Generator().manual_seed(seed).fold_in(r)) for r in range(repeats)]
    return [_sweep_point(width, lambda x, w=width: features(x, w), sets, test) for width in widths]


def _sweep_point(width: int, features: Callable[[NDArray], NDArray], sets: list[Any], test: tuple) -> SweepPoint:
    rows = []
    phi_test = np.asarray(features(test[0]))
    for x, y in sets:
        phi = np.asarray(features(x))
        weight = np.linalg.lstsq(phi, y, rcond=None)[0]
        errors = (phi @ weight - y) ** 2, (phi_test @ weight - test[1]) ** 2
        rows.append([errors[0].mean(), errors[1].mean(), np.linalg.norm(weight)])
    return SweepPoint(width, *np.mean(rows, axis=0).tolist())
