"""Statistical functions of the standard. axis=() reduces nothing; small integers are summed in 64 bits."""

from __future__ import annotations

from typing import Any

import weft

from ..dtypes import BOOL, INTEGER, as_dtype, dtype
from ..errors import ShapeError
from ..tensor import Tensor
from .array import Array, axes_of, axis_of, need_array
from .types import floating

__all__ = ["cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var"]

Axes = int | tuple[int, ...]


def _summed_type(x: Tensor, wanted: Any) -> dtype:
    """The type of sums and products: int64 or uint64 for integers, unless one is asked for."""
    if wanted is not None:
        return as_dtype(wanted)
    if x.dtype.category == INTEGER:
        return weft.int64 if x.dtype.is_signed else weft.uint64
    return weft.int64 if x.dtype.category == BOOL else x.dtype


def max(x: Array, /, *, axis: Axes | None = None, keepdims: bool = False) -> Array:
    """The largest element along the axes; NaN if one is NaN."""
    return _extreme(weft.amax, need_array("max", x), axis, keepdims)


def min(x: Array, /, *, axis: Axes | None = None, keepdims: bool = False) -> Array:
    """The smallest element along the axes; NaN if one is NaN."""
    return _extreme(weft.amin, need_array("min", x), axis, keepdims)


def _extreme(function: Any, x: Tensor, axis: Any, keepdims: bool) -> Array:
    axes = axes_of(axis, x.ndim, function.__name__[1:])
    return Array(function(x, axes, keepdims) if axes else x.clone())


def sum(x: Array, /, *, axis: Axes | None = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Σ xᵢ along the axes."""
    tensor = need_array("sum", x)
    tensor = tensor.to(_summed_type(tensor, dtype))
    axes = axes_of(axis, tensor.ndim, "sum")
    return Array(tensor.sum(axes, keepdims, dtype=tensor.dtype) if axes else tensor.clone())


def prod(x: Array, /, *, axis: Axes | None = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Π xᵢ along the axes."""
    tensor = need_array("prod", x)
    tensor = tensor.to(_summed_type(tensor, dtype))
    axes = axes_of(axis, tensor.ndim, "prod")
    for a in sorted(axes, reverse=True):
        tensor = tensor.prod(a, keepdims, dtype=tensor.dtype)
    return Array(tensor if axes else tensor.clone())


def mean(x: Array, /, *, axis: Axes | None = None, keepdims: bool = False) -> Array:
    """Σ xᵢ / N along the axes."""
    tensor = floating(need_array("mean", x))
    axes = axes_of(axis, tensor.ndim, "mean")
    return Array(tensor.mean(axes, keepdims) if axes else tensor.clone())


def var(x: Array, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """Σ (xᵢ − x̄)² / (N − correction) along the axes."""
    tensor = floating(need_array("var", x))
    axes = axes_of(axis, tensor.ndim, "var")
    count = 1
    for a in axes:
        count *= tensor.shape[a]
    deviation = tensor - (tensor.mean(axes, True) if axes else tensor)
    squares = (deviation * deviation.conj()).real if tensor.is_complex() else deviation.square()
    total = squares.sum(axes, keepdims) if axes else squares
    return Array(total / total.new_tensor(count - correction).clamp(min=0))


def std(x: Array, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """√var along the axes."""
    return Array(var(x, axis=axis, correction=correction, keepdims=keepdims).tensor.sqrt())


def cumulative_sum(x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Array:
    """Σ_{j ≤ i} xⱼ along an axis, with a 0 in front if `include_initial`."""
    return _running(weft.cumsum, need_array("cumulative_sum", x), axis, dtype, 0 if include_initial else None)


def cumulative_prod(x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Array:
    """Π_{j ≤ i} xⱼ along an axis, with a 1 in front if `include_initial`."""
    return _running(weft.cumprod, need_array("cumulative_prod", x), axis, dtype, 1 if include_initial else None)


def _running(function: Any, x: Tensor, axis: int | None, dtype: Any, initial: int | None) -> Array:
    if axis is None and x.ndim > 1:
        raise ShapeError(f"cumulative sums and products of shape {tuple(x.shape)} need an axis")
    axis = axis_of(0 if axis is None else axis, x.ndim, "cumulative_sum")
    kind = _summed_type(x, dtype)
    total = function(x.to(kind), axis, dtype=kind)
    if initial is None:
        return Array(total)
    sizes = [1 if a == axis else size for a, size in enumerate(x.shape)]
    return Array(weft.cat([weft.full(sizes, initial, dtype=kind), total], axis))
