"""Where the largest elements of windows lie, and elements put back there: max pooling with positions.

Compiled code finds the positions by the kernels of `pooling.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...runtime.lazy import LazyModule
from ...tensor import Tensor, wrap
from ..core.primitive import Window, register_module
from ..index.places import PUT_AT, along
from ..math.elementwise import where
from .sliding import FLOATS, Sizes, padded, strided_windows

__all__ = ["LARGEST_IN_RANGE", "LARGEST_IN_WINDOW", "LARGEST_WINDOW", "PLACE_AT_LARGEST"]

pooling = LazyModule("weft.ops.layers.pooling")

LARGEST_WINDOW = 256  # elements up to which there are kernels: a winner's number is one byte


class LargestInWindow(Window):
    """Where in the flattened last dimensions the largest element of each window lies; NaN counts as largest.

    Of equal elements the first wins. Windows may reach over the edges by `padding` and, behind, as far
    as `counts` asks for: what lies outside is never chosen.
    """

    differentiable = False

    def compute(self, *arrays, **params):
        return self.reference(*arrays, **params)

    def shapes(self, x, *, size, stride, padding, dilation, counts):
        return (*x.shape[: len(x.shape) - len(size)], *counts), np.dtype(np.int64)

    def reference(self, x, *, size, stride, padding, dilation, counts):
        lengths = x.shape[x.ndim - len(size) :]
        geometry = tuple(zip(lengths, size, stride, padding, dilation, counts, strict=True))
        reach = ((o - 1) * s + (k - 1) * d + 1 - p - n for n, k, s, p, d, o in geometry)
        whole = padded(x, padding, tuple(max(0, r) for r in reach), _lowest(x.dtype))
        windows = strided_windows(whole, size, counts, stride, dilation)
        race = Race(x, (*x.shape[: x.ndim - len(size)], *counts), math.prod(size))
        for number, offset in enumerate(itertools.product(*(range(k) for k in size)), start=1):
            race.enter(windows[(..., *offset, *(slice(None),) * len(size))], number)
        corner = _positions([np.arange(o) * s - p for _, _, s, p, _, o in geometry], lengths)
        shift = _positions([np.arange(k) * d for _, k, _, _, d, _ in geometry], lengths).ravel()
        index = np.take(np.append(0, shift), race.winner) + corner
        if not race.winner.all():  # nothing above the lowest value: the first element inside
            first = _positions([_starts(s, p, d, o) for _, _, s, p, d, o in geometry], lengths)
            index = np.where(race.winner == 0, first, index)
        return index

    def parts(self, x, **geometry):
        if x.dtype not in FLOATS or math.prod(geometry["size"]) > LARGEST_WINDOW:
            return None
        found = pooling.positions_of_largest(_as_images(x, len(geometry["size"])), **geometry)
        return found.reshape(*x.shape[: x.ndim - len(geometry["size"])], *geometry["counts"])

    def batch(self, inputs, batched, size, params):
        return LARGEST_IN_WINDOW(inputs[0], **params)


class LargestInRange(Window):
    """`LargestInWindow` for windows of unequal sizes: `ranges` has for each dimension its (start, stop) pairs."""

    differentiable = False

    def compute(self, *arrays, **params):
        return self.reference(*arrays, **params)

    def reference(self, x, *, ranges):
        n = len(ranges)
        kept, lengths = x.ndim - n, x.shape[x.ndim - n :]
        index = np.broadcast_to(np.arange(math.prod(lengths)).reshape(lengths), x.shape)
        for dim in reversed(range(kept, x.ndim)):  # the first along rows, then the first of the rows
            place = _largest_along(x, dim, np.array(ranges[dim - kept], np.int64).reshape(-1, 2))
            x, index = np.take_along_axis(x, place, dim), np.take_along_axis(index, place, dim)
        return index

    def parts(self, x, *, ranges):
        longest = math.prod(max((stop - start for start, stop in along), default=0) for along in ranges)
        if x.dtype not in FLOATS or not 0 < longest <= LARGEST_WINDOW:
            return None
        found = pooling.positions_in_ranges(_as_images(x, len(ranges)), ranges)
        return found.reshape(*x.shape[: x.ndim - len(ranges)], *map(len, ranges))

    def batch(self, inputs, batched, size, params):
        return LARGEST_IN_RANGE(inputs[0], **params)


def _as_images(x: Tensor, n: int) -> Tensor:
    """(…, *lengths) → (N, C, *lengths)."""
    kept = x.ndim - n
    return x if kept == 2 else x.reshape(1, math.prod(x.shape[:kept]), *x.shape[kept:])


class Race:
    """The largest of several candidates, entered one after the other, and the number of the winner (from 1)."""

    def __init__(self, x: np.ndarray, shape: Sizes, candidates: int) -> None:
        self.value = np.full(shape, _lowest(x.dtype), x.dtype)
        self.winner = np.zeros(shape, np.uint8 if candidates < 256 else np.int64)
        self.may_be_nan = _has_nan(x)

    def enter(self, value: np.ndarray, number: int, valid: Any = True) -> None:
        """Numbers grow, so the last one that was better than all before is the maximum of those: no branches."""
        better = value > self.value
        if self.may_be_nan:
            better |= np.isnan(value)
        if valid is not True:
            better &= valid
        np.maximum(self.value, value, out=self.value)
        np.maximum(self.winner, better.view(np.uint8) * self.winner.dtype.type(number), out=self.winner)


def _largest_along(x: np.ndarray, dim: int, ranges: np.ndarray) -> np.ndarray:
    """Where along `dim` the largest element of each range lies."""
    starts, stops = ranges.T
    trailing = (1,) * (x.ndim - dim - 1)
    longest = int((stops - starts).max(initial=0))
    if len(ranges) * longest == x.shape[dim] and not _has_nan(x):  # equal ranges side by side
        split = x.reshape(*x.shape[:dim], len(ranges), longest, *x.shape[dim + 1 :])
        return split.argmax(dim + 1) + starts.reshape(-1, *trailing)
    race = Race(x, (*x.shape[:dim], len(ranges), *x.shape[dim + 1 :]), longest)
    for offset in range(longest):
        inside = (starts + offset < stops).reshape(-1, *trailing)
        race.enter(np.take(x, np.minimum(starts + offset, stops - 1), dim), offset + 1, inside)
    return np.maximum(race.winner, 1).astype(np.int64) - 1 + starts.reshape(-1, *trailing)


def _has_nan(x: np.ndarray) -> bool:
    return x.dtype.kind in "fV" and bool(np.isnan(x).any())


def _lowest(kind: np.dtype) -> Any:
    return -np.inf if kind.kind in "fV" else np.iinfo(kind).min


def _starts(stride: int, padding: int, dilation: int, count: int) -> np.ndarray:
    """The first position of each window that is not in the padding."""
    start = np.arange(count) * stride - padding
    return np.where(start < 0, start + -(start // dilation) * dilation, start)


def _positions(along: Sequence[np.ndarray], lengths: Sizes) -> np.ndarray:
    """Flat positions from one array of coordinates for each dimension."""
    flat = np.zeros((), np.int64)
    for coordinates, length in zip(along, lengths, strict=True):
        flat = flat[..., None] * length + coordinates
    return flat


class PlaceAtLargest(Window):
    """Zeros with x at flat places, the last one where places coincide: what undoes `LargestInWindow`.

    Its gradient reads every place back, as PyTorch's does, also where another element covers this one.
    """

    def reference(self, x, index, *, length):
        wrong = (index < 0) | (index >= length)
        if wrong.any():
            raise ShapeError(
                f"max_unpool: Found an invalid max index: {index[wrong].flat[0]} (output volumes are of size {length})"
            )
        out = np.zeros((*x.shape[:-1], length), x.dtype)
        np.put_along_axis(out, index, x, -1)
        return out

    def compute(self, *arrays, **params):
        return self.reference(*arrays, **params)

    def parts(self, x, index, *, length):
        rows = lambda t: t.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        zeros = wrap(np.zeros((), x.dtype.np)).expand(math.prod(x.shape[:-1]), length)
        places = where(index < 0, length, index)  # refused, not counted from the end
        return PUT_AT(zeros, rows(x), *along(rows(places), 1)).reshape(*x.shape[:-1], length)

    def vjp(self, g, y, x, index, *, length):
        return lambda: g.gather(-1, index), lambda: None

    def batch(self, inputs, batched, size, params):
        whole = [t if b else t.unsqueeze(0).expand(size, *t.shape) for t, b in zip(inputs, batched, strict=True)]
        return PLACE_AT_LARGEST(*whole, **params)


LARGEST_IN_WINDOW, LARGEST_IN_RANGE, PLACE_AT_LARGEST = LargestInWindow(), LargestInRange(), PlaceAtLargest()
register_module(__name__)
