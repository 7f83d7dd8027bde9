"""Images with other values in the same places: colour, blur, noise; and their way into tensors and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DtypeError, OptionError, ShapeError
from ...tensor import Tensor, wrap
from . import colour
from .base import Source, Transform, bounds, finished, is_pil, opened, pair, pil_image, probability, working

__all__ = [
    *("ColorJitter", "DynamicBinarize", "GaussianBlur", "GaussianNoise", "Grayscale", "Normalize", "RandomGrayscale"),
    *("ThresholdBinarize", "ToPILImage", "ToTensor"),
]

ADJUSTMENTS = (colour.brightness, colour.contrast, colour.saturation, colour.hue)


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed by random factors, in a random order for each image.

    The first three: factors in [max(0, 1 − v), 1 + v] or (low, high). hue: shifts in [−v, v] or (low, high), |v| ≤ ½.
    """

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0) -> None:
        self.brightness, self.contrast, self.saturation = map(_factors, (brightness, contrast, saturation))
        self.hue = bounds(hue, "ColorJitter: hue")
        if not -0.5 <= self.hue[0] <= self.hue[1] <= 0.5:
            raise OptionError(f"ColorJitter: expected hue in [−0.5, 0.5], got {hue!r}")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        factors, order = self.draw(source)
        x = as_copy(images, "ColorJitter")
        wanted = [not (low == high == still) for (low, high), still in zip(self.limits(), (1, 1, 1, 0), strict=True)]
        for step in order.T:  # (N,): what each image has next
            for number, adjust in enumerate(ADJUSTMENTS):
                chosen = step == number
                if wanted[number] and chosen.any():
                    x[chosen] = adjust(x[chosen], factors[chosen, number])
        return colour.from_unit(x, images.dtype)

    def limits(self) -> tuple[tuple[float, float], ...]:
        return self.brightness, self.contrast, self.saturation, self.hue

    def draw(self, source: Source) -> tuple[NDArray, NDArray]:
        """The factors (brightness, contrast, saturation, hue), (N, 4), and the order in which they act, (N, 4)."""
        low, high = np.array(self.limits()).T
        return low + source.uniform(4) * (high - low), source.permutations(4)


class Grayscale(Transform):
    """Grey images with 1 channel, or with 3 equal ones."""

    def __init__(self, num_output_channels: int = 1) -> None:
        if num_output_channels not in (1, 3):
            raise OptionError(f"Grayscale: expected num_output_channels of 1 or 3, got {num_output_channels}")
        self.num_output_channels = num_output_channels

    def apply(self, images: NDArray, source: Source) -> NDArray:
        grey = colour.from_unit(colour.grey(colour.as_unit(images, "Grayscale")), images.dtype)
        return np.repeat(grey, self.num_output_channels, axis=1)


class RandomGrayscale(Transform):
    """Grey, in the same number of channels, with probability p."""

    def __init__(self, p: float = 0.1) -> None:
        self.p = probability(p, "RandomGrayscale")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        result, chosen = images.copy(), source.uniform() < self.p
        grey = colour.grey(colour.as_unit(images[chosen], "RandomGrayscale"))
        result[chosen] = colour.from_unit(grey, images.dtype)  # (n, 1, H, W) into every channel
        return result


class GaussianBlur(Transform):
    """Convolved with exp(−d² / 2σ²) of `kernel_size` odd widths, σ for each image in `sigma`; borders are reflected."""

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        self.kernel_size = pair(kernel_size, "GaussianBlur: kernel_size")
        self.sigma = bounds(pair(sigma, "sigma"), "GaussianBlur: sigma")
        if any(k < 1 or k % 2 == 0 for k in self.kernel_size):
            raise OptionError(f"GaussianBlur: expected odd kernel sizes, got {kernel_size!r}")
        if self.sigma[0] <= 0:
            raise OptionError(f"GaussianBlur: expected sigma above 0, got {sigma!r}")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        sigma = source.uniform(low=self.sigma[0], high=self.sigma[1])
        width, height = self.kernel_size
        return finished(blur(blur(working(images), sigma, height, 2), sigma, width, 3), images.dtype)


class GaussianNoise(Transform):
    """mean + sigma · z added, in units where white is 1; `clip` keeps the result in [0, 1]."""

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        if sigma < 0:
            raise OptionError(f"GaussianNoise: expected sigma ≥ 0, got {sigma}")
        self.mean, self.sigma, self.clip = mean, sigma, clip

    def apply(self, images: NDArray, source: Source) -> NDArray:
        x = colour.as_unit(images, "GaussianNoise")
        noise = source.normal(*images.shape[1:])
        x = x + (noise * np.float32(self.sigma) + np.float32(self.mean)).astype(x.dtype, copy=False)
        return colour.from_unit(x, images.dtype) if self.clip or images.dtype == np.uint8 else finished(x, images.dtype)


class DynamicBinarize(Transform):
    """Bits drawn anew at every call, 1 with the pixel's brightness as probability: the dynamic binarisation of MNIST.

    A test set needs one draw that stays (a generator with a fixed seed); figures differ from those on
    `BinarizedMNIST`, which was drawn once, by some nats.
    """

    def apply(self, images: NDArray, source: Source) -> NDArray:
        x = colour.as_unit(images, "DynamicBinarize")
        return (source.uniform(*images.shape[1:]) < x).astype(x.dtype)


class ThresholdBinarize(Transform):
    """1 where the brightness is above `threshold`, otherwise 0: smooth outlines, with less to predict than in drawn bits."""

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = probability(threshold, "ThresholdBinarize")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        x = colour.as_unit(images, "ThresholdBinarize")
        return (x > self.threshold).astype(x.dtype)


# ---- into tensors and back ---------------------------------------------------------------------------------


class Normalize(Transform):
    """(x − mean) / std, channel by channel, of floating images."""

    def __init__(self, mean: Any, std: Any) -> None:
        self.mean, self.std = np.atleast_1d(np.asarray(mean, float)), np.atleast_1d(np.asarray(std, float))
        if (self.std == 0).any():
            raise OptionError(f"Normalize: expected std other than 0, got {std!r}")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        if images.dtype.kind not in "fV":
            raise DtypeError(f"Normalize: expected floating images, got {images.dtype}; put ToTensor before it")
        x = working(images)
        if any(len(v) not in (1, x.shape[1]) for v in (self.mean, self.std)):
            raise ShapeError(f"Normalize: {len(self.mean)} means and {len(self.std)} stds for {x.shape[1]} channels")
        mean, std = (v.astype(x.dtype)[:, None, None] for v in (self.mean, self.std))
        return finished((x - mean) / std, images.dtype)


class ToTensor(Transform):
    """Tensors of float32 in [0, 1], channels first, from PIL images, arrays (H, W, C) or (H, W), or tensors.

    Only bytes are divided by 255. Tensors are taken as channels first, arrays of 4 dimensions as (N, H, W, C).
    """

    def __call__(self, x: Any, generator: Any = None) -> Tensor:
        if isinstance(x, Tensor):
            return wrap(self.apply(x.array))
        if is_pil(x):
            return wrap(self.apply(opened(x, "ToTensor")[0][0]))
        x = np.asarray(x)
        if x.ndim not in (2, 3, 4):
            raise ShapeError(f"ToTensor: expected an array (H, W), (H, W, C) or (N, H, W, C), got shape {x.shape}")
        return wrap(self.apply(x[None] if x.ndim == 2 else np.moveaxis(x, -1, -3)))

    def apply(self, images: NDArray, source: Source | None = None) -> NDArray:
        if images.dtype == np.uint8:
            return np.divide(images, np.float32(255), dtype=np.float32)
        return np.array(images, np.float32)


class ToPILImage:
    """The PIL image of a tensor or array (C, H, W): bytes, or floating values in [0, 1]."""

    def __call__(self, x: Any, generator: Any = None) -> Any:
        images, _ = opened(x, "ToPILImage")
        if len(images) != 1 or images.shape[1] not in (1, 3, 4):
            raise ShapeError(f"ToPILImage: expected one image (C, H, W) of 1, 3 or 4 channels, got {images.shape}")
        return pil_image(colour.to_bytes(colour.as_unit(images, "ToPILImage"))[0])


# ---- parts -------------------------------------------------------------------------------------------------


def blur(x: NDArray, sigma: NDArray, width: int, axis: int) -> NDArray:
    """x convolved along one axis with a Gaussian of `width` taps, for each image its own."""
    if not x.size:
        return x
    reach = width // 2
    taps = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma[:, None]) ** 2)
    taps = (taps / taps.sum(1, keepdims=True)).astype(x.dtype)  # (N, width)
    padding = [(0, 0)] * 4
    padding[axis] = (reach, reach)
    wide, length = np.moveaxis(np.pad(x, padding, mode="reflect"), axis, -1), x.shape[axis]
    total = sum(taps[:, k, None, None, None] * wide[..., k : k + length] for k in range(width))
    return np.moveaxis(total, -1, axis)


def as_copy(images: NDArray, name: str) -> NDArray:
    """Images in [0, 1], in memory of their own."""
    x = colour.as_unit(images, name)
    return x.copy() if np.may_share_memory(x, images) else x


def _factors(value: Any) -> tuple[float, float]:
    low, high = bounds(value, "ColorJitter", around=1.0)
    if not isinstance(value, (int, float)) and low < 0:
        raise OptionError(f"ColorJitter: expected factors ≥ 0, got {value!r}")
    return max(low, 0.0), high
