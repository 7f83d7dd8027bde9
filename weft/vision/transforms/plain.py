"""Transforms without chance: sizes, crops, kinds of images; and transforms in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft

from ...data.augment import ColorJitter, GaussianBlur, Grayscale
from ...data.augment.base import pair
from ...errors import OptionError, ShapeError
from ...tensor import Tensor, wrap
from . import functional as F
from .modes import InterpolationMode, mode_of

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "FiveCrop",
    "GaussianBlur",
    "Grayscale",
    "Lambda",
    "LinearTransformation",
    "Normalize",
    "PILToTensor",
    "Pad",
    "Resize",
    "TenCrop",
    "ToPILImage",
    "ToTensor",
]


class Plain:
    """A function of an image with parameters; abstract."""

    def __call__(self, img: Any) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def as_module(self) -> Any:
        """This as a module, as containers of modules ask for it."""
        from ...data.augment.as_module import AsModule

        return AsModule(self)


class Compose:
    """Transforms one after the other: any functions of one argument.

    >>> Compose([lambda x: x + 1, lambda x: 2 * x])(3)
    8
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        inner = "".join(f"\n    {transform}" for transform in self.transforms)
        return f"{type(self).__name__}({inner}\n)"


class Lambda(Plain):
    """Any function as a transform."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise OptionError(f"Lambda: expected a function, got {type(lambd).__name__}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)


class ToTensor(Plain):
    """`functional.to_tensor`."""

    def __call__(self, pic: Any) -> Tensor:
        return F.to_tensor(pic)


class PILToTensor(Plain):
    """`functional.pil_to_tensor`."""

    def __call__(self, pic: Any) -> Tensor:
        return F.pil_to_tensor(pic)


class ToPILImage(Plain):
    """`functional.to_pil_image`."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)


class ConvertImageDtype(Plain):
    """`functional.convert_image_dtype`."""

    def __init__(self, dtype: Any = weft.float32) -> None:
        self.dtype = dtype

    def __call__(self, image: Any) -> Any:
        return F.convert_image_dtype(image, self.dtype)


class Normalize(Plain):
    """(x − mean) / std, channel by channel, of floating images. inplace: into the memory of x."""

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        self.mean, self.std, self.inplace = mean, std, inplace

    def __call__(self, tensor: Any) -> Any:
        return F.normalize(tensor, self.mean, self.std, self.inplace)


class Resize(Plain):
    """`functional.resize`."""

    def __init__(
        self,
        size: Any,
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        self.size, self.interpolation, self.max_size, self.antialias = size, mode_of(interpolation), max_size, antialias

    def __call__(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)


class CenterCrop(Plain):
    """The middle of the image, (h, w) or a square."""

    def __init__(self, size: Any) -> None:
        self.size = pair(size, "CenterCrop")

    def __call__(self, img: Any) -> Any:
        return F.center_crop(img, self.size)


class Pad(Plain):
    """`functional.pad`."""

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def __call__(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class FiveCrop(Plain):
    """The four corners and the middle, as a tuple."""

    def __init__(self, size: Any) -> None:
        self.size = size

    def __call__(self, img: Any) -> tuple[Any, ...]:
        return F.five_crop(img, self.size)


class TenCrop(Plain):
    """`FiveCrop` of the image and of the image flipped, as a tuple."""

    def __init__(self, size: Any, vertical_flip: bool = False) -> None:
        self.size, self.vertical_flip = size, vertical_flip

    def __call__(self, img: Any) -> tuple[Any, ...]:
        return F.ten_crop(img, self.size, self.vertical_flip)


class LinearTransformation(Plain):
    """W (x − mean) of the image as one long vector, as whitening does. Shape: W (D, D), mean (D,), D = C · H · W"""

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        if transformation_matrix.ndim != 2 or len(set(transformation_matrix.shape)) != 1:
            raise ShapeError(
                f"LinearTransformation: expected a square matrix, got {tuple(transformation_matrix.shape)}"
            )
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def __call__(self, tensor: Tensor) -> Tensor:
        size = self.transformation_matrix.shape[0]
        if int(np.prod(tensor.shape[-3:])) != size:
            raise ShapeError(f"LinearTransformation: expected {size} values an image, got {tuple(tensor.shape)}")
        rows = tensor.array.reshape(-1, size) - self.mean_vector.array
        return wrap((rows @ self.transformation_matrix.array).reshape(tensor.shape))
