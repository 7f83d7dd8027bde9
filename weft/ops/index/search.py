"""Places in sorted lines, and which elements occur."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from ... import dtypes
from ...dtypes import BOOL, COMPLEX
from ...errors import ArgumentError, DtypeError, IndexRangeError, InvalidValueError, ShapeError
from ...sizes import wrap_dim
from ...tape.interpreter import interpreter_of
from ...tensor import Tensor, wrap
from ..core.operands import contents, is_number
from ..core.primitive import Opaque, operation, register_module
from ..reduce.reduce import axis_operation, refuse, wide_enough
from ..reduce.sort import sort, sorting_kernel

FEW = 16  # elements that each one is compared with, instead of being looked up among them

# -------------------------------------------------------------------------------------- primitives


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

    def native(self, node):
        return sorting_kernel("entered", node, node.params["right"])


def _lines(x: np.ndarray) -> np.ndarray:
    """(…, n) → (lines, n), also when there is nothing in them."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


class IsIn(Opaque):
    """Whether each element occurs among the test elements."""

    differentiable, low_precision = False, True

    def reference(self, elements, tests, *, invert):
        return np.isin(wide_enough(elements), wide_enough(tests), invert=invert)

    def parts(self, elements, tests, *, invert):
        common = dtypes.as_dtype(np.result_type(elements.dtype.np, tests.dtype.np))
        x, line = elements.to(common), tests.reshape(-1).to(common)
        if line.numel() <= FEW:
            found = functools.reduce(operator.or_, (x == one for one in line.unbind()))
        else:
            line, x = sort(line).values, x.reshape(-1)
            place = SEARCHSORTED(line, x, right=False, narrow=False).clamp(max=line.numel() - 1)
            found = (line.gather(0, place) == x).reshape(elements.shape)
        return ~found if invert else found


SEARCHSORTED, ISIN = SearchSorted(), IsIn()
register_module(__name__)

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
        raise InvalidValueError(f"searchsorted: side can only be 'left' or 'right' but got {side!r}")
    if side == "left" and right:
        raise InvalidValueError(
            "searchsorted: side and right can't be set to opposites, got side='left' and right=True"
        )
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
    if interpreter_of(sorter) is None and sorter.numel() and bool(((sorter < 0) | (sorter >= line.shape[-1])).any()):
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
        return contents(x, name).reshape(-1), 0
    if x.ndim == 0:
        raise IndexRangeError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    d = wrap_dim(dim, x.ndim, name)
    if 0 in (s for i, s in enumerate(x.shape) if i != d):
        raise ShapeError(
            f"{name}: there are 0 sized dimensions, and they aren't selected, so {name} cannot be applied to shape "
            f"{tuple(x.shape)} along dim {d}"
        )
    return np.moveaxis(contents(x, name), d, 0), d


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
        raise ArgumentError("isin: at least one of elements and test_elements must be a tensor")
    first, second = (x if isinstance(x, Tensor) else wrap(np.asarray(x)) for x in (elements, test_elements))
    for x in (first, second):
        refuse(x.dtype.category in (BOOL, COMPLEX), "isin", x.dtype, "convert it, or compare its parts")
    return ISIN(first, second, invert=bool(invert))
