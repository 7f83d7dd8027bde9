"""Random places of batches inside of compiled steps: flips, crops, affine maps, holes.

Rows and columns that are only shifted or resampled are products with small matrices, one an image: Rows · x · Columnsᵀ. They
need no gathering and let slopes through. Other maps are one `grid_sample`.
"""

from __future__ import annotations

import math
from typing import Any

import weft

from ....errors import OptionError, ShapeError
from ....nn import functional as F
from ....tensor import Tensor
from ..base import bounds, pair, probability
from .base import TensorTransform, each, uniform

__all__ = [
    *("Cutout", "RandomAffine", "RandomCrop", "RandomHorizontalFlip", "RandomResizedCrop", "RandomVerticalFlip"),
    *("affine", "covered", "cut_out", "picking", "resampling"),
]

PADDINGS = ("constant", "reflect", "edge")
TRIES = 10


class RandomHorizontalFlip(TensorTransform):
    """Left and right exchanged with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = probability(p, "RandomHorizontalFlip")

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        return weft.where(each(uniform(x, generator=generator) < self.p), x.flip(3), x)


class RandomVerticalFlip(TensorTransform):
    """Top and bottom exchanged with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = probability(p, "RandomVerticalFlip")

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        return weft.where(each(uniform(x, generator=generator) < self.p), x.flip(2), x)


class RandomCrop(TensorTransform):
    """A window of `size` anywhere in the image, which is first made larger by `padding` pixels on every side.

    size: (h, w), or one number for both; padding_mode: "constant" (zeros), "reflect" or "edge"
    With padding p and the size of the image itself: the image moved by up to p pixels.
    """

    def __init__(self, size: Any, padding: int = 0, padding_mode: str = "constant") -> None:
        if padding < 0 or padding_mode not in PADDINGS:
            raise OptionError(
                f"RandomCrop: expected padding ≥ 0 and a padding_mode of {PADDINGS}, got {padding}, {padding_mode!r}"
            )
        self.size, self.padding, self.padding_mode = pair(size, "RandomCrop"), padding, padding_mode

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        u = uniform(x, 2, generator=generator)
        rows, columns = (self._picked(u[:, k], self.size[k], x.shape[2 + k]) for k in (0, 1))
        return rows @ x @ columns.mT  # (N, 1, h, H) @ (N, C, H, W) @ (N, 1, W, w)

    def _picked(self, u: Tensor, size: int, length: int) -> Tensor:
        """Which element of a line each element of the window is: (N,) → (N, 1, size, length)"""
        room = length + 2 * self.padding - size + 1
        if room < 1 or (self.padding_mode == "reflect" and self.padding >= length):
            raise ShapeError(
                f"RandomCrop: no window of {size} in a side of {length} with padding {self.padding} "
                f"({self.padding_mode}); give more padding, or less than the side where it is reflected"
            )
        start = (u * room).floor() - self.padding
        places = start[:, None] + weft.arange(size, dtype=u.dtype)  # (N, size)
        if self.padding_mode == "reflect":
            places = (length - 1) - ((length - 1) - places.abs()).abs()
        elif self.padding_mode == "edge":
            places = places.clamp(0, length - 1)
        return picking(places, length)


class RandomResizedCrop(TensorTransform):
    """A window of a share `scale` of the area, with sides in a ratio (width : height) in `ratio`, resized to `size`.

    The ratio is uniform in its logarithm; of up to ten draws the first that fits counts, else the whole image.
    size: (h, w), or one number for both. Resizing is bilinear and anti-aliased, as in Pillow.
    """

    def __init__(
        self, size: Any, scale: tuple[float, float] = (0.08, 1.0), ratio: tuple[float, float] = (3 / 4, 4 / 3)
    ) -> None:
        self.size = pair(size, "RandomResizedCrop")
        self.scale, self.ratio = bounds(scale, "RandomResizedCrop: scale"), bounds(ratio, "RandomResizedCrop: ratio")

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        top, left, height, width = self.boxes(x, generator).unbind(1)
        rows = resampling(top, height, x.shape[2], self.size[0])
        columns = resampling(left, width, x.shape[3], self.size[1])
        return rows @ x @ columns.mT

    def boxes(self, x: Tensor, generator: Any) -> Tensor:
        """(top, left, height, width) of each window. Shape: (N, 4)"""
        h, w = x.shape[2:]
        u = uniform(x, 2 * TRIES + 2, generator=generator)
        area = h * w * (self.scale[0] + u[:, :TRIES] * (self.scale[1] - self.scale[0]))
        low, high = (math.log(r) for r in self.ratio)
        ratio = weft.exp(low + u[:, TRIES : 2 * TRIES] * (high - low))
        heights, widths = (area / ratio).sqrt().round(), (area * ratio).sqrt().round()  # (N, tries)
        good = (heights > 0) & (heights <= h) & (widths > 0) & (widths <= w)
        first = good.to(x.dtype).argmax(1, keepdim=True)
        fits = good.any(1)
        height, width = (
            weft.where(fits, sides.gather(1, first)[:, 0], float(whole)) for sides, whole in ((heights, h), (widths, w))
        )
        top = (u[:, -2] * (h - height + 1)).floor()
        return weft.stack([top, (u[:, -1] * (w - width + 1)).floor(), height, width], 1)


class RandomAffine(TensorTransform):
    """Turned, moved, scaled and slanted about the middle, each image by draws of its own; zeros come in.

    degrees: turn in ±degrees or (low, high), counter-clockwise; translate: largest shares (across, down) of the sides;
    scale: (low, high); shear: slant in ±degrees across; interpolation: "bilinear" or "nearest"
    """

    def __init__(
        self,
        degrees: Any = 0,
        translate: tuple[float, float] = (0.0, 0.0),
        scale: tuple[float, float] = (1.0, 1.0),
        shear: Any = 0,
        interpolation: str = "bilinear",
    ) -> None:
        self.degrees, self.shear = bounds(degrees, "RandomAffine: degrees"), bounds(shear, "RandomAffine: shear")
        self.scale, self.translate = bounds(scale, "RandomAffine: scale"), tuple(translate)
        if self.scale[0] <= 0 or any(not 0 <= share <= 1 for share in self.translate):
            raise OptionError(f"RandomAffine: expected scale above 0 and translate in [0, 1], got {scale}, {translate}")
        self.interpolation = interpolation

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        u = uniform(x, 5, generator=generator)
        shares = [(2 * u[:, 1 + k] - 1) * share for k, share in enumerate(self.translate)]
        between = lambda k, low, high: low + u[:, k] * (high - low)
        lean = weft.deg2rad(between(4, *self.shear)).tan()
        return affine(
            x, between(0, *self.degrees), shares, between(3, *self.scale), (lean, 0 * lean), self.interpolation
        )


class Cutout(TensorTransform):
    """A square of a share of the side overwritten, its middle anywhere in the image (DeVries and Taylor 2017).

    share: of the shorter side; value: what is written; p: the chance that an image is cut
    """

    def __init__(self, share: float = 0.5, value: float = 0.0, p: float = 1.0) -> None:
        if not 0 <= share <= 1:
            raise OptionError(f"Cutout: expected a share of the side in [0, 1], got {share}")
        self.share, self.value, self.p = share, value, probability(p, "Cutout")

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        u = uniform(x, 3, generator=generator)
        length = float(int(self.share * min(x.shape[2:]) + 0.5))
        return cut_out(x, u[:, :2], weft.where(u[:, 2] < self.p, length, 0.0), self.value)


# ------------------------------------------------------------------------------------------- parts


def picking(places: Tensor, length: int) -> Tensor:
    """Matrices whose row i picks element places[i] of a line, none where it is outside: (N, h) → (N, 1, h, length)"""
    line = weft.arange(length, dtype=places.dtype)
    return (line == places[:, :, None]).to(places.dtype).unsqueeze(1)


def resampling(start: Tensor, length: Tensor, total: int, count: int) -> Tensor:
    """Matrices that resample elements start … start + length − 1 of `total` to `count`: (N,), (N,) → (N, 1, count, total)"""
    step = (length / count)[:, None, None]
    start = start[:, None, None]
    at = start + step * (weft.arange(count, dtype=length.dtype)[:, None] + 0.5)  # (N, count, 1): where outputs lie
    element = weft.arange(total, dtype=length.dtype)
    inside = (element >= start) & (element < start + length[:, None, None])
    weights = (1 - ((element + 0.5 - at) / step.clamp(min=1)).abs()).clamp(min=0) * inside.to(length.dtype)
    return (weights / weights.sum(2, keepdim=True)).unsqueeze(1)


def affine(
    x: Tensor,
    degrees: Tensor,
    translate: Any,
    scale: Tensor | float = 1.0,
    lean: Any = (0.0, 0.0),
    interpolation: str = "nearest",
) -> Tensor:
    """p → A p + t about the middle, A = scale · R(degrees) · Y(lean₂) · X(lean₁), zeros around the image.

    degrees: counter-clockwise, (N,); translate: (across, down), each (N,), shares of the sides; lean: tangents of slants
    X = [[1, −lean₁], [0, 1]], Y = [[1, 0], [−lean₂, 1]] and clockwise R, as in torchvision's `affine`.
    """
    h, w = x.shape[2:]
    angle, (across, down) = weft.deg2rad(-degrees), translate
    cos, sin, (a, b) = angle.cos(), angle.sin(), lean
    corner = 1 + a * b
    # the inverse of R Y X, whose determinant is 1
    rows = [[corner * cos - a * sin, corner * sin + a * cos], [b * cos - sin, cos + b * sin]]
    rows = [[value / scale for value in row] for row in rows]
    ratio = h / w
    matrix = [[rows[0][0], rows[0][1] * ratio], [rows[1][0] / ratio, rows[1][1]]]  # in units of half sides
    moved = [-2 * (row[0] * across + row[1] * down) for row in matrix]
    theta = weft.stack([weft.stack([*row, t], 1) for row, t in zip(matrix, moved, strict=True)], 1)  # (N, 2, 3)
    grid = F.affine_grid(theta.to(x.dtype), x.shape, align_corners=False)
    return F.grid_sample(x, grid, interpolation, "zeros", align_corners=False)


def cut_out(x: Tensor, middle: Tensor, length: Tensor, value: float = 0.0) -> Tensor:
    """`value` in squares with sides `length`, (N,), whose middles are shares of the sides, (N, 2)."""
    rows, columns = (
        covered((middle[:, k] * x.shape[2 + k]).floor() - (length / 2).floor(), length, x.shape[2 + k]) for k in (0, 1)
    )
    return weft.where((rows[:, :, None] & columns[:, None, :]).unsqueeze(1), value, x)


def covered(first: Tensor, length: Tensor | float, size: int) -> Tensor:
    """Which places of a side lie in first … first + length − 1: (N,), (N,) → (N, size)"""
    distance = weft.arange(size, dtype=first.dtype) - first[:, None]
    return (distance >= 0) & (distance < (length[:, None] if isinstance(length, Tensor) else length))
