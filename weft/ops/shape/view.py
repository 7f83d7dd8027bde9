"""Views: the same memory through other sizes and strides, and the adjoints that gradients need.

Few primitives carry all of PyTorch's view functions: permute, expand, view (new sizes), slice,
diagonal, unfold, unbind, split, and the two readings of complex numbers (as_strided: `strided.py`).
Here are also the functions that everything else is built from; the others are in `shape.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtype as dtypes
from ...errors import AutogradError, DtypeError, IndexRangeError, ShapeError
from ...sizes import wrap_dim, wrap_dims
from ...tape.modes import mode
from ...tensor import Tensor, new
from ..core.operands import python_int
from ..core.primitive import Opaque, View, operation, register_module, summed_to

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

    def push(self, node, out, tangents):
        return tangents[0].reshape(node.params["shape"])  # its strides may not allow a view

    def batch(self, inputs, batched, size, params):
        return VIEW(inputs[0], shape=(size, *params["shape"]))


class Slice(View):
    """Basic indexing: for each leading dimension an integer (drops it) or a (start, stop, step); None adds one."""

    def reference(self, x, *, index):
        return x[basic_key(index)]

    def vjp(self, g, y, x, *, index):
        return (PLACE(g, index=index, shape=tuple(x.shape)),)

    def batch_params(self, params, x):
        return {"index": ((None, None, None), *params["index"])}


def basic_key(index: Sequence[Any]) -> tuple[Any, ...]:
    """NumPy's key for a hashable index; the ellipsis keeps NumPy from returning a copied scalar."""
    return (*(slice(*i) if i.__class__ is tuple else i for i in index), ...)


class Place(Opaque):
    """Zeros of `shape` with x written at a basic index: the adjoint of Slice."""

    low_precision = True
    linear = (0,)

    def reference(self, x, *, index, shape):
        out = np.zeros(shape, x.dtype)
        out[basic_key(index)] = x
        return out

    def vjp(self, g, y, x, *, index, shape):
        return (SLICE(g, index=index),)

    def batch(self, inputs, batched, size, params):
        index = ((None, None, None), *params["index"])
        return PLACE(inputs[0], index=index, shape=(size, *params["shape"]))

    def pieces(self, out, x, *, index, shape):
        return 0, [out[basic_key(index)]]


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
    linear = (0,)

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

    def pieces(self, out, x, *, offset, dim1, dim2, shape):
        return 0, [np.diagonal(out, offset, dim1, dim2)]


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
    linear = (0,)

    def reference(self, x, *, dim, size, step, length):
        windows = np.moveaxis(x, dim, -2)  # (…, count, size)
        out = np.zeros((*windows.shape[:-2], length), x.dtype)
        count = windows.shape[-2]
        for offset in range(size if count else 0):
            out[..., offset : offset + step * (count - 1) + 1 : step] += windows[..., offset]
        return np.moveaxis(out, -1, dim)

    def vjp(self, g, y, x, *, dim, size, step, length):
        return (UNFOLD(g, dim=dim, size=size, step=step),)

    def native(self, node):
        from ...kernels.windows.anchors import fold

        return fold(node, (node.params["dim"],), (node.params["step"],), (1,))

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
        if not x.size:  # NumPy gives empty arrays strides of 0
            return np.empty(x.shape[:-1], kind)
        if x.strides[-1] != x.itemsize or any(s % kind.itemsize for s in x.strides[:-1]):
            raise ShapeError(
                "view_as_complex: the last dimension must have stride 1 and all others even strides; call .contiguous()"
            )
        return x.view(kind)[..., 0] if x.ndim > 1 else x.view(kind).reshape(())

    def vjp(self, g, y, x):
        return (VIEW_AS_REAL(g),)

    def push(self, node, out, tangents):
        return VIEW_AS_COMPLEX(tangents[0].contiguous())

    def batch_params(self, params, x):
        return params


class BitView(View):
    """The same bytes read as another element type."""

    differentiable = False

    def reference(self, x, *, to):
        return x.view(to.np)

    def batch_params(self, params, x):
        return params


ALIAS, PERMUTE, EXPAND, VIEW, SLICE, PLACE = Alias(), Permute(), Expand(), ViewAs(), Slice(), Place()
DIAGONAL, PLACE_DIAGONAL, UNFOLD, FOLD_LINE = Diagonal(), PlaceDiagonal(), Unfold(), FoldLine()
UNBIND, SPLIT, VIEW_AS_REAL, VIEW_AS_COMPLEX, BIT_VIEW = Unbind(), Split(), ViewAsReal(), ViewAsComplex(), BitView()
register_module(__name__)


# --------------------------------------------------------------------------------- public functions


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
        if self._interpreter is not None and self._interpreter.level:
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
    if input._interpreter is not None and input._interpreter.level:
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


@operation(inplace=change_geometry("unsqueeze"), quick=True)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A new dimension of size 1 at position `dim`."""
    at = wrap_dim(dim, input.ndim + 1, "unsqueeze")
    return VIEW(input, shape=(*input.shape[:at], 1, *input.shape[at:]))


@operation(inplace=change_geometry("squeeze"), quick=True)
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
