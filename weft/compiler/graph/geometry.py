"""Where values lie: sizes and strides of views worked out without computing, and shapes cut into common factors."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...ops.core import primitive
from .graph import Argument, Captured, Value

__all__ = [
    "Geometry",
    "Region",
    "common_factors",
    "contiguous_strides",
    "empty",
    "is_view",
    "lies_dense",
    "offset_of",
    "order_of",
    "ordered_strides",
    "pieces_of",
    "remembered",
    "squeezed",
    "stand_in",
    "strides_over",
    "varies_over",
]

_SPACE = np.zeros(64, np.uint8)
_BASE = _SPACE.__array_interface__["data"][0]


def contiguous_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Bytes from one element to the next along each dimension, last dimension densest."""
    strides, step = [], itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def stand_in(shape: Sequence[int], dtype: Any, strides: Sequence[int]) -> np.ndarray:
    """An array of that geometry over memory that must not be read: only for asking NumPy about views."""
    return np.lib.stride_tricks.as_strided(np.ndarray((), dtype, _SPACE), tuple(shape), tuple(strides))


def offset_of(view: np.ndarray) -> int:
    """Bytes from the start of a stand-in to the start of a view of it."""
    return view.__array_interface__["data"][0] - _BASE if view.size else 0


class Region:
    """A value as a window on its root: the value that owns the memory, an offset and strides in bytes."""

    __slots__ = ("offset", "root", "strides")

    def __init__(self, root: Value, offset: int, strides: tuple[int, ...]) -> None:
        self.root, self.offset, self.strides = root, offset, strides


def ordered_strides(shape: Sequence[int], itemsize: int, order: Sequence[int]) -> tuple[int, ...]:
    """Strides of dense memory in which the dimensions follow each other as `order` says, the last one densest."""
    strides, step = [0] * len(shape), itemsize
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def order_of(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The order of dimensions in memory of these strides, the last one densest; None: they follow as they come.

    Dimensions that are repeated, or have one element, go with the next one.
    """
    steps, step = [], 0
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        step = abs(stride) if stride and size > 1 else step
        steps.append(step)
    steps.reverse()
    order = tuple(sorted(range(len(shape)), key=lambda d: -steps[d]))
    return None if order == tuple(range(len(shape))) else order


def lies_dense(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether elements fill a piece of memory, the dimensions in any order."""
    return tuple(strides) == ordered_strides(shape, itemsize, order_of(shape, strides) or range(len(shape)))


def empty(shape: Sequence[int], dtype: Any, order: Sequence[int] | None) -> np.ndarray:
    """Memory of its own for a value whose dimensions follow each other as `order` says."""
    if order is None:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, strides=ordered_strides(shape, np.dtype(dtype).itemsize, order))


class Geometry:
    """The windows of all values of a graph.

    Roots are dense, their dimensions in the order that `layouts` gives or as they come; but captured tensors and arguments
    of known strides lie as they lie.
    """

    def __init__(self, layouts: dict[Value, tuple[int, ...]] | None = None) -> None:
        self.layouts = layouts or {}
        self._found: dict[Value, Region] = {}

    def __str__(self) -> str:
        return "\n".join(f"  {v!r}: {order}" for v, order in self.layouts.items())

    def __call__(self, value: Value) -> Region:
        found = self._found.get(value)
        if found is None:
            found = self._found[value] = self._find(value)
        return found

    def possible(self, value: Value) -> Region | None:
        """The window of a value before `order_views` has run: None where it is a view that its input, dense in a plan,
        does not allow; it will be taken of a copy."""
        try:
            return self(value)
        except (ShapeError, ValueError):
            return None

    def _find(self, value: Value) -> Region:
        if is_view(value):
            source = self(value.node.inputs[0])
            before = value.node.inputs[0]
            seen = value.node.op.reference(stand_in(before.shape, before.dtype, source.strides), **value.node.params)
            seen = seen[value.index] if isinstance(seen, tuple) else seen
            return Region(source.root, source.offset + offset_of(seen), seen.strides)
        if isinstance(value.node.op, Captured):
            return Region(value, 0, value.node.op.tensor.array.strides)
        if isinstance(value.node.op, Argument) and value.node.op.strides is not None:
            return Region(value, 0, value.node.op.strides)
        order = self.layouts.get(value, range(len(value.shape)))
        return Region(value, 0, ordered_strides(value.shape, value.dtype.itemsize, order))

    def is_flat(self, value: Value) -> bool:
        """Whether a view only renames the elements of its input in order: reshape, squeeze, unsqueeze."""
        before = value.node.inputs[0]
        if before.size != value.size:
            return False
        seen = value.node.op.reference(
            stand_in(before.shape, before.dtype, contiguous_strides(before.shape, before.dtype.itemsize)),
            **value.node.params,
        )
        if isinstance(seen, tuple):
            return False
        dense = contiguous_strides(value.shape, value.dtype.itemsize)
        same = all(a == b or n <= 1 for a, b, n in zip(seen.strides, dense, value.shape, strict=True))
        return same and seen.dtype == before.dtype


def is_view(value: Value) -> bool:
    """Whether the value shares the memory of its input."""
    return isinstance(value.node.op, primitive.View)


# ----------------------------------------------------------------------------------- factors of shapes


def remembered(function: Callable) -> Callable:
    """A function of sequences of numbers that keeps its answers: layers that are alike ask the same again and again."""
    kept = functools.lru_cache(maxsize=1 << 14)(function)

    @functools.wraps(function)
    def asked(*sequences: Sequence[int]) -> Any:
        return kept(*map(tuple, sequences))

    return asked


@remembered
def squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(s for s in shape if s != 1)


@remembered
def common_factors(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """The coarsest sizes into which both shapes, of equal element count, can be cut in order; None: there are none.

    >>> common_factors((1024, 128), (16, 64, 128))
    (16, 64, 128)
    """
    marks = sorted(_suffix_products(a) | _suffix_products(b))
    sizes = []
    for low, high in itertools.pairwise(marks):
        if high % low:
            return None
        sizes.append(high // low)
    return tuple(reversed(sizes))


def _suffix_products(shape: Sequence[int]) -> set[int]:
    found, product = {1}, 1
    for size in reversed(shape):
        product *= size
        found.add(product)
    return found


@remembered
def pieces_of(shape: Sequence[int], factors: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """For every dimension of `shape` the numbers of the factors that it is cut into (none for size 1)."""
    found, at = [], 0
    for size in shape:
        taken, product = [], 1
        while product < size:
            product *= factors[at]
            taken.append(at)
            at += 1
        found.append(tuple(taken))
    return tuple(found)


@remembered
def strides_over(
    shape: Sequence[int], strides: Sequence[int], domain: Sequence[int], factors: Sequence[int]
) -> tuple[int, ...]:
    """Strides along the factors of `domain` of an operand that broadcasts to it."""
    missing = len(domain) - len(shape)
    found = [0] * len(factors)
    for d, parts in enumerate(pieces_of(domain, factors)):
        if d < missing or shape[d - missing] == 1:
            continue
        step = strides[d - missing]
        for part in reversed(parts):
            found[part] = step
            step *= factors[part]
    return tuple(found)


@remembered
def varies_over(shape: Sequence[int], domain: Sequence[int], factors: Sequence[int]) -> tuple[bool, ...]:
    """Along which factors of `domain` an operand of this shape is not repeated."""
    missing = len(domain) - len(shape)
    found = [False] * len(factors)
    for d, parts in enumerate(pieces_of(domain, factors)):
        if d >= missing and shape[d - missing] != 1:
            for part in parts:
                found[part] = True
    return tuple(found)
