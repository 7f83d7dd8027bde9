"""Views: the same memory through other sizes and strides, and the adjoints that gradients need.

Few primitives carry all of PyTorch's view functions: permute, expand, view (new sizes), slice, diagonal, unfold, unbind,
split, and the two readings of complex numbers (as_strided: `strided.py`). The functions are in `reshape.py` and `shape.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ..core.planes import Planes
from ..core.primitive import Opaque, View, register_module, summed_to

__all__ = [
    "ALIAS",
    "BIT_VIEW",
    "DIAGONAL",
    "EXPAND",
    "FOLD_LINE",
    "PERMUTE",
    "PLACE",
    "PLACE_DIAGONAL",
    "SLICE",
    "SPLIT",
    "UNBIND",
    "UNFOLD",
    "VIEW",
    "VIEW_AS_COMPLEX",
    "VIEW_AS_REAL",
]


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
    try:
        return np.lib.stride_tricks.as_strided(x, shape, strides)
    except (OverflowError, ValueError):
        raise ShapeError(f"expand: {shape} has more elements than memory has addresses") from None


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

    def planes(self, x):
        from .join import stack

        if x.whole is not None:
            return x.whole
        real, imag = x.tensors()
        return stack([real, imag], -1)

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

    def planes(self, x):
        return Planes(*UNBIND(x, dim=x.ndim - 1), whole=x)

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

    def planes(self, x, *, to):
        return None

    def batch_params(self, params, x):
        return params


ALIAS, PERMUTE, EXPAND, VIEW, SLICE, PLACE = Alias(), Permute(), Expand(), ViewAs(), Slice(), Place()
DIAGONAL, PLACE_DIAGONAL, UNFOLD, FOLD_LINE = Diagonal(), PlaceDiagonal(), Unfold(), FoldLine()
UNBIND, SPLIT, VIEW_AS_REAL, VIEW_AS_COMPLEX, BIT_VIEW = Unbind(), Split(), ViewAsReal(), ViewAsComplex(), BitView()
register_module(__name__)
