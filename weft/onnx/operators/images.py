"""Images: sampled at a grid, grids of affine maps, and pictures read from their bytes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

import weft

from ...errors import InvalidValueError
from ...nn import functional as F
from ...runtime.extras import extra
from ...tensor import Tensor
from .registry import as_array, ints, rule

MOST_PIXELS = 1 << 26


@rule("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    how = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid, how, padding_mode, bool(align_corners))


@rule("AffineGrid", numbers=(1,))
def affine_grid(theta: Tensor, size: np.ndarray, *, align_corners: int = 0) -> Tensor:
    return F.affine_grid(theta, ints(size), bool(align_corners))


@rule("ImageDecoder", raw=True)
def image_decoder(data: Any, *, pixel_format: str = "RGB") -> Tensor:
    """A picture (H, W, C) of bytes from those of its file."""
    pictures = extra("PIL.Image", "ImageDecoder needs")
    try:
        picture = pictures.open(io.BytesIO(as_array(data).astype(np.uint8).tobytes()))
        if picture.width * picture.height > MOST_PIXELS:
            raise InvalidValueError(f"ImageDecoder: a picture of {picture.width} × {picture.height}; refused")
        found = np.asarray(picture.convert("L" if pixel_format == "Grayscale" else "RGB"))
    except (OSError, SyntaxError) as error:
        raise InvalidValueError(f"ImageDecoder: {error}") from None
    if pixel_format == "Grayscale":
        return weft.from_numpy(found[:, :, None].copy())
    return weft.from_numpy(np.ascontiguousarray(found[:, :, ::-1] if pixel_format == "BGR" else found))
