"""Shapes: the view functions that are made of the primitives in `view.py`, and the attributes T, mT, H, real….

Everything here returns a view wherever PyTorch does. Functions that copy or join are in `join.py`.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import AutogradError, DtypeError, ShapeError
from ...sizes import Size, wrap_dim, wrap_dims
from ...storage import owner_of
from ...tape.modes import mode
from ...tensor import Tensor, mark, wrap
from ..core.operands import broadcast_error, known_array, python_int
from ..core.primitive import operation
from ..math.elementwise import where
from .reshape import inferred_shape, sizes_from
from .view import ALIAS, DIAGONAL, EXPAND, PERMUTE, PLACE, PLACE_DIAGONAL, SLICE, UNFOLD, VIEW_AS_COMPLEX, VIEW_AS_REAL

__all__ = ["ALL", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes"]

ALL = (None, None, None)  # a full slice, in the hashable form of `Slice`


@operation(method=False, differentiable=False)
def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


# ------------------------------------------------------------------------------------- transposition


def _attribute(function: Callable) -> Callable:
    """Make an attribute of Tensor that is computed by `function`."""
    setattr(Tensor, function.__name__, property(function))
    return function


@_attribute
def T(self: Tensor) -> Tensor:
    """All dimensions in reverse order."""
    return PERMUTE(self, dims=tuple(reversed(range(self.ndim))))


@_attribute
def mT(self: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    if self.ndim == 0:
        return ALIAS(self)
    if self.ndim < 2:
        raise ShapeError(
            f"mT: tensor.mT is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor."
        )
    return PERMUTE(self, dims=(*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))


@_attribute
def H(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    if self.ndim not in (0, 2):
        raise ShapeError(
            f"H: tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor; for batches use .mH"
        )
    return (self.mT if self.ndim else self).conj()


@_attribute
def mH(self: Tensor) -> Tensor:
    """The last two dimensions exchanged, conjugated."""
    if self.ndim == 1:
        raise ShapeError(f"mH: needs matrices or batches of matrices, got a {self.ndim}-D tensor")
    return self.mT.conj()


@operation(quick=True)
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions exchanged, conjugated."""
    if input.ndim == 1:
        raise ShapeError(f"adjoint: only supported on matrices or batches of matrices, got a {input.ndim}-D tensor")
    return input.mH


@operation(aliases=("moveaxis",))
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Dimensions moved from `source` to `destination`; the others keep their order."""
    sources, targets = wrap_dims(source, input.ndim, "movedim"), wrap_dims(destination, input.ndim, "movedim")
    if len(sources) != len(targets):
        raise ShapeError(
            f"movedim: source and destination must have the same number of elements, got {source} and {destination}"
        )
    order: list[int | None] = [None] * input.ndim
    for old, place in zip(sources, targets, strict=True):
        order[place] = old
    others = iter(d for d in range(input.ndim) if d not in sources)
    return PERMUTE(input, dims=tuple(next(others) if d is None else d for d in order))


# ---------------------------------------------------------------------------------------- other sizes


@operation(function=False)
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """A view in the sizes of another tensor."""
    return self.view(other.shape)


@operation(function=False)
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """The elements in the sizes of another tensor."""
    return self.reshape(other.shape)


@operation(function=False)
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Expanded to the sizes of another tensor."""
    return self.expand(other.shape)


@operation()
def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """Expanded to the given sizes."""
    return input.expand(size)


@operation(method=False, differentiable=False)
def broadcast_shapes(*shapes: Any) -> Size:
    """The sizes that tensors of the given shapes have together after broadcasting."""
    tuples = [(s,) if isinstance(s, int) else tuple(python_int(n, "broadcast_shapes") for n in s) for s in shapes]
    if any(n < 0 for s in tuples for n in s):
        raise ShapeError(f"broadcast_shapes: trying to create tensor with negative dimension in {tuples}")
    try:
        return Size(np.broadcast_shapes(*tuples))
    except ValueError:
        raise broadcast_error("broadcast_shapes", *tuples) from None


@operation(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors expanded to their common sizes."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(EXPAND(t, shape=tuple(shape)) for t in tensors)


@operation(quick=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions start_dim … end_dim as one."""
    first, last = wrap_dim(start_dim, input.ndim, "flatten"), wrap_dim(end_dim, input.ndim, "flatten")
    if first > last:
        raise ShapeError(f"flatten: start_dim ({start_dim}) cannot come after end_dim ({end_dim})")
    if input.ndim == 0:
        return input.reshape(1)
    if first == last:
        return input
    shape = input.shape
    return input.reshape((*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@operation()
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """One dimension as several with the given sizes (one may be −1)."""
    d = wrap_dim(dim, input.ndim, "unflatten")
    sizes = sizes_from((sizes,), "unflatten")
    if not sizes:
        raise ShapeError("unflatten: sizes must be non-empty")
    if input.ndim == 0:
        raise ShapeError("unflatten: a 0-dim tensor has no dimension to unflatten")
    inner = inferred_shape(input.shape[d], sizes, "unflatten")
    return input.view((*input.shape[:d], *inner, *input.shape[d + 1 :]))


@operation()
def ravel(input: Tensor) -> Tensor:
    """All elements as one dimension."""
    return input.contiguous().view(-1)


def _at_least(rank: int, grow: Callable[[Tensor], Tensor]) -> Callable:
    def function(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
            return tuple(grow(t) for t in tensors[0])
        return grow(tensors[0]) if len(tensors) == 1 else tuple(grow(t) for t in tensors)

    function.__name__ = f"atleast_{rank}d"
    function.__doc__ = f"Each tensor with at least {rank} dimensions, new ones of size 1."
    return operation(method=False)(function)


def _grown_to_3(x: Tensor) -> Tensor:
    if x.ndim >= 3:
        return x
    return x.unsqueeze(-1) if x.ndim == 2 else x.reshape(1, -1, 1)


atleast_1d = _at_least(1, lambda x: x if x.ndim else x.reshape(1))
atleast_2d = _at_least(2, lambda x: x if x.ndim > 1 else x.reshape(1, -1))
atleast_3d = _at_least(3, _grown_to_3)


@operation(function=False)
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` every `step` along a dimension, as a new last dimension."""
    d, size, step = wrap_dim(dimension, self.ndim, "unfold"), python_int(size, "unfold"), python_int(step, "unfold")
    x = self if self.ndim else self.unsqueeze(0)
    if size < 0 or size > x.shape[d]:
        raise ShapeError(
            f"unfold: maximum size for tensor at dimension {d} is {x.shape[d]} but size is {size} (of shape "
            f"{tuple(self.shape)})"
        )
    if step <= 0:
        raise ShapeError(f"unfold: step is {step} but must be > 0")
    windows = UNFOLD(x, dim=d, size=size, step=step)
    return windows if self.ndim else windows[0]


# ----------------------------------------------------------------------------------------- diagonals


def _two_dims(dim1: int, dim2: int, ndim: int, name: str) -> tuple[int, int]:
    first, second = wrap_dim(dim1, ndim, name), wrap_dim(dim2, ndim, name)
    if first == second:
        raise ShapeError(f"{name}: diagonal dimensions cannot be identical {dim1}, {dim2}")
    return first, second


@operation()
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions as a new last dimension, a view."""
    first, second = _two_dims(dim1, dim2, input.ndim, "diagonal")
    above, below = input.shape[second], input.shape[first]
    offset = min(max(python_int(offset, "diagonal"), -below), above)  # further out there is nothing; NumPy reads past
    return DIAGONAL(input, offset=offset, dim1=first, dim2=second)


@operation()
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last dimension of `input` on the diagonal of two new dimensions."""
    if input.ndim == 0:
        raise ShapeError("diag_embed: needs a tensor of at least one dimension, got a 0-d tensor")
    offset = python_int(offset, "diag_embed")
    first, second = _two_dims(dim1, dim2, input.ndim + 1, "diag_embed")
    size = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for d in sorted((first, second)):
        shape.insert(d, size)
    return PLACE_DIAGONAL(input, offset=offset, dim1=first, dim2=second, shape=tuple(shape))


@operation(out=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as the diagonal of a matrix, or the diagonal of a matrix as a (copied) vector."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim == 2:
        return DIAGONAL(input, offset=python_int(diagonal, "diag"), dim1=0, dim2=1).clone()
    raise ShapeError(f"diag: supports 1D or 2D tensors, got shape {tuple(input.shape)}; use diagonal or diag_embed")


@operation()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """All elements as the diagonal of a matrix."""
    return diag_embed(input.reshape(-1), offset)


@operation(function=False)
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number to the main diagonal; with `wrap` it starts again below the last row of a tall matrix."""
    if self.ndim < 2:
        raise ShapeError(f"fill_diagonal_: dimensions must be larger than 1, got shape {tuple(self.shape)}")
    if self.ndim > 2:
        if len(set(self.shape)) > 1:
            raise ShapeError(
                f"fill_diagonal_: all dimensions of input must be of equal length, got {tuple(self.shape)}"
            )
        for i in range(self.shape[0]):
            self[(i,) * self.ndim].fill_(fill_value)
        return self
    rows, columns = self.shape
    for start in range(0, rows, columns + 1) if wrap else (0,):
        DIAGONAL(self[start:], offset=0, dim1=0, dim2=1).fill_(fill_value)
    return self


# ------------------------------------------------------------------------------- copies with a part replaced


def _check_source(src: Tensor, shape: Sequence[int], name: str) -> None:
    if tuple(src.shape) != tuple(shape):
        raise ShapeError(
            f"{name}: expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice "
            f"size = {list(shape)}"
        )


def _replaced(x: Tensor, src: Tensor, place: Any, **params: Any) -> Tensor:
    """x where `place` leaves zeros, else `src`."""
    covered = place(wrap(np.ones(tuple(src.shape), np.bool_)), **params, shape=tuple(x.shape))
    return where(covered, place(src.to(x.dtype), **params, shape=tuple(x.shape)), x)


@operation()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of `input` with `src` on a diagonal."""
    first, second = _two_dims(dim1, dim2, input.ndim, "diagonal_scatter")
    _check_source(src, diagonal(input, offset, dim1, dim2).shape, "diagonal_scatter")
    return _replaced(input, src, PLACE_DIAGONAL, offset=offset, dim1=first, dim2=second)


@operation()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` at `index` along `dim`."""
    _check_source(src, input.select(dim, index).shape, "select_scatter")
    d = wrap_dim(dim, input.ndim, "select_scatter")
    return _replaced(input, src, PLACE, index=(ALL,) * d + (index % input.shape[d],))


@operation(out=True)
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of `input` with `src` at start:end:step along `dim`."""
    if step <= 0:
        raise ShapeError(f"slice_scatter: slice step must be positive, got {step}")
    d = wrap_dim(dim, input.ndim, "slice_scatter")
    index = (ALL,) * d + (slice(start, end, step).indices(input.shape[d]),)
    _check_source(src, SLICE(input, index=index).shape, "slice_scatter")
    return _replaced(input, src, PLACE, index=index)


# ------------------------------------------------------------------------------------ complex numbers


@operation()
def view_as_real(input: Tensor) -> Tensor:
    """A complex tensor as a real one with a last dimension of size 2 (real, imaginary), a view."""
    if not input.is_complex():
        raise DtypeError(f"view_as_real: is only supported for complex tensors, got {input.dtype}")
    return VIEW_AS_REAL(input)


@operation()
def view_as_complex(input: Tensor) -> Tensor:
    """A real tensor whose last dimension has size 2 as a complex one, a view."""
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise DtypeError(f"view_as_complex: is only supported for float32 and float64 tensors, got {input.dtype}")
    if input.ndim == 0 or input.shape[-1] != 2:
        raise ShapeError(f"view_as_complex: the last dimension must have size 2, got shape {tuple(input.shape)}")
    return VIEW_AS_COMPLEX(input)


def _part(x: Tensor, number: int) -> Tensor:
    """The real (0) or imaginary (1) part of a complex tensor, a view."""
    return SLICE(VIEW_AS_REAL(x), index=(ALL,) * x.ndim + (number,))


@operation(method=False)
def real(input: Tensor) -> Tensor:
    """The real part: a view of a complex tensor, a real tensor itself."""
    return _part(input, 0) if input.is_complex() else input


@operation(method=False)
def imag(input: Tensor) -> Tensor:
    """The imaginary part of a complex tensor, a view."""
    if not input.is_complex():
        raise DtypeError(f"imag: is not implemented for tensors with non-complex dtypes, got {input.dtype}")
    return _part(input, 1)


def _set_part(function: Callable) -> Callable:
    def assign(self: Tensor, value: Any) -> None:
        part = function(self)
        part.fill_(value) if not isinstance(value, Tensor) else part.copy_(value)

    return assign


Tensor.real = property(real, _set_part(real), doc=real.__doc__)
Tensor.imag = property(imag, _set_part(imag), doc=imag.__doc__)


@operation(quick=True)
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are always computed at once here."""
    return input


@operation(quick=True)
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: negatives are always computed at once here."""
    return input


# ------------------------------------------------------------------------------ other memory or other sizes


@operation(function=False)
def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Other sizes over the same memory, which grows (with arbitrary values) if it is too small."""
    if self._needs_grad:
        raise AutogradError("resize_: cannot resize variables that require grad; use .reshape or weft.empty")
    shape = sizes_from(sizes, "resize_")
    if any(s < 0 for s in shape):
        raise ShapeError(f"resize_: trying to create tensor with negative dimension in {list(shape)}")
    count, array = math.prod(shape), known_array(self, "resize_")
    memory = owner_of(array)
    if self.is_contiguous() and count <= array.size:
        self.array = array.reshape(-1)[:count].reshape(shape)
    elif self.storage_offset() + count <= memory.size and memory.flags.c_contiguous and memory.dtype == array.dtype:
        self.array = memory.reshape(-1)[self.storage_offset() : self.storage_offset() + count].reshape(shape)
    else:
        line = np.zeros(count, array.dtype)
        kept = builtins.min(count, array.size)
        line[:kept] = array.reshape(-1)[:kept]
        self.array = line.reshape(shape)
    mark(self)
    self._bump()
    return self


@operation(function=False)
def resize_as_(self: Tensor, the_template: Tensor, memory_format: Any = None) -> Tensor:
    """Other sizes, those of another tensor."""
    return resize_(self, tuple(the_template.shape))


@operation(function=False)
def set_(
    self: Tensor, source: Tensor | None = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """Let this tensor look at the memory of `source` (as a whole, or through a window)."""
    if mode.grad is True and self._is_grad_leaf():
        raise AutogradError("set_: a leaf tensor that requires grad is being changed; use no_grad, or .data")
    if source is None:
        self.array = np.empty((0,), self._window().dtype)
        mark(self)
        return self
    if source.dtype is not self.dtype:
        raise DtypeError(f"set_: expected a source of type {self.dtype}, got {source.dtype}")
    window = source if size is None else source.as_strided(size, stride or _row_strides(size), storage_offset)
    self.array = window._window()
    self._bump()
    return self


def _row_strides(size: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(size[d + 1 :]) for d in range(len(size)))
