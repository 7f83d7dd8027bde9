"""Pictures of codes: what changes along each number of a code, on the way between two images, over a plane of codes.

Each takes a function from codes to images, so any decoder: `model.decode` of a VAE, an autoencoder, a generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ..errors import OptionError, ShapeError
from ..tensor import Tensor
from .drawing import Picture, array_of, blank

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ImageGrid", "interpolation_grid", "latent_manifold", "latent_traversal"]

Decode = Callable[[Tensor], Tensor]
AT_ONCE = 500


@dataclass
class ImageGrid(Picture):
    """Images in rows and columns: (R, C, H, W), or (R, C, H, W, 3) in colour, with the codes they were made of (R, C, code).

    rows, columns: names of them, or none
    """

    images: NDArray
    codes: NDArray
    rows: list[str]
    columns: list[str]

    def figure(self) -> Figure:
        """All images as one, without gaps, so that neighbours can be compared."""
        down, across, height, width = self.images.shape[:4]
        whole = np.moveaxis(self.images, 1, 2).reshape(down * height, across * width, *self.images.shape[4:])
        side = 0.42
        figure, axes = blank(1, 1, max(side * across, 2.0) + 0.6 * bool(self.rows), max(side * down, 1.2) + 0.3)
        axis = axes[0, 0]
        axis.imshow(whole, cmap="gray", vmin=0, vmax=1)
        axis.set_xticks([width * (i + 0.5) for i in range(across)] if self.columns else [], self.columns, fontsize=7)
        axis.set_yticks([height * (i + 0.5) for i in range(down)] if self.rows else [], self.rows, fontsize=7)
        axis.tick_params(length=0)
        for spine in axis.spines.values():
            spine.set_visible(False)
        return figure


def latent_traversal(
    decode: Decode,
    z: Tensor,
    dimensions: Sequence[int] | None = None,
    *,
    limits: tuple[float, float] = (-3.0, 3.0),
    steps: int = 9,
    shape: Sequence[int] | None = None,
) -> ImageGrid:
    """One row for each number of a code: that number from one limit to the other, the rest as in z, (code,).

    shape: of an image, (H, W) or (C, H, W), where the decoder makes rows of numbers

    >>> grid = latent_traversal(lambda z: z @ weft.ones(2, 16), weft.zeros(2), steps=5, shape=(4, 4))
    >>> grid.images.shape
    (2, 5, 4, 4)
    """
    if z.ndim != 1:
        raise ShapeError(f"latent_traversal: expected one code, (code,), got {tuple(z.shape)}")
    places = list(range(len(z)) if dimensions is None else dimensions)
    if not places or min(places) < 0 or max(places) >= len(z) or steps < 2:
        raise OptionError(
            f"latent_traversal: expected dimensions from 0 to {len(z) - 1} and steps ≥ 2, got {places} and {steps}"
        )
    values = weft.linspace(*limits, steps, dtype=z.dtype)
    codes = z.detach().clone().expand(len(places), steps, len(z)).clone()
    for row, place in enumerate(places):
        codes[row, :, place] = values
    names = [f"z{place}" for place in places]
    return _grid(decode, codes, shape, names, [f"{value:g}" for value in values.tolist()])


def interpolation_grid(
    decode: Decode, start: Tensor, end: Tensor, steps: int = 9, *, shape: Sequence[int] | None = None
) -> ImageGrid:
    """Images of the codes on the straight way from each start to its end: (N, code) twice → N rows."""
    if start.shape != end.shape or start.ndim != 2 or steps < 2:
        raise ShapeError(
            f"interpolation_grid: expected codes (N, code) twice and steps ≥ 2, got {tuple(start.shape)}, "
            f"{tuple(end.shape)} and {steps}"
        )
    parts = weft.linspace(0, 1, steps, dtype=start.dtype).reshape(1, -1, 1)
    codes = start.detach().unsqueeze(1) * (1 - parts) + end.detach().unsqueeze(1) * parts  # (N, steps, code)
    return _grid(decode, codes, shape, [], [])


def latent_manifold(decode: Decode, side: int = 20, *, shape: Sequence[int] | None = None) -> ImageGrid:
    """What a decoder of two numbers makes of the plane, at quantiles of the standard normal prior (Kingma and Welling 2014).

    Every image stands for the same share, 1 / side², of the prior. The first number grows to the right, the second upwards.
    """
    if side < 2:
        raise OptionError(f"latent_manifold: expected side ≥ 2, got {side}")
    chances = (weft.arange(side, dtype=weft.float32) + 0.5) / side
    values = 2**0.5 * weft.erfinv(2 * chances - 1)
    across, up = values.expand(side, side), values.flip(0).unsqueeze(1).expand(side, side)
    return _grid(decode, weft.stack([across, up], -1), shape, [], [])


@weft.no_grad()
def _grid(decode: Decode, codes: Tensor, shape: Sequence[int] | None, rows: list[str], columns: list[str]) -> ImageGrid:
    """(R, C, code) → the images"""
    made = weft.cat([decode(part) for part in codes.flatten(0, 1).split(AT_ONCE)])
    found = _images(array_of(made), shape)
    return ImageGrid(found.reshape(*codes.shape[:2], *found.shape[1:]), array_of(codes), rows, columns)


def _images(made: NDArray, shape: Sequence[int] | None) -> NDArray[Any]:
    """(N, …) → (N, H, W) or (N, H, W, 3)"""
    found = made if shape is None else made.reshape(len(made), *shape)
    if found.ndim == 4 and found.shape[1] in (1, 3):  # (N, C, H, W)
        found = found[:, 0] if found.shape[1] == 1 else np.moveaxis(found, 1, -1)
    if found.ndim not in (3, 4):
        raise ShapeError(f"expected images (N, H, W) or (N, C, H, W), got {made.shape}; say shape=(H, W)")
    return found
