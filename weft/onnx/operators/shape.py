"""Operators that move elements: shapes, axes, pieces, padding, and tensors made from a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import weft

from ...errors import ShapeError
from ...io.errors import OversizeError
from ...nn import functional as F
from ...tensor import Tensor, wrap
from .registry import ints, known, rule

__all__ = ["check_size"]

MOST = 1 << 36  # elements that a shape in a file may ask for


def check_size(shape: Sequence[int]) -> None:
    """A few bytes of a file can ask for all memory there is."""
    if math.prod(shape) > MOST:
        raise OversizeError(f"an ONNX graph asks for {math.prod(shape)} elements at once; refused")


@rule("Reshape", 5, numbers=(1,))
def reshape(x: Tensor, shape: np.ndarray, *, allowzero: int = 0) -> Tensor:
    """A size 0 takes that of x in its place, unless `allowzero`."""
    sizes = [x.shape[k] if n == 0 and not allowzero and k < x.ndim else n for k, n in enumerate(ints(shape))]
    if -1 in sizes and 0 in sizes and not x.numel():
        sizes[sizes.index(-1)] = 0
    return x.reshape(sizes)


@rule("Shape", raw=True)
def shape(x: Any, *, start: int = 0, end: int | None = None) -> np.ndarray:
    return np.array(tuple(x.shape)[slice(start, end)], np.int64)


@rule("Size", raw=True)
def size(x: Any) -> np.ndarray:
    return np.array(math.prod(x.shape), np.int64)


@rule("Transpose", raw=True)
def transpose(x: Any, *, perm: list[int] | None = None) -> Any:
    order = list(range(len(x.shape)))[::-1] if perm is None else perm
    return x.permute(order) if isinstance(x, Tensor) else np.ascontiguousarray(x.transpose(order))


@rule("Squeeze")
def squeeze_old(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    return _squeezed(x, axes)


@rule("Squeeze", 13, numbers=(1,))
def squeeze(x: Tensor, axes: np.ndarray | None = None) -> Tensor:
    return _squeezed(x, None if axes is None else ints(axes))


def _squeezed(x: Tensor, axes: Sequence[int] | None) -> Tensor:
    gone = {k for k, n in enumerate(x.shape) if n == 1} if axes is None else {a % x.ndim for a in axes}
    if any(x.shape[k] != 1 for k in gone):
        raise ShapeError(f"Squeeze: axes {sorted(gone)} of {tuple(x.shape)} are not all of size 1")
    return x.reshape([n for k, n in enumerate(x.shape) if k not in gone])


@rule("Unsqueeze")
def unsqueeze_old(x: Tensor, *, axes: list[int]) -> Tensor:
    return _unsqueezed(x, axes)


@rule("Unsqueeze", 13, numbers=(1,))
def unsqueeze(x: Tensor, axes: np.ndarray) -> Tensor:
    return _unsqueezed(x, ints(axes))


def _unsqueezed(x: Tensor, axes: Sequence[int]) -> Tensor:
    rank = x.ndim + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = x.unsqueeze(axis)
    return x


@rule("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@rule("Concat", raw=True)
def concat(*xs: Any, axis: int = 1) -> Any:
    if all(isinstance(x, np.ndarray) for x in xs):
        return np.concatenate(xs, axis)
    return weft.cat([wrap(x) if known(x) else x for x in xs], axis)


@rule("Split", 2)
def split_old(x: Tensor, *, axis: int = 0, split: list[int] | None = None, outputs: int = 1) -> tuple[Tensor, ...]:
    return tuple(weft.split(x, split or _parts(x.shape[axis], outputs), axis))


@rule("Split", 13, numbers=(1,))
def split(
    x: Tensor, sizes: np.ndarray | None = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int = 1
) -> tuple[Tensor, ...]:
    lengths = _parts(x.shape[axis], num_outputs or outputs) if sizes is None else ints(sizes)
    return tuple(weft.split(x, lengths, axis))


def _parts(length: int, count: int) -> list[int]:
    """Equal lengths, the last one shorter if it must be."""
    each = -(-length // count)
    return [min(each, max(0, length - each * k)) for k in range(count)]


@rule("Slice")
def slice_old(x: Tensor, *, starts: list[int], ends: list[int], axes: list[int] | None = None) -> Tensor:
    return _sliced(x, starts, ends, axes, None)


@rule("Slice", 10, numbers=(1, 2, 3, 4))
def slice_(x: Tensor, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Tensor:
    return _sliced(
        x, ints(starts), ints(ends), None if axes is None else ints(axes), None if steps is None else ints(steps)
    )


def _sliced(x: Tensor, starts: list[int], ends: list[int], axes: list[int] | None, steps: list[int] | None) -> Tensor:
    axes = list(range(len(starts))) if axes is None else [a % x.ndim for a in axes]
    index: list[Any] = [slice(None)] * x.ndim
    turned = []
    for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(starts), strict=True):
        first, last, step = slice(start, end, step).indices(x.shape[axis])
        if step < 0:  # the same elements from the other end, then turned round
            count = max(0, -((last - first) // -step) if last < first else 0)
            first, last, step = first + (count - 1) * step if count else 0, first + 1 if count else 0, -step
            turned.append(axis)
        index[axis] = slice(first, max(first, last), step)
    found = x[tuple(index)]
    return found.flip(turned) if turned else found


@rule("Expand", numbers=(1,))
def expand(x: Tensor, shape: np.ndarray) -> Tensor:
    wanted = np.broadcast_shapes(tuple(x.shape), tuple(ints(shape)))
    check_size(wanted)
    return x.expand(wanted)


@rule("Tile", 6, numbers=(1,))
def tile(x: Tensor, repeats: np.ndarray) -> Tensor:
    check_size([n * k for n, k in zip(x.shape, ints(repeats), strict=True)])
    return x.repeat(ints(repeats)) if x.ndim else x


@rule("Pad", 2)
def pad_old(x: Tensor, *, pads: list[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    return _padded(x, pads, mode, value)


@rule("Pad", 11, numbers=(1, 2, 3))
def pad(x: Tensor, pads: Any, value: Any = None, axes: Any = None, *, mode: str = "constant") -> Tensor:
    widths = ints(pads)
    if axes is not None:
        chosen, half = [a % x.ndim for a in ints(axes)], len(widths) // 2
        spread = [0] * (2 * x.ndim)
        for k, axis in enumerate(chosen):
            spread[axis], spread[x.ndim + axis] = widths[k], widths[half + k]
        widths = spread
    return _padded(x, widths, mode, 0 if value is None else value.reshape(-1)[0].item())


def _padded(x: Tensor, pads: Sequence[int], mode: str, value: Any) -> Tensor:
    """Negative widths cut; then the rest is put around."""
    check_size([n + a + b for n, a, b in zip(x.shape, pads[: x.ndim], pads[x.ndim :], strict=True)])
    for axis in range(x.ndim):
        before, after = pads[axis], pads[x.ndim + axis]
        if mode != "constant" and (before > 0 or after > 0):
            x = x.index_select(axis, _mirrored(x.shape[axis], max(before, 0), max(after, 0), mode))
            before, after = min(before, 0), min(after, 0)
        if before < 0 or after < 0:
            x = x.narrow(axis, max(-before, 0), x.shape[axis] + min(before, 0) + min(after, 0))
    if mode != "constant":
        return x
    widths = [max(w, 0) for axis in reversed(range(x.ndim)) for w in (pads[axis], pads[x.ndim + axis])]
    if x.dtype is weft.bool:
        return F.pad(x.to(weft.uint8), widths, value=float(value)).to(weft.bool)
    return F.pad(x, widths, value=value) if any(widths) else x


_NUMPY_MODES = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def _mirrored(length: int, before: int, after: int, mode: str) -> Tensor:
    """The places that a padded line reads."""
    check_size((length + before + after,))
    return wrap(np.pad(np.arange(length), (before, after), _NUMPY_MODES[mode]))


@rule("ConstantOfShape", raw=True)
def constant_of_shape(shape: Any, *, value: np.ndarray | None = None) -> Any:
    sizes = ints(shape)
    check_size(sizes)
    number = np.zeros(1, np.float32) if value is None else value
    return np.full(sizes, number.reshape(-1)[0], number.dtype)


@rule("Range", raw=True)
def range_(start: Any, limit: Any, delta: Any) -> np.ndarray:
    numbers = [np.asarray(x.tolist() if isinstance(x, Tensor) else x).reshape(()) for x in (start, limit, delta)]
    kind = start.dtype.np if isinstance(start, Tensor) else start.dtype
    first, last, step = (x.item() for x in numbers)
    count = max(0, math.ceil((last - first) / step)) if step else 0
    check_size((count,))
    exact = kind if np.dtype(kind).kind in "iu" else np.float64
    return (np.asarray(first, exact) + np.arange(count, dtype=exact) * np.asarray(step, exact)).astype(kind)


@rule("EyeLike", raw=True)
def eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> np.ndarray:
    from ..tensors import ELEMENT_TYPES

    kind = ELEMENT_TYPES[dtype] if dtype else x.dtype.np if isinstance(x, Tensor) else x.dtype
    return np.eye(*x.shape, k=k, dtype=kind)


@rule("Trilu", numbers=(1,))
def trilu(x: Tensor, k: np.ndarray | None = None, *, upper: int = 1) -> Tensor:
    diagonal = 0 if k is None else int(k.reshape(()))
    return weft.triu(x, diagonal) if upper else weft.tril(x, diagonal)


@rule("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    b, c, h, w = x.shape
    n = blocksize
    if mode == "DCR":
        x = x.reshape(b, n, n, c // n**2, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(b, c // n**2, n, n, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(b, c // n**2, h * n, w * n)


@rule("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    b, c, h, w = x.shape
    n = blocksize
    x = x.reshape(b, c, h // n, n, w // n, n)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return x.permute(order).reshape(b, c * n * n, h // n, w // n)


@rule("ReverseSequence")
def reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """The first `lengths[b]` steps of every sequence in the other direction."""
    steps = weft.arange(x.shape[time_axis]).unsqueeze(1)  # (T, 1)
    places = weft.where(steps < lengths, lengths - 1 - steps, steps)  # (T, B)
    places = places if time_axis < batch_axis else places.mT
    wide = places.reshape([*places.shape, *[1] * (x.ndim - 2)]).expand(x.shape)
    return x.gather(time_axis, wide)


@rule("Compress", numbers=(1,))
def compress(x: Tensor, condition: np.ndarray, *, axis: int | None = None) -> Tensor:
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return x.index_select(axis, wrap(np.flatnonzero(condition)))


@rule("CenterCropPad", numbers=(1,))
def center_crop_pad(x: Tensor, shape: np.ndarray, *, axes: list[int] | None = None) -> Tensor:
    """Cut or padded with zeros to these sizes, around the middle."""
    chosen = range(x.ndim) if axes is None else [a % x.ndim for a in axes]
    widths = [0] * (2 * x.ndim)
    for axis, wanted in zip(chosen, ints(shape), strict=True):
        missing = wanted - x.shape[axis]
        before = missing // 2 if missing >= 0 else -(-missing // 2)
        widths[axis], widths[x.ndim + axis] = before, missing - before
    return _padded(x, widths, "constant", 0)
