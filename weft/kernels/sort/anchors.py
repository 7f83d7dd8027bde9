"""Sorting and searching as anchors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..anchor import Anchor, AnchorNode, Strides
from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.values import type_of
from .count import Histogram
from .lines import with_axis
from .search import Search
from .select import LONG, MedianOfLines
from .sort import SortLines
from .top import MOST, SPARSE, TopOfLines

__all__ = ["counted"]

LONGEST = 1 << 31  # lines and tables: places are kept in 32 bits


def ordered(
    node: AnchorNode, dim: int, descending: bool = False, find: str = "places", count: int = 1
) -> Anchor | None:
    """The places of the first `count` elements in order along `dim`, or of one that is found in each line."""
    (x,) = node.inputs
    kind = type_of(x.dtype)
    if kind is None or not (x.size and node.output.size) or x.shape[dim] >= LONGEST:
        return None

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        if len(node.output.shape) < len(x.shape):
            body = with_axis(body, dim)
        return SortLines(x.shape, dim, Access(0, kind, strides[0]), body, word, descending, find, count)

    return Anchor(node, (x,), node.output.shape, make)


def median(node: AnchorNode, dim: int, known: bool) -> Anchor | None:
    """The lower median along `dim`; NaN if there is one, or (`known`) of what is not NaN."""
    anchor, (x,) = ordered(node, dim, False, "nanmedian" if known else "median"), node.inputs
    if anchor is None or x.shape[dim] < LONG:
        return anchor

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        if len(node.output.shape) < len(x.shape):
            body = with_axis(body, dim)
        return MedianOfLines(x.shape, dim, Access(0, type_of(x.dtype), strides[0]), body, word, known)

    return Anchor(node, (x,), node.output.shape, make)


def first_few(node: AnchorNode, dim: int, count: int, largest: bool) -> Anchor | None:
    """The places of the `count` largest or smallest elements along `dim`, in order."""
    anchor, (x,) = ordered(node, dim, largest, "places", count), node.inputs
    if anchor is None or count > MOST or x.shape[dim] < SPARSE * count:
        return anchor

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        return TopOfLines(x.shape, dim, Access(0, type_of(x.dtype), strides[0]), body, word, count, largest)

    return Anchor(node, (x,), node.output.shape, make)


def entered(node: AnchorNode, right: bool) -> Anchor | None:
    """Where values (…, m) would enter sorted lines (…, n), or one line (n,)."""
    line, values = node.inputs
    kinds, shape = [type_of(v.dtype) for v in node.inputs], values.shape
    if None in kinds or "i1" in kinds or not (line.size and values.size):
        return None
    common = type_of(np.result_type(line.dtype, values.dtype))

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        (*outer, step), own = strides
        first = (*outer, 0) if outer else (0,) * len(shape)
        if not shape:
            own, first, body = (0,), (0,), with_axis(body, 0)
        places = Access(1, kinds[1], own), Access(0, kinds[0], first)
        return Search(shape or (1,), *places, line.shape[-1], step, common, right, body)

    return Anchor(node, (line, values), shape, make, "i64")


def counted(node: AnchorNode, bins: int, low: float, high: float) -> Anchor | None:
    """The counts of a histogram whose range is known."""
    (x,), kind = node.inputs, type_of(node.inputs[0].dtype)
    if kind not in ("f32", "f64") or not x.size or bins >= LONGEST // 2 or not -np.inf < low < high < np.inf:
        return None

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        return Histogram(Access(0, kind, (1,)), x.size, bins, low, high, body, word)

    anchor = Anchor(node, (x,), (bins,), make, "i64")
    anchor.dense = (x,)
    return anchor
