"""What people hand to `predict`: paths, arrays, lists, words, turned into tensors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

import weft

from ..errors import OptionError, ShapeError
from ..tensor import Tensor


def as_images(input: Any, shape: tuple[int, int, int], white: float = 255) -> Tensor:
    """One image or several as a batch (B, C, H, W) of brightness in [0, 1]; light ink on a dark ground, as in MNIST.

    input: a tensor or array (H, W), (C, H, W), (B, C, H, W) or, for one channel, (B, H, W); rows of C·H·W numbers; the
    path of a picture (scaled to H×W; needs Pillow) or of a `.npy` file. Whole numbers are divided by `white`.
    """
    if isinstance(input, str | os.PathLike):
        input = _read_image(Path(input), shape)
    array = np.asarray(input.detach().numpy() if isinstance(input, Tensor) else input)
    if array.dtype.kind not in "biuf":
        raise OptionError(
            f"predict: expected an image as numbers or a path, got {type(input).__name__} of {array.dtype}"
        )
    scaled = array / white if array.dtype.kind in "iu" else array
    return weft.tensor(_batch_of(scaled, shape).astype(np.float32))


def _batch_of(array: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """The array as (B, C, H, W), if its last sizes are those of the images, or if its rows are whole images."""
    channels, height, width = shape
    rows = array.ndim in (1, 2) and array.shape[-1] == channels * height * width
    images = array.shape[-2:] == (height, width) and (channels == 1 or array.shape[-3:] == shape) and array.ndim <= 4
    if array.size and (rows or (images and (array.ndim < 4 or array.shape[1] == channels))):
        return array.reshape(-1, channels, height, width)
    raise ShapeError(f"predict: expected images of shape {shape} (channels, height, width), got {array.shape}")


def _read_image(path: Path, shape: tuple[int, int, int]) -> np.ndarray:
    if not path.exists():
        raise OptionError(f"predict: there is no file {path}")
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("predict: reading pictures needs Pillow: pip install 'weft[images]'") from error
    channels, height, width = shape
    with Image.open(path) as picture:
        small = picture.convert("L" if channels == 1 else "RGB").resize((width, height))
    pixels = np.asarray(small, np.float32) / 255  # (H, W) or (H, W, 3)
    return pixels if channels == 1 else pixels.transpose(2, 0, 1)


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
