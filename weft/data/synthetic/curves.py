"""Numbers that follow a known function, with noise: regression with a curve, series of waves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

import weft

from ...errors import OptionError
from ...tensor import Tensor
from .common import check_count, check_noise, real, stream

__all__ = ["polynomial", "sine", "sines"]


def polynomial(
    n: int = 100,
    noise: float = 0.1,
    *,
    coefficients: Sequence[float] = (0.0, -1.0, 0.0, 2.0),
    low: float = -1.0,
    high: float = 1.0,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """y = Σₖ coefficients[k] · xᵏ + noise · ε, x even in [low, high), ε ~ N(0, 1). Shape: x (n, 1), y (n, 1)

    Example:
        >>> from weft.data.synthetic import polynomial
        >>> x, y = polynomial(50, noise=0.0, coefficients=(1.0, 2.0), seed=0)
        >>> bool((y - (1 + 2 * x)).abs().max() < 1e-6)
        True
    """
    if not len(coefficients):
        raise OptionError("polynomial: expected at least one coefficient, got none; (0.0,) is the zero function")
    curve = lambda x: np.polynomial.polynomial.polyval(x, coefficients)
    return _noisy("polynomial", curve, n, noise, (low, high), stream("polynomial", seed, generator))


def sine(
    n: int = 100,
    noise: float = 0.1,
    *,
    frequency: float = 1.0,
    low: float = 0.0,
    high: float = 1.0,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """y = sin(2π · frequency · x) + noise · ε, x even in [low, high), ε ~ N(0, 1). Shape: x (n, 1), y (n, 1)

    Example:
        >>> from weft.data.synthetic import sine
        >>> x, y = sine(50, noise=0.0, seed=0)
        >>> bool((y - (2 * 3.141592653589793 * x).sin()).abs().max() < 1e-5)
        True
    """
    curve = lambda x: np.sin(2 * np.pi * frequency * x)
    return _noisy("sine", curve, n, noise, (low, high), stream("sine", seed, generator))


def sines(
    n: int = 100,
    noise: float = 0.0,
    *,
    length: int = 50,
    amplitude: tuple[float, float] = (0.5, 1.5),
    period: tuple[float, float] = (10.0, 40.0),
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """n waves A sin(2π t / P + φ), t = 0 … length − 1, with A, P and φ ∈ [0, 2π) even in their ranges, plus noise.

    Shape: series (n, length, 1), parameters (n, 3) with A, P, φ of each series

    Example:
        >>> from weft.data.synthetic import sines
        >>> series, parameters = sines(4, length=20, seed=0)
        >>> tuple(series.shape), tuple(parameters.shape)
        ((4, 20, 1), (4, 3))
    """
    check_count("sines", n=n, length=length)
    check_noise("sines", noise)
    if period[0] <= 0 or amplitude[0] > amplitude[1] or period[0] > period[1]:
        raise OptionError(f"sines: expected (low, high) ranges, periods above 0, got {amplitude=} and {period=}")
    generator = stream("sines", seed, generator)
    ranges = (amplitude, period, (0.0, 2 * np.pi))
    a, p, phase = (generator.uniform((n, 1), np.float64, *bounds) for bounds in ranges)
    series = a * np.sin(2 * np.pi * np.arange(length) / p + phase)  # (n, T)
    if noise:
        series += generator.normal(series.shape, np.float64, std=noise)
    return real(series[:, :, None]), real(np.concatenate([a, p, phase], 1))


def _noisy(
    name: str,
    curve: Callable[[NDArray], NDArray],
    n: int,
    noise: float,
    bounds: tuple[float, float],
    generator: weft.Generator,
) -> tuple[Tensor, Tensor]:
    """x even in [low, high) and curve(x) + noise · ε."""
    check_count(name, n=n)
    check_noise(name, noise)
    if not -np.inf < bounds[0] <= bounds[1] < np.inf:
        raise OptionError(f"{name}: expected finite low ≤ high, got {bounds[0]} and {bounds[1]}")
    x = generator.uniform((n, 1), np.float64, *bounds)
    return real(x), real(curve(x) + noise * generator.normal((n, 1), np.float64))
