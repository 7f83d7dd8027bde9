"""The convolutional autoencoder: strided convolutions down to the code, transposed ones up again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ... import nn
from ...errors import OptionError
from .autoencoder import Autoencoder

__all__ = ["ConvolutionalAutoencoder"]


class ConvolutionalAutoencoder(Autoencoder):
    """3×3 convolutions that halve the image (rounding up), a linear code, and the mirror image of both.

    shape: (C, H, W) of the images; channels: of each halving. Options: error, noise, penalties, as in `Autoencoder`
    Shape: (B, C, H, W) → (B, code) → (B, C, H, W)

    >>> model = ConvolutionalAutoencoder((1, 28, 28), (16, 32), 10)
    >>> [tuple(part.shape) for part in (model.encode(weft.zeros(2, 1, 28, 28)), model.decode(weft.zeros(2, 10)))]
    [(2, 10), (2, 1, 28, 28)]
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        channels: Sequence[int],
        code: int,
        error: str = "squared_error",
        **options: Any,
    ) -> None:
        if len(shape) != 3 or not channels:
            raise OptionError(
                f"ConvolutionalAutoencoder: expected images (C, H, W) and channels, got {shape}, {channels}"
            )
        sizes = [shape[1:]]
        for _ in channels:
            sizes.append(tuple(-(-side // 2) for side in sizes[-1]))
        steps = list(zip(itertools.pairwise([shape[0], *channels]), sizes, strict=False))
        small = (channels[-1], *sizes[-1])
        down = [part for (a, b), _ in steps for part in (nn.Conv2d(a, b, 3, 2, 1), nn.ReLU())]
        up = [part for (a, b), size in steps[::-1] for part in (nn.ReLU(), _doubled(b, a, size))]
        encoder = nn.Sequential(*down, nn.Flatten(), nn.Linear(math.prod(small), code))
        decoder = nn.Sequential(nn.Linear(code, math.prod(small)), nn.Unflatten(1, small), *up)
        super().__init__(encoder, decoder, error, **options)


def _doubled(inputs: int, outputs: int, size: tuple[int, ...]) -> nn.ConvTranspose2d:
    """The convolution that makes an image of this size out of one of half of it: 2 n − 1, and 1 more where it is even."""
    return nn.ConvTranspose2d(inputs, outputs, 3, 2, 1, output_padding=tuple(1 - side % 2 for side in size))
