"""Max pooling for compiled code: the largest element of each window with its number in the window, and the adjoint.

Eager code pools with `LargestInWindow` and reads the elements there. A plan would rather have values and winners from one
pass over channels-last images, and a gradient that knows which window each element belongs to.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...tensor import Tensor, wrap
from ..core.primitive import PRIMITIVES, Window, register_module
from .largest import LARGEST_IN_WINDOW
from .sliding import Sizes
from .volumes import images_of

__all__ = ["MAX_POOL", "pool_volumes"]


def _corners(counts: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]) -> list[np.ndarray]:
    """The coordinates of the first element of each window, one array for each dimension."""
    grids = np.meshgrid(*(np.arange(o) * s - p for o, s, p in zip(counts, stride, padding, strict=True)), indexing="ij")
    return [g.astype(np.int64) for g in grids]


class MaxPool(Window):
    """The largest element of each window, and its number in the window (of equal elements the first; NaN is largest).

    x: (N, C, *lengths) → (N, C, *counts), uint8 (N, C, *counts)
    """

    gradient_output = 0

    def compute(self, *arrays, **params):
        return self.reference(*arrays, **params)

    def reference(self, x, *, size, stride, padding, dilation, counts):
        lengths = x.shape[2:]
        geometry = dict(size=size, stride=stride, padding=padding, dilation=dilation, counts=counts)
        index = LARGEST_IN_WINDOW.reference(x, **geometry)
        flat = index.reshape(*index.shape[:2], -1)
        values = np.take_along_axis(x.reshape(*x.shape[:2], -1), flat, -1).reshape(index.shape)
        places = np.unravel_index(index, lengths)
        corners = _corners(counts, stride, padding)
        taps = [(p - c) // d for p, c, d in zip(places, corners, dilation, strict=True)]
        return values, np.ravel_multi_index(taps, size).astype(np.uint8)

    def shapes(self, x, *, counts, **_):
        shape = (*x.shape[:2], *counts)
        return (shape, x.dtype), (shape, np.dtype(np.uint8))

    def vjp(self, g, y, x, *, size, stride, padding, dilation, counts):
        geometry = dict(size=size, stride=stride, padding=padding, dilation=dilation, counts=counts)
        return (MAX_POOL_SLOPE(g[0], y[1], lengths=tuple(x.shape[2:]), **geometry),)

    def native(self, node):
        from ...kernels.windows.anchors import max_pool

        return max_pool(node)


class MaxPoolSlope(Window):
    """Every element of an image gets the sum of g over the windows that chose it: the adjoint of `MaxPool`."""

    def compute(self, *arrays, **params):
        return self.reference(*arrays, **params)

    def reference(self, g, winner, *, lengths, size, stride, padding, dilation, counts):
        places = _flat_places(winner.astype(np.int64), lengths, size, stride, padding, dilation, counts)
        rows = g.shape[0] * g.shape[1]
        total = math.prod(lengths)
        offsets = np.arange(rows)[:, None] * total + places.reshape(rows, -1)
        summed = np.bincount(offsets.ravel(), g.ravel(), rows * total)
        return summed.astype(g.dtype).reshape(*g.shape[:2], *lengths)

    def shapes(self, g, winner, *, lengths, **_):
        return (*g.shape[:2], *lengths), g.dtype

    def vjp(self, g, y, g0, winner, *, lengths, size, stride, padding, dilation, counts):
        places = _flat_places(winner.long(), lengths, size, stride, padding, dilation, counts)
        flat = g.reshape(*g.shape[:2], -1).gather(-1, places.reshape(*g.shape[:2], -1))
        return flat.reshape(g0.shape), None

    def native(self, node):
        from ...kernels.windows.anchors import max_pool_slope

        return max_pool_slope(node)


def _flat_places(winner: Any, lengths: Any, size: Any, stride: Any, padding: Any, dilation: Any, counts: Any) -> Any:
    """Positions in the flattened image from numbers in the window; arrays and tensors alike."""
    number, found = winner, None
    taps = []
    for k in reversed(size):
        taps.append(number % k)
        number = number // k
    for tap, corner, d, length in zip(
        reversed(taps), _corners(counts, stride, padding), dilation, lengths, strict=True
    ):
        corner = wrap(corner) if isinstance(winner, Tensor) else corner
        place = corner + tap * d
        found = place if found is None else found * length + place
    return found


# --------------------------------------------------------------------------- volumes, and positions instead of numbers


AT_ONE = dict(size=1, stride=1, padding=0, dilation=1)  # a dimension in which every element is its own window


def pool_volumes(x: Tensor, **geometry: Sizes) -> tuple[Tensor, Tensor, Tensor]:
    """The largest element of each window of volumes: first in each slice, then along the depth.

    x: (N, C, D, H, W) → values (N, C, *counts), numbers in the slices' windows (N, C, D, H′·W′) and numbers along the
    depth (N, C, D′, H′·W′).
    """
    samples, channels, depth = x.shape[:3]
    counts = geometry["counts"]
    places = counts[1] * counts[2]
    lines = lambda t: t.reshape(samples, depth, channels, places).transpose(1, 2)  # (N·D, C, H′, W′) as (N, C, D, …)
    largest, inner = MAX_POOL(images_of(x), **{name: sizes[1:] for name, sizes in geometry.items()})
    along = {name: (sizes[0], AT_ONE[name]) for name, sizes in geometry.items() if name != "counts"}
    values, outer = MAX_POOL(lines(largest), **along, counts=(counts[0], places))
    return values.reshape(samples, channels, *counts), lines(inner), outer


def positions_of_largest(x: Tensor, **geometry: Sizes) -> Tensor:
    """Flat positions of the largest elements of windows, (N, C, *lengths) → (N, C, *counts)."""
    lengths = tuple(x.shape[2:])
    if len(lengths) < 3:
        return _flat_places(MAX_POOL(x, **geometry)[1].long(), lengths, **geometry)
    _, inner, outer = pool_volumes(x, **geometry)
    along = {name: sizes[:1] for name, sizes in geometry.items()}
    depth = _flat_places(outer.long().movedim(2, -1), lengths[:1], **along).movedim(-1, 2)  # (N, C, D′, H′·W′)
    inner = inner.gather(2, depth).long().reshape(*x.shape[:2], *geometry["counts"])
    flat = _flat_places(inner, lengths[1:], **{name: sizes[1:] for name, sizes in geometry.items()})
    return flat + depth.reshape(inner.shape) * (lengths[1] * lengths[2])


def positions_in_ranges(x: Tensor, ranges: tuple[tuple[tuple[int, int], ...], ...]) -> Tensor:
    """Flat positions of the largest elements of ranges of unequal sizes, (N, C, *lengths) → (N, C, *counts).

    Short ranges are filled up with their last element, which changes no first maximum.
    """
    lengths, lines, size = tuple(x.shape[2:]), [], []
    for d, along in enumerate(ranges):
        starts, stops = np.array(along, np.int64).T
        size.append(int((stops - starts).max()))
        places = np.minimum(starts[:, None] + np.arange(size[-1]), stops[:, None] - 1)  # (count, size)
        lines.append(wrap(places.ravel()))
        x = x.index_select(2 + d, lines[-1])
    one, zero = (1,) * len(ranges), (0,) * len(ranges)
    geometry = dict(size=tuple(size), stride=tuple(size), padding=zero, dilation=one)
    number = positions_of_largest(x, **geometry, counts=tuple(map(len, ranges)))
    found, step = None, 1
    for line, length in zip(reversed(lines), reversed(lengths), strict=True):
        place = line[number % line.shape[0]] * step
        number, step = number // line.shape[0], step * length
        found = place if found is None else found + place
    return found


register_module(__name__)
MAX_POOL, MAX_POOL_SLOPE = PRIMITIVES["MaxPool"], PRIMITIVES["MaxPoolSlope"]
