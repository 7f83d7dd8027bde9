"""Functions that the second version of the transforms has under another name, or anew."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft

from .....data.augment.base import is_pil
from .....tensor import Tensor, wrap
from ... import functional as _first

__all__ = ["get_num_channels", "get_size", "horizontal_flip", "to_dtype", "to_image", "vertical_flip"]

horizontal_flip, vertical_flip = _first.hflip, _first.vflip
get_num_channels = _first.get_image_num_channels


def get_size(inpt: Any) -> list[int]:
    """[height, width]"""
    return _first.get_dimensions(inpt)[1:]


def to_image(inpt: Any) -> Tensor:
    """A PIL image, an array (H, W, C) or a tensor as a tensor (C, H, W) with the same values."""
    if is_pil(inpt):
        return _first.pil_to_tensor(inpt)
    if isinstance(inpt, Tensor):
        return inpt
    pixels = np.asarray(inpt)
    return wrap(np.ascontiguousarray(np.moveaxis(np.atleast_3d(pixels), -1, -3)))


def to_dtype(inpt: Any, dtype: Any = weft.float32, scale: bool = False) -> Any:
    """In another dtype; scale: white stays white (`convert_image_dtype`), else values stay."""
    return _first.convert_image_dtype(inpt, dtype) if scale else inpt.to(dtype)
