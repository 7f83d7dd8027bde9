"""What people hand to `predict`: paths, arrays, lists, words, turned into tensors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

import weft

from ..errors import OptionError, ShapeError
from ..tensor import Tensor
from .photos import fitted, light_on_dark, read_picture

__all__ = ["as_images", "as_rows"]


def as_images(
    input: Any, shape: tuple[int, int, int], white: float = 255, ink: bool = False
) -> tuple[Tensor, list[list[str]]]:
    """One image or several as a batch (B, C, H, W) of brightness in [0, 1], and what was done to each to make it so.

    input: a tensor or array (H, W), (C, H, W), (B, C, H, W) or, for one channel, (B, H, W); rows of C·H·W numbers; the
    path of a picture (of any size; needs Pillow) or of a `.npy` file. Whole numbers are divided by `white`.
    ink: these are strokes, light on a dark ground as in MNIST: the other polarity is inverted, and pictures of another
    size are cut to their ink. Other pictures are cut to their middle square.
    """
    if isinstance(input, str | os.PathLike):
        path = Path(input)
        if not path.exists():
            raise OptionError(f"predict: there is no file {path}")
        if path.suffix != ".npy":
            image, done = fitted(read_picture(path, shape[0]), shape, ink)
            return weft.tensor(image[None]), [done]
        input = np.load(path, allow_pickle=False)
    array = np.asarray(input.detach().numpy() if isinstance(input, Tensor) else input)
    if array.dtype.kind not in "biuf":
        raise OptionError(
            f"predict: expected an image as numbers or a path, got {type(input).__name__} of {array.dtype}"
        )
    scaled = array / white if array.dtype.kind in "iu" else array
    batch = _batch_of(scaled, shape).astype(np.float32)
    if not np.isfinite(batch).all():
        raise OptionError("predict: the images have elements that are not finite")
    made = [light_on_dark(image) if ink else (image, []) for image in batch]
    return weft.tensor(np.stack([image for image, _ in made])), [done for _, done in made]


def _batch_of(array: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """The array as (B, C, H, W), if its last sizes are those of the images, or if its rows are whole images."""
    channels, height, width = shape
    rows = array.ndim in (1, 2) and array.shape[-1] == channels * height * width
    images = array.shape[-2:] == (height, width) and (channels == 1 or array.shape[-3:] == shape) and array.ndim <= 4
    if array.size and (rows or (images and (array.ndim < 4 or array.shape[1] == channels))):
        return array.reshape(-1, channels, height, width)
    raise ShapeError(f"predict: expected images of shape {shape} (channels, height, width), got {array.shape}")


def as_rows(input: Any, columns: int) -> Tensor:
    """One row of numbers or several as (B, columns) float32: an array, lists, or text like `0.5, -1; 2 3`."""
    if isinstance(input, str):
        input = [[_number(word) for word in row.replace(",", " ").split()] for row in input.split(";") if row.strip()]
    try:
        array = np.asarray(input.detach().numpy() if isinstance(input, Tensor) else input, np.float32)
    except (TypeError, ValueError) as error:
        raise OptionError(f"predict: expected rows of {columns} numbers, got {input!r}") from error
    if array.ndim > 2 or array.size == 0 or array.size % columns or (array.ndim == 2 and array.shape[1] != columns):
        raise ShapeError(f"predict: expected rows of {columns} numbers, got shape {array.shape}")
    return weft.tensor(array.reshape(-1, columns))


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise OptionError(f"predict: {word!r} is not a number; write rows like 0.5,-1 or 0.5,-1;2,3") from None
