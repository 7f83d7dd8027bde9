"""Linear algebra functions of the standard's main namespace; products work for integers of all sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft

from ..errors import ShapeError
from .array import Array, axis_of, need_array
from .types import promoted_arrays

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: Array, x2: Array, /) -> Array:
    """The matrix product: vectors, matrices and stacks of matrices in every combination."""
    return Array(weft.matmul(*promoted_arrays("matmul", x1, x2)))


def matrix_transpose(x: Array, /) -> Array:
    """The transposes of a stack of matrices (…, M, N) → (…, N, M)."""
    tensor = need_array("matrix_transpose", x)
    if tensor.ndim < 2:
        raise ShapeError(f"matrix_transpose: needs at least 2 dimensions, got shape {tuple(tensor.shape)}")
    return Array(tensor.transpose(-2, -1))


def tensordot(x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """Σ over pairs of axes: the last of x1 with the first of x2 (an int), or those listed."""
    a, b = promoted_arrays("tensordot", x1, x2)
    if isinstance(axes, int):
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    first, second = ([axis_of(d, t.ndim, "tensordot") for d in given] for given, t in zip(axes, (a, b), strict=True))
    if len(first) != len(second) or any(a.shape[i] != b.shape[j] for i, j in zip(first, second, strict=False)):
        raise ShapeError(f"tensordot: shapes {tuple(a.shape)} and {tuple(b.shape)} do not fit along axes {axes}")
    kept_first, kept_second = _others(a, first), _others(b, second)
    left = a.permute([*kept_first, *first]).reshape(_count(a, kept_first), _count(a, first))
    right = b.permute([*second, *kept_second]).reshape(_count(b, second), _count(b, kept_second))
    sizes = [a.shape[d] for d in kept_first] + [b.shape[d] for d in kept_second]
    return Array((left @ right).reshape(sizes))


def _others(x: Any, axes: Sequence[int]) -> list[int]:
    return [d for d in range(x.ndim) if d not in axes]


def _count(x: Any, axes: Sequence[int]) -> int:
    count = 1
    for d in axes:
        count *= x.shape[d]
    return count


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Σ x̄ᵢ yᵢ along an axis (counted from the end), the others broadcast."""
    a, b = promoted_arrays("vecdot", x1, x2)
    low = min(a.ndim, b.ndim)
    if not -low <= axis < (low if a.ndim == b.ndim else 0):
        raise ShapeError(f"vecdot: no axis {axis} in shapes {tuple(a.shape)} and {tuple(b.shape)}")
    if a.shape[axis] != b.shape[axis]:
        raise ShapeError(f"vecdot: sizes along axis {axis} differ, {tuple(a.shape)} and {tuple(b.shape)}")
    left = a.conj().movedim(axis, -1).unsqueeze(-2)  # (…, 1, n)
    right = b.movedim(axis, -1).unsqueeze(-1)  # (…, n, 1)
    return Array((left @ right).squeeze(-1).squeeze(-1))
