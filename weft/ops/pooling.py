"""Max pooling for compiled code: the largest element of each window with its number in the window, and the adjoint.

Eager code pools with `LargestInWindow` and reads the elements there. A plan would rather have values and winners from one
pass over channels-last images, and a gradient that knows which window each element belongs to.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..tensor import Tensor, wrap
from .primitive import PRIMITIVES, Window, register_module
from .window import LARGEST_IN_WINDOW


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
        from ..compiler.anchors import max_pool

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
        from ..compiler.anchors import max_pool_slope

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


register_module(__name__)
MAX_POOL, MAX_POOL_SLOPE = PRIMITIVES["MaxPool"], PRIMITIVES["MaxPoolSlope"]
LARGEST_WINDOW = 256  # elements: a winner's number is one byte
