"""Resize: every axis on its own, each output a weighted sum of a few inputs of its line."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft

from ...tensor import Tensor, wrap
from .registry import ints, rule
from .shape import check_size

_ROUNDING: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _sources(mode: str, length: int, count: int, scale: float, start: float, end: float) -> np.ndarray:
    """The place in the line, as a fraction, that each output is read at."""
    x = np.arange(count, dtype=np.float64)
    if mode == "asymmetric":
        return x / scale
    if mode == "align_corners":
        exact = length * scale
        return np.zeros(count) if exact == 1 else x * (length - 1) / (exact - 1)
    if mode == "tf_crop_and_resize":
        if count == 1:
            return np.full(1, (start + end) * (length - 1) / 2)
        return start * (length - 1) + x * (end - start) * (length - 1) / (length * scale - 1)
    if mode == "pytorch_half_pixel" and length * scale == 1:
        return np.full(count, -0.5)
    offset = 0.0
    if mode == "half_pixel_symmetric":
        offset = length / 2 * (1 - count / (scale * length))
    return offset + (x + 0.5) / scale - 0.5


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.clip(1 - np.abs(x), 0, 1)


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _weights(
    places: np.ndarray, length: int, scale: float, cubic: float | None, antialias: bool, exclude_outside: bool
) -> np.ndarray:
    """(outputs, length): the elements around each place, those outside of the line taken from its ends or left out."""
    shrink = min(scale, 1.0) if antialias else 1.0
    reach = math.ceil((1 if cubic is None else 2) / shrink) + 1
    taps = np.floor(places).astype(np.int64)[:, None] + np.arange(-reach, reach + 1)
    distance = (taps - places[:, None]) * shrink
    weight = _triangle(distance) if cubic is None else _cubic(distance, cubic)
    if exclude_outside:
        weight = weight * ((taps >= 0) & (taps < length))
    weight = weight / weight.sum(1, keepdims=True)
    matrix = np.zeros((len(places), length))
    rows = np.broadcast_to(np.arange(len(places))[:, None], taps.shape)
    np.add.at(matrix, (rows, np.clip(taps, 0, length - 1)), weight)
    return matrix


class _Plan:
    """What the options say, for one axis after the other."""

    def __init__(self, **options: Any) -> None:
        self.__dict__.update(options)

    def along(self, x: Tensor, axis: int, count: int, scale: float, start: float, end: float) -> Tensor:
        length = x.shape[axis]
        if count == length and scale == 1 and self.where != "tf_crop_and_resize":
            return x
        check_size((length, count))
        places = _sources(self.where, length, count, scale, start, end)
        if self.mode == "nearest":
            chosen = np.clip(_ROUNDING[self.nearest](places), 0, length - 1).astype(np.int64)
            y = x.index_select(axis, wrap(chosen))
        else:
            cubic = self.coefficient if self.mode == "cubic" else None
            matrix = _weights(places, length, scale, cubic, self.antialias, self.exclude)
            y = (x.movedim(axis, -1) @ weft.tensor(matrix.T.copy(), dtype=x.dtype)).movedim(-1, axis)
        if self.where != "tf_crop_and_resize":
            return y
        form = [-1, *[1] * (x.ndim - 1 - axis)]
        outside = wrap((places < 0) | (places > length - 1)).reshape(form)
        return weft.where(outside, weft.full((), self.outside, dtype=y.dtype), y)


def _sizes(x: Tensor, axes: Sequence[int], sizes: list[int], policy: str) -> tuple[list[int], list[float]]:
    lengths = [x.shape[a] for a in axes]
    ratios = [n / length for n, length in zip(sizes, lengths, strict=True)]
    if policy == "stretch":
        return sizes, ratios
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [math.floor(scale * length + 0.5) for length in lengths], [scale] * len(lengths)


@rule("Resize", 11, numbers=(1, 2, 3))
def resize(
    x: Tensor,
    roi: np.ndarray | None = None,
    scales: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
    *,
    antialias: int = 0,
    axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    chosen = list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes]
    if sizes is not None and sizes.size:
        counts, ratios = _sizes(x, chosen, ints(sizes), keep_aspect_ratio_policy)
    else:
        ratios = [float(s) for s in np.asarray(scales).reshape(-1)]
        counts = [math.floor(x.shape[a] * s) for a, s in zip(chosen, ratios, strict=True)]
    plan = _Plan(
        mode=mode,
        where=coordinate_transformation_mode,
        nearest=nearest_mode,
        coefficient=cubic_coeff_a,
        antialias=bool(antialias),
        exclude=bool(exclude_outside),
        outside=extrapolation_value,
    )
    box = np.zeros(0) if roi is None else roi.reshape(-1)
    n, kind = len(chosen), x.dtype
    y = x if x.is_floating_point() or mode == "nearest" else x.to(weft.float64)
    for k, (axis, count, ratio) in enumerate(zip(chosen, counts, ratios, strict=True)):
        start, end = (float(box[k]), float(box[n + k])) if box.size == 2 * n else (0.0, 1.0)
        y = plan.along(y, axis, count, ratio, start, end)
    return y.to(kind)


@rule("Resize Upsample", 9, numbers=(1,))
def upsample(x: Tensor, scales: np.ndarray, *, mode: str = "nearest") -> Tensor:
    return _upsampled(x, scales.reshape(-1).tolist(), mode)


@rule("Upsample", 7)
def upsample_old(x: Tensor, *, scales: list[float], mode: str = "nearest") -> Tensor:
    return _upsampled(x, scales, mode)


def _upsampled(x: Tensor, scales: Sequence[float], mode: str) -> Tensor:
    return resize(
        x,
        None,
        np.array(scales),
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
