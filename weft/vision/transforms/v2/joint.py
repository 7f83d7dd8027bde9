"""The transforms of the first version for samples: the image among several things is found and changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import weft

from ....data import augment
from ....data.augment.base import is_pil
from ....errors import OptionError
from ....tensor import Tensor
from ....utils.pytree import tree_flatten, tree_unflatten
from .. import plain, randomised
from ..modes import InterpolationMode
from . import functional as F

__all__ = [
    "RGB",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "FiveCrop",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "Identity",
    "InterpolationMode",
    "Lambda",
    "LinearTransformation",
    "Normalize",
    "PILToTensor",
    "Pad",
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
    "Resize",
    "TenCrop",
    "ToDtype",
    "ToImage",
    "ToPILImage",
    "ToPureTensor",
    "ToTensor",
]


class Joint:
    """A transform of samples: `super().__call__` of the image, the rest as it is; abstract."""

    def __call__(self, *inputs: Any) -> Any:
        if not inputs:
            raise OptionError(f"{type(self).__name__}: expected an image, or a sample with one")
        sample = inputs if len(inputs) > 1 else inputs[0]
        if _is_image(sample):
            return super().__call__(sample)
        leaves, tree = tree_flatten(sample)
        places = _images(leaves)
        if not places:
            raise OptionError(f"{type(self).__name__}: no image among {[type(leaf).__name__ for leaf in leaves][:8]}")
        for place in places:
            leaves[place] = super().__call__(leaves[place])
        return tree_unflatten(leaves, tree)


def _is_image(x: Any) -> bool:
    return is_pil(x) or (isinstance(x, (Tensor, np.ndarray)) and 2 <= x.ndim <= 4)


def _images(leaves: list[Any]) -> list[int]:
    """The places of PIL images, or else that of the first array with the shape of an image."""
    pictures = [i for i, leaf in enumerate(leaves) if is_pil(leaf)]
    return pictures or [i for i, leaf in enumerate(leaves) if _is_image(leaf)][:1]


def _joint(cls: type) -> type:
    """The class of the first version with the call of the second."""
    members = {"__doc__": cls.__doc__, "__module__": __name__}
    return type(cls.__name__, (Joint, cls), members)


CenterCrop, ConvertImageDtype = _joint(plain.CenterCrop), _joint(plain.ConvertImageDtype)
ColorJitter, GaussianBlur, Grayscale = _joint(plain.ColorJitter), _joint(plain.GaussianBlur), _joint(plain.Grayscale)
FiveCrop, TenCrop, LinearTransformation = (
    _joint(plain.FiveCrop),
    _joint(plain.TenCrop),
    _joint(plain.LinearTransformation),
)
Normalize, PILToTensor, Pad, Resize = (
    _joint(plain.Normalize),
    _joint(plain.PILToTensor),
    _joint(plain.Pad),
    _joint(plain.Resize),
)
ToPILImage, ToTensor = _joint(plain.ToPILImage), _joint(plain.ToTensor)
RandAugment, RandomAffine, RandomCrop = (
    _joint(randomised.RandAugment),
    _joint(randomised.RandomAffine),
    _joint(randomised.RandomCrop),
)
RandomAdjustSharpness, RandomAutocontrast, RandomEqualize = (
    _joint(randomised.RandomAdjustSharpness),
    _joint(randomised.RandomAutocontrast),
    _joint(randomised.RandomEqualize),
)
RandomErasing, RandomGrayscale, RandomInvert = (
    _joint(randomised.RandomErasing),
    _joint(randomised.RandomGrayscale),
    _joint(randomised.RandomInvert),
)
RandomHorizontalFlip, RandomVerticalFlip = (
    _joint(randomised.RandomHorizontalFlip),
    _joint(randomised.RandomVerticalFlip),
)
RandomPerspective, RandomPosterize, RandomSolarize = (
    _joint(randomised.RandomPerspective),
    _joint(randomised.RandomPosterize),
    _joint(randomised.RandomSolarize),
)
RandomResizedCrop, RandomRotation = _joint(randomised.RandomResizedCrop), _joint(randomised.RandomRotation)


class GaussianNoise(Joint, augment.GaussianNoise):
    """mean + sigma · z added, in units where white is 1; clip keeps the result in [0, 1]."""


class Lambda(plain.Plain):
    """A function of every part of a sample, or of those of the given types."""

    def __init__(self, lambd: Any, *types: type) -> None:
        self.lambd, self.types = lambd, types or (object,)

    def __call__(self, *inputs: Any) -> Any:
        leaves, tree = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        return tree_unflatten([self.lambd(leaf) if isinstance(leaf, self.types) else leaf for leaf in leaves], tree)


class Identity(plain.Plain):
    """The sample as it is."""

    def __call__(self, *inputs: Any) -> Any:
        return inputs if len(inputs) > 1 else inputs[0]


ToPureTensor = type("ToPureTensor", (Identity,), {"__doc__": "Tensors as they are.", "__module__": __name__})


class _Of(plain.Plain):
    """A function of an image; abstract."""

    def __call__(self, img: Any) -> Any:
        return self.change(img)

    def change(self, img: Any) -> Any:
        raise NotImplementedError


class ToImage(Joint, _Of):
    """A PIL image or an array (H, W, C) as a tensor (C, H, W) with the same values."""

    def change(self, img: Any) -> Tensor:
        return F.to_image(img)


class RGB(Joint, _Of):
    """Three channels; grey is repeated."""

    def change(self, img: Any) -> Any:
        if is_pil(img):
            return img.convert("RGB")
        return img if F.get_num_channels(img) == 3 else F.to_grayscale(img, 3)


class ToDtype(Joint, _Of):
    """In another dtype, given alone or by type of image; scale: white stays white."""

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        self.dtype, self.scale = dtype, scale

    def change(self, img: Any) -> Any:
        kind = next(iter(self.dtype.values())) if isinstance(self.dtype, Mapping) else self.dtype
        return F.to_dtype(img, weft.float32 if kind is None else kind, self.scale)


# ------------------------------------------------------------------------------------------- of other transforms


class _Several:
    """Transforms of whole samples; abstract."""

    def __call__(self, *inputs: Any) -> Any:
        return super().__call__(inputs if len(inputs) > 1 else inputs[0])


class Compose(plain.Compose):
    """Transforms one after the other; what one returns as a tuple is the arguments of the next."""

    def __call__(self, *inputs: Any) -> Any:
        for transform in self.transforms:
            found = transform(*inputs)
            inputs = found if isinstance(found, tuple) and len(inputs) > 1 else (found,)
        return inputs if len(inputs) > 1 else inputs[0]


class RandomApply(_Several, randomised.RandomApply):
    """The transforms one after the other, with probability p, or nothing."""


class RandomChoice(_Several, randomised.RandomChoice):
    """One of the transforms, each with its share of p."""


class RandomOrder(_Several, randomised.RandomOrder):
    """All transforms, in a random order."""
