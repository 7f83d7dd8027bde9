"""Putting tensors together: joined, repeated, turned, rolled, padded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import ArgumentError, DtypeError, IndexRangeError, InvalidValueError, ShapeError, UnsupportedError
from ...refusal import need_bounded
from ...sizes import wrap_dim, wrap_dims
from ...tensor import Tensor, wrap
from ..core.operands import contents, python_int
from ..core.planes import Planes
from ..core.primitive import Opaque, operation
from .reshape import sizes_from
from .shape import ALL, atleast_1d, atleast_2d, atleast_3d
from .view import SLICE

__all__ = ["PAD", "Cat", "cat", "pad", "stack"]

MOST_PLACES = 1 << 48  # beyond them NumPy's own sum of counts may turn negative, and it writes where nothing is


class Cat(Opaque):
    """Tensors one after the other along a dimension."""

    reads, low_precision, exact = "shapes", True, True
    linear = range(sys.maxsize)

    def reference(self, *xs, dim):
        return np.concatenate(xs, dim)

    def vjp(self, g, y, *xs, dim):
        return g.split([x.shape[dim] for x in xs], dim)

    def batch(self, inputs, batched, size, params):
        whole = [x if b else x.unsqueeze(0).expand(size, *x.shape) for x, b in zip(inputs, batched, strict=True)]
        return CAT(*whole, dim=params["dim"] + 1)

    def pieces(self, out, *xs, dim):
        ends = np.cumsum([x.shape[dim] for x in xs])
        return None, np.split(out, ends[:-1], dim)


class Pad(Opaque):
    """x with widths[d] = (before, after) elements of `value` added around each dimension."""

    low_precision = True

    def reference(self, x, *, widths, value):
        shape = tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True))
        out = np.full(shape, value, x.dtype) if value else np.zeros(shape, x.dtype)
        out[tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True))] = x
        return out

    def vjp(self, g, y, x, *, widths, value):
        return (SLICE(g, index=tuple((w[0], w[0] + n, 1) for n, w in zip(x.shape, widths, strict=True))),)

    def push(self, node, out, tangents):
        return PAD(tangents[0], widths=node.params["widths"], value=0)

    def batch(self, inputs, batched, size, params):
        return PAD(inputs[0], widths=((0, 0), *params["widths"]), value=params["value"])

    def planes(self, x, *, widths, value):
        values = (complex(value).real, complex(value).imag)
        return Planes(*(PAD(part, widths=widths, value=v) for part, v in zip(x.tensors(), values, strict=True)))

    def pieces(self, out, x, *, widths, value):
        return value, [out[tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True))]]


CAT, PAD = Cat(), Pad()


@operation(method=False, out="apart", aliases=("concat", "concatenate"), kind="Opaque", primitive=CAT)
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors one after the other along a dimension; all other sizes must agree."""
    if not isinstance(tensors, (tuple, list)):
        raise ArgumentError(f"cat: argument 'tensors' must be tuple of Tensors, not {type(tensors).__name__}")
    if not tensors:
        raise ShapeError("cat: expected a non-empty list of tensors")
    kind = dtypes.result_dtype(tensors)
    kept = [x for x in tensors if tuple(x.shape) != (0,)]
    if not kept:
        return tensors[0].to(kind).clone()
    at = wrap_dim(dim, kept[0].ndim, "cat")
    for number, x in enumerate(kept):
        if x.ndim == 0:
            raise ShapeError("cat: zero-dimensional tensors cannot be concatenated; use stack")
        same = x.ndim == kept[0].ndim and all(
            a == b for d, (a, b) in enumerate(zip(x.shape, kept[0].shape, strict=True)) if d != at
        )
        if not same:
            raise ShapeError(
                f"cat: sizes of tensors must match except in dimension {at}; tensor 0 has {tuple(kept[0].shape)}, "
                f"tensor {number} has {tuple(x.shape)}"
            )
    return CAT(*(x.to(kind) for x in kept), dim=at)


@operation(method=False, out=True)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of equal sizes along a new dimension."""
    tensors = list(tensors)
    if not tensors:
        raise ShapeError("stack: expects a non-empty list of tensors")
    for number, x in enumerate(tensors):
        if x.shape != tensors[0].shape:
            raise ShapeError(
                f"stack: expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and "
                f"{list(x.shape)} at entry {number}"
            )
    at = wrap_dim(dim, tensors[0].ndim + 1, "stack")
    return cat([x.unsqueeze(at) for x in tensors], at)


@operation(method=False, out=True)
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one after the other along dimension 1 (1-d tensors along dimension 0)."""
    grown = _grown(tensors, atleast_1d, "hstack")
    return cat(grown, 0 if grown[0].ndim == 1 else 1)


@operation(method=False, out=True, aliases=("row_stack",))
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one below the other, along dimension 0; 1-d tensors become rows."""
    return cat(_grown(tensors, atleast_2d, "vstack"), 0)


@operation(method=False, out=True)
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one behind the other, along dimension 2."""
    return cat(_grown(tensors, atleast_3d, "dstack"), 2)


@operation(method=False, out=True)
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors side by side, along dimension 1; 0-d and 1-d tensors become columns."""
    return cat(_grown(tensors, lambda x: x if x.ndim > 1 else x.reshape(-1, 1), "column_stack"), 1)


def _grown(tensors: Sequence[Tensor], grow: Callable[[Tensor], Tensor], name: str) -> list[Tensor]:
    if not isinstance(tensors, (tuple, list)):
        raise ArgumentError(
            f"{name}: argument 'tensors' must be a tuple or list of tensors, got {type(tensors).__name__}"
        )
    if not tensors:
        raise ShapeError(f"{name}: expects a non-empty list of tensors")
    return [grow(x) for x in tensors]


# ---------------------------------------------------------------------------------------- repetition


@operation(function=False)
def repeat(self: Tensor, *counts: Any, repeats: Any = None) -> Tensor:
    """The tensor laid side by side repeats[d] times along each dimension d (new dimensions in front)."""
    counts = sizes_from(counts if repeats is None else (repeats,), "repeat")
    if len(counts) < self.ndim:
        raise ShapeError(
            f"repeat: number of dimensions of repeat dims {list(counts)} can not be smaller than number of dimensions "
            f"of tensor {tuple(self.shape)}"
        )
    if any(c < 0 for c in counts):
        raise ShapeError(f"repeat: repeats must be non-negative, got {list(counts)}")
    shape = (1,) * (len(counts) - self.ndim) + tuple(self.shape)
    if all(c == 1 for c in counts):
        return self.reshape(shape).clone()
    thin = [n for size in shape for n in (1, size)]  # (1, s₀, 1, s₁, …)
    wide = [n for count, size in zip(counts, shape, strict=True) for n in (count, size)]  # (r₀, s₀, r₁, s₁, …)
    return self.reshape(thin).expand(wide).reshape([c * s for c, s in zip(counts, shape, strict=True)]).contiguous()


@operation()
def tile(input: Tensor, *repeats: Any, dims: Any = None) -> Tensor:
    """Like repeat, with missing counts in front taken as 1."""
    counts = sizes_from(repeats if dims is None else (dims,), "tile")
    return repeat(input, (1,) * (input.ndim - len(counts)) + counts)


@operation()
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element (or slice along `dim`) repeated in place; with one argument, i repeated input[i] times."""
    if repeats is None:
        return wrap(_repeated_places(input, input.numel(), output_size))
    x, d = (input.reshape(-1), 0) if dim is None else (input, wrap_dim(dim, input.ndim, "repeat_interleave"))
    x = x if x.ndim else x.reshape(1)
    if isinstance(repeats, Tensor) and repeats.numel() != 1:
        if repeats.ndim > 1 or repeats.numel() != x.shape[d]:
            raise ShapeError(
                f"repeat_interleave: repeats must have the same size as input along dim, but got repeats of shape "
                f"{tuple(repeats.shape)} and {x.shape[d]} slices along dimension {d}"
            )
        return x.index_select(d, wrap(_repeated_places(repeats, x.shape[d], output_size)))
    count = repeats.item() if isinstance(repeats, Tensor) else python_int(repeats, "repeat_interleave")
    if count < 0:
        raise ShapeError(f"repeat_interleave: repeats can not be negative, got {count}")
    shape = tuple(x.shape)
    wide = x.unsqueeze(d + 1).expand((*shape[: d + 1], count, *shape[d + 1 :]))
    return wide.reshape((*shape[:d], shape[d] * count, *shape[d + 1 :])).contiguous()


def _repeated_places(repeats: Tensor, length: int, output_size: int | None) -> np.ndarray:
    if repeats.ndim != 1 or repeats.dtype not in (dtypes.int64, dtypes.int32):
        raise DtypeError(
            f"repeat_interleave: repeats must be a 1-d int64 or int32 tensor, got {repeats.dtype} of shape "
            f"{tuple(repeats.shape)}"
        )
    counts = contents(repeats, "repeat_interleave")
    if counts.size and counts.min() < 0:
        raise ShapeError(f"repeat_interleave: repeats can not be negative, got {counts.min()}")
    need_bounded(int(counts.sum(dtype=np.float64)), "repeat_interleave", "the sum of repeats", MOST_PLACES)
    if output_size is not None and counts.sum() != output_size:
        raise ShapeError(f"repeat_interleave: output_size is {output_size}, the repeats add up to {counts.sum()}")
    return np.repeat(np.arange(length), counts).astype(repeats.dtype.np)


# ------------------------------------------------------------------------------------- shifts and turns


@operation()
def flip(input: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """The elements in reverse order along the given dimensions, copied."""
    given = wrap_dims(sizes_from(axes if dims is None else (dims,), "flip"), input.ndim, "flip")
    index = tuple((None, None, -1) if d in given else ALL for d in range(input.ndim))
    return SLICE(input, index=index).clone()


@operation()
def fliplr(input: Tensor) -> Tensor:
    """Left and right exchanged: dimension 1 reversed."""
    if input.ndim < 2:
        raise ShapeError(f"fliplr: input must be >= 2-d, got shape {tuple(input.shape)}")
    return flip(input, 1)


@operation()
def flipud(input: Tensor) -> Tensor:
    """Up and down exchanged: dimension 0 reversed."""
    if input.ndim < 1:
        raise ShapeError("flipud: input must be >= 1-d, got a 0-d tensor")
    return flip(input, 0)


@operation()
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A quarter turn, k times, from the first of `dims` towards the second."""
    if len(dims) != 2:
        raise ShapeError(f"rot90: expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise ShapeError(f"rot90: expected total dims >= 2, but got total dims = {input.ndim}")
    first, second = (wrap_dim(d, input.ndim, "rot90") for d in dims)
    if first == second:
        raise ShapeError(
            f"rot90: expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turns = k % 4
    if turns == 0:
        return input.clone(memory_format="contiguous_format")
    if turns == 2:
        return flip(input, first, second)
    return flip(input, second if turns == 1 else first).transpose(first, second)


@operation()
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """The elements moved on by `shifts` along `dims`, those that fall off the end put back at the start."""
    moves = shifts if isinstance(shifts, (tuple, list)) else (shifts,)
    if not moves:
        raise ShapeError("roll: `shifts` required")
    if dims is None or dims == ():
        if len(moves) != 1:
            raise ShapeError(f"roll: shifts and dimensions must align. shifts: {len(moves)}, dims: 0")
        return _rolled(input.reshape(-1), moves[0], 0).reshape(input.shape)
    dims = dims if isinstance(dims, (tuple, list)) else (dims,)
    if len(moves) != len(dims):
        raise ShapeError(f"roll: shifts and dimensions must align. shifts: {len(moves)}, dims: {len(dims)}")
    result = input
    for shift, dim in zip(moves, dims, strict=True):
        result = _rolled(result, shift, wrap_dim(dim, input.ndim, "roll"))
    return result


def _rolled(x: Tensor, shift: Any, d: int) -> Tensor:
    if x.ndim == 0:
        raise IndexRangeError("roll: a 0-dim tensor has no dimension to roll along")
    length = x.shape[d]
    by = python_int(shift, "roll") % length if length else 0
    return cat([x.narrow(d, length - by, by), x.narrow(d, 0, length - by)], d) if by else x.clone()


# ------------------------------------------------------------------------------------------- padding


@operation(method=False)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """`value` added around the last dimensions; `pad` lists (before, after) from the last dimension on."""
    widths = _widths(pad, input, "constant_pad_nd")
    input = _trimmed(input, widths, "constant_pad_nd")
    return PAD(input, widths=tuple((max(a, 0), max(b, 0)) for a, b in widths), value=value)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Tensor:
    """More elements around the last dimensions; negative widths take elements away.

    `pad` = (before, after) of the last dimension, then of the one before it, and so on. Modes: 'constant'
    (of `value`), 'reflect' (mirrored at the edge, which is not repeated), 'replicate' (the edge repeated),
    'circular' (from the other side).
    """
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if mode not in _EDGES:
        raise UnsupportedError(
            f"pad: unrecognised padding mode {mode!r}; choose constant, reflect, replicate, circular"
        )
    if value:
        raise InvalidValueError(f'pad: padding mode "{mode}" doesn\'t take in value argument')
    widths = _widths(pad, input, "pad")
    count = len(pad) // 2
    if not (1 <= count <= 3 and input.ndim in (count + 1, count + 2)):
        raise UnsupportedError(
            f"pad: only 2D, 3D, 4D, 5D padding with non-constant padding are supported: {len(pad)} widths for a "
            f"tensor of shape {tuple(input.shape)}; it must have one or two dimensions more than are padded"
        )
    if 0 in input.shape[1:]:
        raise ShapeError(f"pad: expected non-zero sizes (other than the batch), got {tuple(input.shape)}")
    left = [input.shape[d] + sum(widths[d]) for d in range(input.ndim - count, input.ndim)]
    if mode != "circular" and (max(left) < 1 or min(left) < 0):  # one axis of several may be cut away whole
        raise ShapeError(
            f"pad: the input of shape {tuple(input.shape)} is too small for the widths {list(pad)}: sizes {left} would be "
            "left of the padded dimensions"
        )
    for d in reversed(range(input.ndim - count, input.ndim)):
        before, after = widths[d]
        _EDGES[mode][1](before, after, input.shape[d], d)
        input = _edged(input, d, before, after, _EDGES[mode][0])
    return input


def _widths(pad: Sequence[int], x: Tensor, name: str) -> list[tuple[int, int]]:
    """(before, after) for every dimension, first to last."""
    if len(pad) % 2:
        raise ShapeError(f"{name}: padding length must be divisible by 2, got {list(pad)}")
    if len(pad) // 2 > x.ndim:
        raise ShapeError(
            f"{name}: padding length should be less than or equal to two times the input dimension; got {len(pad)} "
            f"widths for shape {tuple(x.shape)}"
        )
    numbers = [python_int(p, name) for p in pad]
    pairs = [(numbers[i], numbers[i + 1]) for i in range(0, len(numbers), 2)]
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]


def _trimmed(x: Tensor, widths: Sequence[tuple[int, int]], name: str) -> Tensor:
    """x without what negative widths take away."""
    for d, (before, after) in enumerate(widths):
        start, end = max(-before, 0), x.shape[d] - max(-after, 0)
        if x.shape[d] + before + after < 0 or end < start:
            raise ShapeError(
                f"{name}: the input size {x.shape[d]}, plus negative padding {before} and {after}, resulted in a "
                f"negative output size at dimension {d}; check the widths"
            )
        if before < 0 or after < 0:
            x = x.narrow(d, start, end - start)
    return x


def _edged(x: Tensor, d: int, before: int, after: int, edges: Callable) -> Tensor:
    """x with both edges along `d` put on, or taken away where the width is negative."""
    if edges is not _wrapped and min(before, after) < -x.shape[d]:
        return _far_edge(x, d, before, after, edges is _reflected)
    kept = _trimmed(x, [(0, 0)] * d + [(before, after)], "pad")
    left, right = edges(kept if edges is _wrapped else x, d, max(before, 0), max(after, 0))
    parts = [part for part in (left, kept, right) if part is not None]
    return cat(parts, d) if len(parts) > 1 else kept.clone() if kept is x else kept


def _far_edge(x: Tensor, d: int, before: int, after: int, mirrored: bool) -> Tensor:
    """What is left of a padded axis when one width takes away more than the axis had: a part of the other edge."""
    last = x.shape[d] - 1
    places = np.arange(-before, last + after + 1)
    inside = np.where(places > last, 2 * last - places, np.abs(places)) if mirrored else places.clip(0, last)
    return x.index_select(d, wrap(inside))


def _reflected(x: Tensor, d: int, before: int, after: int) -> tuple[Tensor | None, Tensor | None]:
    size = x.shape[d]
    left = flip(x.narrow(d, 1, before), d) if before else None
    return left, flip(x.narrow(d, size - 1 - after, after), d) if after else None


def _replicated(x: Tensor, d: int, before: int, after: int) -> tuple[Tensor | None, Tensor | None]:
    def edge(place: int, count: int) -> Tensor | None:
        return x.narrow(d, place, 1).expand([count if i == d else -1 for i in range(x.ndim)]) if count else None

    return edge(0, before), edge(x.shape[d] - 1, after)


def _wrapped(x: Tensor, d: int, before: int, after: int) -> tuple[Tensor | None, Tensor | None]:
    return x.narrow(d, x.shape[d] - before, before) if before else None, x.narrow(d, 0, after) if after else None


def _check_reflect(before: int, after: int, size: int, d: int) -> None:
    if before >= size or after >= size:
        raise ShapeError(
            f"pad: padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {after}) at dimension {d} of size {size}"
        )


def _check_circular(before: int, after: int, size: int, d: int) -> None:
    kept = size + min(before, 0) + min(after, 0)
    if before > kept or after > kept:
        raise ShapeError(
            f"pad: padding value causes wrapping around more than once: ({before}, {after}) at dimension {d} of size "
            f"{size}"
        )


_EDGES = {
    "reflect": (_reflected, _check_reflect),
    "replicate": (_replicated, lambda before, after, size, d: None),
    "circular": (_wrapped, _check_circular),
}
