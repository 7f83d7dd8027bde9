"""Pooling with random windows, and the partial inverse of max pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import DtypeError, InvalidValueError, ShapeError
from ...ops.create.sample import rand
from ...ops.layers.largest import PLACE_AT_LARGEST
from ...tensor import Tensor, wrap
from ._arguments import batched, per_dimension, spatial, total
from .pool import Pair, _check_ordered, read_at

__all__ = [
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

# -------------------------------------------------------------------------------- fractional max pooling


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | Pair:
    """Max pooling whose windows start at pseudo-random steps between two integers (Graham, 2014).

    (N, C, H, W) or (C, H, W) → (N, C, *output_size), where output_size may be given as a ratio of the input's.
    """
    pair = _fractional("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, _random_samples)
    return pair if return_indices else pair[0]


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | Pair:
    """`fractional_max_pool2d` over three dimensions."""
    pair = _fractional("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, _random_samples)
    return pair if return_indices else pair[0]


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = True,
    _random_samples: Tensor | None = None,
) -> Pair:
    """`fractional_max_pool2d` and the position of each maximum in the flattened image."""
    return _fractional("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = True,
    _random_samples: Tensor | None = None,
) -> Pair:
    """`fractional_max_pool3d` and the position of each maximum in the flattened volume."""
    return _fractional("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, _random_samples)


def _fractional(
    name: str, n: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> Pair:
    x, single = batched(input, n, name)
    if 0 in x.shape[1:]:
        raise ShapeError(
            f"{name}: Expected input with non-zero sizes apart from the batch, but got {list(input.shape)}"
        )
    _check_ordered(name, x)
    size = per_dimension(kernel_size, n, name, "kernel_size", 1)
    counts = _fractional_counts(name, n, x, output_size, output_ratio)
    if any(o + k - 1 > length for o, k, length in zip(counts, size, spatial(x, n), strict=True)):
        raise ShapeError(f"{name}: pool size {size} and output {counts} too large relative to input {spatial(x, n)}")
    samples = _checked_samples(name, n, x, samples)
    index = _window_places(samples, spatial(x, n), counts, size)  # (N, C, outputs, members)
    flat = x.reshape(*x.shape[:2], total(spatial(x, n)))
    members = flat.gather(2, index.flatten(2)).reshape(index.shape)
    places = index.gather(3, members.argmax(3, keepdim=True)).reshape(*x.shape[:2], *counts)
    values = read_at(x, places, n)
    return (values.squeeze(0), places.squeeze(0)) if single else (values, places)


def _fractional_counts(name: str, n: int, x: Tensor, output_size: Any, output_ratio: Any) -> tuple[int, ...]:
    if output_size is not None:
        return per_dimension(output_size, n, name, "output_size", 0)
    if output_ratio is None:
        raise InvalidValueError(f"{name}: requires specifying either an output_size or an output_ratio")
    ratios = tuple(output_ratio) if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * n
    if len(ratios) != n:
        raise ShapeError(f"{name}: output_ratio must be one number or {n}, got {ratios}")
    if not all(0 < ratio < 1 for ratio in ratios):
        raise InvalidValueError(f"{name}: output_ratio must be between 0 and 1 (got {ratios})")
    return tuple(int(length * ratio) for length, ratio in zip(spatial(x, n), ratios, strict=True))


def _checked_samples(name: str, n: int, x: Tensor, samples: Tensor | None) -> Tensor:
    """A number in [0, 1) for each sample, channel and dimension."""
    if samples is None:
        return rand(*x.shape[:2], n, dtype=x.dtype)
    if samples.dtype is not x.dtype:
        raise DtypeError(f"{name}: Expect _random_samples to have the same dtype as input, got {samples.dtype}")
    if samples.ndim != 3 or samples.shape[0] < x.shape[0] or tuple(samples.shape[1:]) != (x.shape[1], n):
        raise ShapeError(
            f"{name}: Expect _random_samples of size {[*x.shape[:2], n]} for input of size {list(x.shape)}, got "
            f"{list(samples.shape)}"
        )
    return samples.narrow(0, 0, x.shape[0])


def _window_places(samples: Tensor, lengths: Sequence[int], counts: Sequence[int], size: Sequence[int]) -> Tensor:
    """Flat positions of the members of all windows: (N, C, outputs, members)."""
    n, lead = len(lengths), samples.shape[:2]
    index: Any = 0
    for d in range(n):
        which = d if n == 3 else 1 - d  # in two dimensions PyTorch's first sample is for the width
        start = _fractional_starts(samples.select(2, which).unsqueeze(2), lengths[d], counts[d], size[d])
        along = start.unsqueeze(-1) + wrap(np.arange(size[d]))  # (N, C, count, size)
        aligned = [counts[d] if e == d else 1 for e in range(n)] + [size[d] if e == d else 1 for e in range(n)]
        index = index * lengths[d] + along.reshape(*lead, *aligned)
    return index.reshape(*lead, total(counts), total(size))


def _fractional_starts(u: Tensor, length: int, count: int, size: int) -> Tensor:
    """⌊(o + u)·α⌋ − ⌊u·α⌋ with α = (length − size) / (count − 1); the last window ends with the line."""
    last = np.arange(count) == count - 1
    alpha = (length - size) / (count - 1) if count > 1 else 0.0
    steps = wrap(np.arange(count)).to(u.dtype)
    starts = ((steps + u) * alpha).long() - (u * alpha).long()
    return starts.masked_fill(wrap(last), length - size)


# ---------------------------------------------------------------------------------------- unpooling


def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Each maximum back to where `max_pool1d` found it, 0 elsewhere: (N, C, L) or (C, L) → (N, C, L′)."""
    return _max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Each maximum back to where `max_pool2d` found it, 0 elsewhere; the inverse on the maxima."""
    return _max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Each maximum back to where `max_pool3d` found it, 0 elsewhere; the inverse on the maxima."""
    return _max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


def _max_unpool(
    name: str, n: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    batched(input, n, name)
    if indices.dtype.name != "int64":
        raise DtypeError(f"{name}: elements in indices should be type int64 but got: {indices.dtype}")
    if indices.shape != input.shape:
        raise ShapeError(
            f"{name}: Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got "
            f"indices tensor with shape: {list(indices.shape)}"
        )
    if 0 in input.shape[input.ndim - n - 1 :]:
        raise ShapeError(
            f"{name}: Expected input to have non-zero size for non-batch dimensions, got {list(input.shape)}"
        )
    size = per_dimension(kernel_size, n, name, "kernel_size", 1)
    stride = size if stride is None or stride in ([], ()) else per_dimension(stride, n, name, "stride", 1)
    padding = per_dimension(padding, n, name, "padding")
    lengths = _unpooled_sizes(name, spatial(input, n), size, stride, padding, output_size)
    lead = input.shape[: input.ndim - n]
    count = total(spatial(input, n))
    places, values = indices.reshape(*lead, count), input.reshape(*lead, count)
    flat = PLACE_AT_LARGEST(values, places, length=total(lengths))
    return flat.reshape(*lead, *lengths)


def _unpooled_sizes(
    name: str,
    counts: tuple[int, ...],
    size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    output_size: Any,
) -> tuple[int, ...]:
    """The sizes that pooling would have come from, or the given ones if they are less than a stride away."""
    n = len(counts)
    natural = tuple((o - 1) * s + k - 2 * p for o, s, k, p in zip(counts, stride, size, padding, strict=True))
    if output_size is None:
        return natural
    wanted = tuple(output_size)[-n:] if len(output_size) == n + 2 else tuple(output_size)
    if len(wanted) != n:
        raise ShapeError(
            f"{name}: output_size should be a sequence containing {n} or {n + 2} elements, got {output_size}"
        )
    for size_, normal, step in zip(wanted, natural, stride, strict=True):
        if not normal - step < size_ < normal + step:
            raise InvalidValueError(
                f"{name}: invalid output_size {wanted} (each must be between {natural} - stride and {natural} + stride)"
            )
    return wanted
