"""What the synthetic sets share: the stream of random numbers, the checks, the last steps."""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import NDArray

import weft

from ...errors import OptionError
from ...ops.create.sample import generator_of
from ...tensor import Tensor

__all__ = ["check_count", "check_noise", "classes_of", "labelled", "real", "stream"]


def stream(name: str, seed: int | None, generator: weft.Generator | None) -> weft.Generator:
    """The generator to draw from: a new one of this seed, the given one, or Weft's default."""
    if seed is not None and generator is not None:
        raise OptionError(f"{name}: expected seed or generator, got both; leave one of them out")
    if seed is not None:
        return weft.Generator().manual_seed(seed)
    return generator_of(generator, name)


def check_count(name: str, least: int = 0, **counts: int) -> None:
    """Raise unless every count is an integer of at least `least`."""
    for what, value in counts.items():
        try:
            good = operator.index(value) >= least
        except TypeError:
            good = False
        if not good:
            raise OptionError(f"{name}: expected {what} to be an integer of at least {least}, got {value!r}")


def check_noise(name: str, noise: float) -> None:
    """Raise unless `noise` can be a standard deviation."""
    if not 0 <= noise < float("inf"):
        raise OptionError(f"{name}: expected noise, a standard deviation, to be at least 0 and finite, got {noise}")


def real(values: NDArray) -> Tensor:
    """A tensor of the default floating dtype."""
    return weft.as_tensor(np.ascontiguousarray(values), dtype=weft.get_default_dtype())


def classes_of(*sizes: int) -> NDArray[np.int64]:
    """sizes[0] times 0, sizes[1] times 1, …"""
    return np.repeat(np.arange(len(sizes)), sizes)


def labelled(
    points: NDArray, labels: NDArray, noise: float, shuffle: bool, generator: weft.Generator
) -> tuple[Tensor, Tensor]:
    """points + noise · N(0, 1) and their labels, in random order if `shuffle`."""
    if noise:
        points = points + generator.normal(points.shape, np.float64, std=noise)
    if shuffle:
        order = generator.permutation(len(points))
        points, labels = points[order], labels[order]
    return real(points), weft.as_tensor(np.ascontiguousarray(labels))
