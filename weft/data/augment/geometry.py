"""Images moved: flips, crops, padding, rotations, affine and projective maps, lens distortion.

Names and arguments are torchvision's. Parameters are drawn for each image of a batch; a batch has one size, so there is
no `expand`. interpolation: "nearest" or "bilinear".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ...errors import OptionError, ShapeError
from .base import Source, Transform, bounds, filling, finished, pair, probability
from .warp import affine_places, homography, inverse_affine, projective_places, radial_places, warp

__all__ = [
    *("CenterCrop", "LensDistortion", "Pad", "RandomAffine", "RandomCrop", "RandomHorizontalFlip", "RandomPerspective"),
    *("RandomRotation", "RandomTranslate", "RandomVerticalFlip"),
]

PADDING_MODES = ("constant", "edge", "reflect", "symmetric")

# ---- flips, padding and crops ------------------------------------------------------------------------------


class RandomHorizontalFlip(Transform):
    """Left and right exchanged, with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = probability(p, "RandomHorizontalFlip")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        result, chosen = images.copy(), source.uniform() < self.p
        result[chosen] = images[chosen, :, :, ::-1]
        return result


class RandomVerticalFlip(Transform):
    """Top and bottom exchanged, with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = probability(p, "RandomVerticalFlip")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        result, chosen = images.copy(), source.uniform() < self.p
        result[chosen] = images[chosen, :, ::-1]
        return result


class Pad(Transform):
    """A border of `padding` pixels: one number, (left and right, top and bottom), or (left, top, right, bottom).

    padding_mode: "constant" (with `fill`, one value or one for each channel), "edge", "reflect", "symmetric"
    """

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        if padding_mode not in PADDING_MODES:
            raise OptionError(f"Pad: expected padding_mode of {', '.join(PADDING_MODES)}, got {padding_mode!r}")
        self.padding, self.fill, self.padding_mode = _borders(padding), fill, padding_mode

    def apply(self, images: NDArray, source: Source) -> NDArray:
        return padded(images, self.padding, self.fill, self.padding_mode)


class CenterCrop(Transform):
    """The middle of the image, (h, w) or a square; smaller images are padded with 0 first."""

    def __init__(self, size: Any) -> None:
        self.size = pair(size, "CenterCrop")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        down, across = _lacking(images, self.size)
        images = padded(images, (across // 2, down // 2, (across + 1) // 2, (down + 1) // 2), 0, "constant")
        top, left = (round((have - want) / 2) for have, want in zip(images.shape[2:], self.size, strict=True))
        return np.ascontiguousarray(images[:, :, top : top + self.size[0], left : left + self.size[1]])


class RandomCrop(Transform):
    """A window of `size`, anywhere in the image, after `Pad(padding, fill, padding_mode)`.

    pad_if_needed: widen images that are smaller than `size`
    """

    def __init__(
        self, size: Any, padding: Any = None, pad_if_needed: bool = False, fill: Any = 0, padding_mode: str = "constant"
    ) -> None:
        self.size, self.pad_if_needed = pair(size, "RandomCrop"), pad_if_needed
        self.pad = Pad(0 if padding is None else padding, fill, padding_mode)

    def apply(self, images: NDArray, source: Source) -> NDArray:
        images = self.pad.apply(images, source)
        if self.pad_if_needed:
            down, across = _lacking(images, self.size)
            images = padded(images, (across, down, across, down), self.pad.fill, self.pad.padding_mode)
        top, left = self.draw(source, images.shape[2:])
        windows = sliding_window_view(images, self.size, axis=(2, 3))  # (N, C, rows, columns, h, w)
        return windows[np.arange(len(images)), :, top, left]

    def draw(self, source: Source, shape: tuple[int, int]) -> NDArray:
        """The upper left corners, each place as likely as another. Shape: (2, N)"""
        room = np.subtract(shape, self.size) + 1
        if (room < 1).any():
            raise ShapeError(
                f"RandomCrop: expected images of {self.size} or more, got {tuple(shape)}; pad_if_needed=True"
            )
        return source.integers(room, 2).T


# ---- maps --------------------------------------------------------------------------------------------------


class RandomRotation(Transform):
    """A turn by an angle in ±degrees or (low, high), counter-clockwise, about the center or (x, y) `center`."""

    def __init__(self, degrees: Any, interpolation: str = "nearest", center: Any = None, fill: Any = 0) -> None:
        self.degrees = bounds(degrees, "RandomRotation: degrees")
        self.interpolation, self.center, self.fill = interpolation, center, fill

    def apply(self, images: NDArray, source: Source) -> NDArray:
        angle = -self.draw(source)
        still, plain = np.zeros((len(images), 2)), np.ones(len(images))
        inverse = inverse_affine(angle, still, plain, still)
        return warp(images, affine_places(inverse, *images.shape[2:], self.center), self.interpolation, self.fill)

    def draw(self, source: Source) -> NDArray:
        """The angles, (N,)"""
        return source.uniform(low=self.degrees[0], high=self.degrees[1])


class RandomAffine(Transform):
    """A turn (clockwise), shift, change of size, shear and stretch, about the center.

    degrees    ±degrees or (low, high)
    translate  (a, b): shifts within ±a · width and ±b · height, whole pixels
    scale      (low, high), both directions alike
    shear      ±degrees or (low, high) along x, or (low, high, low, high) along x and y
    stretch    (low, high) for width and height apart (not in torchvision)
    """

    def __init__(
        self,
        degrees: Any = 0,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: str = "nearest",
        fill: Any = 0,
        center: Any = None,
        stretch: Any = None,
    ) -> None:
        self.degrees, self.translate = bounds(degrees, "RandomAffine: degrees"), pair(translate or (0, 0), "translate")
        self.scale, self.stretch = (bounds(s or (1, 1), "RandomAffine: scale") for s in (scale, stretch))
        self.shear = _shears(shear)
        self.interpolation, self.fill, self.center = interpolation, fill, center
        if not all(0 <= t <= 1 for t in self.translate):
            raise OptionError(f"RandomAffine: expected translate as shares in [0, 1], got {translate!r}")
        if self.scale[0] <= 0 or self.stretch[0] <= 0:
            raise OptionError(f"RandomAffine: expected scale and stretch above 0, got {scale!r} and {stretch!r}")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        h, w = images.shape[2:]
        inverse = inverse_affine(**self.draw(source, h, w))
        return warp(images, affine_places(inverse, h, w, self.center), self.interpolation, self.fill)

    def draw(self, source: Source, h: int, w: int) -> dict[str, NDArray]:
        """angle (N,), translate (N, 2) in pixels, scale (N,), shear (N, 2), stretch (N, 2)"""
        u = source.uniform(8)  # (N, 8)
        reach = np.multiply(self.translate, (w, h))
        shear = np.array(self.shear)  # (2, 2): low, high of x; of y
        return {
            "angle": _within(u[:, 0], self.degrees),
            "translate": np.rint((2 * u[:, 1:3] - 1) * reach),
            "scale": _within(u[:, 3], self.scale),
            "shear": shear[:, 0] + u[:, 4:6] * (shear[:, 1] - shear[:, 0]),
            "stretch": _within(u[:, 6:8], self.stretch),
        }


class RandomTranslate(Transform):
    """A shift by up to ±translate = (a, b) of width and height, by whole pixels; what is uncovered has the fill value."""

    def __init__(self, translate: Any = 0.1, fill: Any = 0) -> None:
        self.affine = RandomAffine(translate=pair(translate, "RandomTranslate"), fill=fill)

    def apply(self, images: NDArray, source: Source) -> NDArray:
        return self.affine.apply(images, source)


class RandomPerspective(Transform):
    """The image seen aslant, with probability p: its corners move inwards by up to distortion_scale / 2 of its sides."""

    def __init__(
        self, distortion_scale: float = 0.5, p: float = 0.5, interpolation: str = "bilinear", fill: Any = 0
    ) -> None:
        self.distortion_scale = probability(distortion_scale, "RandomPerspective: distortion_scale")
        self.p, self.interpolation, self.fill = probability(p, "RandomPerspective"), interpolation, fill

    def apply(self, images: NDArray, source: Source) -> NDArray:
        h, w = images.shape[2:]
        chosen, end = self.draw(source, h, w)
        corners = np.broadcast_to(_corners(h, w), end.shape)
        places = projective_places(homography(end[chosen], corners[chosen]), h, w)
        result = images.copy()
        result[chosen] = warp(images[chosen], places, self.interpolation, self.fill)
        return result

    def draw(self, source: Source, h: int, w: int) -> tuple[NDArray, NDArray]:
        """Which images, (N,) bool; where their corners go, (N, 4, 2): upper left, upper right, lower right, lower left"""
        inwards = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
        reach = np.array([w, h]) * self.distortion_scale / 2
        chosen = source.uniform() < self.p
        return chosen, _corners(h, w) + inwards * source.uniform(4, 2) * reach


class LensDistortion(Transform):
    """Radial distortion: a pixel at distance r of the center comes from r (1 + k₁ r² + k₂ r⁴); r = 1 at the corners.

    k1, k2: ±k or (low, high). Above 0 lines bend outwards (barrel), below 0 inwards (pincushion).
    """

    def __init__(self, k1: Any = 0.2, k2: Any = 0.0, interpolation: str = "bilinear", fill: Any = 0) -> None:
        self.k1, self.k2 = bounds(k1, "LensDistortion: k1"), bounds(k2, "LensDistortion: k2")
        self.interpolation, self.fill = interpolation, fill

    def apply(self, images: NDArray, source: Source) -> NDArray:
        u = source.uniform(2)
        places = radial_places(_within(u[:, 0], self.k1), _within(u[:, 1], self.k2), *images.shape[2:])
        return warp(images, places, self.interpolation, self.fill)


# ---- parts -------------------------------------------------------------------------------------------------


def padded(images: NDArray, borders: tuple[int, int, int, int], fill: Any, mode: str) -> NDArray:
    """With borders of (left, top, right, bottom) pixels; negative ones cut."""
    left, top, right, bottom = borders
    h, w = images.shape[2:]
    images = images[:, :, max(-top, 0) : h - max(-bottom, 0), max(-left, 0) : w - max(-right, 0)]
    left, top, right, bottom = (max(b, 0) for b in (left, top, right, bottom))
    if mode != "constant":
        return np.pad(images, [(0, 0), (0, 0), (top, bottom), (left, right)], mode=mode)
    n, c, h, w = images.shape
    result = np.empty((n, c, h + top + bottom, w + left + right), images.dtype)
    result[:] = finished(filling(fill, c, "Pad"), images.dtype)
    result[:, :, top : top + h, left : left + w] = images
    return result


def _lacking(images: NDArray, size: tuple[int, int]) -> tuple[int, int]:
    """How many rows and columns the images have less than asked for."""
    return max(size[0] - images.shape[2], 0), max(size[1] - images.shape[3], 0)


def _borders(padding: Any) -> tuple[int, int, int, int]:
    values = (padding,) if isinstance(padding, int) else tuple(padding)
    if len(values) not in (1, 2, 4):
        raise OptionError(f"Pad: expected one number, two or four, got {padding!r}")
    return values * (4 // len(values))


def _shears(shear: Any) -> tuple[tuple[float, float], tuple[float, float]]:
    """(low, high) along x and along y"""
    if shear is None:
        return (0.0, 0.0), (0.0, 0.0)
    if not isinstance(shear, (int, float)) and len(shear) == 4:
        return bounds(shear[:2], "shear"), bounds(shear[2:], "shear")
    return bounds(shear, "shear"), (0.0, 0.0)


def _within(u: NDArray, limits: tuple[float, float]) -> NDArray:
    return limits[0] + u * (limits[1] - limits[0])


def _corners(h: int, w: int) -> NDArray:
    """The corners of the image's outline, half a pixel outside the centers of its corner pixels."""
    return np.array([[0, 0], [w, 0], [w, h], [0, h]]) - 0.5
