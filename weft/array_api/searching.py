"""Searching, sorting, set and indexing functions of the standard, and the tests `all` and `any`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

import weft

from ..dtypes import BOOL, int64
from ..errors import InvalidValueError, ShapeError
from ..tensor import Tensor, wrap
from .array import Array, axes_of, axis_of, need_array
from .types import promoted

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "count_nonzero",
    "nonzero",
    "searchsorted",
    "sort",
    "take",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]

Axes = int | tuple[int, ...]

# -------------------------------------------------------------------------------------------- searching


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The place of the largest element (the first, if there are several)."""
    return _place(weft.argmax, need_array("argmax", x), axis, keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The place of the smallest element (the first, if there are several)."""
    return _place(weft.argmin, need_array("argmin", x), axis, keepdims)


def _place(function: Any, x: Tensor, axis: int | None, keepdims: bool) -> Array:
    x = x.to(weft.uint8) if x.dtype.category == BOOL else x
    if axis is not None:
        return Array(function(x, axis_of(axis, x.ndim, function.__name__), keepdims))
    found = function(x.reshape(-1), 0)
    return Array(found.reshape((1,) * x.ndim) if keepdims else found)


def count_nonzero(x: Array, /, *, axis: Axes | None = None, keepdims: bool = False) -> Array:
    """The number of elements that are not zero."""
    tensor = need_array("count_nonzero", x)
    axes = axes_of(axis, tensor.ndim, "count_nonzero")
    marks = (tensor != 0).to(int64)
    return Array(marks.sum(axes, keepdims) if axes else marks)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """The places of the elements that are not zero, one array for each axis."""
    tensor = need_array("nonzero", x)
    if tensor.ndim == 0:
        raise ShapeError("nonzero: a 0-d array has no axes; reshape it to (1,) first")
    return tuple(Array(part) for part in weft.nonzero(tensor, as_tuple=True))


def searchsorted(x1: Array, x2: Array | float, /, *, side: str = "left", sorter: Array | None = None) -> Array:
    """Where the elements of x2 belong in the sorted vector x1 (which `sorter` puts in order)."""
    if side not in ("left", "right"):
        raise InvalidValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    ordered, values = promoted("searchsorted", x1, x2)
    if ordered.ndim != 1:
        raise ShapeError(f"searchsorted: x1 must have one axis, got shape {tuple(ordered.shape)}")
    if sorter is not None:
        ordered = ordered[need_array("searchsorted", sorter).to(int64)]
    return Array(weft.searchsorted(ordered, values, side=side))


def where(condition: Array, x1: Array | complex, x2: Array | complex, /) -> Array:
    """x1 where the condition holds, else x2."""
    test = need_array("where", condition)
    return Array(weft.where(test if test.dtype is weft.bool else test != 0, *promoted("where", x1, x2)))


# ---------------------------------------------------------------------------------------------- sorting


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements in order along an axis."""
    tensor = need_array("sort", x)
    return Array(weft.sort(tensor, axis_of(axis, tensor.ndim, "sort"), descending, stable=stable).values)


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The places that put the elements in order along an axis."""
    tensor = need_array("argsort", x)
    return Array(weft.argsort(tensor, axis_of(axis, tensor.ndim, "argsort"), descending, stable=stable))


# --------------------------------------------------------------------------------------------- the tests


def all(x: Array, /, *, axis: Axes | None = None, keepdims: bool = False) -> Array:
    """Whether all elements along the axes are true (not zero)."""
    return _tested(weft.all, need_array("all", x), axis, keepdims)


def any(x: Array, /, *, axis: Axes | None = None, keepdims: bool = False) -> Array:
    """Whether any element along the axes is true (not zero)."""
    return _tested(weft.any, need_array("any", x), axis, keepdims)


def _tested(function: Any, x: Tensor, axis: Any, keepdims: bool) -> Array:
    marks = x if x.dtype is weft.bool else x != 0
    axes = axes_of(axis, x.ndim, function.__name__)
    return Array(function(marks, axes, keepdims) if axes else marks)


# ------------------------------------------------------------------------------------------------- sets

UniqueAll = namedtuple("UniqueAll", ["values", "indices", "inverse_indices", "counts"])
UniqueCounts = namedtuple("UniqueCounts", ["values", "counts"])
UniqueInverse = namedtuple("UniqueInverse", ["values", "inverse_indices"])


def unique_all(x: Array, /) -> UniqueAll:
    """The different elements in order, where each is first, which each element is, and how often; NaNs differ."""
    array = need_array("unique_all", x).detach().array
    found = np.unique(array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    values, indices, inverse, counts = (Array(wrap(part)) for part in found)
    return UniqueAll(values, indices, Array(inverse.tensor.reshape(array.shape)), counts)


def unique_counts(x: Array, /) -> UniqueCounts:
    """The different elements in order and how often each occurs."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Array, /) -> UniqueInverse:
    """The different elements in order and which of them each element is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Array, /) -> Array:
    """The different elements in order."""
    return unique_all(x).values


# --------------------------------------------------------------------------------------------- indexing


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The slices along an axis at the given places (negative ones count from the end)."""
    tensor, places = need_array("take", x), need_array("take", indices).to(int64)
    if axis is None:
        if tensor.ndim != 1:
            raise InvalidValueError(f"take: give an axis for an array of shape {tuple(tensor.shape)}")
        axis = 0
    if places.ndim > 1:
        raise ShapeError(f"take: indices must have one axis, got shape {tuple(places.shape)}")
    axis = axis_of(axis, tensor.ndim, "take")
    return Array(tensor[(slice(None),) * axis + (places,)])


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """out[…, i, …] = x[…, indices[…, i, …], …] with the other axes broadcast."""
    tensor, places = need_array("take_along_axis", x), need_array("take_along_axis", indices).to(int64)
    if tensor.ndim != places.ndim:
        raise ShapeError(f"take_along_axis: ranks differ, {tuple(tensor.shape)} and {tuple(places.shape)}")
    axis = axis_of(axis, tensor.ndim, "take_along_axis")
    length = tensor.shape[axis]
    return Array(weft.take_along_dim(tensor, weft.where(places < 0, places + length, places), axis))
