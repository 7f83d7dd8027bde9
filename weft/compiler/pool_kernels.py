"""Pooling over channels-last images: the largest element or the sum of each window, and their adjoints.

Index spaces and strides are in the order (n, h, w, c), lanes along c (its stride should be 1 everywhere).
"""

from __future__ import annotations

from dataclasses import dataclass

from .body import Access, Body
from .kernel import Kernel

Pair = tuple[int, int]


@dataclass(frozen=True)
class PoolShape:
    """Windows [o·stride + k·dilation − padding] over images (batch, *image, channels); counts: windows a dimension.

    Windows may reach over all edges; what lies outside is never chosen and adds nothing.
    """

    batch: int
    channels: int
    image: Pair
    counts: Pair
    size: Pair
    stride: Pair
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)


class LargestInWindows(Kernel):
    """The first largest element of every window; NaN counts as largest.

    `value`: body over (n, h, w, c) of the images without stores, whose last value is compared (a producer may be part of it).
    `body`: over (n, oh, ow, c), given (0) the largest value, (1) its flat position h·W + w in the image as i64,
    (2) its number kh·KW + kw in the window as u8 (i64 where windows have more than 256 elements).
    """

    def __init__(self, shape: PoolShape, value: Body, body: Body) -> None: ...


class AddAtLargest(Kernel):
    """The adjoint of reading at the largest: every element gets Σ of the `value`s of the windows that chose it.

    `value`: body over (n, oh, ow, c) without stores, whose last value is added. `winner`: Access over (n, oh, ow, c) of
    integers, positions (by='position') or numbers in the window (by='number') as LargestInWindows gives them.
    `body`: over (n, h, w, c), given: the sum (0 where no window chose the element).
    """

    def __init__(self, shape: PoolShape, value: Body, winner: Access, body: Body, by: str = "position") -> None: ...


class WindowSums(Kernel):
    """Σ over each window. `value` over (n, h, w, c), last value added; `body` over (n, oh, ow, c), given: the sum."""

    def __init__(self, shape: PoolShape, value: Body, body: Body) -> None: ...


class SpreadSums(Kernel):
    """The adjoint of WindowSums: each element gets Σ over the windows it lies in.

    `value` over (n, oh, ow, c), last value added; `body` over (n, h, w, c), given: the sum.
    """

    def __init__(self, shape: PoolShape, value: Body, body: Body) -> None: ...
