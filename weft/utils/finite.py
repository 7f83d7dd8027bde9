"""Finite differences on NumPy arrays: what gradients are checked against.

A complex number counts as two real coordinates, its real and its imaginary part, so that every
function is a map between real vectors and has one Jacobian.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

__all__ = [
    "close",
    "coordinate_count",
    "coordinates",
    "matrix",
    "numerical_jacobian",
    "overlaps",
    "random_array",
    "unit",
    "worst",
]


def coordinates(array: np.ndarray) -> np.ndarray:
    """All real coordinates in order: x₀, x₁, … or Re x₀, Im x₀, Re x₁, …"""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.real(flat).dtype) if flat.dtype.kind == "c" else flat


def unit(shape: Sequence[int], dtype: np.dtype, number: int) -> np.ndarray:
    """The array whose coordinate `number` is 1 and whose others are 0."""
    array = np.zeros(tuple(shape), dtype)
    coordinates(array.reshape(-1))[number] = 1
    return array


def coordinate_count(array: np.ndarray) -> int:
    return array.size * (2 if array.dtype.kind == "c" else 1)


def numerical_jacobian(call: Callable[[], list[np.ndarray]], array: np.ndarray, eps: float) -> list[np.ndarray]:
    """∂ output / ∂ array for each output of `call`, which reads `array`: (output, input) coordinates.

    The array is changed in place and put back, so that outputs that share its memory follow; central
    differences, (f(x + ε) − f(x − ε)) / 2ε.
    """
    rows: list[list[np.ndarray]] = []
    for place in np.ndindex(array.shape):
        for direction in (1, 1j) if array.dtype.kind == "c" else (1,):
            before = array[place]
            array[place] = before + eps * direction
            above = [coordinates(y).copy() for y in call()]
            array[place] = before - eps * direction
            below = [coordinates(y).copy() for y in call()]
            array[place] = before
            rows.append([(a - b) / (2 * eps) for a, b in zip(above, below, strict=True)])
    if not rows:
        return [np.zeros((coordinate_count(y), 0)) for y in call()]
    return [np.stack(column, axis=-1) for column in zip(*rows, strict=True)]


def random_array(shape: Sequence[int], dtype: np.dtype, seed: int, contiguous: bool = True) -> np.ndarray:
    """Normal numbers of a type, the same for the same seed; stepped through memory if not contiguous."""
    rng = np.random.default_rng(seed)
    full = tuple(shape) if contiguous else (*shape, 2)
    values = rng.normal(size=full)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.normal(size=full)
    values = values.astype(dtype)
    return values if contiguous else values[..., 0]


def close(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> bool:
    """Whether |a − b| ≤ atol + rtol |b| everywhere; NaN equals NaN, infinities must agree."""
    return bool(np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True))


def worst(a: np.ndarray, b: np.ndarray) -> float:
    """The largest |a − b|."""
    return float(np.abs(a - b).max()) if a.size else 0.0


def overlaps(array: np.ndarray) -> bool:
    """Whether several elements lie at one place in memory along some dimension."""
    if array.size == 0:
        return False
    return any(stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True))


def matrix(rows: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Vectors as the rows of a matrix with `width` columns, also when there are none."""
    return np.stack(rows) if rows else np.zeros((0, width))
