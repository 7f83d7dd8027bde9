"""Convolutional players for small images (DCGAN, Radford et al. 2016): strides instead of pooling, no hidden layers of all pixels."""

from __future__ import annotations

import itertools
from typing import Literal

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor

__all__ = ["DCDiscriminator", "DCGenerator"]

Norm = Literal["batch", "spectral", "none"]


class DCGenerator(nn.Module):
    """z → image in (−1, 1): a projection to small maps, then fractional strides, each doubling height and width.

    Batch normalisation and ReLU after all but the last, which ends in tanh. Weights start as N(0, 0.02²).
    size: 7 · 2ⁿ (28) or 4 · 2ⁿ (32); width: channels of the last hidden maps, doubled towards z
    Shape: (B, latent) → (B, channels, size, size)
    """

    def __init__(self, latent: int = 64, channels: int = 1, size: int = 28, width: int = 32) -> None:
        super().__init__()
        self.start, doublings = _doublings(size)
        widths = [width * 2**i for i in reversed(range(doublings))]  # of the maps before each doubling
        self.maps = widths[0]
        self.project = nn.Linear(latent, widths[0] * self.start**2, bias=False)
        layers: list[nn.Module] = [nn.BatchNorm2d(widths[0]), nn.ReLU()]
        for wide, following in itertools.pairwise(widths):
            layers += [nn.ConvTranspose2d(wide, following, 4, 2, 1, bias=False), nn.BatchNorm2d(following), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.ConvTranspose2d(widths[-1], channels, 4, 2, 1), nn.Tanh())
        self.apply(start_small)

    def forward(self, z: Tensor) -> Tensor:
        return self.net(self.project(z).reshape(-1, self.maps, self.start, self.start))  # (B, C, s, s)


class DCDiscriminator(nn.Module):
    """image → score: strided convolutions, each halving height and width, with leaky ReLU; then one weighted sum.

    norm: 'batch' as in the paper (all but the first layer), 'spectral' (all layers), or 'none', for gradient penalties
    Shape: (B, channels, size, size) → (B,)
    """

    def __init__(self, channels: int = 1, size: int = 28, width: int = 32, norm: Norm = "batch") -> None:
        super().__init__()
        if norm not in ("batch", "spectral", "none"):
            raise OptionError(f"DCDiscriminator: expected norm 'batch', 'spectral' or 'none', got {norm!r}")
        start, halvings = _doublings(size)
        widths = [channels, *(width * 2**i for i in range(halvings))]
        layers: list[nn.Module] = []
        for i, (wide, following) in enumerate(itertools.pairwise(widths)):
            batch = norm == "batch" and i > 0
            layers.append(_normed(nn.Conv2d(wide, following, 4, 2, 1, bias=not batch), norm))
            layers += [nn.BatchNorm2d(following)] * batch + [nn.LeakyReLU(0.2)]
        self.net = nn.Sequential(*layers, nn.Flatten())
        self.output = _normed(nn.Linear(widths[-1] * start**2, 1), norm)
        if norm != "spectral":
            self.apply(start_small)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.net(x))[:, 0]


def start_small(layer: nn.Module) -> None:
    """Weights of convolutions and linear layers N(0, 0.02²), gains of normalisation N(1, 0.02²), biases 0."""
    if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
        nn.init.normal_(layer.weight, 0.0, 0.02)
    elif isinstance(layer, nn.BatchNorm2d):
        nn.init.normal_(layer.weight, 1.0, 0.02)
    else:
        return
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def _normed(layer: nn.Module, norm: Norm) -> nn.Module:
    return nn.utils.parametrizations.spectral_norm(layer) if norm == "spectral" else layer


def _doublings(size: int) -> tuple[int, int]:
    """28 → 7 · 2², 32 → 4 · 2³"""
    for start in (7, 4):
        count, rest = 0, size
        while rest > start and rest % 2 == 0:
            count, rest = count + 1, rest // 2
        if rest == start and count:
            return start, count
    raise OptionError(f"DCGAN: expected images of 7 · 2ⁿ or 4 · 2ⁿ pixels a side, such as 28 or 32, got {size}")
