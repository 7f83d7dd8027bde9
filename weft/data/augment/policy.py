"""RandAugment (Cubuk et al. 2020): a few operations, drawn anew for each image, of one common strength."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError
from . import colour
from .base import Source, Transform
from .photometric import as_copy
from .warp import affine_places, inverse_affine, warp

__all__ = ["RandAugment"]

MOVES = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
OPERATIONS = (
    "Identity",
    *MOVES,
    *("Brightness", "Color", "Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"),
)
ENHANCE = {
    "Brightness": colour.brightness,
    "Color": colour.saturation,
    "Contrast": colour.contrast,
    "Sharpness": colour.sharpness,
}


class RandAugment(Transform):
    """`num_ops` operations of `OPERATIONS` for each image, each equally likely, of strength magnitude in [0, bins).

    Strengths are torchvision's: at the last bin shear is 0.3, translation 150/331 of a side, rotation 30°, factors of
    colour 1 ± 0.9, 4 bits are left, everything is solarised; directions are random. Images of bytes, or floating ones in
    [0, 1]. All moves of one round are one gather.
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: str = "nearest",
        fill: Any = 0,
    ) -> None:
        if not 0 <= magnitude < num_magnitude_bins or num_magnitude_bins < 2 or num_ops < 0:
            raise OptionError(
                f"RandAugment: expected num_ops ≥ 0 and 0 ≤ magnitude < num_magnitude_bins, at least 2 bins; "
                f"got {num_ops}, {magnitude}, {num_magnitude_bins}"
            )
        self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, num_magnitude_bins
        self.interpolation, self.fill = interpolation, fill

    def apply(self, images: NDArray, source: Source) -> NDArray:
        operations, signs = self.draw(source)
        for operation, sign in zip(operations.T, signs.T, strict=True):  # (N,), (N,): one round
            images = self.round(images, operation, sign)
        return images

    def draw(self, source: Source) -> tuple[NDArray, NDArray]:
        """Numbers in `OPERATIONS` and directions ±1. Shape: (N, num_ops) both"""
        operations = source.integers(len(OPERATIONS), self.num_ops)
        return operations, np.where(source.uniform(self.num_ops) < 0.5, -1.0, 1.0)

    def round(self, images: NDArray, operation: NDArray, sign: NDArray) -> NDArray:
        """One operation for each image."""
        names = np.array(OPERATIONS)[operation]
        result = images.copy()
        moved = np.isin(names, MOVES)
        if moved.any():
            result[moved] = self._move(images[moved], names[moved], sign[moved])
        for name in OPERATIONS[1 + len(MOVES) :]:
            chosen = names == name
            if chosen.any():
                x = as_copy(images[chosen], "RandAugment")
                result[chosen] = colour.from_unit(self._recolour(x, name, sign[chosen]), images.dtype)
        return result

    def strength(self, name: str, h: int, w: int) -> float:
        """How far an operation goes at this magnitude."""
        share = self.magnitude / (self.num_magnitude_bins - 1)
        largest = {
            "ShearX": 0.3,
            "ShearY": 0.3,
            "TranslateX": 150 / 331 * w,
            "TranslateY": 150 / 331 * h,
            "Rotate": 30.0,
        }
        if name == "Posterize":
            return 8 - round(4 * share)
        return 1 - share if name == "Solarize" else largest.get(name, 0.9) * share

    def _move(self, images: NDArray, names: NDArray, sign: NDArray) -> NDArray:
        h, w = images.shape[2:]
        by = {name: np.where(names == name, sign * self.strength(name, h, w), 0.0) for name in MOVES}
        shear = np.rad2deg(np.arctan(np.stack([by["ShearX"], by["ShearY"]], 1)))
        translate = np.trunc(np.stack([by["TranslateX"], by["TranslateY"]], 1))
        inverse = inverse_affine(-by["Rotate"], translate, np.ones(len(names)), shear)
        return warp(images, affine_places(inverse, h, w), self.interpolation, self.fill)

    def _recolour(self, x: NDArray, name: str, sign: NDArray) -> NDArray:
        strength = self.strength(name, *x.shape[2:])
        if name in ENHANCE:
            return ENHANCE[name](x, 1 + sign * strength)
        if name == "AutoContrast":
            return colour.autocontrast(x)
        if name == "Equalize":
            return colour.equalize(x)
        change = colour.posterize if name == "Posterize" else colour.solarize
        return change(x, np.full(len(x), strength))
