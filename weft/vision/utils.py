"""Pictures of batches: many images in one, and into a file; boxes drawn over an image."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.augment.base import pil_image
from ..errors import DtypeError, OptionError, ShapeError
from ..runtime.extras import extra
from ..tensor import Tensor, wrap

__all__ = ["draw_bounding_boxes", "draw_segmentation_masks", "make_grid", "save_image"]


def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Images (B, C, H, W), or a list of them, side by side, nrow in a row, as one (C, H′, W′); grey becomes three channels.

    normalize: values from value_range (of all images, or with scale_each of each one, unless given) to [0, 1].

    >>> make_grid(weft.zeros(6, 3, 4, 4), nrow=3, padding=1).shape
    Size([3, 11, 16])
    """
    images = _images(tensor)
    if normalize:
        images = images.astype(np.float32)
        images = np.stack([_unit(x, value_range) for x in images]) if scale_each else _unit(images, value_range)
    if len(images) == 1:
        return wrap(images[0])
    count, channels, height, width = images.shape
    across = min(nrow, count)
    down = math.ceil(count / across)
    grid = np.full((channels, (height + padding) * down + padding, (width + padding) * across + padding), pad_value)
    grid = grid.astype(images.dtype)
    for number, image in enumerate(images):
        top, left = (number // across) * (height + padding) + padding, (number % across) * (width + padding) + padding
        grid[:, top : top + height, left : left + width] = image
    return wrap(grid)


def _images(tensor: Any) -> np.ndarray:
    """(B, 3 or C, H, W) of what `make_grid` takes."""
    if isinstance(tensor, (list, tuple)):
        tensor = np.stack([part.detach().numpy() for part in tensor])
    x = tensor.detach().numpy() if isinstance(tensor, Tensor) else np.asarray(tensor)
    if not 2 <= x.ndim <= 4:
        raise ShapeError(f"make_grid: expected (H, W), (C, H, W) or (B, C, H, W), got {x.shape}")
    x = x[(None,) * (4 - x.ndim)]
    return np.repeat(x, 3, 1) if x.shape[1] == 1 else x


def _unit(x: np.ndarray, limits: tuple[float, float] | None) -> np.ndarray:
    low, high = (float(x.min()), float(x.max())) if limits is None else limits
    if low > high:
        raise OptionError(f"make_grid: expected value_range (low, high), got {limits}")
    return (np.clip(x, low, high) - low) / max(high - low, 1e-5)


def save_image(tensor: Any, fp: Any, format: str | None = None, **options: Any) -> None:
    """`make_grid` into a file: fp a path or a file, format its kind unless the name tells; options those of make_grid."""
    grid = make_grid(tensor, **options).array
    levels = np.clip(grid * 255 + 0.5, 0, 255).astype(np.uint8)
    pil_image(levels).save(fp if hasattr(fp, "write") else os.fspath(fp), format=format)


def draw_bounding_boxes(
    image: Tensor,
    boxes: Tensor,
    labels: Sequence[str] | None = None,
    colors: Any = None,
    fill: bool = False,
    width: int = 1,
) -> Tensor:
    """The image (C, H, W) of uint8 with boxes (N, 4) drawn over it, a label beside each; colors: one, or one for each."""
    if image.array.dtype != np.uint8 or image.ndim != 3:
        raise DtypeError(f"draw_bounding_boxes: expected uint8 (C, H, W), got {image.dtype} {tuple(image.shape)}")
    draw = extra("PIL.ImageDraw", "drawing boxes needs")
    pixels = np.repeat(image.array, 3, 0) if image.shape[0] == 1 else image.array
    picture = pil_image(pixels)
    canvas = draw.Draw(picture, "RGBA" if fill else None)
    for number, box in enumerate(boxes.tolist()):
        colour = colors[number] if isinstance(colors, list) else colors or "red"
        inside = (
            (*extra("PIL.ImageColor", "colours need").getrgb(colour), 100) if fill and isinstance(colour, str) else None
        )
        canvas.rectangle(box, outline=colour, width=width, fill=inside)
        if labels is not None:
            canvas.text((box[0] + width + 1, box[1] + width + 1), labels[number], fill=colour)
    return wrap(np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1)))


def draw_segmentation_masks(image: Tensor, masks: Tensor, alpha: float = 0.8, colors: Any = None) -> Tensor:
    """The image (3, H, W) of uint8 with masks (N, H, W) in colours (r, g, b), seen through as alpha says."""
    pixels, found = image.array.astype(np.float32), image.array.astype(np.float32)
    for number, mask in enumerate(masks.numpy().reshape(-1, *image.shape[1:]) != 0):
        usual = [(number * 97 + shift) % 256 for shift in (200, 90, 30)]
        colour = usual if colors is None else colors[number] if isinstance(colors, list) else colors
        found[:, mask] = np.asarray(colour, np.float32)[:, None]
    return wrap(np.clip(pixels * (1 - alpha) + found * alpha, 0, 255).astype(np.uint8))
