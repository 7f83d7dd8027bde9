"""Images read at other places: one inverse-warp gather for every affine, projective and radial map.

A map is given backwards: `places[n]` says for each pixel of result n where in image n it comes from. Places are in pixels:
the center of the first pixel is (0, 0), x runs right, y runs down. Around every image lies the fill value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError
from .base import filling, finished, working

__all__ = [
    *("affine_places", "homography", "inverse_affine", "projective_places", "radial_places", "turned_places", "warp"),
]

MODES = ("nearest", "bilinear")
EDGE = 1e-4  # of a pixel: what is less than that over an edge does not count


def warp(images: NDArray, places: NDArray, interpolation: str, fill: Any = 0) -> NDArray:
    """The images at `places`. Shape: (N, C, H, W), (N, 2, h, w) of x and y → (N, C, h, w)

    A border of one pixel with the fill value makes places outside like any others once they are moved onto it.
    """
    if interpolation not in MODES:
        raise OptionError(f"interpolation: expected one of {MODES}, got {interpolation!r}")
    n, c, h, w = images.shape
    size = (n, c, *places.shape[2:])
    if not images.size:
        return np.zeros(size, images.dtype)
    # fmin and fmax turn NaN (a point at infinity) into a place on the border
    x = np.fmax(np.fmin(places[:, 0], w), -1).reshape(n, -1)  # (N, H · W)
    y = np.fmax(np.fmin(places[:, 1], h), -1).reshape(n, -1)
    read = _nearest if interpolation == "nearest" else _bilinear
    bordered = _bordered(images if interpolation == "nearest" else working(images), fill)
    return finished(read(bordered.reshape(n, c, -1), x, y, h, w), images.dtype).reshape(size)


def _nearest(pixels: NDArray, x: NDArray, y: NDArray, h: int, w: int) -> NDArray:
    at = _index(np.rint(x), np.rint(y), w)
    result = np.empty((*pixels.shape[:2], at.shape[1]), pixels.dtype)
    for i, image in enumerate(pixels):  # one image at a time stays in cache
        image.take(at[i], 1, out=result[i], mode="clip")
    return result


def _bilinear(pixels: NDArray, x: NDArray, y: NDArray, h: int, w: int) -> NDArray:
    left, top = np.minimum(np.floor(x), w - 1), np.minimum(np.floor(y), h - 1)
    right_part, lower_part = (x - left).astype(pixels.dtype), (y - top).astype(pixels.dtype)
    at = _index(left, top, w)
    result = np.empty((*pixels.shape[:2], at.shape[1]), pixels.dtype)
    for i, image in enumerate(pixels):
        upper = _between(image, at[i], right_part[i])
        lower = _between(image, at[i] + (w + 2), right_part[i])
        lower -= upper
        lower *= lower_part[i]
        np.add(upper, lower, out=result[i])
    return result


def _between(image: NDArray, at: NDArray, part: NDArray) -> NDArray:
    """a + part · (b − a) of pixels a and their right neighbours b. Shape: (C, P), (P,), (P,) → (C, P)"""
    first, second = image.take(at, 1), image.take(at + 1, 1)
    second -= first
    second *= part
    second += first
    return second


def _index(x: NDArray, y: NDArray, w: int) -> NDArray[np.intp]:
    """The numbers of pixels (x, y) ≥ −1 in rows of w + 2."""
    return ((y + 1) * (w + 2) + (x + 1)).astype(np.intp)


def _bordered(images: NDArray, fill: Any) -> NDArray:
    n, c, h, w = images.shape
    result = np.empty((n, c, h + 2, w + 2), images.dtype)
    result[:, :, 1:-1, 1:-1] = images
    value = finished(filling(fill, c, "fill"), images.dtype)
    result[:, :, :: h + 1] = value
    result[..., :: w + 1] = value
    return result


# ---- maps --------------------------------------------------------------------------------------------------


def affine_places(inverse: NDArray, h: int, w: int, center: Any = None) -> NDArray:
    """Places of affine maps about the center: c + A (p − c) + t for [A | t] = inverse. Shape: (N, 2, 3) → (N, 2, H, W)

    center: (x, y) in pixels from the upper left corner of the image, whose middle is (w / 2, h / 2).
    """
    return _times(inverse, _homogeneous(h, w, center)) + _center(h, w, center)


def turned_places(inverse: NDArray, h: int, w: int) -> NDArray:
    """Places of the first of these maps about the center, on a canvas that holds the whole image. (N, 2, 3) → (N, 2, h′, w′)"""
    forward = np.linalg.inv(inverse[0, :, :2])
    corners = forward @ np.array([[-w, -w, w, w], [-h, h, h, -h]]) / 2  # (2, 4)
    low, high = (np.trunc(reach / EDGE) * EDGE for reach in (corners.min(1), corners.max(1)))
    wide, tall = (np.ceil(high) - np.floor(low)).astype(int)
    return _times(inverse, _homogeneous(tall, wide)) + _center(h, w)


def projective_places(inverse: NDArray, h: int, w: int) -> NDArray:
    """Places p′ / p′₃, p′ = A (x, y, 1). Shape: (N, 3, 3) → (N, 2, H, W)"""
    moved = _times(inverse, _homogeneous(h, w, (0.5, 0.5)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return moved[:, :2] / moved[:, 2:]


def radial_places(k1: NDArray, k2: NDArray, h: int, w: int) -> NDArray:
    """Places c + (p − c)(1 + k₁ r² + k₂ r⁴), r = 1 at the corners. Shape: (N,), (N,) → (N, 2, H, W)"""
    offset = _homogeneous(h, w)[:2]  # (2, H, W)
    square = (offset**2).sum(0) / ((h * h + w * w) / 4)
    k1, k2 = k1[:, None, None], k2[:, None, None]
    return offset * (1 + square * (k1 + square * k2))[:, None] + _center(h, w)


def inverse_affine(
    angle: NDArray, translate: NDArray, scale: NDArray, shear: NDArray, stretch: NDArray | None = None
) -> NDArray:
    """[A⁻¹ | −A⁻¹ t] of the maps p → A p + t, A = scale · R(angle) · Y(shear_y) · X(shear_x) · diag(stretch).

    Degrees; R turns clockwise as seen, X = [[1, −tan], [0, 1]], Y = [[1, 0], [−tan, 1]] (torchvision's convention).
    Shape: (N,), (N, 2) pixels, (N,), (N, 2), (N, 2) → (N, 2, 3)
    """
    turn, (lean_x, lean_y) = np.deg2rad(angle), np.tan(np.deg2rad(shear)).T
    one, zero = np.ones(len(turn)), np.zeros(len(turn))
    rotation = _matrices([np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)])
    forward = rotation @ _matrices([one, zero], [-lean_y, one]) @ _matrices([one, -lean_x], [zero, one])
    forward = forward * scale[:, None, None]
    if stretch is not None:
        forward = forward * stretch[:, None, :]
    inverse = np.linalg.inv(forward)
    return np.concatenate([inverse, -inverse @ translate[:, :, None]], axis=2)


def homography(start: NDArray, end: NDArray) -> NDArray:
    """The projective maps that take four points `start` to `end`. Shape: (N, 4, 2), (N, 4, 2) → (N, 3, 3)

    Of the 8 unknowns (a … h), each pair of points gives a x + b y + c − (g x + h y) x′ = x′, and the same for y′.
    """
    x, y = start[..., 0], start[..., 1]
    one, zero = np.ones_like(x), np.zeros_like(x)
    rows = [
        np.stack([x, y, one, zero, zero, zero, -x * end[..., 0], -y * end[..., 0]], -1),
        np.stack([zero, zero, zero, x, y, one, -x * end[..., 1], -y * end[..., 1]], -1),
    ]
    right = np.concatenate([end[..., 0], end[..., 1]], -1)[..., None]  # (N, 8, 1)
    solution = np.linalg.solve(np.concatenate(rows, -2), right)[..., 0]  # (N, 8)
    return np.concatenate([solution, np.ones((len(start), 1))], 1).reshape(-1, 3, 3)


def _times(matrices: NDArray, points: NDArray) -> NDArray:
    """(N, I, 3), (3, H, W) → (N, I, H, W)"""
    return (matrices @ points.reshape(3, -1)).reshape(*matrices.shape[:2], *points.shape[1:])


def _matrices(first: list[NDArray], second: list[NDArray]) -> NDArray:
    """(N, 2, 2)"""
    return np.stack([np.stack(first, -1), np.stack(second, -1)], -2)


def _homogeneous(h: int, w: int, center: Any = None) -> NDArray:
    """(x, y, 1) of every pixel, from the center. Shape: (3, H, W)"""
    middle = _center(h, w, center)
    y, x = np.mgrid[:h, :w].astype(np.float64)
    return np.stack([x - middle[0, 0, 0], y - middle[1, 0, 0], np.ones((h, w))])


def _center(h: int, w: int, center: Any = None) -> NDArray:
    """(2, 1, 1)"""
    x, y = (w / 2, h / 2) if center is None else center
    return np.array([x - 0.5, y - 0.5])[:, None, None]
