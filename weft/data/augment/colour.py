"""Changes of colour as functions of batches (N, C, H, W) and of one factor for each image, (N,).

Values are floating-point in [0, 1] (`as_unit`, `from_unit`); three channels are red, green and blue, one is grey.
The grey of a pixel is that of ITU-R 601, 0.299 r + 0.587 g + 0.114 b: the weights add up to 1, so grey stays as it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...errors import DtypeError, ShapeError
from .base import finished, working

__all__ = [
    "as_unit",
    "autocontrast",
    "brightness",
    "contrast",
    "equalize",
    "from_unit",
    "grey",
    "hue",
    "posterize",
    "saturation",
    "sharpness",
    "solarize",
    "to_bytes",
]

GREY = (0.299, 0.587, 0.114)


def as_unit(images: NDArray, name: str) -> NDArray:
    """Images in [0, 1]: bytes divided by 255, floating ones as they are."""
    if images.dtype == np.uint8:
        return images.astype(np.float32) / np.float32(255)
    if images.dtype.kind not in "fV":
        raise DtypeError(f"{name}: expected uint8 images, or floating ones in [0, 1], got {images.dtype}")
    return working(images)


def from_unit(values: NDArray, dtype: np.dtype) -> NDArray:
    """Back to bytes, rounded, or to the floating dtype; kept in [0, 1]."""
    values = np.clip(values, 0, 1)
    return finished(values * np.float32(255), dtype) if dtype == np.uint8 else finished(values, dtype)


def brightness(x: NDArray, factor: NDArray) -> NDArray:
    """factor · x: 0 is black, 1 leaves the image."""
    return np.clip(x * _each(factor, x), 0, 1)


def contrast(x: NDArray, factor: NDArray) -> NDArray:
    """From the mean grey of the image (0) over the image (1) to more."""
    mean = grey(x).mean((1, 2, 3), keepdims=True, dtype=np.float64).astype(x.dtype)
    return _blend(x, mean, factor)


def saturation(x: NDArray, factor: NDArray) -> NDArray:
    """From grey (0) over the image (1) to more colour."""
    return _blend(x, grey(x), factor)


def hue(x: NDArray, shift: NDArray) -> NDArray:
    """The colours turned by a share `shift` of the circle, in [−½, ½]; grey images stay."""
    if x.shape[1] == 1:
        return x
    hsv = to_hsv(x)
    hsv[:, 0] = _turn(hsv[:, 0] + shift.astype(x.dtype)[:, None, None])
    return to_rgb(hsv)


def sharpness(x: NDArray, factor: NDArray) -> NDArray:
    """From smoothed (0) over the image (1) to sharper. Smoothing is [1 1 1; 1 5 1; 1 1 1] / 13; the border stays."""
    if min(x.shape[2:]) < 3:
        return x
    smooth = x.copy()
    rows = x[:, :, :-2] + x[:, :, 1:-1] + x[:, :, 2:]
    box = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    smooth[:, :, 1:-1, 1:-1] = (box + 4 * x[:, :, 1:-1, 1:-1]) / 13
    return _blend(x, smooth, factor)


def posterize(x: NDArray, bits: NDArray) -> NDArray:
    """The first `bits` of the 8 bits of each value."""
    mask = (0xFF << (8 - np.asarray(bits, np.int64))) & 0xFF
    return from_bytes(to_bytes(x) & _each(mask, x).astype(np.uint8), x)


def solarize(x: NDArray, threshold: NDArray) -> NDArray:
    """Values from `threshold` on inverted."""
    return np.where(x >= _each(threshold, x), 1 - x, x)


def autocontrast(x: NDArray) -> NDArray:
    """Each channel stretched so that its least and largest values are 0 and 1; constant channels stay."""
    if not x.size:
        return x
    low, high = x.min((2, 3), keepdims=True), x.max((2, 3), keepdims=True)
    flat = high == low
    return np.where(flat, x, (x - low) / np.where(flat, 1, high - low))


def equalize(x: NDArray) -> NDArray:
    """Each channel of 256 levels mapped so that its levels are as equally frequent as they can be (Pillow's rule)."""
    levels = to_bytes(x)
    n, c, h, w = levels.shape
    channels = levels.reshape(n * c, h * w)
    offset = np.arange(n * c)[:, None] * 256
    histogram = np.bincount((channels + offset).reshape(-1), minlength=n * c * 256).reshape(n * c, 256)
    table = _equalizing(histogram)
    return from_bytes(np.take_along_axis(table, channels.astype(np.int64), 1).reshape(levels.shape), x)


def _equalizing(histogram: NDArray) -> NDArray[np.uint8]:
    """New levels, (M, 256): ⌊(pixels below + step / 2) / step⌋, step = ⌊(pixels not of the highest level) / 255⌋."""
    highest = 255 - (histogram[:, ::-1] > 0).argmax(1)
    others = histogram.sum(1) - np.take_along_axis(histogram, highest[:, None], 1)[:, 0]
    step = (others // 255)[:, None]
    below = np.cumsum(histogram, 1) - histogram
    table = np.minimum((below + step // 2) // np.maximum(step, 1), 255)
    return np.where(step == 0, np.arange(256), table).astype(np.uint8)


# ---- spaces ------------------------------------------------------------------------------------------------


def grey(x: NDArray) -> NDArray:
    """(N, 3, H, W) or (N, 1, H, W) → (N, 1, H, W)"""
    if x.shape[1] == 1:
        return x
    if x.shape[1] != 3:
        raise ShapeError(f"colour: expected 3 channels (red, green, blue) or 1, got {x.shape[1]}")
    red, green, blue = (x.dtype.type(weight) for weight in GREY)
    return red * x[:, 0:1] + green * x[:, 1:2] + blue * x[:, 2:3]


def to_hsv(x: NDArray) -> NDArray:
    """Hue, saturation and value in [0, 1] of red, green and blue. Shape: (N, 3, H, W) → (N, 3, H, W)"""
    if x.shape[1] != 3:
        raise ShapeError(f"colour: expected 3 channels (red, green, blue), got {x.shape[1]}")
    red, green, blue = x[:, 0], x[:, 1], x[:, 2]
    value = np.maximum(np.maximum(red, green), blue)
    spread = value - np.minimum(np.minimum(red, green), blue)
    divisor = np.where(spread == 0, 1, spread)
    hue = np.where(
        value == red,
        (green - blue) / divisor,
        np.where(value == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    return np.stack([_turn(hue / 6), spread / np.where(value == 0, 1, value), value], 1)


def to_rgb(hsv: NDArray) -> NDArray:
    """Red, green and blue: v − v s · clip(min(k, 4 − k), 0, 1), k = (5, 3, 1 + 6 h) mod 6."""
    hue, saturation, value = hsv[:, 0], hsv[:, 1], hsv[:, 2]
    depth = value * saturation
    parts = [_turn(hue + n / 6) * 6 for n in (5, 3, 1)]
    return np.stack([value - depth * np.clip(np.minimum(k, 4 - k), 0, 1) for k in parts], 1)


def _turn(angle: NDArray) -> NDArray:
    """angle mod 1, several times faster than %"""
    return angle - np.floor(angle)


def to_bytes(x: NDArray) -> NDArray[np.uint8]:
    """[0, 1] as 256 levels"""
    return np.rint(np.clip(x, 0, 1) * 255).astype(np.uint8)


def from_bytes(levels: NDArray, like: NDArray) -> NDArray:
    return levels.astype(like.dtype) / like.dtype.type(255)


def _each(factor: NDArray, x: NDArray) -> NDArray:
    """(N,) → (N, 1, 1, 1)"""
    return np.asarray(factor, x.dtype)[:, None, None, None]


def _blend(x: NDArray, other: NDArray, factor: NDArray) -> NDArray:
    """factor · x + (1 − factor) · other, kept in [0, 1]"""
    factor = _each(factor, x)
    return np.clip(factor * x + (1 - factor) * other, 0, 1)
