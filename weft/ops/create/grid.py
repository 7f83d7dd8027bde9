"""Grids, triangles and blocks: tensors laid out by a rule."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from ... import dtypes
from ...dtypes import FLOAT, INTEGER
from ...errors import ArgumentError, DtypeError, InvalidValueError, ShapeError
from ...refusal import need_bounded
from ...tensor import Tensor, wrap
from ..core.operands import python_int
from ..core.primitive import operation
from ..math.elementwise import where
from ..shape.join import PAD, cat, stack
from ..shape.shape import atleast_2d

MANY_COLUMNS = 1 << 16  # of powers, each a tensor


@operation(method=False)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of all points of a grid: one tensor for each axis; 'xy' exchanges the first two axes."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if not tensors:
        raise ShapeError("meshgrid: expects a non-empty list of tensors")
    if indexing not in (None, "ij", "xy"):
        raise InvalidValueError(f"meshgrid: indexing must be one of 'xy' or 'ij', but received: {indexing!r}")
    for number, x in enumerate(tensors):
        if x.ndim > 1:
            raise ShapeError(f"meshgrid: expected 0D or 1D tensors, tensor {number} has shape {tuple(x.shape)}")
        if x.dtype is not tensors[0].dtype:
            raise DtypeError(f"meshgrid: expects all tensors to have the same dtype, got {tensors[0].dtype}, {x.dtype}")
    swap = indexing == "xy" and len(tensors) > 1
    ordered = [tensors[1], tensors[0], *tensors[2:]] if swap else tensors
    sizes = [x.numel() for x in ordered]
    grids = [
        x.reshape([sizes[d] if d == axis else 1 for d in range(len(sizes))]).expand(sizes)
        for axis, x in enumerate(ordered)
    ]
    return (grids[1], grids[0], *grids[2:]) if swap else tuple(grids)


@operation(method=False)
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All ways to take one element of each vector, one way a row."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    for number, x in enumerate(tensors):
        if x.ndim != 1:
            raise ShapeError(f"cartesian_prod: expect a 1D vector, but got shape {list(x.shape)} at position {number}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([grid.reshape(-1) for grid in meshgrid(*tensors, indexing="ij")], 1)


@operation()
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways to take `r` elements of a vector (in order, with or without replacement), one way a row."""
    if input.ndim != 1:
        raise ShapeError(f"combinations: expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise ShapeError(f"combinations: expect a non-negative number, but got {r}")
    if r == 0:
        return input[:0]
    ways = math.comb(input.shape[0] + (r - 1 if with_replacement else 0), r)
    need_bounded(ways, "combinations", f"the number of ways to take {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(input.shape[0]), r)), np.int64).reshape(-1, r)
    return input[wrap(rows)]


def _triangle(input: Tensor, diagonal: int, lower: bool, name: str) -> Tensor:
    if input.ndim < 2:
        raise ShapeError(f"{name}: input tensor must have at least 2 dimensions, got shape {tuple(input.shape)}")
    rows, columns = input.shape[-2:]
    k = python_int(diagonal, name)
    kept = np.tri(rows, columns, k, np.bool_) if lower else ~np.tri(rows, columns, k - 1, np.bool_)
    whole = input if input.ndim == 2 or _rows_dense(input) else input.contiguous()
    return where(wrap(kept), whole, False)


def _rows_dense(x: Tensor) -> bool:
    """Whether the batch dimensions lie in order around matrices of any layout: only then is the layout kept."""
    size, expected = x.shape[-1] * x.shape[-2], 1
    for length, stride in zip(reversed(x.shape[:-2]), reversed(x.stride()[:-2]), strict=True):
        if length > 1 and stride != size * expected:
            return False
        expected *= length
    return True


@operation(out=True, inplace=True)
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of the last two dimensions: elements above the given diagonal become 0."""
    return _triangle(input, diagonal, True, "tril")


@operation(out=True, inplace=True)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of the last two dimensions: elements below the given diagonal become 0."""
    return _triangle(input, diagonal, False, "triu")


def _triangle_places(row: int, col: int, offset: int, dtype: Any, lower: bool, name: str) -> Tensor:
    if row < 0 or col < 0:
        raise ShapeError(f"{name}: row and col must be non-negative, got {row} and {col}")
    kept = np.tri(row, col, offset, np.bool_) if lower else ~np.tri(row, col, offset - 1, np.bool_)
    kind = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    return wrap(np.stack(np.nonzero(kept)).astype(kind.np))


@operation(method=False, differentiable=False)
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None, **_: Any
) -> Tensor:
    """Row and column numbers (2, N) of the lower triangle of a row × col matrix."""
    return _triangle_places(row, col, offset, dtype, True, "tril_indices")


@operation(method=False, differentiable=False)
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None, **_: Any
) -> Tensor:
    """Row and column numbers (2, N) of the upper triangle of a row × col matrix."""
    return _triangle_places(row, col, offset, dtype, False, "triu_indices")


@operation(method=False, differentiable=False)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Numbers of elements in row-major order → one tensor of coordinates for each dimension of `shape`."""
    if indices.dtype.category != INTEGER:
        raise DtypeError(f"unravel_index: expected 'indices' to be of integer type, but got {indices.dtype}")
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if not all(isinstance(s, int) for s in sizes):
        raise ArgumentError(f"unravel_index: expected 'shape' to be an int or a sequence of ints, but got {shape!r}")
    if any(s < 0 for s in sizes):
        raise InvalidValueError(f"unravel_index: 'shape' cannot have negative values, but got {sizes}")
    rest, coordinates = indices.long(), []
    for size in reversed(sizes):
        coordinates.append(rest % size)
        rest = rest.floor_divide(size)
    return tuple(reversed(coordinates))


@operation(method=False)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a vector as columns: x^(N−1) … x⁰, or x⁰ … x^(N−1)."""
    if x.ndim != 1:
        raise ShapeError(f"vander: x must be a one-dimensional tensor, got shape {tuple(x.shape)}")
    count = x.shape[0] if N is None else need_bounded(N, "vander", "N", MANY_COLUMNS)
    if count < 0:
        raise ShapeError(f"vander: N must be non-negative, got {count}")
    x = x.long() if x.dtype.category < FLOAT else x
    if count == 0:
        return x.reshape(-1, 1)[:, :0]
    powers = [x * 0 + 1 if x.dtype.category < FLOAT else wrap(np.ones(tuple(x.shape), x.dtype.np))]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    return stack(powers if increasing else powers[::-1], 1)


@operation(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """Matrices along the diagonal of a larger one; vectors count as rows, 0-d tensors as 1 × 1."""
    for number, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise ArgumentError(f"block_diag: expected Tensor as argument {number}, got {type(x).__name__}")
        if x.ndim > 2:
            raise ShapeError(f"block_diag: input tensors must have 2 or fewer dimensions. Input {number} has {x.ndim}")
    blocks = [atleast_2d(x) for x in tensors] or [wrap(np.zeros((1, 0), dtypes.get_default_dtype().np))]
    kind = functools.reduce(dtypes.promote_types, (x.dtype for x in blocks))
    width, rows, before = sum(x.shape[1] for x in blocks), [], 0
    for x in blocks:
        rows.append(PAD(x.to(kind), widths=((0, 0), (before, width - before - x.shape[1])), value=0))
        before += x.shape[1]
    return cat(rows, 0)
