"""Pooling over one, two and three dimensions: maxima, means and power means of windows, and their inverse.

Maxima are read at the positions where they lie, so their gradient goes just there. Means are convolutions
with a constant kernel, or, for windows of unequal sizes, weighted sums along one dimension after the other.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...dtypes import FLOAT, bool_
from ...errors import DtypeError, ShapeError
from ...ops.core import base
from ...ops.layers.largest import LARGEST_IN_RANGE, LARGEST_IN_WINDOW, LARGEST_WINDOW
from ...ops.layers.pooling import MAX_POOL, pool_volumes
from ...ops.layers.sliding import CONVOLVE, RESAMPLE, Taps
from ...ops.shape.join import pad
from ...refusal import need_bounded
from ...tape.modes import mode
from ...tensor import Tensor, wrap
from ._arguments import batched, check_not_empty, per_dimension, spatial, total

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
]

Pair = tuple[Tensor, Tensor]

# ------------------------------------------------------------------------------------------- geometry


def _pooled(
    name: str, n: int, input: Tensor, size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> dict[str, tuple[int, ...]]:
    """The checked geometry of a pooling: size, stride, padding, dilation and the numbers of windows."""
    batched(input, n, name)
    check_not_empty(input, n, name)
    size = per_dimension(size, n, name, "kernel_size", 1)
    stride = size if stride is None or stride in ([], ()) else per_dimension(stride, n, name, "stride", 1)
    padding = per_dimension(padding, n, name, "padding", 0)
    dilation = per_dimension(dilation, n, name, "dilation", 1)
    if any(p > (d * (k - 1) + 1) // 2 for p, k, d in zip(padding, size, dilation, strict=True)):
        raise ShapeError(
            f"{name}: pad should be at most half of effective kernel size, but got pad={padding}, kernel_size={size} "
            f"and dilation={dilation}"
        )
    counts = tuple(
        _count(*each, ceil_mode) for each in zip(spatial(input, n), size, stride, padding, dilation, strict=True)
    )
    if any(count < 1 for count in counts):
        raise ShapeError(
            f"{name}: Given input size: {spatial(input, n)}. Calculated output size: {counts}. Output size is too small"
        )
    return dict(size=size, stride=stride, padding=padding, dilation=dilation, counts=counts)


def _count(length: int, size: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """⌊ or ⌈(length + 2·padding − dilation·(size − 1) − 1) / stride⌉ + 1; the last window starts inside."""
    room = length + 2 * padding - dilation * (size - 1) - 1
    if not ceil_mode:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= length + padding else count


def read_at(input: Tensor, index: Tensor, n: int) -> Tensor:
    """The elements at flat positions of the last n dimensions; index: (…, *counts)."""
    kept = input.ndim - n
    flat = input.reshape(*input.shape[:kept], total(spatial(input, n)))
    places = index.reshape(*index.shape[:kept], total(spatial(index, n)))
    return flat.gather(-1, places).reshape(index.shape)


# ---------------------------------------------------------------------------------------- max pooling


def _max_pool(
    name: str, n: int, input: Tensor, size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Pair:
    geometry = _pooled(name, n, input, size, stride, padding, dilation, ceil_mode)
    _check_ordered(name, input)
    index = LARGEST_IN_WINDOW(input, **geometry)
    return read_at(input, index, n), index


def _largest(name: str, n: int, input: Tensor, *options: Any) -> Tensor:
    """The values of `_max_pool`; from the primitive that has a kernel where this is compiled or large."""
    native = mode.interpreter is not None or (input._interpreter is None and input.array.size >= 4 * base.LARGE)
    if native and input.ndim == n + 2 and input.dtype.is_floating_point and input.numel():
        geometry = _pooled(name, n, input, *options)
        if total(geometry["size"]) <= LARGEST_WINDOW:
            return (pool_volumes if n == 3 else MAX_POOL)(input, **geometry)[0]
    return _max_pool(name, n, input, *options)[0]


def _check_ordered(name: str, input: Tensor) -> None:
    if input.dtype.is_complex or input.dtype is bool_:
        raise DtypeError(f'{name}: "{name}" not implemented for {input.dtype}; there is no largest element')


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> Pair:
    """`max_pool1d` and the position of each maximum in the input."""
    return _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> Pair:
    """`max_pool2d` and the position of each maximum in the flattened image."""
    return _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> Pair:
    """`max_pool3d` and the position of each maximum in the flattened volume."""
    return _max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | Pair:
    """y[c, t] = max_k x[c, t·stride + k·dilation − padding]: (N, C, L) or (C, L) → (N, C, L′); NaN wins."""
    pool = _max_pool if return_indices else _largest
    return pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | Pair:
    """`max_pool1d` over two dimensions: (N, C, H, W) or (C, H, W) → (N, C, H′, W′)."""
    pool = _max_pool if return_indices else _largest
    return pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | Pair:
    """`max_pool1d` over three dimensions: (N, C, D, H, W) or (C, D, H, W) → (N, C, D′, H′, W′)."""
    pool = _max_pool if return_indices else _largest
    return pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)


# --------------------------------------------------------------------------------------- mean pooling


def window_sums(input: Tensor, size: Any, stride: Any, padding: Any, counts: Any) -> Tensor:
    """Σ over each window, as a convolution of every channel with ones."""
    n = len(size)
    lengths = spatial(input, n)
    reach = (
        (o - 1) * s + k - p - length for o, s, k, p, length in zip(counts, stride, size, padding, lengths, strict=True)
    )
    behind = tuple(max(0, r - p) for r, p in zip(reach, padding, strict=True))  # past the padding: ceil_mode
    x = input.reshape(total(input.shape[: input.ndim - n]), 1, *lengths)
    if any(behind):
        x = pad(x, [side for b in reversed(behind) for side in (0, b)])
    ones = wrap(np.ones((1, 1, *size), input.dtype.np))
    y = CONVOLVE(x, ones, stride=stride, padding=padding, dilation=(1,) * n, groups=1)
    for d, count in enumerate(counts):
        y = y.narrow(2 + d, 0, count) if y.shape[2 + d] != count else y
    return y.reshape(*input.shape[: input.ndim - n], *counts)


def _avg_pool(
    name: str,
    n: int,
    input: Tensor,
    size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    geometry = _pooled(name, n, input, size, stride, padding, 1, ceil_mode)
    geometry.pop("dilation")
    if input.dtype.is_complex or input.dtype is bool_:
        raise DtypeError(f'{name}: "{name}" not implemented for {input.dtype}; convert the input with .float()')
    if divisor_override == 0:
        raise ShapeError(f"{name}: divisor must be not zero")
    sums = window_sums(input, **geometry)
    divisor = divisor_override
    if divisor is None:
        divisor = _members(spatial(input, n), **geometry, count_padding=count_include_pad)
        divisor = divisor if isinstance(divisor, int) else wrap(divisor).to(input.dtype)
    if input.dtype.category < FLOAT:
        return sums.div(divisor, rounding_mode="trunc")
    return sums / divisor


def _members(
    lengths: tuple[int, ...], size: Any, stride: Any, padding: Any, counts: Any, count_padding: bool
) -> int | np.ndarray:
    """How many elements each window has, counting the padding or not; one number if all are equal."""
    members = np.ones((), np.int64)
    for length, k, s, p, o in zip(lengths, size, stride, padding, counts, strict=True):
        start = np.arange(o) * s - p
        stop = np.minimum(start + k, length + p)
        along = stop - start if count_padding else np.minimum(stop, length) - np.maximum(start, 0)
        members = members[..., None] * along
    return int(members.flat[0]) if (members == members.flat[0]).all() else members


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """y[c, t] = mean_k x[c, t·stride + k − padding]: (N, C, L) or (C, L) → (N, C, L′)."""
    return _avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """`avg_pool1d` over two dimensions; `divisor_override` divides the sums by a number of your own."""
    return _avg_pool(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """`avg_pool1d` over three dimensions; `divisor_override` divides the sums by a number of your own."""
    return _avg_pool(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _lp_pool(name: str, n: int, input: Tensor, norm_type: float, size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    """(Σ xᵖ)^(1/p) over windows; where the sum is 0 so is the gradient."""
    size = per_dimension(size, n, name, "kernel_size", 1)
    if norm_type == math.inf:
        return _max_pool(name, n, input.abs(), size, stride, 0, 1, ceil_mode)[0]
    sums = _avg_pool(name, n, input.pow(norm_type), size, stride, 0, ceil_mode, True, None) * total(size)
    nothing = sums == 0
    return sums.masked_fill(nothing, 1).pow(1 / norm_type).masked_fill(nothing, 0)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The power mean pooling (Σ xᵖ)^(1/p) with p = norm_type: (N, C, L) or (C, L) → (N, C, L′)."""
    return _lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """`lp_pool1d` over two dimensions."""
    return _lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """`lp_pool1d` over three dimensions."""
    return _lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


# ----------------------------------------------------------------------------------- adaptive pooling


def adaptive_range(position: int, length: int, count: int) -> tuple[int, int]:
    """Output `position` of `count` covers inputs ⌊position·length/count⌋ to ⌈(position + 1)·length/count⌉."""
    return position * length // count, -(-(position + 1) * length // count)


@functools.lru_cache(maxsize=256)
def adaptive_taps(length: int, count: int) -> Taps:
    """The weights of adaptive mean pooling along one dimension."""
    ranges = np.array([adaptive_range(o, length, count) for o in range(count)], np.int64).reshape(count, 2)
    start, stop = ranges[:, :1], ranges[:, 1:]
    place = start + np.arange((stop - start).max(initial=1))
    return Taps(np.minimum(place, stop - 1), (place < stop) / (stop - start), length)


def _adaptive_counts(name: str, n: int, input: Tensor, output_size: Any) -> tuple[int, ...]:
    """The wanted sizes; None keeps the size of the input."""
    batched(input, n, name)
    if 0 in spatial(input, n):
        raise ShapeError(
            f"{name}: Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            f"{list(input.shape)}"
        )
    wanted = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * n
    if len(wanted) != n:
        raise ShapeError(f"{name}: output_size must have {n} values, got {tuple(wanted)}")
    sizes = [size if given is None else given for given, size in zip(wanted, spatial(input, n), strict=True)]
    counts = per_dimension(sizes, n, name, "output_size", 0)
    need_bounded(math.prod(max(count, 1) for count in counts), name, "the product of output_size", 1 << 21)
    return counts


def _adaptive_avg_pool(name: str, n: int, input: Tensor, output_size: Any) -> Tensor:
    counts = _adaptive_counts(name, n, input, output_size)
    if input.dtype.category != FLOAT:
        raise DtypeError(f'{name}: "{name}" not implemented for {input.dtype}; convert the input with .float()')
    kept = input.ndim - n
    if all(count == 1 for count in counts):
        return input.mean(tuple(range(kept, input.ndim)), keepdim=True)
    lengths = spatial(input, n)
    if 0 not in counts and all(length % count == 0 for length, count in zip(lengths, counts, strict=True)):
        return _avg_pool(
            name, n, input, tuple(a // b for a, b in zip(lengths, counts, strict=True)), None, 0, False, True, None
        )
    for d in range(n):
        input = RESAMPLE(input, dim=kept + d, taps=adaptive_taps(lengths[d], counts[d]), transposed=False)
    return input


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means over `output_size` windows that cover the line evenly: (N, C, L) or (C, L) → (N, C, L′)."""
    return _adaptive_avg_pool("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """`adaptive_avg_pool1d` over two dimensions; None in `output_size` keeps a size."""
    return _adaptive_avg_pool("adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """`adaptive_avg_pool1d` over three dimensions; None in `output_size` keeps a size."""
    return _adaptive_avg_pool("adaptive_avg_pool3d", 3, input, output_size)


def _adaptive_max_pool(name: str, n: int, input: Tensor, output_size: Any) -> Pair:
    counts = _adaptive_counts(name, n, input, output_size)
    _check_ordered(name, input)
    ranges = tuple(
        tuple(adaptive_range(o, length, count) for o in range(count))
        for length, count in zip(spatial(input, n), counts, strict=True)
    )
    index = LARGEST_IN_RANGE(input, ranges=ranges)
    return read_at(input, index, n), index


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: bool = True) -> Pair:
    """`adaptive_max_pool1d` and the position of each maximum."""
    return _adaptive_max_pool("adaptive_max_pool1d", 1, input, output_size)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: bool = True) -> Pair:
    """`adaptive_max_pool2d` and the position of each maximum in the flattened image."""
    return _adaptive_max_pool("adaptive_max_pool2d", 2, input, output_size)


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: bool = True) -> Pair:
    """`adaptive_max_pool3d` and the position of each maximum in the flattened volume."""
    return _adaptive_max_pool("adaptive_max_pool3d", 3, input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Tensor | Pair:
    """Maxima of `output_size` windows that cover the line evenly: (N, C, L) or (C, L) → (N, C, L′)."""
    pair = _adaptive_max_pool("adaptive_max_pool1d", 1, input, output_size)
    return pair if return_indices else pair[0]


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Tensor | Pair:
    """`adaptive_max_pool1d` over two dimensions; None in `output_size` keeps a size."""
    pair = _adaptive_max_pool("adaptive_max_pool2d", 2, input, output_size)
    return pair if return_indices else pair[0]


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Tensor | Pair:
    """`adaptive_max_pool1d` over three dimensions; None in `output_size` keeps a size."""
    pair = _adaptive_max_pool("adaptive_max_pool3d", 3, input, output_size)
    return pair if return_indices else pair[0]
