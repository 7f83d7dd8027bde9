"""Masks and non-zeros: elements chosen by a condition."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...errors import DtypeError, ShapeError
from ...tape.interpreter import interpreter_of
from ...tensor import Tensor, wrap
from ..core.operands import broadcast_error, contents
from ..core.primitive import operation
from ..math.elementwise import where
from ..shape.shape import broadcast_shapes
from .index import as_value
from .places import INDEX, check_places


@operation(inplace=True)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value` where the mask holds, else input."""
    _check_mask(mask, "masked_fill")
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(
            f"masked_fill: only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if isinstance(value, Tensor) and value.is_complex() and not input.is_complex():
        raise DtypeError(f"masked_fill: a value of type {value.dtype} can't be cast to {input.dtype}")
    try:
        return where(mask, as_value(input, value), input).contiguous()
    except ShapeError:
        raise broadcast_error("masked_fill", tuple(input.shape), tuple(mask.shape)) from None


def _check_mask(mask: Tensor, name: str) -> None:
    if mask.dtype is not dtypes.bool_:
        raise DtypeError(f"{name}: expected a bool mask, got {mask.dtype}; compare first, or convert with .bool()")


@operation(out="same")
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, in one dimension; both are broadcast."""
    _check_mask(mask, "masked_select")
    shape = broadcast_shapes(input.shape, mask.shape)
    x, mask = input.expand(shape), mask.expand(shape)
    if x.ndim == 0:
        x, mask = x.reshape(1), mask.reshape(1)
    return x[mask]


@operation(inplace=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of `source`, in order, where the mask holds, else input."""
    _check_mask(mask, "masked_scatter")
    if source.dtype is not input.dtype:
        raise DtypeError(
            f"masked_scatter: expected self and source to have same dtypes but got {input.dtype} and {source.dtype}"
        )
    shape = broadcast_shapes(input.shape, mask.shape)
    mask, x, line = mask.expand(shape), input.expand(shape), source.reshape(-1)
    number = mask.reshape(-1).long().cumsum(0)
    known = interpreter_of(number) is None
    if known and number.numel() and int(number.array[-1]) > line.shape[0]:
        raise ShapeError(
            f"masked_scatter: the source has {line.shape[0]} elements, the mask of shape {tuple(shape)} asks for "
            f"{int(number.array[-1])}"
        )
    if not number.numel():
        return x.clone()
    if not known:
        many = "masked_scatter: the mask asks for more elements than the source has"
        check_places(number[-1:], line.shape[0] + 1, 0, many)
    if not line.shape[0]:
        return x.clone()
    taken = INDEX(line, (number - 1).clamp(0).reshape(shape), at=0)
    return where(mask, taken, x)


# ------------------------------------------------------------------------------------------ non-zeros


@operation(out=True, differentiable=False)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of all non-zero elements: one a row, or one tensor for each dimension."""
    array = contents(input, "nonzero")
    if as_tuple:
        return tuple(wrap(i.copy()) for i in np.nonzero(np.atleast_1d(array)))  # columns of one array
    if array.ndim == 0:
        return wrap(np.zeros((int(bool(array)), 0), np.int64))
    return wrap(np.stack(np.nonzero(array), axis=1))


@operation(differentiable=False)
def argwhere(input: Tensor) -> Tensor:
    """The indices of all non-zero elements, one a row."""
    return nonzero(input)


@operation(differentiable=False, out=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of nonzero, filled up with `fill_value`."""
    if size < 0:
        raise ShapeError(f"nonzero_static: 'size' must be a non-negative integer, got {size}")
    found = contents(nonzero(input), "nonzero_static")[:size]
    out = np.full((size, input.ndim), fill_value, np.int64)
    out[: len(found)] = found
    return wrap(out)
