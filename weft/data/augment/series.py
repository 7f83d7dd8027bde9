"""Augmentation of time series (N, C, T), (C, T) or (T,): noise, size, and changes of the time axis."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DtypeError, OptionError
from .base import Augmentation, Generators, Source, batched, finished, probability, working

__all__ = ["Jitter", "MagnitudeWarp", "Scale", "TimeMask", "TimeWarp", "WindowSlice"]


class _OfSeries(Augmentation):
    """A random function of floating series, drawn for each of them."""

    def __call__(self, x: Any, generator: Generators = None) -> Any:
        name = type(self).__name__
        series, restore = batched(x, ("(T,)", "(C, T)", "(N, C, T)"), 1, name)
        if series.dtype.kind not in "fV":
            raise DtypeError(f"{name}: expected floating series, got {series.dtype}")
        if not series.size:
            return restore(series.copy())
        result = self.apply(working(series), Source.of(generator, len(series), name))
        return restore(finished(result, series.dtype))

    @abstractmethod
    def apply(self, x: NDArray, source: Source) -> NDArray:
        """The new series, (N, C, T) → (N, C, T)"""


class Jitter(_OfSeries):
    """x + sigma · z, noise at every time."""

    def __init__(self, sigma: float = 0.03) -> None:
        self.sigma = _positive(sigma, "Jitter")

    def apply(self, x: NDArray, source: Source) -> NDArray:
        return x + (source.normal(*x.shape[1:]) * np.float32(self.sigma)).astype(x.dtype)


class Scale(_OfSeries):
    """x · (1 + sigma · z), one factor for each channel."""

    def __init__(self, sigma: float = 0.1) -> None:
        self.sigma = _positive(sigma, "Scale")

    def apply(self, x: NDArray, source: Source) -> NDArray:
        return x * (1 + self.sigma * source.normal(x.shape[1], 1)).astype(x.dtype)


class MagnitudeWarp(_OfSeries):
    """x times a smooth curve through 1 + sigma · z at `knots` + 2 equally spaced times, one for each channel."""

    def __init__(self, sigma: float = 0.2, knots: int = 4) -> None:
        self.sigma, self.knots = _positive(sigma, "MagnitudeWarp"), knots

    def apply(self, x: NDArray, source: Source) -> NDArray:
        heights = 1 + self.sigma * source.normal(x.shape[1], self.knots + 2).astype(np.float64)
        return x * _smooth(heights, x.shape[2]).astype(x.dtype)


class TimeWarp(_OfSeries):
    """Time runs faster and slower: its speed is a smooth curve through exp(sigma · z); start and end stay in place."""

    def __init__(self, sigma: float = 0.2, knots: int = 4) -> None:
        self.sigma, self.knots = _positive(sigma, "TimeWarp"), knots

    def apply(self, x: NDArray, source: Source) -> NDArray:
        length = x.shape[2]
        heights = self.sigma * source.normal(self.knots + 2).astype(np.float64)
        speed = np.exp(_smooth(heights, max(length - 1, 1)))  # (N, T − 1)
        passed = np.concatenate([np.zeros((len(x), 1)), np.cumsum(speed, 1)], 1)[:, :length]
        return read_at(x, passed / np.maximum(passed[:, -1:], 1e-12) * (length - 1))


class WindowSlice(_OfSeries):
    """A window of a share `ratio` of the time, anywhere, stretched to the whole length."""

    def __init__(self, ratio: float = 0.9) -> None:
        if not 0 < ratio <= 1:
            raise OptionError(f"WindowSlice: expected a ratio in (0, 1], got {ratio}")
        self.ratio = ratio

    def apply(self, x: NDArray, source: Source) -> NDArray:
        last = x.shape[2] - 1
        start = source.uniform() * (1 - self.ratio) * last
        return read_at(x, start[:, None] + np.linspace(0, self.ratio * last, last + 1))


class TimeMask(_OfSeries):
    """A stretch of up to a share `ratio` of the time, in every channel, with probability p replaced by `value`."""

    def __init__(self, ratio: float = 0.1, p: float = 1.0, value: float = 0.0) -> None:
        self.ratio, self.p, self.value = probability(ratio, "TimeMask: ratio"), probability(p, "TimeMask"), value

    def apply(self, x: NDArray, source: Source) -> NDArray:
        length = x.shape[2]
        chosen, u, v = source.uniform(3).T
        width = np.floor(u * (self.ratio * length + 1)) * (chosen < self.p)
        start = np.floor(v * (length - width + 1))
        time = np.arange(length)
        masked = (time >= start[:, None]) & (time < (start + width)[:, None])
        return np.where(masked[:, None], x.dtype.type(self.value), x)


def read_at(x: NDArray, times: NDArray) -> NDArray:
    """Series at other times, linear between samples. Shape: (N, C, T), (N, S) in [0, T − 1] → (N, C, S)"""
    last = x.shape[2] - 1
    before = np.clip(np.floor(times), 0, max(last - 1, 0)).astype(np.intp)[:, None]  # (N, 1, S)
    part = (times[:, None] - before).astype(x.dtype)
    first, second = np.take_along_axis(x, before, 2), np.take_along_axis(x, np.minimum(before + 1, last), 2)
    return first + part * (second - first)


def _smooth(heights: NDArray, count: int) -> NDArray:
    """`count` points of the natural cubic splines through equally spaced heights. Shape: (…, K) → (…, count)"""
    from scipy.interpolate import CubicSpline

    at = np.linspace(0, 1, heights.shape[-1])
    return CubicSpline(at, heights, axis=-1, bc_type="natural")(np.linspace(0, 1, count))


def _positive(sigma: float, name: str) -> float:
    if sigma < 0:
        raise OptionError(f"{name}: expected sigma ≥ 0, got {sigma}")
    return sigma
