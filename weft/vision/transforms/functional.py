"""What the transforms compute, as functions of one image or a batch and of given parameters.

Images are tensors or arrays (H, W), (C, H, W) or (N, C, H, W), or PIL images; the result is of the same kind and dtype.
uint8 images have the range 0…255, floating ones 0…1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft

from ...data.augment import colour
from ...data.augment import photometric as _photometric
from ...data.augment.base import finished, is_pil, opened, pair, working
from ...data.augment.geometry import Pad as _Pad
from ...data.augment.geometry import padded
from ...data.augment.resize import Resize as _Resize
from ...data.augment.warp import affine_places, homography, inverse_affine, projective_places, turned_places, warp
from ...dtypes import as_dtype
from ...errors import DtypeError, OptionError, ShapeError
from ...nn.functional import interpolate
from ...tensor import Tensor, wrap
from .modes import InterpolationMode, mode_of

__all__ = [
    "InterpolationMode",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "autocontrast",
    "center_crop",
    "convert_image_dtype",
    "crop",
    "equalize",
    "erase",
    "five_crop",
    "gaussian_blur",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "hflip",
    "invert",
    "normalize",
    "pad",
    "perspective",
    "pil_to_tensor",
    "posterize",
    "resize",
    "resized_crop",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "ten_crop",
    "to_grayscale",
    "to_pil_image",
    "to_tensor",
    "vflip",
]

Array = np.ndarray


def _mapped(img: Any, name: str, change: Callable[[Array], Array]) -> Any:
    """The image with `change` applied to it as a batch (N, C, H, W)."""
    images, restore = opened(img, name)
    return restore(change(images))


def _recoloured(img: Any, name: str, change: Callable[[Array], Array]) -> Any:
    """The same for changes of values in [0, 1]."""
    return _mapped(img, name, lambda x: colour.from_unit(change(_photometric.as_copy(x, name)), x.dtype))


def _all(x: Array, value: float) -> Array:
    return np.full(len(x), float(value))


# ------------------------------------------------------------------------------------------- kinds of images


def to_tensor(pic: Any) -> Tensor:
    """A PIL image or an array (H, W, C) as float32 (C, H, W); bytes become fractions of 255.

    >>> to_tensor(np.full((2, 2, 3), 255, np.uint8)).shape
    Size([3, 2, 2])
    """
    return _photometric.ToTensor()(pic)


def pil_to_tensor(pic: Any) -> Tensor:
    """A PIL image as a tensor (C, H, W) of its own values."""
    if not is_pil(pic):
        raise OptionError(f"pil_to_tensor: expected a PIL image, got {type(pic).__name__}")
    pixels = np.array(pic)
    return wrap(np.ascontiguousarray(np.atleast_3d(pixels).transpose(2, 0, 1)))


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor (C, H, W), or an array (H, W, C), as a PIL image; floating values are in [0, 1]."""
    if isinstance(pic, np.ndarray) and pic.ndim == 3:
        pic = pic.transpose(2, 0, 1)
    picture = _photometric.ToPILImage()(pic)
    return picture if mode is None or picture.mode == mode else picture.convert(mode)


def convert_image_dtype(image: Any, dtype: Any = weft.float32) -> Any:
    """The image in another dtype, white staying white: integers are divided by their largest value or multiplied by it.

    Floating values go to k levels as ⌊x (k − 0.001)⌋, larger integers to smaller ones by division. Tensors and arrays.
    """
    x = image.array if isinstance(image, Tensor) else np.asarray(image)
    kind = as_dtype(dtype).np
    found = _converted(x, kind)
    return wrap(found) if isinstance(image, Tensor) else found


def _converted(x: Array, kind: np.dtype) -> Array:
    if x.dtype == kind:
        return x
    if x.dtype.kind == "f" and kind.kind == "f":
        return x.astype(kind)
    if x.dtype.kind == "f":
        largest = np.iinfo(kind).max
        if (x.dtype == np.float32 and kind.itemsize > 2) or (x.dtype == np.float64 and kind.itemsize > 4):
            raise DtypeError(f"convert_image_dtype: {x.dtype} has too few digits for {kind}")
        return (x * x.dtype.type(largest + 1 - 1e-3)).astype(kind)
    if kind.kind == "f":
        return x.astype(kind) / kind.type(np.iinfo(x.dtype).max)
    have, want = np.iinfo(x.dtype).max, np.iinfo(kind).max
    if have > want:
        return (x // ((have + 1) // (want + 1))).astype(kind)
    return x.astype(kind) * kind.type((want + 1) // (have + 1))


def get_dimensions(img: Any) -> list[int]:
    """[channels, height, width]"""
    if is_pil(img):
        return [len(img.getbands()), img.height, img.width]
    shape = tuple(img.shape)
    return [1 if len(shape) == 2 else shape[-3], *shape[-2:]]


def get_image_size(img: Any) -> list[int]:
    """[width, height]"""
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: Any) -> int:
    return get_dimensions(img)[0]


# ------------------------------------------------------------------------------------------- places


def resize(
    img: Any,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """To (h, w); or, for one number, so that the shorter side has that length (and the longer at most max_size).

    antialias: shrinking averages over what a pixel covers; PIL images always do.
    """
    mode = mode_of(interpolation)
    shape = _Resize(size, mode, max_size)
    if antialias or is_pil(img) or mode == "nearest":
        return _mapped(img, "resize", lambda x: shape.apply(x, None))
    return _mapped(img, "resize", lambda x: _sampled(x, shape.new_size(*x.shape[2:]), mode))


def _sampled(x: Array, size: tuple[int, int], mode: str) -> Array:
    """Values between the nearest pixels, whatever lies beside them."""
    found = interpolate(wrap(working(x)), size, mode=mode, align_corners=False)
    return finished(found.array, x.dtype)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """The window at (top, left); what lies outside of the image is 0."""

    def change(x: Array) -> Array:
        h, w = x.shape[2:]
        borders = (max(-left, 0), max(-top, 0), max(left + width - w, 0), max(top + height - h, 0))
        x = padded(x, borders, 0, "constant")
        first, second = top + borders[1], left + borders[0]
        return np.ascontiguousarray(x[:, :, first : first + height, second : second + width])

    return _mapped(img, "crop", change)


def center_crop(img: Any, output_size: Any) -> Any:
    """The middle of the image, (h, w) or a square; smaller images are padded with 0 first."""
    from ...data.augment import CenterCrop

    return _mapped(img, "center_crop", lambda x: CenterCrop(output_size).apply(x, None))


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """`crop`, then `resize`."""
    return resize(crop(img, top, left, height, width), size, interpolation, None, antialias)


def five_crop(img: Any, size: Any) -> tuple[Any, Any, Any, Any, Any]:
    """The four corners and the middle: upper left, upper right, lower left, lower right, center."""
    h, w = pair(size, "five_crop")
    _, height, width = get_dimensions(img)
    if h > height or w > width:
        raise OptionError(f"five_crop: expected at most {(height, width)}, the size of the image, got {(h, w)}")
    corners = [(0, 0), (0, width - w), (height - h, 0), (height - h, width - w)]
    return (*(crop(img, top, left, h, w) for top, left in corners), center_crop(img, (h, w)))


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """`five_crop` of the image and of the image flipped."""
    other = vflip(img) if vertical_flip else hflip(img)
    return (*five_crop(img, size), *five_crop(other, size))


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """A border of `padding` pixels: one number, (left and right, top and bottom), or (left, top, right, bottom)."""
    return _mapped(img, "pad", lambda x: _Pad(padding, fill, padding_mode).apply(x, None))


def hflip(img: Any) -> Any:
    """Left and right exchanged."""
    return _mapped(img, "hflip", lambda x: np.ascontiguousarray(x[..., ::-1]))


def vflip(img: Any) -> Any:
    """Top and bottom exchanged."""
    return _mapped(img, "vflip", lambda x: np.ascontiguousarray(x[:, :, ::-1]))


def rotate(
    img: Any,
    angle: float,
    interpolation: Any = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Any = 0,
) -> Any:
    """A turn counter-clockwise by `angle` degrees about the center or (x, y) `center`.

    expand: the result is as large as the turned image, about its own center.
    """
    mode = mode_of(interpolation, ("nearest", "bilinear"))

    def change(x: Array) -> Array:
        still = np.zeros((len(x), 2))
        inverse = inverse_affine(_all(x, -angle), still, _all(x, 1), still)
        h, w = x.shape[2:]
        if expand:
            return warp(x, turned_places(inverse, h, w), mode, fill or 0)
        return warp(x, affine_places(inverse, h, w, center), mode, fill or 0)

    return _mapped(img, "rotate", change)


def affine(
    img: Any,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Any,
    interpolation: Any = InterpolationMode.NEAREST,
    fill: Any = 0,
    center: Sequence[float] | None = None,
) -> Any:
    """A turn (clockwise), shear, change of size and shift in pixels, about the center.

    shear: degrees along x, or along x and y; a list of one counts for both.
    """
    mode = mode_of(interpolation, ("nearest", "bilinear"))
    shear = (shear, 0.0) if isinstance(shear, (int, float)) else tuple(shear) * (2 // len(shear))
    if scale <= 0:
        raise OptionError(f"affine: expected scale above 0, got {scale}")

    def change(x: Array) -> Array:
        rows = np.ones((len(x), 1))
        inverse = inverse_affine(_all(x, angle), rows * translate, _all(x, scale), rows * shear)
        return warp(x, affine_places(inverse, *x.shape[2:], center), mode, fill or 0)

    return _mapped(img, "affine", change)


def perspective(
    img: Any,
    startpoints: Sequence[Sequence[float]],
    endpoints: Sequence[Sequence[float]],
    interpolation: Any = InterpolationMode.BILINEAR,
    fill: Any = 0,
) -> Any:
    """The projective map that takes four points (x, y) `startpoints` to `endpoints`."""
    mode = mode_of(interpolation, ("nearest", "bilinear"))
    start, end = (np.asarray(points, float)[None] - 0.5 for points in (startpoints, endpoints))
    if start.shape != (1, 4, 2) or end.shape != (1, 4, 2):
        raise ShapeError("perspective: expected four points (x, y) each")

    def change(x: Array) -> Array:
        inverse = np.repeat(homography(end, start), len(x), 0)
        return warp(x, projective_places(inverse, *x.shape[2:]), mode, fill or 0)

    return _mapped(img, "perspective", change)


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """The rectangle of h × w pixels at (i, j) overwritten with v. Tensors and arrays."""
    value = v.array if isinstance(v, Tensor) else np.asarray(v)
    if inplace:
        (img.array if isinstance(img, Tensor) else img)[..., i : i + h, j : j + w] = value
        return img

    def change(x: Array) -> Array:
        x = x.copy()
        x[:, :, i : i + h, j : j + w] = value
        return x

    return _mapped(img, "erase", change)


# ------------------------------------------------------------------------------------------- values


def normalize(tensor: Any, mean: Any, std: Any, inplace: bool = False) -> Any:
    """(x − mean) / std, channel by channel, of floating images."""
    found = _photometric.Normalize(mean, std)(tensor)
    if not inplace:
        return found
    (tensor.array if isinstance(tensor, Tensor) else tensor)[...] = found.array if isinstance(found, Tensor) else found
    return tensor


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """factor · x"""
    return _recoloured(img, "adjust_brightness", lambda x: colour.brightness(x, _all(x, brightness_factor)))


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """From the mean grey of the image (0) over the image (1) to more."""
    return _recoloured(img, "adjust_contrast", lambda x: colour.contrast(x, _all(x, contrast_factor)))


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """From grey (0) over the image (1) to more colour."""
    return _recoloured(img, "adjust_saturation", lambda x: colour.saturation(x, _all(x, saturation_factor)))


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """The colours turned by a share of the circle, in [−½, ½]."""
    if not -0.5 <= hue_factor <= 0.5:
        raise OptionError(f"adjust_hue: expected hue_factor in [−0.5, 0.5], got {hue_factor}")
    return _recoloured(img, "adjust_hue", lambda x: colour.hue(x, _all(x, hue_factor)))


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """From smoothed (0) over the image (1) to sharper."""
    return _recoloured(img, "adjust_sharpness", lambda x: colour.sharpness(x, _all(x, sharpness_factor)))


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain · x^gamma"""
    if gamma < 0:
        raise OptionError(f"adjust_gamma: expected gamma ≥ 0, got {gamma}")
    return _recoloured(img, "adjust_gamma", lambda x: np.clip(gain * x**gamma, 0, 1))


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Grey, 0.299 r + 0.587 g + 0.114 b, in one channel or in three equal ones."""
    return _photometric.Grayscale(num_output_channels)(img)


rgb_to_grayscale = to_grayscale


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """Convolved with exp(−d²/2σ²) of kernel_size (across, down); σ = 0.15 k + 0.35 unless given; borders are reflected."""
    across, down = pair(kernel_size, "gaussian_blur: kernel_size")
    if any(k < 1 or k % 2 == 0 for k in (across, down)):
        raise OptionError(f"gaussian_blur: expected odd kernel sizes, got {kernel_size!r}")
    widths = tuple(0.15 * k + 0.35 for k in (across, down)) if sigma is None else pair(sigma, "gaussian_blur: sigma")
    if min(widths) <= 0:
        raise OptionError(f"gaussian_blur: expected sigma above 0, got {sigma!r}")

    def change(x: Array) -> Array:
        values = _photometric.blur(working(x), _all(x, widths[1]), down, 2)
        return finished(_photometric.blur(values, _all(x, widths[0]), across, 3), x.dtype)

    return _mapped(img, "gaussian_blur", change)


def invert(img: Any) -> Any:
    """White minus x."""
    return _mapped(img, "invert", lambda x: np.subtract(255 if x.dtype == np.uint8 else 1, x, dtype=x.dtype))


def posterize(img: Any, bits: int) -> Any:
    """The first `bits` of the 8 bits of each value."""
    if not 0 <= bits <= 8:
        raise OptionError(f"posterize: expected 0 to 8 bits, got {bits}")
    return _recoloured(img, "posterize", lambda x: colour.posterize(x, np.full(len(x), bits)))


def solarize(img: Any, threshold: float) -> Any:
    """Values from `threshold` on inverted; it is a level of 0…255 for bytes."""

    def change(x: Array) -> Array:
        return np.where(x >= threshold, np.subtract(255 if x.dtype == np.uint8 else 1, x, dtype=x.dtype), x)

    return _mapped(img, "solarize", change)


def autocontrast(img: Any) -> Any:
    """Each channel stretched so that its least and largest values are black and white."""
    return _recoloured(img, "autocontrast", colour.autocontrast)


def equalize(img: Any) -> Any:
    """Each channel mapped so that its 256 levels are as equally frequent as they can be."""
    return _recoloured(img, "equalize", colour.equalize)
