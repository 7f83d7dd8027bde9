"""Images in other sizes, whole or in part: sums weighted by a filter as wide as the reduction, along rows and columns.

Shrinking is anti-aliased, as in Pillow and in torchvision. Every image of a batch may have a window of its own: its
weights are two small matrices, and result = Rows · image · Columnsᵀ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError
from ...nn.functional.resample import FILTERS
from .base import Source, Transform, bounds, finished, pair, working

__all__ = ["RandomResizedCrop", "Resize"]

MODES = ("nearest", "bilinear", "bicubic")
TRIES = 10


class Resize(Transform):
    """To (h, w); or, for one number, so that the shorter side has that length (and the longer at most max_size).

    interpolation: "nearest", "bilinear" or "bicubic"
    """

    def __init__(self, size: Any, interpolation: str = "bilinear", max_size: int | None = None) -> None:
        self.size = size if isinstance(size, int) else tuple(size)
        self.interpolation, self.max_size = _mode(interpolation), max_size

    def apply(self, images: NDArray, source: Source) -> NDArray:
        h, w = images.shape[2:]
        box = np.array([[0, 0, h, w]])
        return resized_crop(images, box, self.new_size(h, w), self.interpolation)

    def new_size(self, h: int, w: int) -> tuple[int, int]:
        if not isinstance(self.size, int):
            return pair(self.size, "Resize") if len(self.size) == 2 else self._shorter(h, w, self.size[0])
        return self._shorter(h, w, self.size)

    def _shorter(self, h: int, w: int, size: int) -> tuple[int, int]:
        """The shorter side becomes `size`."""
        short, long = min(h, w), max(h, w)
        new_short, new_long = size, int(size * long / short)
        if self.max_size is not None and new_long > self.max_size:
            new_short, new_long = int(self.max_size * new_short / new_long), self.max_size
        return (new_short, new_long) if h <= w else (new_long, new_short)


class RandomResizedCrop(Transform):
    """A window of a share `scale` of the area, with sides in a ratio (width : height) in `ratio`, resized to `size`.

    The ratio is uniform in its logarithm; of up to ten draws the first that fits counts, else the largest middle window
    with an allowed ratio.
    """

    def __init__(
        self,
        size: Any,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
    ) -> None:
        self.size, self.interpolation = pair(size, "RandomResizedCrop"), _mode(interpolation)
        self.scale, self.ratio = bounds(scale, "RandomResizedCrop: scale"), bounds(ratio, "RandomResizedCrop: ratio")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        return resized_crop(images, self.draw(source, *images.shape[2:]), self.size, self.interpolation)

    def draw(self, source: Source, h: int, w: int) -> NDArray:
        """(top, left, height, width) of each window. Shape: (N, 4)"""
        boxes, fits = random_boxes(source, h, w, self.scale, self.ratio)
        return np.where(fits[:, None], boxes, _middle_box(h, w, self.ratio))


# ---- windows -----------------------------------------------------------------------------------------------


def random_boxes(
    source: Source, h: int, w: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[NDArray, NDArray]:
    """(top, left, height, width), (N, 4), of areas and ratios as drawn; and whether one of ten draws fitted, (N,).

    ratio: width : height
    """
    u = source.uniform(TRIES, 2)
    area = h * w * (scale[0] + u[..., 0] * (scale[1] - scale[0]))
    ratios = np.exp(np.log(ratio[0]) + u[..., 1] * np.log(ratio[1] / ratio[0]))
    heights, widths = np.rint(np.sqrt(area / ratios)), np.rint(np.sqrt(area * ratios))  # (N, tries)
    good = (heights > 0) & (heights <= h) & (widths > 0) & (widths <= w)
    first = good.argmax(1) if len(good) else np.zeros(0, int)
    rows = np.arange(len(good))
    size = np.stack([heights[rows, first], widths[rows, first]], 1)  # (N, 2)
    place = np.floor(source.uniform(2) * (np.array([h, w]) - size + 1))
    return np.concatenate([place, size], 1).astype(np.int64), good.any(1)


def _middle_box(h: int, w: int, ratio: tuple[float, float]) -> NDArray:
    height, width = h, w
    if w / h < ratio[0]:
        height = min(round(w / ratio[0]), h)
    elif w / h > ratio[1]:
        width = min(round(h * ratio[1]), w)
    return np.array([(h - height) // 2, (w - width) // 2, height, width])


# ---- resampling --------------------------------------------------------------------------------------------


def resized_crop(images: NDArray, boxes: NDArray, size: tuple[int, int], interpolation: str) -> NDArray:
    """Windows (top, left, height, width) of the images, resized. Shape: (N, C, H, W), (N or 1, 4) → (N, C, *size)"""
    h, w = images.shape[2:]
    top, left, height, width = boxes.T
    if interpolation == "nearest":
        rows, columns = _nearest(top, height, size[0]), _nearest(left, width, size[1])
        picked = images[np.arange(len(images))[:, None, None], :, rows[:, :, None], columns[:, None, :]]
        return np.ascontiguousarray(np.moveaxis(picked, 3, 1))  # (N, h, w, C) → (N, C, h, w)
    values = working(images)
    if not images.size:
        return np.zeros((*images.shape[:2], *size), images.dtype)
    rows = _weights(top, height, h, size[0], interpolation).astype(values.dtype)[:, None]  # (N, 1, h, H)
    columns = _weights(left, width, w, size[1], interpolation).astype(values.dtype)[:, None]
    return finished(rows @ values @ columns.swapaxes(2, 3), images.dtype)


def _weights(start: NDArray, length: NDArray, total: int, count: int, interpolation: str) -> NDArray:
    """Matrices that resample elements start … start + length − 1 of `total` to `count`. Shape: (N, count, total)"""
    kernel, _ = FILTERS[interpolation]
    step = (length / count)[:, None, None]
    at = start[:, None, None] + step * (np.arange(count)[:, None] + 0.5)  # (N, count, 1): where outputs lie
    element = np.arange(total)
    inside = (element >= start[:, None, None]) & (element < (start + length)[:, None, None])
    weights = kernel((element + 0.5 - at) / np.maximum(step, 1)) * inside
    return weights / weights.sum(2, keepdims=True)


def _nearest(start: NDArray, length: NDArray, count: int) -> NDArray[np.int64]:
    """The elements ⌊i · length / count⌋ after start. Shape: (N, count)"""
    return start[:, None] + np.arange(count) * length[:, None] // count


def _mode(interpolation: str) -> str:
    if interpolation not in MODES:
        raise OptionError(f"interpolation: expected one of {MODES}, got {interpolation!r}")
    return interpolation
