"""Views: the same memory through other sizes and strides, and the adjoints that gradients need.

Few primitives carry all of PyTorch's view functions: permute, expand, view (new sizes), slice,
diagonal, unfold, as_strided, unbind, split, and the two readings of complex numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..errors import DtypeError, IndexRangeError, ShapeError
from ..tensor import Tensor, new, wrap_dim, wrap_dims
from .primitive import Opaque, View, operation, python_int, register_module, summed_to

# ------------------------------------------------------------------------------------- primitives


class Alias(View):
    """The tensor itself as a new view."""

    def reference(self, x):
        return x.view()

    def vjp(self, g, y, x):
        return (g,)

    def batch_params(self, params, x):
        return params


class Permute(View):
    """Dimensions in another order."""

    def reference(self, x, *, dims):
        return x.transpose(dims)

    def vjp(self, g, y, x, *, dims):
        return (PERMUTE(g, dims=tuple(int(d) for d in np.argsort(dims))),)

    def batch_params(self, params, x):
        return {"dims": (0, *(d + 1 for d in params["dims"]))}


class Expand(View):
    """Dimensions of size 1 (and new ones in front) repeated without copying."""

    def reference(self, x, *, shape):
        return np.broadcast_to(x, shape, subok=False) if not x.flags.writeable else _writable_expand(x, shape)

    def vjp(self, g, y, x, *, shape):
        return (summed_to(g, x.shape),)

    def batch(self, inputs, batched, size, params):
        (x,) = inputs
        rest = params["shape"]
        aligned = x.reshape(size, *(1,) * (len(rest) - x.ndim + 1), *x.shape[1:])
        return EXPAND(aligned, shape=(size, *rest))


def _writable_expand(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`np.broadcast_to` without the read-only flag: whether a write makes sense is checked when it comes."""
    extra = len(shape) - x.ndim
    strides = (0,) * extra + tuple(
        0 if old == 1 and wanted != 1 else stride
        for old, wanted, stride in zip(x.shape, shape[extra:], x.strides, strict=True)
    )
    return np.lib.stride_tricks.as_strided(x, shape, strides)


class ViewAs(View):
    """Other sizes over the same elements in the same order, where strides allow it."""

    def reference(self, x, *, shape):
        try:
            return np.reshape(x, shape, copy=False)
        except ValueError:
            raise ShapeError(
                f"view: view size is not compatible with input tensor's size {x.shape} and strides (at least one "
                f"dimension of {shape} spans across two contiguous subspaces); use .reshape(...) instead"
            ) from None

    def vjp(self, g, y, x, *, shape):
        return (g.reshape(x.shape),)

    def batch(self, inputs, batched, size, params):
        return VIEW(inputs[0], shape=(size, *params["shape"]))


class Slice(View):
    """Basic indexing: for each leading dimension an integer (drops it) or a (start, stop, step)."""

    def reference(self, x, *, index):
        return x[basic_key(index)]

    def vjp(self, g, y, x, *, index):
        return (PLACE(g, index=index, shape=tuple(x.shape)),)

    def batch_params(self, params, x):
        return {"index": ((None, None, None), *params["index"])}


def basic_key(index: Sequence[Any]) -> tuple[Any, ...]:
    """NumPy's key for a hashable index; the ellipsis keeps NumPy from returning a copied scalar."""
    return (*(i if isinstance(i, int) else slice(*i) for i in index), ...)


class Place(Opaque):
    """Zeros of `shape` with x written at a basic index: the adjoint of Slice."""

    low_precision = True

    def reference(self, x, *, index, shape):
        out = np.zeros(shape, x.dtype)
        out[basic_key(index)] = x
        return out

    def vjp(self, g, y, x, *, index, shape):
        return (SLICE(g, index=index),)

    def batch(self, inputs, batched, size, params):
        index = ((None, None, None), *params["index"])
        return PLACE(inputs[0], index=index, shape=(size, *params["shape"]))


class Diagonal(View):
    """The diagonal of two dimensions as a new last dimension."""

    def reference(self, x, *, offset, dim1, dim2):
        view = np.diagonal(x, offset, dim1, dim2)
        if x.flags.writeable:
            view.flags.writeable = True
        return view

    def vjp(self, g, y, x, *, offset, dim1, dim2):
        return (PLACE_DIAGONAL(g, offset=offset, dim1=dim1, dim2=dim2, shape=tuple(x.shape)),)

    def batch_params(self, params, x):
        return {**params, "dim1": params["dim1"] + 1, "dim2": params["dim2"] + 1}


class PlaceDiagonal(Opaque):
    """Zeros of `shape` with x on a diagonal: the adjoint of Diagonal."""

    low_precision = True

    def reference(self, x, *, offset, dim1, dim2, shape):
        out = np.zeros(shape, x.dtype)
        view = np.diagonal(out, offset, dim1, dim2)
        view.flags.writeable = True
        view[...] = x
        return out

    def vjp(self, g, y, x, *, offset, dim1, dim2, shape):
        return (DIAGONAL(g, offset=offset, dim1=dim1, dim2=dim2),)

    def batch(self, inputs, batched, size, params):
        shifted = {**params, "dim1": params["dim1"] + 1, "dim2": params["dim2"] + 1}
        return PLACE_DIAGONAL(inputs[0], **{**shifted, "shape": (size, *params["shape"])})


class Unfold(View):
    """Windows of `size` every `step` along a dimension, as a new last dimension."""

    def reference(self, x, *, dim, size, step):
        count = (x.shape[dim] - size) // step + 1
        shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
        stride = x.strides[dim]
        strides = (*x.strides[:dim], stride * step, *x.strides[dim + 1 :], stride)
        return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=x.flags.writeable)

    def vjp(self, g, y, x, *, dim, size, step):
        return (FOLD_LINE(g, dim=dim, size=size, step=step, length=x.shape[dim]),)

    def batch_params(self, params, x):
        return {**params, "dim": params["dim"] + 1}


class FoldLine(Opaque):
    """Overlapping windows added back into a line: the adjoint of Unfold."""

    low_precision = True

    def reference(self, x, *, dim, size, step, length):
        windows = np.moveaxis(x, dim, -2)  # (…, count, size)
        out = np.zeros((*windows.shape[:-2], length), x.dtype)
        count = windows.shape[-2]
        for offset in range(size if count else 0):
            out[..., offset : offset + step * (count - 1) + 1 : step] += windows[..., offset]
        return np.moveaxis(out, -1, dim)

    def vjp(self, g, y, x, *, dim, size, step, length):
        return (UNFOLD(g, dim=dim, size=size, step=step),)

    def batch(self, inputs, batched, size, params):
        return FOLD_LINE(inputs[0], **{**params, "dim": params["dim"] + 1})


class Unbind(View):
    """The slices along a dimension, each without it."""

    def reference(self, x, *, dim):
        return tuple(a[...] for a in np.moveaxis(x, dim, 0)) if x.ndim > 1 else tuple(x[i, ...] for i in range(len(x)))

    def vjp(self, g, y, x, *, dim):
        from .join import stack

        return (stack(g, dim),)

    def batch_params(self, params, x):
        return {"dim": params["dim"] + 1}


class Split(View):
    """Consecutive pieces of given sizes along a dimension."""

    def reference(self, x, *, sizes, dim):
        ends = np.cumsum(sizes).tolist()
        before = (slice(None),) * dim
        return tuple(x[(*before, slice(end - size, end))] for size, end in zip(sizes, ends, strict=True))

    def vjp(self, g, y, x, *, sizes, dim):
        from .join import cat

        return (cat(g, dim),)

    def batch_params(self, params, x):
        return {**params, "dim": params["dim"] + 1}


class ViewAsReal(View):
    """A complex tensor as a real one with a last dimension of size 2 (real, imaginary)."""

    def reference(self, x):
        parts = np.lib.stride_tricks.as_strided(
            x.real, (*x.shape, 2), (*x.strides, x.itemsize // 2), writeable=x.flags.writeable
        )
        return parts

    def vjp(self, g, y, x):
        return (VIEW_AS_COMPLEX(g.contiguous()),)

    def batch_params(self, params, x):
        return params


class ViewAsComplex(View):
    """A real tensor whose last dimension has size 2 as a complex one."""

    def reference(self, x):
        kind = np.dtype("c8" if x.itemsize == 4 else "c16")
        if x.strides[-1] != x.itemsize or any(s % kind.itemsize for s in x.strides[:-1]):
            raise ShapeError(
                "view_as_complex: the last dimension must have stride 1 and all others even strides; call .contiguous()"
            )
        return x.view(kind)[..., 0] if x.ndim > 1 else x.view(kind).reshape(())

    def vjp(self, g, y, x):
        return (VIEW_AS_REAL(g.conj_physical().conj_physical()),)

    def batch_params(self, params, x):
        return params


class BitView(View):
    """The same bytes read as another element type."""

    differentiable = False

    def reference(self, x, *, to):
        return x.view(to.np)

    def batch_params(self, params, x):
        return params


# ------------------------------------------------------- windows on memory: as_strided and rebasing


class AsStrided(View):
    """A window given by sizes, strides and an offset on the memory of x.

    `layout` is the geometry of x itself (sizes, strides, offset from the lowest address), so that
    the adjoint can lay a gradient out as x lies.
    """

    def reference(self, x, *, layout, size, stride, offset):
        lowest = x[(*(-1 if s < 0 else 0 for s in x.strides), ...)] if x.size else x
        line = np.lib.stride_tricks.as_strided(lowest, (offset + 1,), (x.itemsize,))
        strides = tuple(s * x.itemsize for s in stride)
        return np.lib.stride_tricks.as_strided(line[offset:], size, strides, writeable=x.flags.writeable)

    def vjp(self, g, y, x, *, layout, size, stride, offset):
        return (STRIDED_WRITE(g, layout=layout, size=size, stride=stride, offset=offset),)


def layout_of(x: np.ndarray) -> tuple[Any, ...]:
    """Sizes, strides in elements, and offset of the first element from the lowest address."""
    low, _ = np.lib.array_utils.byte_bounds(x)
    offset = (x.__array_interface__["data"][0] - low) // x.itemsize if x.size else 0
    return x.shape, tuple(s // x.itemsize for s in x.strides), offset


def _laid_out(layout: tuple[Any, ...], kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """A zeroed line of memory and the view of it with the given layout."""
    shape, strides, offset = layout
    reach = [s * (n - 1) for s, n in zip(strides, shape, strict=True)]
    span = offset + sum(r for r in reach if r > 0) + 1
    line = np.zeros(span, kind)
    return line, np.lib.stride_tricks.as_strided(line[offset:], shape, tuple(s * kind.itemsize for s in strides))


def _window(line: np.ndarray, size: Any, stride: Any, offset: int) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(line[offset:], size, tuple(s * line.itemsize for s in stride))


class StridedRead(Opaque):
    """What the window shows when x lies in memory as `layout` says."""

    low_precision = True

    def reference(self, x, *, layout, size, stride, offset):
        line, whole = _laid_out(layout, x.dtype)
        whole[...] = x
        return _window(line, size, stride, offset).copy()

    def vjp(self, g, y, x, *, layout, size, stride, offset):
        return (STRIDED_WRITE(g, layout=layout, size=size, stride=stride, offset=offset),)


class StridedWrite(Opaque):
    """The window added into zeros that lie as `layout` says: the adjoint of StridedRead."""

    low_precision = True

    def reference(self, x, *, layout, size, stride, offset):
        line, whole = _laid_out(layout, x.dtype)
        places = _window(np.arange(line.size), size, stride, offset)
        np.add.at(line, places.ravel(), x.ravel())
        return whole.copy()

    def vjp(self, g, y, x, *, layout, size, stride, offset):
        return (STRIDED_READ(g, layout=layout, size=size, stride=stride, offset=offset),)


class StridedReplace(Opaque):
    """x with a window of its memory replaced by `value`: what an in-place write through a view does."""

    low_precision = True

    def reference(self, x, value, *, layout, size, stride, offset):
        line, whole = _laid_out(layout, x.dtype)
        whole[...] = x
        _window(line, size, stride, offset)[...] = value
        return whole.copy()

    def vjp(self, g, y, x, value, *, layout, size, stride, offset):
        window = dict(layout=layout, size=size, stride=stride, offset=offset)
        return (
            lambda: STRIDED_REPLACE(g, STRIDED_READ(g, **window) * 0, **window),
            lambda: STRIDED_READ(g, **window),
        )


ALIAS, PERMUTE, EXPAND, VIEW, SLICE, PLACE = Alias(), Permute(), Expand(), ViewAs(), Slice(), Place()
DIAGONAL, PLACE_DIAGONAL, UNFOLD, FOLD_LINE = Diagonal(), PlaceDiagonal(), Unfold(), FoldLine()
UNBIND, SPLIT, VIEW_AS_REAL, VIEW_AS_COMPLEX, BIT_VIEW = Unbind(), Split(), ViewAsReal(), ViewAsComplex(), BitView()
AS_STRIDED, STRIDED_READ, STRIDED_WRITE, STRIDED_REPLACE = AsStrided(), StridedRead(), StridedWrite(), StridedReplace()
register_module(__name__)


def _window_of(root: Tensor, view: Tensor) -> dict[str, Any]:
    """The geometry of `view` on the memory of `root`."""
    low, _ = np.lib.array_utils.byte_bounds(root.array)
    offset = (view.array.__array_interface__["data"][0] - low) // root.array.itemsize if view.array.size else 0
    return dict(layout=layout_of(root.array), size=tuple(view.shape), stride=view.stride(), offset=offset)


def write_into_root(root: Tensor, view: Tensor, value: Tensor) -> Tensor:
    """The history of `root` after `value` was written through `view` (the memory is already written)."""
    if root.dtype is not view.dtype:
        value, view = _as_root_type(root, view, value)
    before, after = new(Tensor), new(Tensor)
    before.array = after.array = root.array
    before.node, before._needs_grad = root.node, root._needs_grad
    return STRIDED_REPLACE.record(after, (before, value), _window_of(root, view))


def _as_root_type(root: Tensor, view: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """A write through a complex view of real memory (or the other way), told in the type of the root."""
    if root.is_complex() and not view.is_complex():
        raise DtypeError(
            "in-place write through the real view of a complex tensor cannot be differentiated; build the complex "
            "tensor with weft.complex(real, imag) instead"
        )
    real = new(Tensor)
    real.array = np.lib.stride_tricks.as_strided(
        view.array.real, (*view.shape, 2), (*view.array.strides, view.array.itemsize // 2)
    )
    return VIEW_AS_REAL(value), real


def view_of_root(root: Tensor, view: Tensor) -> Tensor:
    """The history of `view` after the memory of `root` was written to."""
    after = new(Tensor)
    after.array = view.array
    if root.dtype is not view.dtype:
        return after
    return AS_STRIDED.record(after, (root,), _window_of(root, view))


# --------------------------------------------------------------------------------- public functions


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


@operation(function=False)
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


@operation()
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements in other sizes: a view where strides allow it, else a copy."""
    wanted = inferred_shape(input.numel(), sizes_from(shape, "reshape"), "reshape")
    if input._interpreter is not None:
        return input._interpreter.reshape(input, wanted)
    try:
        return VIEW(input, shape=wanted)
    except ShapeError:
        return VIEW(input.contiguous(), shape=wanted)


@operation()
def permute(input: Tensor, *dims: Any) -> Tensor:
    """Dimensions in the given order, as a view."""
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order = wrap_dims(given, input.ndim, "permute")
    if len(order) != input.ndim:
        raise ShapeError(
            f"permute: number of dimensions in the tensor ({input.ndim}) does not match the length of the desired "
            f"ordering {tuple(given)}"
        )
    return PERMUTE(input, dims=order)


@operation(aliases=("swapaxes", "swapdims"), inplace=False)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged, as a view."""
    a, b = wrap_dim(dim0, input.ndim, "transpose"), wrap_dim(dim1, input.ndim, "transpose")
    if input.ndim == 0:
        return ALIAS(input)
    order = list(range(input.ndim))
    order[a], order[b] = order[b], order[a]
    return PERMUTE(input, dims=tuple(order))


@operation()
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; 0-d and 1-d tensors as they are."""
    if input.ndim > 2:
        raise ShapeError(f"t: expects a tensor with <= 2 dimensions, but self is {input.ndim}D; use .mT or permute")
    return transpose(input, 0, 1) if input.ndim == 2 else ALIAS(input)


@operation(function=False)
def expand(self: Tensor, *sizes: Any, implicit: bool = False) -> Tensor:
    """Dimensions of size 1 repeated without copying; −1 keeps a size, new ones come in front."""
    wanted = sizes_from(sizes, "expand")
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
            raise ShapeError(f"expand: the expanded size (-1) isn't allowed in a leading, non-existing dimension {position}")
        if old is not None and size not in (-1, old) and old != 1:
            raise ShapeError(
                f"expand: the expanded size of the tensor ({size}) must match the existing size ({old}) at non-singleton "
                f"dimension {position}. Target sizes: {list(wanted)}. Tensor sizes: {list(self.shape)}"
            )
        if size < -1:
            raise ShapeError(f"expand: sizes must be non-negative (or -1 to keep one), got {list(wanted)}")
        shape.append(old if size == -1 else size)
    return EXPAND(self, shape=tuple(shape))


@operation()
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A new dimension of size 1 at position `dim`."""
    at = wrap_dim(dim, input.ndim + 1, "unsqueeze")
    return VIEW(input, shape=(*input.shape[:at], 1, *input.shape[at:]))


@operation()
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without the dimensions of size 1 (or only those given)."""
    dims = wrap_dims(dim, input.ndim, "squeeze")
    shape = tuple(s for d, s in enumerate(input.shape) if s != 1 or d not in dims)
    return VIEW(input, shape=shape)


@operation()
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


@operation()
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` consecutive slices from `start` along `dim`."""
    if input.ndim == 0:
        raise ShapeError("narrow: cannot be applied to a 0-dim tensor")
    d, start, length = wrap_dim(dim, input.ndim, "narrow"), python_int(start, "narrow"), python_int(length, "narrow")
    size = input.shape[d]
    if length < 0:
        raise ShapeError(f"narrow: length must be non-negative, got {length}")
    if not -size <= start <= size:
        raise IndexRangeError(f"narrow: start out of range (expected to be in range of [{-size}, {size}], but got {start})")
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


@operation()
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A window with given sizes, strides and offset on the memory behind `input`."""
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise ShapeError(f"as_strided: mismatch in length of strides {stride} and shape {size}")
    if any(s < 0 for s in stride) or any(s < 0 for s in size):
        raise ShapeError(f"as_strided: sizes and strides must be non-negative, got {size} and {stride}")
    root = input._base if input._base is not None else input
    offset = input.storage_offset() if storage_offset is None else storage_offset
    low, high = np.lib.array_utils.byte_bounds(root.array)
    available = (high - low) // root.array.itemsize if root.array.size else 0
    last = offset + sum(s * (n - 1) for s, n in zip(stride, size, strict=True)) + 1 if 0 not in size else 0
    if last > available or offset < 0:
        raise ShapeError(
            f"as_strided: size {list(size)}, strides {list(stride)} and offset {offset} reach element {last}, out of "
            f"bounds for storage of {available} elements"
        )
    return AS_STRIDED(root, layout=layout_of(root.array), size=size, stride=stride, offset=offset)


