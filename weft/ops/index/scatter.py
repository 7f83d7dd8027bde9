"""Reading and writing by index tensors under function names: gather, scatter, index_select, index_add, take, put….

All are made of the primitives in `places.py`. In this family, unlike in square brackets, negative indices are
refused, as in PyTorch (except by take and put).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...dtypes import FLOAT, INTEGER
from ...errors import ArgumentError, DtypeError, IndexRangeError, InvalidValueError, ShapeError
from ...sizes import wrap_dim
from ...tensor import Tensor, wrap
from ..core.primitive import operation
from ..shape.shape import broadcast_shapes
from .index import as_value, put_at
from .places import ADD_AT, COMBINE_AT, INDEX, PUT_AT, along, check_places

_WHOLE = (dtypes.int64, dtypes.int32)


# -------------------------------------------------------------------------------------------- checks


def _check_index(index: Any, name: str, kinds: Sequence[Any] = _WHOLE) -> Tensor:
    if not isinstance(index, Tensor):
        raise ArgumentError(f"{name}: argument 'index' must be a Tensor, got {type(index).__name__}")
    if index.dtype not in kinds:
        raise DtypeError(f"{name}: expected dtype int64 for index, got {index.dtype}; convert it with .long()")
    return index if index.dtype is dtypes.int64 else index.long()


def _check_same_type(x: Tensor, source: Tensor, name: str) -> None:
    if x.dtype is not source.dtype:
        raise DtypeError(
            f"{name}: expected self.dtype to be equal to src.dtype, got {x.dtype} and {source.dtype}; convert one"
        )


def _check_fits(index: Tensor, x: Tensor, d: int | None, name: str, what: str = "self") -> None:
    """index.size(k) ≤ x.size(k) for every dimension k (but `d`), with equal ranks."""
    ranks = (max(index.ndim, 1), max(x.ndim, 1))
    if ranks[0] != ranks[1]:
        raise ShapeError(
            f"{name}: Index tensor must have the same number of dimensions as {what} tensor, got "
            f"{tuple(index.shape)} and {tuple(x.shape)}"
        )
    if any(i > s for k, (i, s) in enumerate(zip(index.shape, x.shape, strict=False)) if k != d):
        raise ShapeError(
            f"{name}: Size does not match: expected index {list(index.shape)} to be no larger than {what} "
            f"{list(x.shape)}{'' if d is None else f' apart from dimension {d}'}"
        )


def _vector(x: Tensor) -> Tensor:
    """0-d tensors act as if they had one dimension of size 1."""
    return x if x.ndim else x.reshape(1)


# ----------------------------------------------------------------------------------- gather and scatter


@operation(out="same")
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """y[i][j] = input[index[i][j]][j] for dim = 0, and likewise for other dimensions."""
    d = wrap_dim(dim, input.ndim, "gather")
    if _is_nothing(index):
        return input.reshape(-1)[:0].reshape(index.shape)
    index = _check_index(index, "gather")
    _check_fits(index, input, d, "gather", "input")
    x, places = _vector(input), _vector(index)
    check_places(index, x.shape[d], d, "gather")
    return INDEX(x, *along(places, d), at=0).reshape(index.shape)


@operation(out=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """gather after both were broadcast against each other (apart from `dim`)."""
    indices = _check_index(indices, "take_along_dim", (dtypes.int64,))
    if dim is None:
        return take(input, indices.reshape(-1))
    d = wrap_dim(dim, input.ndim, "take_along_dim")
    if input.ndim != indices.ndim:
        raise ShapeError(
            f"take_along_dim: input and indices should have the same number of dimensions, but got {input.ndim} and "
            f"{indices.ndim}"
        )
    others = lambda t: [1 if k == d else s for k, s in enumerate(t.shape)]
    shape = broadcast_shapes(others(input), others(indices))
    wide = lambda t: t.expand([t.shape[d] if k == d else s for k, s in enumerate(shape)])
    check_places(indices, input.shape[d], d, "take_along_dim", low=-input.shape[d])
    return INDEX(wide(input), *along(wide(indices), d), at=0)


def _scatter_parts(
    input: Tensor, dim: int, index: Tensor, src: Any, name: str
) -> tuple[Tensor, Any, tuple[Tensor, ...]]:
    """input (at least 1-d), the part of src that is used, and the index tensors."""
    d = wrap_dim(dim, input.ndim, name)
    index = _check_index(index, name)
    if index.numel():
        _check_fits(index, input, d, name)
        if isinstance(src, Tensor):
            _check_fits(index, src, None, name, "src")
    x, places = _vector(input), _vector(index)
    check_places(index, x.shape[d], d, name)
    if isinstance(src, Tensor):
        src = _vector(src)
        if places.shape != src.shape:
            src = src[tuple(slice(0, n) for n in places.shape)]
    return x, src, along(places, d)


def _is_nothing(index: Any) -> bool:
    return isinstance(index, Tensor) and index.numel() == 0


@operation(out=True, inplace=True)
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, reduce: str | None = None, value: Any = None
) -> Tensor:
    """A copy with y[index[i][j]][j] = src[i][j] for dim = 0; src may be one number; reduce: 'add', 'multiply'."""
    src = value if src is None else src
    if src is None:
        raise ArgumentError("scatter: needs either `src` (a tensor) or `value` (a number)")
    if reduce is not None:
        _check_reduce(reduce, ("add", "multiply"), "scatter")
    if isinstance(src, Tensor):
        _check_same_type(input, src, "scatter")
    else:
        src = as_value(input, src).expand(index.shape)
    if _is_nothing(index):
        wrap_dim(dim, input.ndim, "scatter")
        return input.clone()
    x, part, places = _scatter_parts(input, dim, index, src, "scatter")
    if reduce == "multiply":
        y = COMBINE_AT(x, part, *places, reduce="prod")
    else:
        y = put_at(x, part, *places, accumulate=reduce == "add")
    return y.reshape(input.shape)


@operation(out=True, inplace=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy with y[index[i][j]][j] += src[i][j] for dim = 0."""
    _check_same_type(input, src, "scatter_add")
    if _is_nothing(index):
        wrap_dim(dim, input.ndim, "scatter_add")
        return input.clone()
    x, part, places = _scatter_parts(input, dim, index, src, "scatter_add")
    return put_at(x, part, *places, accumulate=True).reshape(input.shape)


@operation(out=True, inplace=True)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The elements of src that go to one place, combined by 'sum', 'prod', 'mean', 'amax' or 'amin'.

    The old element takes part if `include_self`; places that nothing goes to keep it.
    """
    _check_same_type(input, src, "scatter_reduce")
    _check_reduce(reduce, ("sum", "prod", "mean", "amax", "amin"), "scatter_reduce")
    if _is_nothing(index):
        wrap_dim(dim, input.ndim, "scatter_reduce")
        return input.clone()
    x, part, places = _scatter_parts(input, dim, index, src, "scatter_reduce")
    return _reduced(x, part, places, reduce, include_self).reshape(input.shape)


def _check_reduce(reduce: str, known: Sequence[str], name: str) -> None:
    if reduce not in known:
        raise InvalidValueError(f"{name}: reduce argument must be one of {', '.join(known)}, got {reduce!r}")


def _reduced(x: Tensor, source: Tensor, places: Sequence[Tensor], reduce: str, include_self: bool) -> Tensor:
    """x with `source` combined at places of its leading dimensions."""
    if not include_self:
        x = PUT_AT(x, _neutral(x.dtype, reduce), *places)
    if reduce in ("sum", "mean"):
        total = put_at(x, source, *places, accumulate=True)
        return total if reduce == "sum" else _divided(total, _counts(x, source, places, include_self))
    return COMBINE_AT(x, source, *places, reduce=reduce)


def _neutral(kind: Any, reduce: str) -> Tensor:
    """What changes nothing when it takes part: 0, 1, or the lowest or highest value."""
    if reduce in ("sum", "mean", "prod"):
        value = 1 if reduce == "prod" else 0
    elif kind is dtypes.bool_:
        value = reduce == "amin"
    elif kind.category == INTEGER:
        limits = np.iinfo(kind.np)
        value = limits.min if reduce == "amax" else limits.max
    else:
        value = -math.inf if reduce == "amax" else math.inf
    return wrap(np.asarray(value, kind.np))


def _counts(x: Tensor, source: Tensor, places: Sequence[Tensor], include_self: bool) -> Tensor:
    """How many elements took part in each place, at least 1."""
    ones = wrap(np.ones((), np.int64)).expand(source.shape)
    found = ADD_AT(ones, *places, sizes=tuple(x.shape[: len(places)]))
    return found + 1 if include_self else found.clamp(min=1)


def _divided(total: Tensor, counts: Tensor) -> Tensor:
    return total / counts if total.dtype.category >= FLOAT else total.div(counts, rounding_mode="floor").to(total.dtype)


# ----------------------------------------------------------------------------------- along one dimension


def _rows(input: Tensor, dim: int, index: Tensor, name: str) -> tuple[Tensor, Tensor, int]:
    """input with `dim` in front, the checked index vector, and the dimension."""
    d = wrap_dim(dim, input.ndim, name)
    index = _check_index(index, name)
    if index.ndim > 1:
        raise IndexRangeError(f"{name}: Index is supposed to be a vector, but got shape {tuple(index.shape)}")
    x = _vector(input)
    check_places(index, x.shape[d], d, name)
    return x.movedim(d, 0) if d else x, _vector(index), d


def _back(rows: Tensor, d: int, shape: Sequence[int]) -> Tensor:
    return rows.movedim(0, d) if d else rows.reshape(shape) if rows.ndim != len(shape) else rows


@operation(out="same")
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices at `index` along `dim`."""
    d = wrap_dim(dim, input.ndim, "index_select")
    index = _check_index(index, "index_select")
    if index.ndim > 1:
        raise IndexRangeError(f"index_select: Index is supposed to be a vector, but got shape {tuple(index.shape)}")
    x = _vector(input)
    check_places(index, x.shape[d], d, "index_select")
    if input.ndim == 0:
        if index.numel() != 1:
            raise IndexRangeError("index_select: index to a scalar can have only 1 value, got {index.numel()}")
        return input.clone()
    return INDEX(x, _vector(index), at=d)


def _check_slices(input: Tensor, d: int, index: Tensor, source: Tensor, name: str) -> None:
    """source must have the sizes of input, with as many slices along d as there are indices."""
    wanted = [index.numel() if k == d else s for k, s in enumerate(_vector(input).shape)]
    if list(_vector(source).shape) != wanted:
        raise ShapeError(
            f"{name}: source of shape {list(source.shape)} does not fit: {index.numel()} slices along dimension {d} "
            f"of a tensor of shape {list(input.shape)} need {wanted}"
        )


@operation(out=True, inplace=True)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A copy to whose slice index[i] along `dim` alpha · source[i] is added, for every i."""
    _check_same_type(input, source, "index_add")
    _, index, d = _rows(input, dim, index, "index_add")
    _check_slices(input, d, index, source, "index_add")
    source = source if alpha == 1 else (source * alpha).to(input.dtype)
    x = _vector(input)
    added = ADD_AT(_vector(source), index, sizes=(x.shape[d],), at=d)
    return (x | added if x.dtype is dtypes.bool_ else x + added).reshape(input.shape)


@operation(out=True, inplace=True)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy whose slice index[i] along `dim` is source[i]."""
    _check_same_type(input, source, "index_copy")
    _, index, d = _rows(input, dim, index, "index_copy")
    _check_slices(input, d, index, source, "index_copy")
    return PUT_AT(_vector(input), _vector(source), index, at=d).reshape(input.shape)


@operation(inplace=True)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy whose slices at `index` along `dim` are filled with a number."""
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(
            f"index_fill: only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    d = wrap_dim(dim, input.ndim, "index_fill")
    index = _check_index(index, "index_fill")
    check_places(index, _vector(input).shape[d], d, "index_fill", low=-_vector(input).shape[d])
    return PUT_AT(_vector(input), as_value(input, value), _vector(index), at=d).reshape(input.shape)


@operation(out=True, inplace=True)
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Slices of source combined into the slices index[i] of input by 'prod', 'mean', 'amax' or 'amin'."""
    _check_reduce(reduce, ("prod", "mean", "amax", "amin"), "index_reduce")
    _check_same_type(input, source, "index_reduce")
    rows, index, d = _rows(input, dim, index, "index_reduce")
    _check_slices(input, d, index, source, "index_reduce")
    return _back(_reduced(rows, _vector(source).movedim(d, 0), (index,), reduce, include_self), d, input.shape)


# --------------------------------------------------------------------------------------- as one line


@operation(out="same")
def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened tensor, in the sizes of `index`; negative indices count from the end."""
    index = _check_index(index, "take", (dtypes.int64,))
    line = input.reshape(-1)
    if not line.shape[0] and index.numel():
        raise IndexRangeError("take: tried to take from an empty tensor")
    check_places(index, line.shape[0], 0, "take", low=-line.shape[0])
    return INDEX(line, index, at=0)


@operation(inplace=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with `source` written to (or added at) places of the flattened tensor."""
    index = _check_index(index, "put", (dtypes.int64,))
    _check_same_type(input, source, "put")
    if source.numel() != index.numel():
        raise ShapeError(
            f"put: expected source and index to have the same number of elements, but got {source.numel()} and "
            f"{index.numel()}"
        )
    line = input.reshape(-1)
    if not line.shape[0] and index.numel():
        raise IndexRangeError("put: tried to put elements into an empty tensor")
    check_places(index, line.shape[0], 0, "put", low=-line.shape[0])
    written = put_at(line, source.reshape(-1), index.reshape(-1), accumulate=accumulate)
    return written.reshape(input.shape)
