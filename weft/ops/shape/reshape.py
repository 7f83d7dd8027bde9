"""The view functions that everything else is built from: sizes changed, dimensions moved, added, dropped or repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtypes
from ...errors import AutogradError, DtypeError, IndexRangeError, ShapeError
from ...sizes import wrap_dim, wrap_dims
from ...tape.modes import mode
from ...tensor import Tensor, new
from ..core.operands import python_int
from ..core.primitive import operation
from .view import ALIAS, BIT_VIEW, EXPAND, PERMUTE, SLICE, UNBIND, VIEW

__all__ = ["change_geometry", "inferred_shape", "sizes_from", "unbind"]


def change_geometry(function: str) -> Callable:
    """The in-place method that gives a tensor the sizes and strides of `function(self, …)` on its own memory."""
    name = function + "_"

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        owner = self if self._base is None else self._base
        if mode.grad is True and owner._is_grad_leaf():
            raise AutogradError(
                f"{name}: a leaf tensor that requires grad is being used in an in-place operation; use "
                f"`{function}`, or wrap the change in `with weft.no_grad():`"
            )
        if self._interpreter is not None:
            return self._interpreter.write(self, getattr(self, function)(*args, **kwargs), name)
        before = new(Tensor)
        before.array, before.node, before._needs_grad = self._window(), self.node, self._needs_grad
        after = getattr(before, function)(*args, **kwargs)
        self.array, self.node, self._needs_grad = after._window(), after.node, after._needs_grad or self._needs_grad
        self._bump()
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of `{function}`: the same memory in other sizes and strides."
    return method


def sizes_from(args: tuple[Any, ...], name: str) -> tuple[int, ...]:
    """Sizes given as separate integers or as one sequence."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    return tuple(python_int(a, name) for a in args)


def inferred_shape(count: int, shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Replace a −1 by the size that makes the numbers of elements equal, or say why none does."""
    if shape.count(-1) > 1:
        raise ShapeError(f"{name}: only one dimension can be inferred, got {shape}")
    if any(s < -1 for s in shape):
        raise ShapeError(f"{name}: invalid shape dimension in {shape}")
    known = 1
    for size in shape:
        known *= size if size != -1 else 1
    if -1 in shape:
        if known == 0:
            raise ShapeError(
                f"{name}: cannot reshape tensor of {count} elements into shape {list(shape)} because the unspecified "
                "dimension size -1 can be any value and is ambiguous"
            )
        if count % known == 0:
            return tuple(count // known if s == -1 else s for s in shape)
    elif known == count:
        return shape
    raise ShapeError(f"{name}: shape '{list(shape)}' is invalid for input of size {count}")


@operation(function=False, quick=True)
def view(self: Tensor, *shape: Any, dtype: Any = None) -> Tensor:
    """The same elements in other sizes (or bytes in another type), without copying."""
    if len(shape) == 1 and isinstance(shape[0], dtypes.dtype):
        dtype, shape = shape[0], ()
    if dtype is not None:
        return _bit_view(self, dtypes.as_dtype(dtype))
    return VIEW(self, shape=inferred_shape(self.numel(), sizes_from(shape, "view"), "view"))


def _bit_view(x: Tensor, to: dtypes.dtype) -> Tensor:
    if to is x.dtype:
        return ALIAS(x)
    if to.itemsize != x.dtype.itemsize and (x.ndim == 0 or x.stride(-1) != 1):
        raise ShapeError("view: viewing as a type of another size needs a last dimension with stride 1")
    if to.itemsize > x.dtype.itemsize and (x.shape[-1] * x.dtype.itemsize) % to.itemsize:
        raise ShapeError(f"view: size {x.shape[-1]} of the last dimension does not divide into elements of {to}")
    return BIT_VIEW(x, to=to)


@operation(quick=True)
def reshape(input: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The same elements in other sizes: a view where strides allow it, else a copy."""
    wanted = sizes_from(sizes if shape is None else (shape,), "reshape")
    wanted = inferred_shape(input.numel(), wanted, "reshape")
    if input._interpreter is not None:
        return input._interpreter.resized(input, wanted)
    try:
        return VIEW(input, shape=wanted)
    except ShapeError:
        return VIEW(input.contiguous(), shape=wanted)


@operation(quick=True)
def permute(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """Dimensions in the given order, as a view."""
    given = sizes_from(order if dims is None else (dims,), "permute")
    order = wrap_dims(given, input.ndim, "permute")
    if len(order) != input.ndim:
        raise ShapeError(
            f"permute: number of dimensions in the tensor ({input.ndim}) does not match the length of the desired "
            f"ordering {tuple(given)}"
        )
    return PERMUTE(input, dims=order)


@operation(aliases=("swapaxes", "swapdims"), inplace=change_geometry("transpose"), quick=True)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged, as a view."""
    a, b = wrap_dim(dim0, input.ndim, "transpose"), wrap_dim(dim1, input.ndim, "transpose")
    if input.ndim == 0:
        return ALIAS(input)
    order = list(range(input.ndim))
    order[a], order[b] = order[b], order[a]
    return PERMUTE(input, dims=tuple(order))


@operation(inplace=change_geometry("t"), quick=True)
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; 0-d and 1-d tensors as they are."""
    if input.ndim > 2:
        raise ShapeError(f"t: expects a tensor with <= 2 dimensions, but self is {input.ndim}D; use .mT or permute")
    return transpose(input, 0, 1) if input.ndim == 2 else ALIAS(input)


@operation(function=False, quick=True)
def expand(self: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """Dimensions of size 1 repeated without copying; −1 keeps a size, new ones come in front."""
    wanted = sizes_from(sizes if size is None else (size,), "expand")
    extra = len(wanted) - self.ndim
    if extra < 0:
        raise ShapeError(
            f"expand: the number of sizes provided ({len(wanted)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({self.ndim}), shape {tuple(self.shape)}"
        )
    shape = []
    for position, size in enumerate(wanted):
        old = self.shape[position - extra] if position >= extra else None
        if size == -1 and old is None:
            raise ShapeError(
                f"expand: the expanded size (-1) isn't allowed in a leading, non-existing dimension {position}"
            )
        if old is not None and size not in (-1, old) and old != 1:
            raise ShapeError(
                f"expand: the expanded size of the tensor ({size}) must match the existing size ({old}) at "
                f"non-singleton dimension {position}. Target sizes: {list(wanted)}. Tensor sizes: {list(self.shape)}"
            )
        if size < -1:
            raise ShapeError(f"expand: sizes must be non-negative (or -1 to keep one), got {list(wanted)}")
        shape.append(old if size == -1 else size)
    return EXPAND(self, shape=tuple(shape))


@operation(inplace=change_geometry("unsqueeze"))
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A new dimension of size 1 at position `dim`."""
    at = wrap_dim(dim, input.ndim + 1, "unsqueeze")
    return VIEW(input, shape=(*input.shape[:at], 1, *input.shape[at:]))


@operation(inplace=change_geometry("squeeze"))
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without the dimensions of size 1 (or only those given)."""
    dims = wrap_dims(dim, input.ndim, "squeeze")
    shape = tuple(s for d, s in enumerate(input.shape) if s != 1 or d not in dims)
    return VIEW(input, shape=shape)


@operation(quick=True)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at `index` along `dim`, without that dimension."""
    if input.ndim == 0:
        raise IndexRangeError("select: cannot be applied to a 0-dim tensor")
    d, i = wrap_dim(dim, input.ndim, "select"), python_int(index, "select")
    size = input.shape[d]
    if not -size <= i < size:
        raise IndexRangeError(
            f"select: index {i} out of range for tensor of size {list(input.shape)} at dimension {d}; valid are "
            f"{-size} to {size - 1}"
        )
    return SLICE(input, index=((None, None, None),) * d + (i % size,))


@operation(quick=True)
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` consecutive slices from `start` along `dim`."""
    if input.ndim == 0:
        raise ShapeError("narrow: cannot be applied to a 0-dim tensor")
    if isinstance(start, Tensor) and (start.ndim or start.dtype.category != dtypes.INTEGER):
        raise DtypeError(f"narrow: start must be an 0-dim integral Tensor, got {start.dtype} of shape {start.shape}")
    d, start, length = wrap_dim(dim, input.ndim, "narrow"), python_int(start, "narrow"), python_int(length, "narrow")
    size = input.shape[d]
    if length < 0:
        raise ShapeError(f"narrow: length must be non-negative, got {length}")
    if not -size <= start <= size:
        raise IndexRangeError(
            f"narrow: start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    start = start + size if start < 0 else start
    if start + length > size:
        raise ShapeError(f"narrow: start ({start}) + length ({length}) exceeds dimension size ({size})")
    return SLICE(input, index=((None, None, None),) * d + ((start, start + length, 1),))


@operation()
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All slices along a dimension."""
    if input.ndim == 0:
        raise ShapeError("unbind: dimension specified as 0 but tensor has no dimensions")
    return UNBIND(input, dim=wrap_dim(dim, input.ndim, "unbind"))
