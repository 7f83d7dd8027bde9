"""Order: sorting, the k largest, ranks in a sorted line, and which elements occur.

What selects elements (sort, topk, median…) finds their places with a primitive that has no gradient
and takes the values with `gather`, so that gradients follow the places.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..dtype import BOOL, COMPLEX, INTEGER
from ..errors import DtypeError, IndexRangeError, ShapeError
from ..tensor import Tensor, wrap, wrap_dim
from .elementwise import where
from .primitive import Opaque, is_number, operation, python_int, register_module
from .reduce import Along, Selected, axis_operation, need_elements, refuse, taken, wide_enough
from .results import named_result

# -------------------------------------------------------------------------------------- primitives


class Argsort(Along):
    """The places of the elements in order along `dim`: equal ones keep theirs, NaN is the largest."""

    differentiable, low_precision = False, True

    def reference(self, x, *, dim, descending):
        x = wide_enough(x)
        if not descending:
            return np.argsort(x, axis=dim, kind="stable")
        return np.flip(x.shape[dim] - 1 - np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)


class TopPlaces(Along):
    """The places of the k largest (or smallest) elements along `dim`, in order; NaN is the largest."""

    differentiable, low_precision = False, True

    def reference(self, x, *, k, dim, largest):
        x, n = wide_enough(x), x.shape[dim]
        if k == 0 or n < 16 * k or n < 256:
            return _front(Argsort.reference(self, x, dim=dim, descending=largest), k, dim)
        found = np.argpartition(x, n - k if largest else k - 1, axis=dim)
        found = np.sort(_front(np.flip(found, dim) if largest else found, k, dim), axis=dim)
        order = Argsort.reference(self, np.take_along_axis(x, found, dim), dim=dim, descending=largest)
        return np.take_along_axis(found, order, dim)


def _front(x: np.ndarray, k: int, dim: int) -> np.ndarray:
    return x[(slice(None),) * dim + (slice(k),)]


class Argmode(Along):
    """The place of the most frequent element along `dim`: the smallest of equally frequent, its last place."""

    differentiable, low_precision = False, True

    def reference(self, x, *, dim):
        x = wide_enough(x)
        order = np.argsort(x, axis=dim, kind="stable")
        line = np.moveaxis(np.take_along_axis(x, order, dim), dim, -1)
        places = np.arange(line.shape[-1])
        before = np.concatenate([line[..., :1], line[..., :-1]], -1)
        run = places - np.maximum.accumulate(np.where(before != line, places, 0), axis=-1)
        longest = np.moveaxis(np.argmax(run, axis=-1, keepdims=True), -1, dim)
        return np.take_along_axis(order, longest, dim)


class SearchSorted(Opaque):
    """For each value the place where it would enter its sorted line, before or after equal ones."""

    differentiable, low_precision = False, True

    def reference(self, line, values, *, right, narrow):
        line, values, side = wide_enough(line), wide_enough(values), "right" if right else "left"
        if line.ndim == 1:
            found = np.searchsorted(line, values, side)
        else:
            rows = [np.searchsorted(a, v, side) for a, v in zip(_lines(line), _lines(values), strict=True)]
            found = np.array(rows, np.int64).reshape(values.shape)
        return np.asarray(found, np.int32 if narrow else np.int64)


def _lines(x: np.ndarray) -> np.ndarray:
    """(…, n) → (lines, n), also when there is nothing in them."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


class IsIn(Opaque):
    """Whether each element occurs among the test elements."""

    differentiable, low_precision = False, True

    def reference(self, elements, tests, *, invert):
        return np.isin(wide_enough(elements), wide_enough(tests), invert=invert)


ARGSORT, TOP_PLACES, ARGMODE, SEARCHSORTED, ISIN = Argsort(), TopPlaces(), Argmode(), SearchSorted(), IsIn()
register_module(__name__)

# ----------------------------------------------------------------------------------------- sorting

Sort = named_result("sort", ("values", "indices"))
Topk = named_result("topk", ("values", "indices"))
Kthvalue = named_result("kthvalue", ("values", "indices"))
Mode = named_result("mode", ("values", "indices"))


def order_of(x: Tensor, dim: int, descending: bool, name: str) -> Tensor:
    """The places of the elements of x in order along `dim`."""
    refuse(x.is_complex(), name, x.dtype, "complex numbers have no order: sort .abs()")
    d = wrap_dim(dim, x.ndim, name)
    if x.ndim == 0:
        return ARGSORT(x.unsqueeze(0), dim=0, descending=False).squeeze(0)
    return ARGSORT(x, dim=d, descending=bool(descending))


@axis_operation()
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Sort:
    """(values, indices) in ascending or descending order along `dim`; always stable, NaN is the largest."""
    indices = order_of(input, dim, descending, "sort")
    return Sort(input.clone() if input.ndim == 0 else input.gather(wrap_dim(dim, input.ndim, "sort"), indices), indices)


@axis_operation(differentiable=False)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that sort the tensor along `dim`."""
    return order_of(input, dim, descending, "argsort")


@operation(out=True)
def msort(input: Tensor) -> Tensor:
    """The elements in ascending order along the first dimension."""
    return sort(input, 0).values


@axis_operation()
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Topk:
    """(values, indices) of the k largest (or smallest) elements along `dim`, in order."""
    refuse(input.dtype.category in (BOOL, COMPLEX), "topk", input.dtype)
    d, k = wrap_dim(dim, input.ndim, "topk"), python_int(k, "topk")
    size = input.shape[d] if input.ndim else 1
    if not 0 <= k <= size:
        raise IndexRangeError(f"topk: selected index k out of range: k={k}, but dim {d} has size {size}")
    if input.ndim == 0:
        return Topk(input.clone(), order_of(input, 0, False, "topk"))
    indices = TOP_PLACES(input, k=k, dim=d, largest=bool(largest))
    return Topk(input.gather(d, indices), indices)


@axis_operation(exact_out=True)
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Kthvalue:
    """(values, indices) of the k-th smallest element (counted from 1) along `dim`."""
    refuse(input.dtype.category in (BOOL, COMPLEX), "kthvalue", input.dtype)
    d, k = wrap_dim(dim, input.ndim, "kthvalue"), python_int(k, "kthvalue")
    if input.ndim:
        need_elements(input, (d,), "kthvalue")
    size = input.shape[d] if input.ndim else 1
    if not 1 <= k <= size:
        raise IndexRangeError(
            f"kthvalue: selected number k out of range for dimension {d}: k={k}, the size is {size} (k counts from 1)"
        )
    order = order_of(input, dim, False, "kthvalue")
    return Kthvalue(*taken(input, order.narrow(d, k - 1, 1) if input.ndim else order, d, keepdim))


@axis_operation()
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Mode:
    """(values, indices) of the most frequent element along `dim`, the smallest of equally frequent ones."""
    d = wrap_dim(dim, input.ndim, "mode")
    if input.ndim == 0:
        return Mode(input.clone(), order_of(input != input, 0, False, "mode"))
    refuse(input.is_complex() and input.numel() > 0, "mode", input.dtype, "complex numbers have no order")
    need_elements(input, (d,), "mode")
    return Mode(*taken(input, ARGMODE(input, dim=d), d, keepdim))


# ------------------------------------------------------------------------------------------ medians

Median = named_result("median", ("values", "indices"))
Nanmedian = named_result("nanmedian", ("values", "indices"))


class MedianOfAll(Selected):
    """The lower median of a line, NaN if there is one; equal elements share the gradient."""

    def reference(self, x, *, dim, keepdim):
        x = np.sort(wide_enough(x), axis=dim[0]).astype(x.dtype)
        n = x.shape[dim[0]]
        middle = np.take(x, (n - 1) // 2, axis=dim[0])
        last = np.take(x, n - 1, axis=dim[0])
        return np.where(last != last, last, middle)


class NanMedianOfAll(Selected):
    """The lower median of the elements of a line that are not NaN; equal elements share the gradient."""

    def reference(self, x, *, dim, keepdim):
        line = np.sort(np.moveaxis(wide_enough(x), dim[0], -1), axis=-1)
        known = (line == line).sum(-1, keepdims=True)
        place = np.maximum((known - 1) // 2, 0)
        return np.take_along_axis(line, place, -1)[..., 0].astype(x.dtype)


MEDIAN_OF_ALL, NAN_MEDIAN_OF_ALL = MedianOfAll(), NanMedianOfAll()


def _median_of_nothing(x: Tensor) -> Tensor:
    """NaN; for integers the number that NaN is converted to."""
    if x.dtype.category == INTEGER:
        return wrap(np.array(np.iinfo(x.dtype.np).min, x.dtype.np))
    return (x.to(x.dtype if x.is_floating_point() else dtypes.float64).sum() + math.nan).to(x.dtype)


def _median(x: Tensor, dim: int | None, keepdim: bool, name: str) -> Any:
    if dim is None and x.numel() == 0:
        return _median_of_nothing(x)
    refuse(x.dtype.category in (BOOL, COMPLEX), name, x.dtype)
    if dim is None:
        return (MEDIAN_OF_ALL if name == "median" else NAN_MEDIAN_OF_ALL)(x.reshape(-1), dim=(0,), keepdim=False)
    d = wrap_dim(dim, x.ndim, name)
    order = order_of(x, dim, False, name)
    if x.ndim == 0:
        return x.clone(), order
    need_elements(x, (d,), name)
    n = x.shape[d]
    if not x.is_floating_point():
        return taken(x, order.narrow(d, (n - 1) // 2, 1), d, keepdim)
    known = (~x.isnan()).sum(d, keepdim=True)
    if name == "median":
        place = where(known < n, known, (n - 1) // 2)  # the first NaN, if there is one
    else:
        place = ((known - 1).clamp(min=0) / 2).long()
    return taken(x, order.gather(d, place), d, keepdim)


@axis_operation()
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements; with `dim` (values, indices) along it. NaN if there is one."""
    found = _median(input, dim, keepdim, "median")
    return found if dim is None else Median(*found)


@axis_operation()
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not NaN."""
    found = _median(input, dim, keepdim, "nanmedian")
    return found if dim is None else Nanmedian(*found)


# ----------------------------------------------------------------------- places in a sorted line


@operation(method=False, out=True, differentiable=False)
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """The index at which each value would enter the sorted last dimension: before equal ones, or after (`right`)."""
    if side not in (None, "left", "right"):
        raise ValueError(f"searchsorted: side can only be 'left' or 'right' but got {side!r}")
    if side == "left" and right:
        raise ValueError("searchsorted: side and right can't be set to opposites, got side='left' and right=True")
    if not isinstance(input, Tensor):
        _refuse_scalar(sorted_sequence, "searchsorted")
        input = wrap(np.asarray(input))
    _check_searchable(sorted_sequence, input, "searchsorted")
    if sorter is not None:
        sorted_sequence = _sorted_by(sorted_sequence, sorter)
    return SEARCHSORTED(sorted_sequence, input, right=right or side == "right", narrow=out_int32)


def _refuse_scalar(line: Tensor, name: str) -> None:
    if line.ndim != 1:
        raise ShapeError(
            f"{name}: input value can be a scalar only when boundaries tensor dimension is 1, but it has shape "
            f"{tuple(line.shape)}"
        )


def _check_searchable(line: Tensor, values: Tensor, name: str) -> None:
    refuse(line.dtype.category in (BOOL, COMPLEX) and values.numel() > 0, name, line.dtype)
    if line.ndim == 0:
        raise ShapeError(f"{name}: boundaries tensor should have positive dimension, but got 0 dimension")
    if line.ndim > 1 and (values.ndim != line.ndim or values.shape[:-1] != line.shape[:-1]):
        raise ShapeError(
            f"{name}: boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
            f"input value tensor must match, but we got boundaries {tuple(line.shape)} and input {tuple(values.shape)}"
        )


def _sorted_by(line: Tensor, sorter: Tensor) -> Tensor:
    if sorter.dtype is not dtypes.int64:
        raise DtypeError(f"searchsorted: sorter must be a tensor of long dtype but got dtype {sorter.dtype}")
    if sorter.shape != line.shape:
        raise ShapeError(
            f"searchsorted: boundary and sorter must have the same size, but got boundary tensor {tuple(line.shape)} "
            f"and got sorter tensor {tuple(sorter.shape)}"
        )
    if sorter.numel() and bool(((sorter < 0) | (sorter >= line.shape[-1])).any()):
        raise IndexRangeError(f"searchsorted: sorter index out of range, must be in [0, {line.shape[-1] - 1}]")
    return line.gather(-1, sorter)


@operation(method=False, out=True, differentiable=False)
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The index of the bucket of each value, for sorted boundaries."""
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries tensor must be 1 dimension, but got shape {tuple(boundaries.shape)}")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# -------------------------------------------------------------------------------- which elements occur


def _grouped(rows: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first of each run, run of each row, length of each run) of equal neighbours among rows[order]."""
    line = rows[order]
    changes = line[1:] != line[:-1]
    fresh = np.concatenate([np.ones(min(1, len(line)), bool), changes.any(axis=tuple(range(1, changes.ndim)))])
    starts = np.flatnonzero(fresh)
    inverse = np.empty(len(line), np.int64)
    inverse[order] = np.cumsum(fresh) - 1
    return order[starts], inverse, np.diff(starts, append=len(line)).astype(np.int64)


def _rows_along(x: Tensor, dim: int | None, name: str) -> tuple[np.ndarray, int]:
    """The elements (dim=None) or the slices along `dim`, first axis first."""
    if dim is None:
        return x.array.reshape(-1), 0
    if x.ndim == 0:
        raise IndexRangeError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    d = wrap_dim(dim, x.ndim, name)
    if 0 in (s for i, s in enumerate(x.shape) if i != d):
        raise ShapeError(
            f"{name}: there are 0 sized dimensions, and they aren't selected, so {name} cannot be applied to shape "
            f"{tuple(x.shape)} along dim {d}"
        )
    return np.moveaxis(x.array, d, 0), d


def _unique(x: Tensor, dim: int | None, inverse: bool, counts: bool, name: str, ordered: bool) -> Any:
    refuse(x.is_complex(), name, x.dtype, "use view_as_real and dim=0")
    rows, d = _rows_along(x, dim, name)
    keys = wide_enough(rows)
    if not ordered:
        order = np.arange(len(rows))
    elif keys.ndim == 1:
        order = np.argsort(keys, kind="stable")
    else:
        order = np.lexsort(keys.reshape(len(keys), math.prod(keys.shape[1:])).T[::-1])
    first, groups, lengths = _grouped(keys, order)
    values = wrap(np.ascontiguousarray(np.moveaxis(rows[first], 0, d)))
    found = [values]
    if inverse:
        found.append(wrap(groups.reshape(x.shape) if dim is None else groups))
    if counts:
        found.append(wrap(lengths))
    return tuple(found) if len(found) > 1 else values


@axis_operation(differentiable=False)
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements (or slices along `dim`) in order; also which one each input became, and how often."""
    return _unique(input, dim, return_inverse, return_counts, "unique", ordered=True)


@axis_operation(differentiable=False)
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements (or slices along `dim`) without those equal to the one before."""
    return _unique(input, dim, return_inverse, return_counts, "unique_consecutive", ordered=False)


@operation(method=False, out=True, differentiable=False)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element occurs in `test_elements` (either may be a number)."""
    if is_number(elements) and is_number(test_elements):
        raise TypeError("isin: at least one of elements and test_elements must be a tensor")
    first, second = (x if isinstance(x, Tensor) else wrap(np.asarray(x)) for x in (elements, test_elements))
    for x in (first, second):
        refuse(x.dtype.category in (BOOL, COMPLEX), "isin", x.dtype, "convert it, or compare its parts")
    return ISIN(first, second, invert=bool(invert))
