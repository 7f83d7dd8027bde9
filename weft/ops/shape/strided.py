"""Windows on memory: as_strided, and how the history of a tensor tells of writes through its views.

A view can be described by sizes, strides and an offset on the memory of the tensor that owns it (its
root). So one primitive, StridedReplace, records every in-place write through a view, and AsStrided
renews the history of all other views of that memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import AutogradError, ShapeError
from ...storage import owner_of
from ...tensor import Tensor, new, wrap
from ..core.operands import python_int
from ..core.primitive import Opaque, View, operation, register_module
from .reshape import change_geometry
from .view import VIEW_AS_COMPLEX, VIEW_AS_REAL

__all__ = ["STRIDED_READ", "STRIDED_REPLACE", "overwritten", "view_of_root", "window_of", "write_into_root"]

Layout = tuple[tuple[int, ...], tuple[int, ...], int]
as_window = np.lib.stride_tricks.as_strided


def layout_of(x: np.ndarray) -> Layout:
    """Sizes, strides in elements, and offset of the first element from the lowest address."""
    strides = tuple(s // x.itemsize for s in x.strides)
    offset = -sum(s * (n - 1) for s, n in zip(strides, x.shape, strict=True) if s < 0) if x.size else 0
    return x.shape, strides, offset


def shifted(x: np.ndarray, count: int) -> np.ndarray:
    """A 0-d array `count` elements away from the lowest address of x."""
    lowest = x[(*(-1 if s < 0 else 0 for s in x.strides), ...)]
    step = x.itemsize if count >= 0 else -x.itemsize
    return as_window(lowest, (abs(count) + 1,), (step,))[abs(count), ...]


def overlaps(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether a window may show one element of memory twice (True when in doubt)."""
    if 0 in size:
        return False
    reach = 0
    for step, count in sorted((abs(s), n) for s, n in zip(stride, size, strict=True) if n > 1):
        if step <= reach:
            return True
        reach += step * (count - 1)
    return False


class AsStrided(View):
    """A window given by sizes, strides and an offset on the memory of x.

    `layout` is the geometry of x itself (sizes, strides, offset from the lowest address), so that
    the adjoint can lay a gradient out as x lies.
    """

    linear = ()  # tangents need not lie as x does: by the adjoint

    def reference(self, x, *, layout, size, stride, offset):
        strides = tuple(s * x.itemsize for s in stride)
        if x.size == 0 or 0 in size:
            return as_window(x, size, strides)[...] if 0 in size else x.reshape(size)
        return as_window(shifted(x, offset), size, strides, writeable=x.flags.writeable)

    def vjp(self, g, y, x, *, layout, size, stride, offset):
        return (STRIDED_WRITE(g, layout=layout, size=size, stride=stride, offset=offset),)


def _reach(layout: Layout, size: Any, stride: Any, offset: int) -> tuple[int, int]:
    """The lowest and the highest element that the layout or the window shows."""
    shape, strides, start = layout
    along = lambda steps, counts, sign: sum(
        s * (n - 1) for s, n in zip(steps, counts, strict=True) if s * sign > 0 and n > 0
    )
    low = min(0, offset + along(stride, size, -1))
    return low, max(start + along(strides, shape, 1), offset + along(stride, size, 1))


def _laid_out(layout: Layout, size: Any, stride: Any, offset: int, kind: np.dtype) -> tuple[np.ndarray, ...]:
    """A zeroed line of memory, the view of it with the given layout, and the window on it."""
    shape, strides, start = layout
    low, high = _reach(layout, size, stride, offset)
    line = np.zeros(high - low + 1, kind)
    window = lambda at, counts, steps: as_window(line[at - low :], counts, tuple(s * kind.itemsize for s in steps))
    return line, window(start, shape, strides), window(offset, size, stride)


NUMBER = np.dtype(np.int64)


def _is_piece(layout: Layout, size: Any, stride: Any, offset: int) -> bool:
    """Whether the window is a part, without overlaps, of memory that lies dense."""
    inside = _reach(layout, size, stride, offset) == (0, max(math.prod(layout[0]) - 1, 0))
    return inside and _is_dense(layout) and not overlaps(size, stride)


def _is_dense(layout: Layout) -> bool:
    return layout == layout_of(np.empty(layout[0], np.int8))


def _chosen(x: Tensor, numbers: np.ndarray, other: Any) -> Tensor:
    """The elements of x with these numbers (in C order), `other` where the number is −1."""
    from ..index.places import INDEX
    from ..math.elementwise import where

    same = numbers.shape == tuple(x.shape) and (numbers.ravel() == np.arange(numbers.size)).all()
    found = x if same else INDEX(x.reshape(-1), wrap(np.maximum(numbers, 0)))
    return found if (numbers >= 0).all() else where(wrap(numbers >= 0), found, other)


class StridedRead(Opaque):
    """What the window shows when x lies in memory as `layout` says."""

    low_precision = True
    linear = (0,)

    def reference(self, x, *, layout, size, stride, offset):
        _, whole, part = _laid_out(layout, size, stride, offset, x.dtype)
        whole[...] = x
        return part.copy()

    def vjp(self, g, y, x, *, layout, size, stride, offset):
        return (STRIDED_WRITE(g, layout=layout, size=size, stride=stride, offset=offset),)

    def parts(self, x, *, layout, size, stride, offset):
        if _is_dense(layout):
            return None  # a view
        line, whole, part = _laid_out(layout, size, stride, offset, NUMBER)
        line[...] = -1
        whole[...] = np.arange(whole.size).reshape(whole.shape)
        return _chosen(x, part.copy(), 0)


class StridedWrite(Opaque):
    """The window added into zeros that lie as `layout` says: the adjoint of StridedRead."""

    low_precision = True
    linear = (0,)

    def reference(self, x, *, layout, size, stride, offset):
        line, whole, part = _laid_out(layout, size, stride, offset, x.dtype)
        if overlaps(size, stride):
            places = _laid_out(layout, size, stride, offset, NUMBER)
            places[0][...] = np.arange(line.size)
            np.add.at(line, places[2].ravel(), x.ravel())
        else:
            part[...] = x
        return whole.copy()

    def vjp(self, g, y, x, *, layout, size, stride, offset):
        return (STRIDED_READ(g, layout=layout, size=size, stride=stride, offset=offset),)

    def pieces(self, out, x, *, layout, size, stride, offset):
        if layout != layout_of(out) or not _is_piece(layout, size, stride, offset):
            return None
        return 0, [AS_STRIDED.reference(out, layout=layout, size=size, stride=stride, offset=offset)]

    def parts(self, x, *, layout, size, stride, offset):
        if _is_piece(layout, size, stride, offset):
            return None
        from ..index.places import ADD_AT

        line, whole, part = _laid_out(layout, size, stride, offset, NUMBER)
        line[...] = np.arange(line.size)
        added = ADD_AT(x.reshape(-1), wrap(part.ravel()), sizes=(line.size,))
        return _chosen(added, whole.copy(), 0)


class StridedReplace(Opaque):
    """x with a window of its memory replaced by `value`: what an in-place write through a view does."""

    low_precision = True
    linear = (0, 1)

    def reference(self, x, value, *, layout, size, stride, offset):
        _, whole, part = _laid_out(layout, size, stride, offset, x.dtype)
        whole[...] = x
        part[...] = value
        return whole.copy()

    def vjp(self, g, y, x, value, *, layout, size, stride, offset):
        window = dict(layout=layout, size=size, stride=stride, offset=offset)
        zeros = lambda: wrap(np.zeros((), g.dtype.np)).expand(size)
        return lambda: STRIDED_REPLACE(g, zeros(), **window), lambda: STRIDED_READ(g, **window)

    def pieces(self, out, x, value, *, layout, size, stride, offset):
        if layout != layout_of(out) or overlaps(size, stride):
            return None
        return None, [out, AS_STRIDED.reference(out, layout=layout, size=size, stride=stride, offset=offset)]

    def parts(self, x, value, *, layout, size, stride, offset):
        if _is_piece(layout, size, stride, offset) and math.prod(size) == math.prod(layout[0]):
            order = sorted(range(len(size)), key=lambda d: -stride[d])  # all of it, its dimensions permuted
            return value.expand(size).permute(order).reshape(layout[0])
        if _is_dense(layout) and not overlaps(size, stride):
            return None  # pieces
        line, whole, part = _laid_out(layout, size, stride, offset, NUMBER)
        whole[...] = np.arange(whole.size).reshape(whole.shape)  # overlaps are decided as NumPy decides them
        before = _chosen(x, whole.copy(), 0)
        line[...] = -1
        part[...] = np.arange(part.size).reshape(part.shape)
        return _chosen(value.expand(size), whole.copy(), before)


class Overwrite(Opaque):
    """`value` in the place of x: the history of a tensor all of whose elements were replaced.

    x stays an input, so that the tensor still requires grad (of 0), as PyTorch has it.
    """

    low_precision = True
    linear = (0, 1)

    def reference(self, x, value):
        return value.copy()

    def vjp(self, g, y, x, value):
        return lambda: g._filled(0), lambda: g


AS_STRIDED, STRIDED_READ, STRIDED_WRITE, STRIDED_REPLACE = AsStrided(), StridedRead(), StridedWrite(), StridedReplace()
OVERWRITE = Overwrite()
AS_STRIDED.pure = STRIDED_READ
STRIDED_READ.of_dense = AS_STRIDED  # what it is when x lies dense
register_module(__name__)


# ---------------------------------------------------------------- histories after an in-place write


def window_of(root: np.ndarray, view: np.ndarray) -> dict[str, Any]:
    """The geometry of `view` on the memory of `root`, both of one element type."""
    layout = layout_of(root)
    address = lambda x: x.__array_interface__["data"][0]
    start = (address(view) - address(root)) // root.itemsize + layout[2] if view.size and root.size else 0
    return dict(layout=layout, size=view.shape, stride=tuple(s // view.itemsize for s in view.strides), offset=start)


def _known(array: np.ndarray, like: Tensor | None = None) -> Tensor:
    """A tensor object over an array, with the history of another: nothing is computed."""
    out = new(Tensor)
    out.array = array
    if like is not None and like._needs_grad:
        out.node, out._needs_grad = like.node, True
    return out


def overwritten(target: Tensor, value: Tensor) -> Tensor:
    """The history of a tensor that owns its memory after `value` was written over all of it."""
    if value._needs_grad:
        return value
    return OVERWRITE.record(_known(target._window()), (_known(target._window(), target), value), {})


def write_into_root(root: Tensor, view: Tensor, value: Tensor) -> Tensor:
    """The history of `root` after `value` was written through `view` (the memory is already written)."""
    before, window = _known(root._window(), root), view._window()
    if root.is_complex() and not view.is_complex():  # told on the real parts of the root
        parts = VIEW_AS_REAL.reference(root._window())
        before = VIEW_AS_REAL.record(_known(parts), (before,), {})
        after = STRIDED_REPLACE.record(_known(parts), (before, value), window_of(parts, window))
        return VIEW_AS_COMPLEX.record(_known(root._window()), (after,), {})
    if view.is_complex() and not root.is_complex():
        value, window = VIEW_AS_REAL(value), VIEW_AS_REAL.reference(window)
    elif view.dtype is not root.dtype:
        raise AutogradError(
            f"in-place write through a view of type {view.dtype} on memory of type {root.dtype} cannot be "
            "differentiated; write through a view of the same type"
        )
    return STRIDED_REPLACE.record(_known(root._window()), (before, value), window_of(root._window(), window))


def view_of_root(root: Tensor, view: Tensor) -> Tensor:
    """The history of `view` after the memory of `root` was written to."""
    after, source = _known(view._window()), root
    if view.dtype is root.dtype:
        return AS_STRIDED.record(after, (root,), window_of(root._window(), view._window()))
    if root.is_complex() and not view.is_complex():
        source = VIEW_AS_REAL.record(_known(VIEW_AS_REAL.reference(root._window())), (root,), {})
        return AS_STRIDED.record(after, (source,), window_of(source._window(), view._window()))
    if view.is_complex() and not root.is_complex():
        parts = VIEW_AS_REAL.reference(view._window())
        part = AS_STRIDED.record(_known(parts), (root,), window_of(root._window(), parts))
        return VIEW_AS_COMPLEX.record(after, (part,), {})
    return after


# --------------------------------------------------------------------------------- public functions


def _checked_window(input: Tensor, size: Any, stride: Any, storage_offset: int | None, name: str) -> dict[str, Any]:
    """The parameters of a window on the memory behind `input`, checked against its bounds."""
    size, stride = tuple(python_int(s, name) for s in size), tuple(python_int(s, name) for s in stride)
    if len(size) != len(stride):
        raise ShapeError(f"{name}: mismatch in length of strides {stride} and shape {size}")
    if any(s < 0 for s in stride) or any(s < 0 for s in size):
        raise ShapeError(f"{name}: sizes and strides must be non-negative, got {size} and {stride}")
    offset = input.storage_offset() if storage_offset is None else python_int(storage_offset, name)
    available = input.untyped_storage().nbytes() // input.itemsize
    last = offset + sum(s * (n - 1) for s, n in zip(stride, size, strict=True)) + 1 if 0 not in size else 0
    if last > available or offset < 0:
        raise ShapeError(
            f"{name}: size {list(size)}, strides {list(stride)} and offset {offset} reach element {last}, out of "
            f"bounds for storage of {available} elements"
        )
    return dict(size=size, stride=stride, offset=offset)


def _offset_of(root: Tensor) -> int:
    """Elements from the start of the memory to the lowest element of `root`."""
    array = root._window()
    owner = owner_of(array)
    if not array.size:
        return 0
    return (np.lib.array_utils.byte_bounds(array)[0] - np.lib.array_utils.byte_bounds(owner)[0]) // root.itemsize


@operation(inplace=change_geometry("as_strided"))
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A window with given sizes, strides and offset on the memory behind `input`."""
    if input._interpreter is not None:  # no addresses: each example counts as contiguous
        layout = layout_of(np.empty(tuple(input.shape), np.int8))
        return STRIDED_READ(input, layout=layout, size=tuple(size), stride=tuple(stride), offset=storage_offset or 0)
    window = _checked_window(input, size, stride, storage_offset, "as_strided")
    root, base = input, input._base
    if base is not None and base.dtype is input.dtype and base._needs_grad == input._needs_grad:
        root = base  # unless the view is a leaf of its own
    window["offset"] -= _offset_of(root)
    return AS_STRIDED(root, layout=layout_of(root._window()), **window)


@operation()
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A copy of `input` in which the window as_strided(input, …) shows `src`."""
    window = _checked_window(input, size, stride, storage_offset, "as_strided_scatter")
    if tuple(src.shape) != window["size"]:
        raise ShapeError(
            f"as_strided_scatter: expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(window['size'])}"
        )
    window["offset"] -= _offset_of(input)
    return STRIDED_REPLACE(input, src.to(input.dtype), layout=layout_of(input._window()), **window)
