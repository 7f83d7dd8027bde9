"""Manipulation functions of the standard: shapes, order, joining; and the utility `diff`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft

from ..errors import InvalidValueError, ShapeError
from .array import Array, axes_of, axis_of, need_array
from .types import promoted_arrays

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "diff",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]

Axes = int | tuple[int, ...]


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """The arrays stretched to one common shape."""
    if not arrays:
        return []
    return [Array(t) for t in weft.broadcast_tensors(*(need_array("broadcast_arrays", x) for x in arrays))]


def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """The array stretched to a shape."""
    return Array(weft.broadcast_to(need_array("broadcast_to", x), tuple(shape)))


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """The arrays joined along an axis, or flattened and joined if axis is None."""
    tensors = promoted_arrays("concat", *arrays)
    if axis is None:
        return Array(weft.cat([t.reshape(-1) for t in tensors]))
    ranks = {t.ndim for t in tensors}
    if len(ranks) > 1 or 0 in ranks:
        shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
        raise ShapeError(f"concat: arrays need equal ranks of at least 1, got shapes {shapes}; or give axis=None")
    axis = axis_of(axis, tensors[0].ndim, "concat")
    return Array(weft.cat(tensors, axis))


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """The arrays joined along a new axis."""
    return Array(weft.stack(promoted_arrays("stack", *arrays), axis))


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis."""
    tensor = need_array("unstack", x)
    return tuple(Array(part) for part in tensor.unbind(axis_of(axis, tensor.ndim, "unstack")))


def expand_dims(x: Array, /, axis: int = 0) -> Array:
    """The array with a new axis of size 1."""
    return Array(need_array("expand_dims", x).unsqueeze(axis))


def squeeze(x: Array, /, axis: Axes) -> Array:
    """The array without the given axes, which must have size 1."""
    tensor = need_array("squeeze", x)
    axes = axes_of(axis, tensor.ndim, "squeeze")
    if any(tensor.shape[a] != 1 for a in axes):
        raise ShapeError(f"squeeze: the axes {axis} of shape {tuple(tensor.shape)} do not all have size 1")
    return Array(tensor.reshape([size for a, size in enumerate(tensor.shape) if a not in axes]))


def flip(x: Array, /, *, axis: Axes | None = None) -> Array:
    """The elements in reverse order along the axes (all of them if None)."""
    tensor = need_array("flip", x)
    return Array(tensor.flip(axes_of(axis, tensor.ndim, "flip")))


def moveaxis(x: Array, source: Axes, destination: Axes, /) -> Array:
    """The array with the axes `source` moved to `destination`, the others in their order."""
    tensor = need_array("moveaxis", x)
    places = axes_of(source, tensor.ndim, "moveaxis"), axes_of(destination, tensor.ndim, "moveaxis")
    return Array(weft.movedim(tensor, *places))


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """The array with its axes in another order."""
    return Array(need_array("permute_dims", x).permute(tuple(axes)))


def repeat(x: Array, repeats: int | Array, /, *, axis: int | None = None) -> Array:
    """Each element (or slice along the axis) repeated."""
    tensor = need_array("repeat", x)
    if axis is None:
        tensor, axis = tensor.reshape(-1), 0
    axis = axis_of(axis, tensor.ndim, "repeat")
    counts = repeats
    if isinstance(repeats, Array):
        counts = repeats.tensor.to(weft.int64)
        counts = int(counts.reshape(())) if counts.numel() == 1 else counts
    return Array(weft.repeat_interleave(tensor, counts, axis))


def reshape(x: Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """The same elements in another shape; one size may be −1."""
    tensor, sizes = need_array("reshape", x), tuple(shape)
    if copy is not False:
        result = tensor.reshape(sizes)
        return Array(result.clone() if copy else result)
    try:
        return Array(tensor.view(sizes))
    except RuntimeError:
        raise InvalidValueError(f"reshape: {tuple(tensor.shape)} becomes {sizes} only by a copy; allow one") from None


def roll(x: Array, /, shift: Axes, *, axis: Axes | None = None) -> Array:
    """The elements moved along the axes; those that fall off come in again at the other end."""
    tensor = need_array("roll", x)
    if axis is None:
        return Array(tensor.reshape(-1).roll(shift, 0).reshape(tensor.shape))
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    return Array(tensor.roll(shifts, axes))


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """The array laid side by side, so many times along each axis."""
    return Array(weft.tile(need_array("tile", x), tuple(repetitions)))


def diff(
    x: Array, /, *, axis: int = -1, n: int = 1, prepend: Array | None = None, append: Array | None = None
) -> Array:
    """out[i] = x[i+1] − x[i] along an axis, n times."""
    parts = [part for part in (prepend, x, append) if part is not None]
    tensor = (concat(parts, axis=axis) if len(parts) > 1 else x).tensor
    axis = axis_of(axis, need_array("diff", x).ndim, "diff")
    if n < 0:
        raise InvalidValueError(f"diff: n must not be negative, got {n}")
    for _ in range(n):
        length = max(tensor.shape[axis] - 1, 0)
        later, earlier = tensor.narrow(axis, tensor.shape[axis] - length, length), tensor.narrow(axis, 0, length)
        tensor = _difference(later, earlier)
    return Array(tensor)


def _difference(later: Any, earlier: Any) -> Any:
    """Of booleans: whether they differ, as in NumPy and PyTorch."""
    return later != earlier if later.dtype is weft.bool else later - earlier
