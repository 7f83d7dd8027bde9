"""Random colour and blur of batches inside of compiled steps."""

from __future__ import annotations

from typing import Any

import weft

from ....nn import functional as F
from ....tensor import Tensor
from ..base import probability
from ..photometric import ColorJitter as HostJitter
from ..photometric import GaussianBlur as HostBlur
from ..photometric import Normalize as HostNormalize
from . import colour
from .base import TensorTransform, each, uniform

__all__ = ["ColorJitter", "GaussianBlur", "Normalize", "RandomGrayscale"]

ADJUSTMENTS = (colour.brightness, colour.contrast, colour.saturation, colour.hue)
STILL = (1.0, 1.0, 1.0, 0.0)  # the factors that change nothing


class ColorJitter(TensorTransform):
    """Brightness, contrast, saturation and hue changed by random factors, in a random order for each image.

    The first three: factors in [max(0, 1 − v), 1 + v] or (low, high). hue: shifts in [−v, v] or (low, high), |v| ≤ ½.
    p: the chance that an image is changed at all (0.8 in SimCLR)
    """

    def __init__(
        self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0, p: float = 1.0
    ) -> None:
        self.limits = HostJitter(brightness, contrast, saturation, hue).limits()
        self.p = probability(p, "ColorJitter")

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        u = uniform(x, 9, generator=generator)
        order, chosen = u[:, :4].argsort(1), u[:, 8] < self.p  # (N, 4): what each image has next
        factors = [low + u[:, 4 + k] * (high - low) for k, (low, high) in enumerate(self.limits)]
        return self.adjusted(x, factors, order, chosen)

    def adjusted(self, x: Tensor, factors: list[Tensor], order: Tensor, chosen: Tensor) -> Tensor:
        """The images with given factors, four of (N,), in a given order, (N, 4), where they are chosen, (N,)."""
        wanted = [k for k, (low, high) in enumerate(self.limits) if not low == high == STILL[k]]
        for place in range(len(ADJUSTMENTS) if wanted else 0):
            for k in wanted:
                now = (order[:, place] == k) & chosen
                x = ADJUSTMENTS[k](x, weft.where(now, factors[k], STILL[k]))
        return x


class RandomGrayscale(TensorTransform):
    """Grey, in the same number of channels, with probability p."""

    def __init__(self, p: float = 0.1) -> None:
        self.p = probability(p, "RandomGrayscale")

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        return weft.where(each(uniform(x, generator=generator) < self.p), colour.grey(x), x)


class GaussianBlur(TensorTransform):
    """Convolved with exp(−d² / 2σ²) of `kernel_size` odd widths, σ for each image in `sigma`; borders are reflected.

    p: the chance that an image is blurred (0.5 in SimCLR)
    """

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0), p: float = 1.0) -> None:
        checked = HostBlur(kernel_size, sigma)
        self.kernel_size, self.sigma = checked.kernel_size, checked.sigma
        self.p = probability(p, "GaussianBlur")

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        u = uniform(x, 2, generator=generator)
        sigma = self.sigma[0] + u[:, 0] * (self.sigma[1] - self.sigma[0])
        width, height = self.kernel_size
        blurred = blur(blur(x, sigma, height, 2), sigma, width, 3)
        return weft.where(each(u[:, 1] < self.p), blurred, x)


class Normalize(TensorTransform):
    """(x − mean) / std, channel by channel: the last change, for networks that want such images.

    mean, std: one number, or one for each channel
    """

    def __init__(self, mean: Any, std: Any) -> None:
        checked = HostNormalize(mean, std)
        self.mean, self.std = checked.mean.tolist(), checked.std.tolist()

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        mean, std = (weft.tensor(v, dtype=x.dtype).reshape(1, -1, 1, 1) for v in (self.mean, self.std))
        return (x - mean) / std


def blur(x: Tensor, sigma: Tensor, width: int, dim: int) -> Tensor:
    """x convolved along dimension 2 or 3 with a Gaussian of `width` taps, for each image its own σ, (N,)."""
    reach = width // 2
    if not reach:
        return x
    places = weft.arange(-reach, reach + 1, dtype=x.dtype)
    taps = weft.exp(-0.5 * (places / sigma[:, None]) ** 2)
    taps = taps / taps.sum(1, keepdim=True)  # (N, width)
    wide = F.pad(x, (0, 0, reach, reach) if dim == 2 else (reach, reach, 0, 0), mode="reflect")
    return sum(each(taps[:, k]) * wide.narrow(dim, k, x.shape[dim]) for k in range(width))
