"""Regions of interest: windows of feature maps, of any size, brought to one size."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft

from ... import nn
from ...data.augment.base import pair
from ...errors import OptionError, ShapeError
from ...tensor import Tensor, wrap

__all__ = ["RoIAlign", "RoIPool", "roi_align", "roi_pool"]


def _rows(boxes: Any, name: str) -> np.ndarray:
    """(K, 5): number of the image, x₁, y₁, x₂, y₂; of a tensor like that, or of a list with a tensor for each image."""
    if isinstance(boxes, (list, tuple)):
        parts = [np.insert(part.detach().numpy().reshape(-1, 4), 0, i, 1) for i, part in enumerate(boxes)]
        return np.concatenate(parts) if parts else np.zeros((0, 5), np.float32)
    found = boxes.detach().numpy()
    if found.ndim != 2 or found.shape[1] != 5:
        raise ShapeError(
            f"{name}: expected boxes (K, 5), number of the image first, or a list of (L, 4), got {found.shape}"
        )
    return found


def roi_align(
    input: Tensor,
    boxes: Any,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Windows of the images as h × w bins, each the mean of values between pixels (He et al., 2017).

    boxes: (K, 5) with the number of the image first, or a list of (L, 4) for each image; times spatial_scale they are places
    in the feature map. sampling_ratio: values on each side of a bin, ⌈side⌉ unless positive. aligned: the center of the
    first pixel is at ½, not at 0. Gradients flow to the images. Shape: (N, C, H, W) → (K, C, h, w)
    """
    tall, wide = pair(output_size, "roi_align")
    rows = _rows(boxes, "roi_align").astype(np.float32)
    _check_images(input, rows, "roi_align")
    if not len(rows):
        return weft.zeros(0, input.shape[1], tall, wide, dtype=input.dtype)
    scale, shift = np.float32(spatial_scale), np.float32(0.5 if aligned else 0.0)
    parts = []
    for image, x1, y1, x2, y2 in rows:
        first = np.array([y1, x1], np.float32) * scale - shift
        size = np.array([y2, x2], np.float32) * scale - shift - first
        size = size if aligned else np.maximum(size, 1)
        lines = [
            _line(first[axis], size[axis] / count, count, sampling_ratio, input.shape[2 + axis], input.dtype)
            for axis, count in enumerate((tall, wide))
        ]
        parts.append(lines[0] @ input[int(image)] @ lines[1].mT)  # (h, H) (C, H, W) (W, w)
    return weft.stack(parts)


def _line(start: float, side: float, count: int, samples: int, length: int, kind: weft.dtype) -> Tensor:
    """Weights that make `count` bins of a line of `length` pixels. → (count, length)"""
    samples = samples if samples > 0 else max(int(np.ceil(side)), 1)
    steps = (np.arange(samples, dtype=np.float32) + np.float32(0.5)) * np.float32(side / samples)
    at = (np.float32(start) + np.arange(count, dtype=np.float32)[:, None] * np.float32(side) + steps).astype(np.float64)
    inside = (at >= -1) & (at <= length)  # (count, samples): beyond that lies nothing
    at = np.clip(at, 0, length - 1)
    low = np.minimum(np.floor(at).astype(int), length - 1)
    high, part = np.minimum(low + 1, length - 1), at - low
    weights, bins = np.zeros((count, length)), np.arange(count)[:, None]
    np.add.at(weights, (bins, low), np.where(inside, (1 - part) / samples, 0))
    np.add.at(weights, (bins, high), np.where(inside, part / samples, 0))
    return wrap(weights).to(kind)


def roi_pool(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """Windows of the images as h × w bins, each the largest of its pixels, 0 if it has none (Girshick, 2015).

    boxes: as in `roi_align`; corners are rounded to pixels. Shape: (N, C, H, W) → (K, C, h, w)
    """
    tall, wide = pair(output_size, "roi_pool")
    rows = _rows(boxes, "roi_pool")
    _check_images(input, rows, "roi_pool")
    if not len(rows):
        return weft.zeros(0, input.shape[1], tall, wide, dtype=input.dtype)
    parts = []
    for image, *corners in rows:
        x1, y1, x2, y2 = (int(np.floor(value * spatial_scale + 0.5)) for value in corners)
        down = _bins(y1, max(y2 - y1 + 1, 1), tall, input.shape[2])
        across = _bins(x1, max(x2 - x1 + 1, 1), wide, input.shape[3])
        picture = input[int(image)]
        bins = [
            picture[:, a:b, c:d].amax((1, 2)) if b > a and d > c else picture[:, 0, 0] * 0
            for a, b in down
            for c, d in across
        ]
        parts.append(weft.stack(bins, -1).unflatten(-1, (tall, wide)))  # (C, h, w)
    return weft.stack(parts)


def _bins(start: int, size: int, count: int, length: int) -> list[tuple[int, int]]:
    side = size / count
    edges = [(start + int(np.floor(i * side)), start + int(np.ceil((i + 1) * side))) for i in range(count)]
    return [(min(max(a, 0), length), min(max(b, 0), length)) for a, b in edges]


def _check_images(input: Tensor, rows: np.ndarray, name: str) -> None:
    if input.ndim != 4 or not input.is_floating_point():
        raise ShapeError(f"{name}: expected floating images (N, C, H, W), got {input.dtype} {tuple(input.shape)}")
    if len(rows) and not (0 <= rows[:, 0].min() and rows[:, 0].max() < len(input)):
        raise OptionError(f"{name}: boxes name images up to {rows[:, 0].max():g}, there are {len(input)}")


class RoIAlign(nn.Module):
    """`roi_align` as a layer."""

    def __init__(self, output_size: Any, spatial_scale: float, sampling_ratio: int, aligned: bool = False) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)


class RoIPool(nn.Module):
    """`roi_pool` as a layer."""

    def __init__(self, output_size: Any, spatial_scale: float) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return roi_pool(input, rois, self.output_size, self.spatial_scale)
