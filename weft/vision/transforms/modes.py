"""How values between pixels are made."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from ...errors import OptionError

__all__ = ["InterpolationMode", "mode_of"]


class InterpolationMode(StrEnum):
    """The names are their values: "bilinear" is as good as InterpolationMode.BILINEAR."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


PILLOW = {0: "nearest", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers


def mode_of(interpolation: Any, known: tuple[str, ...] = ("nearest", "bilinear", "bicubic")) -> str:
    """The plain name of a mode, a string, or one of Pillow's numbers."""
    name = (
        PILLOW.get(interpolation) if isinstance(interpolation, int) else getattr(interpolation, "value", interpolation)
    )
    name = "nearest" if name == "nearest-exact" else name
    if name not in known:
        raise OptionError(f"interpolation: expected one of {', '.join(known)}, got {interpolation!r}")
    return name
