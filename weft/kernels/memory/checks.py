"""Indices checked before anything is read or written at them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..body import Access
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import Val
from .indexing import merged_axes, over_space, report_wrong, thin, vector_lanes

__all__ = ["PlacesCheck"]

SERIAL = 1 << 14  # indices that one thread looks at alone


class PlacesCheck(Kernel):
    """Reports an index outside of low … size − 1 that is not `skip`, and tells the plan to stop."""

    halts = True

    def __init__(self, shape: Sequence[int], index: Access, low: int, size: int, skip: int | None, flag: int) -> None:
        groups = merged_axes(shape, [index.strides])
        self.shape, self.index = tuple(prod(shape[a] for a in g) for g in groups), thin(index, groups)
        self.low, self.size, self.skip, self.flag = low, size, skip, flag
        self.serial, self.nbytes = prod(shape) <= SERIAL, 8 * prod(shape)

    def key(self) -> str:
        return f"PlacesCheck {self.shape} {self.index} {self.low} {self.size} {self.skip} {self.flag} {self.serial}"

    def emit(self, f: Function) -> None:
        lanes = vector_lanes(f, self.index.kind)
        over_space(f, self.shape, lanes, lambda index, mask: self._vector(f, index, lanes, mask))

    def _vector(self, f: Function, index: list[Any], lanes: int, mask: Val | None) -> None:
        given = f.splat(f.cast(self.index.load(f, index, len(index) - 1, lanes, mask), "i64"), lanes)
        outside = (given < self.low) | (given >= self.size)
        if self.skip is not None:
            outside = outside & given.ne(self.skip)
        if mask is not None:
            outside = outside & mask
        report_wrong(f, outside, given, self.size, self.flag, halt=True)
