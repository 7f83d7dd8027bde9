"""A tensor in a few characters, for drawings and listings."""

from __future__ import annotations

import numpy as np

__all__ = ["shape_text", "value_text"]


def shape_text(shape: tuple[int, ...]) -> str:
    """'(2, 3)', or 'scalar'."""
    return str(tuple(shape)) if len(shape) else "scalar"


def number_text(value: complex) -> str:
    return f"{value:.4g}" if value else "0"


def value_text(array: np.ndarray, most: int = 4) -> str:
    """All numbers of a small array, '[1, 2, 3]'; mean and spread of a larger one."""
    array = np.asarray(array)
    wide = array.astype(np.float64) if array.dtype.kind in "Vf" else array
    if array.ndim == 0:
        return number_text(wide.item())
    if array.size <= most:
        return nested_text(wide)
    if array.dtype.kind == "c":
        return f"mean |x| {np.abs(wide).mean():.3g}"
    return f"{wide.mean():.3g} ± {wide.std():.3g}"


def nested_text(array: np.ndarray) -> str:
    if array.ndim == 0:
        return number_text(array.item())
    return "[" + ", ".join(nested_text(part) for part in array) + "]"
