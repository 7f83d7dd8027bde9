"""Changes of colour of tensors (N, C, H, W) in [0, 1] by one number for each image, (N,).

The formulas are those of `weft.data.augment.colour`, written in tensor operations so that they run inside of a compiled
step; tests hold one against the other. Each has a number that leaves an image exactly as it is, so that different images of a
batch can be changed in different ways by one program without branches.
"""

from __future__ import annotations

import weft

from ....errors import ShapeError
from ....nn import functional as F
from ....tensor import Tensor
from ..colour import GREY
from .base import each

__all__ = [
    *("autocontrast", "brightness", "contrast", "equalize", "grey", "hue", "invert", "posterize", "saturation"),
    *("sharpness", "solarize"),
]

LEVELS = 256


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    """factor · x: 0 is black, 1 leaves the image."""
    return (x * each(factor)).clamp(0, 1)


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    """From the mean grey of the image (0) over the image (1) to more."""
    return blend(x, grey(x).mean((1, 2, 3), keepdim=True), factor)


def saturation(x: Tensor, factor: Tensor) -> Tensor:
    """From grey (0) over the image (1) to more colour; grey images stay."""
    return x if x.shape[1] == 1 else blend(x, grey(x), factor)


def sharpness(x: Tensor, factor: Tensor) -> Tensor:
    """From smoothed (0) over the image (1) to sharper. Smoothing is [1 1 1; 1 5 1; 1 1 1] / 13; the border stays."""
    if min(x.shape[2:]) < 3:
        return x
    rows = x[:, :, :-2] + x[:, :, 1:-1] + x[:, :, 2:]
    box = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    inner = F.pad((box + 4 * x[:, :, 1:-1, 1:-1]) / 13, (1, 1, 1, 1))
    h, w = x.shape[2:]
    row, column = weft.arange(h)[:, None], weft.arange(w)
    inside = (row > 0) & (row < h - 1) & (column > 0) & (column < w - 1)
    return blend(x, weft.where(inside, inner, x), factor)


def hue(x: Tensor, shift: Tensor) -> Tensor:
    """The colours turned by a share `shift` of the circle, in [−½, ½]; grey images stay, and 0 leaves an image."""
    if x.shape[1] == 1:
        return x
    red, green, blue = _channels(x)
    value = x.amax(1)
    spread = value - x.amin(1)
    divisor = weft.where(spread == 0, 1.0, spread)
    sector = weft.where(
        value == red,
        (green - blue) / divisor,
        weft.where(value == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    turned = sector / 6 + shift.reshape(-1, 1, 1)
    parts = [_turn(turned + n / 6) * 6 for n in (5, 3, 1)]
    new = weft.stack([value - spread * weft.minimum(k, 4 - k).clamp(0, 1) for k in parts], 1)
    return weft.where(each(shift == 0), x, new)


def posterize(x: Tensor, bits: Tensor) -> Tensor:
    """The first `bits` of the 8 bits of each value; 8 leaves the image."""
    step = each(weft.exp2(8 - bits))
    return weft.where(each(bits >= 8), x, (_levels(x) / step).floor() * step / 255)


def solarize(x: Tensor, threshold: Tensor) -> Tensor:
    """Values from `threshold` on inverted; a threshold above 1 leaves the image."""
    return weft.where(x >= each(threshold), 1 - x, x)


def invert(x: Tensor, share: Tensor) -> Tensor:
    """(1 − share) x + share (1 − x); 0 leaves the image."""
    return blend(x, 1 - x, 1 - share)


def autocontrast(x: Tensor, share: Tensor) -> Tensor:
    """Towards channels whose least and largest values are 0 and 1; constant channels stay, and 0 leaves the image."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    flat = high == low
    return blend(x, weft.where(flat, x, (x - low) / weft.where(flat, 1.0, high - low)), 1 - share)


def equalize(x: Tensor, share: Tensor) -> Tensor:
    """Towards channels whose 256 levels are as equally frequent as they can be (Pillow's rule); 0 leaves the image."""
    n, c, h, w = x.shape
    channels = _levels(x).long().reshape(n * c, h * w)
    rows = weft.arange(n * c)[:, None] * LEVELS
    ones = weft.ones(n * c * h * w)
    counts = weft.zeros(n * c * LEVELS).index_add(0, (channels + rows).reshape(-1), ones)
    table = _equalizing(counts.reshape(n * c, LEVELS))
    new = table.gather(1, channels).reshape(x.shape).to(x.dtype) / 255
    return blend(x, new, 1 - share)


def _equalizing(counts: Tensor) -> Tensor:
    """New levels: ⌊(pixels below + ⌊step / 2⌋) / step⌋, step = ⌊(pixels not of the highest level) / 255⌋. (M, 256) → (M, 256)"""
    numbers = weft.arange(LEVELS, dtype=counts.dtype)
    highest = weft.where(counts > 0, numbers, -1.0).amax(1, keepdim=True)
    others = weft.where(numbers == highest, 0.0, counts).sum(1, keepdim=True)
    step = (others / 255).floor()
    below = counts.cumsum(1) - counts
    table = ((below + (step / 2).floor()) / step.clamp(min=1)).floor().clamp(max=255)
    return weft.where(step == 0, numbers, table)


def grey(x: Tensor) -> Tensor:
    """0.299 r + 0.587 g + 0.114 b: (N, 3, H, W) or (N, 1, H, W) → (N, 1, H, W)"""
    if x.shape[1] == 1:
        return x
    red, green, blue = _channels(x)
    return (GREY[0] * red + GREY[1] * green + GREY[2] * blue).unsqueeze(1)


def blend(x: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    """factor · x + (1 − factor) · other, kept in [0, 1]"""
    share = each(factor)
    return (share * x + (1 - share) * other).clamp(0, 1)


def _channels(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if x.shape[1] != 3:
        raise ShapeError(f"colour: expected 3 channels (red, green, blue) or 1, got {x.shape[1]}")
    return x[:, 0], x[:, 1], x[:, 2]


def _levels(x: Tensor) -> Tensor:
    """[0, 1] as whole numbers 0 … 255"""
    return (x.clamp(0, 1) * 255).round()


def _turn(angle: Tensor) -> Tensor:
    """angle mod 1"""
    return angle - angle.floor()
