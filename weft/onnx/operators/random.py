"""Random tensors, from Weft's generator; a `seed` in the file makes a stream of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import weft

from ...dtypes import dtype as element
from ...tensor import Tensor
from ..tensors import ELEMENT_TYPES
from .registry import rule


@contextlib.contextmanager
def _seeded(seed: float | None) -> Iterator[None]:
    if seed is None:
        yield
        return
    with weft.random.fork_rng():
        weft.manual_seed(int(seed))
        yield


def _kind(number: int | None, like: Tensor | None = None) -> element:
    if number:
        return element.by_numpy[ELEMENT_TYPES[number]]
    return weft.float32 if like is None or not like.is_floating_point() else like.dtype


def _drawn(draw: Callable[[Sequence[int]], Tensor], shape: Sequence[int], seed: float | None, kind: element) -> Tensor:
    with _seeded(seed):
        return draw(shape).to(kind)


@rule("RandomNormal")
def random_normal(
    *, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None, shape: list[int]
) -> Tensor:
    return _drawn(lambda s: weft.randn(*s) * scale + mean, shape, seed, _kind(dtype))


@rule("RandomUniform")
def random_uniform(
    *, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None, shape: list[int]
) -> Tensor:
    return _drawn(lambda s: weft.rand(*s) * (high - low) + low, shape, seed, _kind(dtype))


@rule("RandomNormalLike")
def random_normal_like(
    x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    return _drawn(lambda s: weft.randn(*s) * scale + mean, x.shape, seed, _kind(dtype, x))


@rule("RandomUniformLike")
def random_uniform_like(
    x: Tensor, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Tensor:
    return _drawn(lambda s: weft.rand(*s) * (high - low) + low, x.shape, seed, _kind(dtype, x))


@rule("Bernoulli")
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    with _seeded(seed):
        kind = _kind(dtype, x) if dtype is None else element.by_numpy[ELEMENT_TYPES[dtype]]
        return (weft.rand(*x.shape) < x).to(kind)


@rule("Multinomial")
def multinomial(x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Tensor:
    """Classes drawn with replacement, by their unnormalised log-probabilities."""
    with _seeded(seed):
        drawn = weft.multinomial(weft.softmax(x, -1), sample_size, replacement=True)
        return drawn.to(element.by_numpy[ELEMENT_TYPES[dtype]])
