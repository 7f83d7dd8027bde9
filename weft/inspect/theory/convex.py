"""Convex sets and functions (N4 §12): counter-examples that refute, certificates that prove.

A set is convex if λa + (1 − λ)b is in it with a and b; a function if λf(a) + (1 − λ)f(b) ≥ f(λa + (1 − λ)b). One pair that
fails refutes either. What is found by looking at points proves nothing, and is not called a proof here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft

from ...errors import ShapeError
from ...func import hessian
from ...tensor import Tensor, wrap
from ..drawing import array_of

__all__ = [
    *("Convexity", "CounterExample", "HullCertificate", "convex_counterexample", "convexity", "hull_certificate"),
    *("jensen_gap", "set_counterexample"),
]

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class CounterExample:
    """Two points a, b and a weight λ for which the definition fails; excess: f(λa + (1 − λ)b) − λf(a) − (1 − λ)f(b) > 0."""

    a: Array
    b: Array
    weight: float
    excess: float


@dataclasses.dataclass(frozen=True)
class Convexity:
    """curvature: the smallest eigenvalue of the Hessian at the points; quadratic: whether it is the same at all of them.

    `verdict` is 'not convex' (a counter-example proves it), 'convex' (a quadratic function whose Hessian has no negative
    eigenvalue: that proves it), or 'not refuted'.
    """

    curvature: float
    quadratic: bool
    counterexample: CounterExample | None

    @property
    def verdict(self) -> str:
        if self.counterexample is not None:
            return "not convex"
        return "convex" if self.quadratic and self.curvature >= 0 else "not refuted"


def convex_counterexample(
    f: Callable[[Tensor], Tensor],
    points: Any,
    trials: int = 2000,
    tolerance: float = 1e-9,
    generator: weft.Generator | None = None,
) -> CounterExample | None:
    """Two of the points (N, D), and a weight, that refute the convexity of f; None if none of the trials does.

    f maps (M, D) to (M,). The largest excess over the rounding error (tolerance · the size of the values) is returned.

    >>> convex_counterexample(lambda x: x.square().sum(-1), weft.randn(50, 2)) is None
    True
    >>> convex_counterexample(lambda x: x.sin().sum(-1), weft.linspace(0, 3, 20).unsqueeze(1)).excess > 0.5
    True
    """
    points, generator = _points(points), weft.Generator().manual_seed(0) if generator is None else generator
    draws = np.abs(generator.normal((3, trials), np.float64))
    first, second = (np.floor(d * 1e6).astype(np.int64) % len(points) for d in draws[:2])
    weight = draws[2] % 1.0
    weight[::2] = 0.5  # most functions fail there if anywhere
    a, b = points[first], points[second]
    values = lambda x: array_of(f(wrap(x)).detach()).astype(np.float64).reshape(-1)
    ends = weight * values(a) + (1 - weight) * values(b)
    middle = values(weight[:, None] * a + (1 - weight)[:, None] * b)
    excess = np.where(np.isfinite(ends) & np.isfinite(middle), middle - ends, -np.inf)
    rounding = tolerance * (1 + np.abs(ends) + np.abs(middle))
    best = int(np.argmax(excess - rounding))
    if not excess[best] > rounding[best]:
        return None
    return CounterExample(a[best], b[best], float(weight[best]), float(excess[best]))


def convexity(f: Callable[[Tensor], Tensor], points: Any, trials: int = 2000) -> Convexity:
    """What can be said of f from these points (N, D): its curvature there, a counter-example, a proof if it is quadratic.

    f maps (M, D) to (M,) and can be differentiated twice.

    >>> convexity(lambda x: x[:, 0] * x[:, 1], weft.randn(20, 2)).verdict
    'not convex'
    """
    points = _points(points)
    matrices = np.stack([hessian(lambda x: f(x.unsqueeze(0)).sum())(wrap(p)).detach().numpy() for p in points])
    size = np.abs(matrices).max(initial=0.0)
    same = bool(np.abs(matrices - matrices[0]).max(initial=0.0) <= 1e-10 * (1 + size))
    values, vectors = np.linalg.eigh((matrices + matrices.swapaxes(1, 2)) / 2)
    worst = int(values[:, 0].argmin())
    curvature = 0.0 if abs(values[worst, 0]) <= 1e-10 * (1 + size) else float(values[worst, 0])
    found = convex_counterexample(f, points, trials)
    if found is None and curvature < 0:  # along the direction in which it bends down
        steps = [reach * vectors[worst, :, 0] for reach in np.geomspace(1e-3, 1.0, 8)]
        pairs = (np.stack([points[worst] + step, points[worst] - step]) for step in steps)
        found = next((example for pair in pairs if (example := convex_counterexample(f, pair)) is not None), None)
    return Convexity(curvature, same, found)


def jensen_gap(f: Callable[[Tensor], Tensor], points: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ αᵢ f(xᵢ) − f(Σ αᵢ xᵢ), which is ≥ 0 for convex f (Jensen): E f(X) ≥ f(E X) for X that is xᵢ with probability αᵢ.

    f maps (M, D) to (M,); α are equal if left away. With f = −log and xᵢ = p(x | yᵢ) it is how much longer codes are when
    y is guessed: E[−log p(x | Y)] ≥ −log p(x) (N4 §12). Shape: (N, D), (N,) → a number

    >>> jensen_gap(lambda x: x.square().sum(-1), weft.tensor([[1.0], [3.0]]))  # the variance
    tensor(1.)
    """
    if weights is None:
        weights = points.new_ones(len(points)) / len(points)
    if tuple(weights.shape) != (len(points),) or bool((weights < 0).any()) or abs(float(weights.sum()) - 1) > 1e-5:
        raise ShapeError(f"jensen_gap: expected {len(points)} weights ≥ 0 that sum to 1, got {weights}")
    mean = (weights.unsqueeze(-1) * points).sum(0, keepdim=True)  # (1, D)
    return (weights * f(points)).sum() - f(mean).sum()


# ---------------------------------------------------------------------------------------------- sets


def set_counterexample(
    contains: Callable[[Array], Any], points: Any, trials: int = 2000, generator: weft.Generator | None = None
) -> CounterExample | None:
    """Two points of a set, of those given (N, D), with a point between them outside of it; None if no trial finds one.

    `contains` tells for rows (M, D) which are in the set; points that are not are left away. excess is 1.

    >>> ring = lambda x: np.abs(np.linalg.norm(x, axis=1) - 1) < 0.1
    >>> set_counterexample(ring, np.array([[1.0, 0], [-1, 0]])) is not None
    True
    """
    points = _points(points)
    inside = lambda x: np.asarray(contains(x), bool).reshape(-1)
    points = points[inside(points)]
    if not len(points):
        return None
    generator = weft.Generator().manual_seed(0) if generator is None else generator
    draws = np.abs(generator.normal((3, trials), np.float64))
    a, b = (points[np.floor(d * 1e6).astype(np.int64) % len(points)] for d in draws[:2])
    weight = (draws[2] % 1.0)[:, None]
    outside = np.flatnonzero(~inside(weight * a + (1 - weight) * b))
    if not len(outside):
        return None
    k = outside[0]
    return CounterExample(a[k], b[k], float(weight[k, 0]), 1.0)


@dataclasses.dataclass(frozen=True)
class HullCertificate:
    """Why x is in the convex hull of points, or is not: both can be checked by hand.

    weights: αᵢ ≥ 0, Σ αᵢ = 1, Σ αᵢ pᵢ = x; or normal: n with n·pᵢ < n·x for all i, a plane between them.
    """

    weights: Array | None
    normal: Array | None

    @property
    def inside(self) -> bool:
        return self.weights is not None


def hull_certificate(points: Any, x: Any, tolerance: float = 1e-7) -> HullCertificate:
    """Whether x (D,) is a convex combination of the points (N, D), with the proof of either answer.

    The point p of the hull that is nearest to x is found; if it is x, its weights are the proof, and if not x − p is the
    normal of a plane that separates x from all points.

    >>> hull_certificate([[0.0, 0], [2, 0], [0, 2]], [0.5, 0.5]).inside
    True
    """
    from scipy.optimize import nnls

    points, x = _points(points), array_of(x).astype(np.float64).reshape(-1)
    if points.shape[1] != len(x):
        raise ShapeError(f"hull_certificate: points have {points.shape[1]} coordinates, x has {len(x)}")
    centred = points - x
    scale = np.abs(centred).max(initial=0.0) or 1.0
    # min ‖Σ αᵢ (pᵢ − x)‖ over the simplex, as non-negative least squares: any α with a positive sum can be scaled to 1
    rows = np.concatenate([centred.T / scale, np.ones((1, len(points)))])
    weights, _ = nnls(rows, np.append(np.zeros(len(x)), 1.0))
    total = weights.sum()
    weights = weights / total if total > 0 else weights
    nearest = weights @ centred
    if total > 0 and np.linalg.norm(nearest) <= tolerance * scale:
        return HullCertificate(weights, None)
    return HullCertificate(None, -nearest / np.linalg.norm(nearest))


def _points(points: Any) -> Array:
    found = array_of(points) if isinstance(points, Tensor) else np.asarray(points)
    if found.ndim != 2 or not len(found):
        raise ShapeError(f"convexity: expected points (N, D) with N ≥ 1, got shape {found.shape}")
    return found.astype(np.float64)
