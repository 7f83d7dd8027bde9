"""Pictures from files and into files as tensors (C, H, W) of uint8, by way of Pillow."""

from __future__ import annotations

import os
from enum import Enum
from typing import Any

import numpy as np

from ..data.augment.base import pil_image
from ..errors import DtypeError
from ..io.errors import FileFormatError
from ..runtime.extras import extra
from ..tensor import Tensor, wrap

__all__ = ["ImageReadMode", "read_image", "write_jpeg", "write_png"]


class ImageReadMode(Enum):
    """Which channels a picture is read with: as in the file, grey, or colours."""

    UNCHANGED = "unchanged"
    GRAY = "L"
    GRAY_ALPHA = "LA"
    RGB = "RGB"
    RGB_ALPHA = "RGBA"


def read_image(path: str | os.PathLike[str], mode: ImageReadMode | str = ImageReadMode.UNCHANGED) -> Tensor:
    """The picture of a file, (C, H, W) uint8."""
    image, mode = (
        extra("PIL.Image", "reading pictures needs"),
        getattr(ImageReadMode, mode) if isinstance(mode, str) else mode,
    )
    try:
        with image.open(path) as opened:
            if mode is ImageReadMode.UNCHANGED:
                picture = opened if opened.mode in ("L", "LA", "RGB", "RGBA") else opened.convert("RGB")
            else:
                picture = opened.convert(mode.value)
            pixels = np.array(picture)
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError) as error:
        raise FileFormatError(f"{path}: the picture cannot be read ({error})") from error
    return wrap(np.ascontiguousarray(np.atleast_3d(pixels).transpose(2, 0, 1)))


def write_png(input: Tensor, filename: str | os.PathLike[str], compression_level: int = 6) -> None:
    """Write (C, H, W) uint8 as PNG."""
    _picture(input, "write_png").save(filename, "PNG", compress_level=compression_level)


def write_jpeg(input: Tensor, filename: str | os.PathLike[str], quality: int = 75) -> None:
    """Write (C, H, W) uint8 as JPEG."""
    _picture(input, "write_jpeg").save(filename, "JPEG", quality=quality)


def _picture(x: Tensor, name: str) -> Any:
    if x.array.dtype != np.uint8:
        raise DtypeError(f"{name}: expected uint8 (C, H, W), got {x.dtype}")
    return pil_image(x.array)
