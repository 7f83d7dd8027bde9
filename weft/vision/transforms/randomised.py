"""Transforms with chance. In a batch (N, C, H, W) each image has its own draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...data import augment
from ...data.augment import RandomGrayscale, RandomHorizontalFlip, RandomVerticalFlip
from ...data.augment.base import Source, Transform, probability
from ...data.augment.geometry import RandomRotation as _Rotation
from ...errors import OptionError
from ...tensor import Tensor
from . import functional as F
from .modes import InterpolationMode, mode_of
from .plain import Plain

__all__ = [
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RandomVerticalFlip",
]


class Sometimes(Transform):
    """`change` of each image with probability p; abstract."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = probability(p, type(self).__name__)

    def change(self, images: np.ndarray) -> np.ndarray:
        """(N, C, H, W) → the same"""
        raise NotImplementedError

    def apply(self, images: np.ndarray, source: Source) -> np.ndarray:
        result, chosen = images.copy(), source.uniform() < self.p
        if chosen.any():
            result[chosen] = self.change(images[chosen])
        return result


class RandomInvert(Sometimes):
    """White minus x, with probability p."""

    def change(self, images: np.ndarray) -> np.ndarray:
        return F.invert(images)


class RandomAutocontrast(Sometimes):
    """`functional.autocontrast` with probability p."""

    def change(self, images: np.ndarray) -> np.ndarray:
        return F.autocontrast(images)


class RandomEqualize(Sometimes):
    """`functional.equalize` with probability p."""

    def change(self, images: np.ndarray) -> np.ndarray:
        return F.equalize(images)


class RandomPosterize(Sometimes):
    """The first `bits` of each value, with probability p."""

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def change(self, images: np.ndarray) -> np.ndarray:
        return F.posterize(images, self.bits)


class RandomSolarize(Sometimes):
    """Values from `threshold` on inverted, with probability p."""

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def change(self, images: np.ndarray) -> np.ndarray:
        return F.solarize(images, self.threshold)


class RandomAdjustSharpness(Sometimes):
    """`functional.adjust_sharpness` with probability p."""

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def change(self, images: np.ndarray) -> np.ndarray:
        return F.adjust_sharpness(images, self.sharpness_factor)


class RandomCrop(augment.RandomCrop):
    """A window of `size`, anywhere in the image, after a border of `padding`."""

    def __init__(
        self, size: Any, padding: Any = None, pad_if_needed: bool = False, fill: Any = 0, padding_mode: str = "constant"
    ) -> None:
        super().__init__(size, padding, pad_if_needed, 0 if fill is None else fill, padding_mode)


class RandomRotation(_Rotation):
    """A turn by an angle in ±degrees or (low, high), counter-clockwise. expand: of one image, shown whole."""

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
    ) -> None:
        super().__init__(degrees, mode_of(interpolation, ("nearest", "bilinear")), center, 0 if fill is None else fill)
        self.expand = expand

    def apply(self, images: np.ndarray, source: Source) -> np.ndarray:
        if not self.expand:
            return super().apply(images, source)
        if len(images) != 1:
            raise OptionError(f"RandomRotation: expand=True takes one image at a time, got {len(images)}")
        return F.rotate(images, float(self.draw(source)[0]), self.interpolation, True, fill=self.fill)


class RandomAffine(augment.RandomAffine):
    """A turn (clockwise), shift, change of size and shear, about the center; see `weft.data.augment.RandomAffine`."""

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = 0,
        center: Any = None,
    ) -> None:
        mode = mode_of(interpolation, ("nearest", "bilinear"))
        super().__init__(degrees, translate, scale, shear, mode, 0 if fill is None else fill, center)


class RandomPerspective(augment.RandomPerspective):
    """The image seen aslant, with probability p: its corners move inwards by up to distortion_scale / 2 of its sides."""

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = InterpolationMode.BILINEAR,
        fill: Any = 0,
    ) -> None:
        mode = mode_of(interpolation, ("nearest", "bilinear"))
        super().__init__(distortion_scale, p, mode, 0 if fill is None else fill)


class RandomResizedCrop(augment.RandomResizedCrop):
    """A window of a share `scale` of the area with sides in `ratio`, resized to `size`, always anti-aliased."""

    def __init__(
        self,
        size: Any,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__(size, scale, ratio, mode_of(interpolation))
        self.antialias = antialias


class RandomErasing(augment.RandomErasing):
    """A rectangle overwritten, with probability p; see `weft.data.augment.RandomErasing`. inplace: in x itself."""

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__(p, scale, ratio, value)
        self.inplace = inplace

    def __call__(self, x: Any, generator: Any = None) -> Any:
        found = super().__call__(x, generator)
        if not self.inplace:
            return found
        (x.array if isinstance(x, Tensor) else x)[...] = found.array if isinstance(found, Tensor) else found
        return x


class RandAugment(augment.RandAugment):
    """num_ops operations drawn from a list, all of one strength (Cubuk et al., 2020)."""

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        mode = mode_of(interpolation, ("nearest", "bilinear"))
        super().__init__(num_ops, magnitude, num_magnitude_bins, mode, 0 if fill is None else fill)


# ------------------------------------------------------------------------------------------- of other transforms


def _drawn(count: int) -> np.ndarray:
    """Numbers in [0, 1) of the default generator."""
    return Source.of(None, 1, "transforms").uniform(count)[0]


class RandomApply(Plain):
    """The transforms one after the other, with probability p, or nothing."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: float = 0.5) -> None:
        self.transforms, self.p = transforms, probability(p, "RandomApply")

    def __call__(self, img: Any) -> Any:
        if _drawn(1)[0] >= self.p:
            return img
        for transform in self.transforms:
            img = transform(img)
        return img


class RandomOrder(Plain):
    """All transforms, in a random order."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for number in _drawn(len(self.transforms)).argsort():
            img = self.transforms[number](img)
        return img


class RandomChoice(Plain):
    """One of the transforms, each with its share of p (all alike unless given)."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: Sequence[float] | None = None) -> None:
        if not transforms or (p is not None and len(p) != len(transforms)):
            raise OptionError(f"RandomChoice: expected transforms and a share for each, got {len(transforms)} and {p}")
        self.transforms, self.p = transforms, p

    def __call__(self, img: Any) -> Any:
        shares = np.cumsum(np.ones(len(self.transforms)) if self.p is None else self.p)
        number = np.searchsorted(shares, _drawn(1)[0] * shares[-1], side="right")
        return self.transforms[min(int(number), len(self.transforms) - 1)](img)
