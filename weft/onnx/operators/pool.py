"""Pooling over windows, over whole images, over regions; and its opposite."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft

from ...nn import functional as F
from ...tensor import Tensor
from .conv import around, paddings
from .registry import ints, rule

Geometry = tuple[list[int], list[int], list[int], list[int], list[int]]


def _geometry(
    x: Tensor, size: list[int], strides: Any, dilations: Any, pads: Any, auto_pad: str, ceil_mode: int
) -> Geometry:
    """Padding before and after, strides, dilations, and the numbers of windows."""
    n = x.ndim - 2
    stride, dilation = strides or [1] * n, dilations or [1] * n
    before, after = paddings(auto_pad, pads, x.shape[2:], size, stride, dilation)
    counts = []
    for length, k, s, d, a, b in zip(x.shape[2:], size, stride, dilation, before, after, strict=True):
        room = length + a + b - (k - 1) * d - 1
        count = (-(-room // s) if ceil_mode else room // s) + 1
        counts.append(count - 1 if ceil_mode and (count - 1) * s >= length + a else count)
    return before, after, stride, dilation, counts


def _reached(geometry: Geometry, x: Tensor, size: list[int]) -> list[int]:
    """The padding after every line with which all windows lie inside; less than none cuts what none reaches."""
    before, _, stride, dilation, counts = geometry
    return [
        (c - 1) * s + (k - 1) * d + 1 - length - a
        for length, k, s, d, a, c in zip(x.shape[2:], size, stride, dilation, before, counts, strict=True)
    ]


_LARGEST: dict[int, Callable[..., Any]] = {
    1: F.max_pool1d_with_indices,
    2: F.max_pool2d_with_indices,
    3: F.max_pool3d_with_indices,
}
_MAX: dict[int, Callable[..., Any]] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


@rule("MaxPool")
def max_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    storage_order: int = 0,
    strides: list[int] | None = None,
    outputs: int = 1,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest of every window; the second output numbers its place in the whole tensor."""
    n, kind = x.ndim - 2, x.dtype
    geometry = _geometry(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    before, after, stride, dilation, _ = geometry
    lengths = tuple(x.shape[2:])
    x = x if x.is_floating_point() else x.to(weft.float64)
    whole = (tuple(kernel_shape), tuple(stride))
    if before == after and all(2 * p <= k for p, k in zip(before, kernel_shape, strict=True)) and not ceil_mode:
        if outputs < 2:
            return _MAX[n](x, *whole, tuple(before), tuple(dilation)).to(kind)
        values, places = _LARGEST[n](x, *whole, tuple(before), tuple(dilation))
        return values.to(kind), _global(places, lengths, storage_order)
    after = _reached(geometry, x, kernel_shape)
    padded = around(x, before, after, -math.inf)
    values, places = _LARGEST[n](padded, *whole, 0, tuple(dilation))
    inside = _without_padding(places, padded.shape[2:], lengths, before)
    return (values.to(kind), _global(inside, lengths, storage_order))[: max(outputs, 1)]


def _without_padding(places: Tensor, padded: Sequence[int], lengths: Sequence[int], before: Sequence[int]) -> Tensor:
    """Flat places in the padded image as those in the image."""
    found, left = 0, places
    parts = []
    for length in reversed(padded):
        parts.append(left % length)
        left = left // length
    for part, length, pad in zip(reversed(parts), lengths, before, strict=True):
        found = found * length + (part - pad)
    return found  # type: ignore[return-value]


def _global(places: Tensor, lengths: Sequence[int], storage_order: int) -> Tensor:
    """Places in an image as places in the tensor, which counts images and channels as well."""
    if storage_order and len(lengths) == 2:
        places = places % lengths[1] * lengths[0] + places // lengths[1]
    images = weft.arange(places.shape[0] * places.shape[1]).reshape(*places.shape[:2], *[1] * len(lengths))
    return places + images * math.prod(lengths)


@rule("AveragePool")
def average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    sums, members = _window_sums(x, auto_pad, ceil_mode, count_include_pad, dilations, kernel_shape, pads, strides)
    return sums / members


def _window_sums(
    x: Tensor, auto_pad: str, ceil_mode: int, counted: int, dilations: Any, size: list[int], pads: Any, strides: Any
) -> tuple[Tensor, Any]:
    """Σ over every window, and how many elements it has, with or without the padding."""
    geometry = _geometry(x, size, strides, dilations, pads, auto_pad, ceil_mode)
    before, after, stride, dilation, counts = geometry
    members: Any = np.ones((1,) * len(size))
    for k, (length, width, s, d, c) in enumerate(zip(x.shape[2:], size, stride, dilation, counts, strict=True)):
        places = np.arange(c)[:, None] * s + np.arange(width) * d - before[k]
        low, high = (-before[k], length + after[k]) if counted else (0, length)
        members = members * ((places >= low) & (places < high)).sum(1).reshape([-1, *[1] * (len(size) - 1 - k)])
    padded = around(x, before, _reached(geometry, x, size))
    sums = _convolved_with_ones(padded, size, stride, dilation)
    return sums, weft.tensor(members, dtype=x.dtype) if members.min() != members.max() else float(members.min())


def _convolved_with_ones(x: Tensor, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Tensor:
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(size)]
    images = x.reshape(-1, 1, *x.shape[2:])
    found = convolve(images, weft.ones(1, 1, *size, dtype=x.dtype), None, tuple(stride), 0, tuple(dilation))
    return found.reshape(*x.shape[:2], *found.shape[2:])


@rule("LpPool")
def lp_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    p: int = 2,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """(Σ |x|ᵖ)^(1/p) over every window."""
    sums, _ = _window_sums(x.abs() ** p, auto_pad, ceil_mode, 1, dilations, kernel_shape, pads, strides)
    return sums ** (1 / p)


def _places(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@rule("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return x.mean(_places(x), keepdim=True)


@rule("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return x.amax(_places(x), keepdim=True)


@rule("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    return (x.abs() ** p).sum(_places(x), keepdim=True) ** (1 / p)


@rule("MaxUnpool", numbers=(2,))
def max_unpool(
    x: Tensor,
    places: Tensor,
    output_shape: np.ndarray | None = None,
    *,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Zeros, with x at the places (in the smallest tensor that x can come from) where the largest were found."""
    n = len(kernel_shape)
    stride, pad = strides or [1] * n, pads or [0] * (2 * n)
    least = [
        (length - 1) * s + k - pad[j] - pad[n + j]
        for j, (length, s, k) in enumerate(zip(x.shape[2:], stride, kernel_shape, strict=True))
    ]
    full = [*x.shape[:2], *least]
    image = weft.zeros(math.prod(full), dtype=x.dtype).scatter(0, places.reshape(-1), x.reshape(-1)).reshape(full)
    if output_shape is None:
        return image
    wanted = ints(output_shape)
    return around(image, [0] * n, [w - m for w, m in zip(wanted[2:], least, strict=True)])


@rule("MaxRoiPool", numbers=(1,))
def max_roi_pool(x: Tensor, rois: np.ndarray, *, pooled_shape: list[int], spatial_scale: float = 1.0) -> Tensor:
    """The largest in each of the cells that regions (image, x1, y1, x2, y2) are divided into."""
    return weft.stack([_pooled_region(x, roi, pooled_shape, spatial_scale) for roi in rois])


def _pooled_region(x: Tensor, roi: np.ndarray, cells: Sequence[int], scale: float) -> Tensor:
    image = x[int(roi[0])]
    left, top, right, bottom = (round(float(v) * scale) for v in roi[1:])
    height, width = max(bottom - top + 1, 1), max(right - left + 1, 1)
    rows = []
    for i, j in itertools.product(range(cells[0]), range(cells[1])):
        low, high = _cell(i, height, cells[0], top, image.shape[1])
        first, last = _cell(j, width, cells[1], left, image.shape[2])
        part = image[:, low:high, first:last]
        rows.append(part.amax((1, 2)) if part.numel() else weft.zeros(image.shape[0], dtype=x.dtype))
    return weft.stack(rows, 1).reshape(image.shape[0], *cells)


def _cell(k: int, length: int, cells: int, start: int, limit: int) -> tuple[int, int]:
    clip = lambda v: min(max(v, 0), limit)
    return clip(start + k * length // cells), clip(start - (-(k + 1) * length // cells))


@rule("RoiAlign", fixed=(1,))
def roi_align(
    x: Tensor,
    rois: Tensor,
    batch: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Regions (x1, y1, x2, y2) read at places between pixels, means (or largest) of every cell."""
    return _aligned(
        x,
        rois,
        batch,
        coordinate_transformation_mode,
        mode,
        (output_height, output_width),
        sampling_ratio,
        spatial_scale,
    )


def _aligned(
    x: Tensor, rois: Tensor, batch: Tensor, where: str, mode: str, cells: tuple[int, int], ratio: int, scale: float
) -> Tensor:
    shift = 0.5 if where == "half_pixel" else 0.0
    parts = []
    for number, box in zip(batch.tolist(), rois.tolist(), strict=True):
        left, top, right, bottom = (v * scale - shift for v in box)
        width, height = right - left, bottom - top
        if where != "half_pixel":
            width, height = max(width, 1.0), max(height, 1.0)
        rows = _samples(top, height, cells[0], ratio)  # (cells, samples)
        columns = _samples(left, width, cells[1], ratio)
        read = _read(x[int(number)], rows.reshape(-1), columns.reshape(-1), mode)
        shaped = read.reshape(x.shape[1], cells[0], rows.shape[1], cells[1], columns.shape[1])
        parts.append(shaped.mean((2, 4)) if mode == "avg" else shaped.amax((2, 4)))
    return weft.stack(parts) if parts else weft.zeros(0, x.shape[1], *cells, dtype=x.dtype)


def _samples(start: float, length: float, cells: int, ratio: int) -> np.ndarray:
    count = ratio if ratio > 0 else max(1, math.ceil(length / cells))
    step = length / cells
    return start + (np.arange(cells)[:, None] + (np.arange(count) + 0.5) / count) * step


def _line(places: np.ndarray, length: int) -> tuple[Any, Any, Any, Any]:
    """For every place the pixels on both sides and their weights; zero outside of the image."""
    inside = (places >= -1) & (places <= length)
    places = np.clip(places, 0, None)
    low = np.minimum(np.floor(places), length - 1).astype(np.int64)
    high = np.minimum(low + 1, length - 1)
    part = np.where(low >= length - 1, 0.0, places - low)
    return low, high, (1 - part) * inside, part * inside


def _read(image: Tensor, rows: np.ndarray, columns: np.ndarray, mode: str) -> Tensor:
    (top, bottom, above, below), (left, right, before, behind) = (
        _line(rows, image.shape[1]),
        _line(columns, image.shape[2]),
    )
    found: Any = None
    for row, row_weight in ((top, above), (bottom, below)):
        for column, column_weight in ((left, before), (right, behind)):
            weights = weft.tensor(row_weight[:, None] * column_weight, dtype=image.dtype)
            taken = image.index_select(1, weft.from_numpy(row)).index_select(2, weft.from_numpy(column)) * weights
            found = taken if found is None else found + taken if mode == "avg" else weft.maximum(found, taken)
    return found
