"""Labelled points in the plane (and one curved sheet in space): shapes that a straight line cannot separate."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .common import check_count, check_noise, classes_of, labelled, real, stream

__all__ = ["blobs", "checkerboard", "circles", "moons", "spirals", "swiss_roll", "two_gaussians", "xor"]

Labelled = tuple[Tensor, Tensor]


def moons(
    n: int = 100,
    noise: float = 0.0,
    *,
    shuffle: bool = True,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> Labelled:
    """Two half circles that interleave, n // 2 points on the first and the rest on the second.

    (cos t, sin t) and (1 − cos t, ½ − sin t), t evenly spaced over [0, π]; as scikit-learn's `make_moons`.
    Shape: points (n, 2), labels (n,) in {0, 1}

    Example:
        >>> from weft.data.synthetic import moons
        >>> points, labels = moons(4, shuffle=False)
        >>> points.round(decimals=2).tolist(), labels.tolist()
        ([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.5], [2.0, 0.5]], [0, 0, 1, 1])
    """
    check_count("moons", n=n)
    check_noise("moons", noise)
    generator = stream("moons", seed, generator)
    upper, lower = np.linspace(0, np.pi, n // 2), np.linspace(0, np.pi, n - n // 2)
    points = np.concatenate([_circle(upper), [1, 0.5] - _circle(lower)])
    return labelled(points, classes_of(n // 2, n - n // 2), noise, shuffle, generator)


def circles(
    n: int = 100,
    noise: float = 0.0,
    *,
    factor: float = 0.8,
    shuffle: bool = True,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> Labelled:
    """A circle of radius 1 (label 0) around one of radius `factor` (label 1); as scikit-learn's `make_circles`.

    n // 2 points on the outer circle, the rest on the inner, evenly spaced. Shape: points (n, 2), labels (n,)

    Example:
        >>> from weft.data.synthetic import circles
        >>> points, labels = circles(8, factor=0.5, shuffle=False)
        >>> points.norm(dim=1).round(decimals=4).tolist(), labels.tolist()
        ([1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5], [0, 0, 0, 0, 1, 1, 1, 1])
    """
    check_count("circles", n=n)
    check_noise("circles", noise)
    if not 0 <= factor < 1:
        raise OptionError(f"circles: expected factor, the inner radius, in [0, 1), got {factor}")
    generator = stream("circles", seed, generator)
    outer, inner = (np.linspace(0, 2 * np.pi, count, endpoint=False) for count in (n // 2, n - n // 2))
    points = np.concatenate([_circle(outer), factor * _circle(inner)])
    return labelled(points, classes_of(n // 2, n - n // 2), noise, shuffle, generator)


def spirals(
    n: int = 100,
    noise: float = 0.0,
    *,
    arms: int = 2,
    turns: float = 1.0,
    shuffle: bool = True,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> Labelled:
    """Archimedean spirals, one an arm: t · (cos φ, sin φ), φ = 2π (turns · t + k / arms), t evenly over (0, 1].

    Arm k has label k and ⌊n / arms⌋ points, the first n mod arms arms one more. Shape: points (n, 2), labels (n,)

    Example:
        >>> from weft.data.synthetic import spirals
        >>> points, labels = spirals(6, arms=3, shuffle=False)
        >>> points.norm(dim=1).round(decimals=4).tolist(), labels.tolist()
        ([0.5, 1.0, 0.5, 1.0, 0.5, 1.0], [0, 0, 1, 1, 2, 2])
    """
    check_count("spirals", n=n)
    check_count("spirals", 1, arms=arms)
    check_noise("spirals", noise)
    generator = stream("spirals", seed, generator)
    sizes = _shares(n, arms)
    labels = classes_of(*sizes)
    t = np.concatenate([np.arange(1, size + 1) / max(size, 1) for size in sizes])
    points = t[:, None] * _circle(2 * np.pi * (turns * t + labels / arms))
    return labelled(points, labels, noise, shuffle, generator)


def checkerboard(
    n: int = 100,
    noise: float = 0.0,
    *,
    cells: int = 4,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> Labelled:
    """Points spread evenly over [−1, 1)², labelled by the colour of their square on a board of cells × cells.

    label = (⌊c (x + 1) / 2⌋ + ⌊c (y + 1) / 2⌋) mod 2, c = cells, before the noise is added. The points of one label
    are the usual checkerboard of density estimation. Shape: points (n, 2), labels (n,) in {0, 1}

    Example:
        >>> from weft.data.synthetic import checkerboard
        >>> points, labels = checkerboard(1000, seed=0)
        >>> cell = ((points + 1) * 2).floor().sum(1)
        >>> bool((cell % 2 == labels).all())
        True
    """
    check_count("checkerboard", n=n)
    check_count("checkerboard", 1, cells=cells)
    check_noise("checkerboard", noise)
    generator = stream("checkerboard", seed, generator)
    unit = generator.uniform((n, 2), np.float64)
    labels = np.floor(cells * unit).astype(np.int64).sum(1) % 2
    return labelled(2 * unit - 1, labels, noise, False, generator)


def xor(
    n: int = 100, noise: float = 0.0, *, seed: int | None = None, generator: weft.Generator | None = None
) -> Labelled:
    """Points spread evenly over [−1, 1)² with label [x < 0] xor [y < 0], before the noise is added.

    Shape: points (n, 2), labels (n,) in {0, 1}

    Example:
        >>> from weft.data.synthetic import xor
        >>> points, labels = xor(100, seed=0)
        >>> bool(((points.prod(1) < 0) == labels).all())
        True
    """
    return checkerboard(n, noise, cells=2, generator=stream("xor", seed, generator))


def blobs(
    n: int = 100,
    noise: float = 1.0,
    *,
    centers: int | ArrayLike = 3,
    features: int = 2,
    low: float = -10.0,
    high: float = 10.0,
    shuffle: bool = True,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> Labelled:
    """Round Gaussian clouds of standard deviation `noise` around centres; as scikit-learn's `make_blobs`.

    centers: an array (K, D), or how many to draw evenly from [low, high)^features. Cloud k has label k and ⌊n / K⌋
    points, the first n mod K clouds one more. Shape: points (n, D), labels (n,)

    Example:
        >>> from weft.data.synthetic import blobs
        >>> points, labels = blobs(3, noise=0.0, centers=[[0.0, 0.0], [5.0, 5.0]], shuffle=False)
        >>> points.tolist(), labels.tolist()
        ([[0.0, 0.0], [0.0, 0.0], [5.0, 5.0]], [0, 0, 1])
    """
    check_count("blobs", n=n)
    check_noise("blobs", noise)
    generator = stream("blobs", seed, generator)
    if isinstance(centers, int):
        check_count("blobs", 1, centers=centers, features=features)
        centers = generator.uniform((centers, features), np.float64, low, high)
    places = np.asarray(centers, np.float64)
    if places.ndim != 2 or not len(places):
        raise ShapeError(f"blobs: expected centers of shape (K, D) with K ≥ 1, got {places.shape}")
    labels = classes_of(*_shares(n, len(places)))
    return labelled(places[labels], labels, noise, shuffle, generator)


def two_gaussians(
    n: int = 100,
    noise: float = 1.0,
    *,
    distance: float = 2.0,
    features: int = 2,
    shuffle: bool = True,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> Labelled:
    """Two Gaussians N(±½ distance · e₁, noise² I), n // 2 points of label 0 (on the left), the rest of label 1.

    The best classifier is x₁ > 0; it errs with probability Φ(−distance / (2 · noise)). Shape: points (n, D), labels (n,)

    Example:
        >>> from weft.data.synthetic import two_gaussians
        >>> points, labels = two_gaussians(10_000, distance=2.0, seed=0)
        >>> 0.14 < ((points[:, 0] > 0) != labels).float().mean().item() < 0.18  # Φ(−1) = 0.159
        True
    """
    check_count("two_gaussians", n=n)
    check_count("two_gaussians", 1, features=features)
    check_noise("two_gaussians", noise)
    labels = classes_of(n // 2, n - n // 2)
    points = np.zeros((n, features))
    points[:, 0] = distance * (labels - 0.5)
    return labelled(points, labels, noise, shuffle, stream("two_gaussians", seed, generator))


def swiss_roll(
    n: int = 100, noise: float = 0.0, *, seed: int | None = None, generator: weft.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """A sheet rolled up in space: (t cos t, 21 v, t sin t), t = 3π/2 · (1 + 2u), u and v even in [0, 1).

    As scikit-learn's `make_swiss_roll`; t is the place along the roll. Shape: points (n, 3), t (n,)

    Example:
        >>> from weft.data.synthetic import swiss_roll
        >>> points, t = swiss_roll(50, seed=0)
        >>> bool(((points[:, 0] ** 2 + points[:, 2] ** 2).sqrt() - t).abs().max() < 1e-5)
        True
    """
    check_count("swiss_roll", n=n)
    check_noise("swiss_roll", noise)
    generator = stream("swiss_roll", seed, generator)
    u, v = generator.uniform((2, n), np.float64)
    t = 1.5 * np.pi * (1 + 2 * u)
    points = np.stack([t * np.cos(t), 21 * v, t * np.sin(t)], 1)  # (n, 3)
    if noise:
        points += generator.normal((n, 3), np.float64, std=noise)
    return real(points), real(t)


def _circle(angle: np.ndarray) -> np.ndarray:
    """(n,) → (n, 2)"""
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def _shares(n: int, parts: int) -> list[int]:
    """n things dealt to `parts` players in turn."""
    return [n // parts + (k < n % parts) for k in range(parts)]
