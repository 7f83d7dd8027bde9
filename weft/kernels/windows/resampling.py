"""Weighted sums of some elements of a line for each element of another: interpolation, adaptive means, their adjoints."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import BITS, Val
from ..memory.indexing import accesses, merged_axes, over_space, thin, thin_body, vector_lanes
from .conv_tiles import carried

__all__ = ["ResampleLines", "padded_rows"]

UNROLLED = 4


def padded_rows(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """The columns (int32) and entries of a CSR matrix as arrays (most entries of a row, rows), filled up with zeros."""
    counts = np.diff(matrix.indptr)
    shape = (int(counts.max(initial=1)), len(counts))
    columns, entries = np.zeros(shape, np.int32), np.zeros(shape, matrix.dtype)
    rows = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(rows)) - np.repeat(matrix.indptr[:-1], counts)
    columns[number, rows], entries[number, rows] = matrix.indices, matrix.data
    return columns, entries


class ResampleLines(Kernel):
    """y[…, o, …] = Σ_t weight[t, o] · x[…, index[t, o], …]; `body` (given: the sum) stores y. Weights 0 read nothing.

    shape: the space of y, with o at `axis`. `source` has the strides of x over it, 0 along `axis`, where its elements are
    `step` apart. `index`, `weight`: Access (t, o) of `taps` rows.
    """

    def __init__(
        self,
        shape: Sequence[int],
        axis: int,
        taps: int,
        source: Access,
        step: int,
        index: Access,
        weight: Access,
        body: Body,
    ) -> None:
        alone = tuple(int(a == axis) for a in range(len(shape)))  # keeps `axis` apart from its neighbours
        groups = merged_axes(shape, [source.strides, alone, *(a.strides for a in accesses(body))])
        self.shape = tuple(prod(shape[a] for a in g) for g in groups)
        self.axis = next((n for n, g in enumerate(groups) if axis in g), None)
        self.taps, self.step, self.index, self.weight = taps, step, index, weight
        self.source, self.body = thin(source, groups), thin_body(body, groups)
        self.flops = 2 * taps * prod(shape)
        self.nbytes = 2 * prod(shape) * BITS[source.kind] // 8

    def key(self) -> str:
        where = f"{self.shape} {self.axis} {self.taps} {self.source} {self.step} {self.index} {self.weight}"
        return f"ResampleLines {where} {self.body.key()}"

    def emit(self, f: Function) -> None:
        lanes = vector_lanes(f, self.source.kind)

        def vector(index: list[Any], mask: Val | None) -> None:
            zero = f.const(self.source.kind, 0, lanes)
            step = lambda t, sums: [self._add(f, index, lanes, mask, t, *sums)]
            if self.taps <= UNROLLED:
                sums = [zero]
                for t in range(self.taps):
                    sums = step(f.index(t), sums)
            else:
                sums = carried(f, self.taps, [zero], step)
            self.body.emit(f, index, len(index) - 1, lanes, mask, given=sums)

        over_space(f, self.shape, lanes, vector)

    def _add(self, f: Function, index: list[Any], lanes: int, mask: Val | None, t: Val, total: Val) -> Val:
        kind, base, last = self.source.kind, f.arg(self.source.arg), len(index) - 1
        o = f.index(0 if self.axis is None else index[self.axis])
        wide = lanes if self.axis == last else 1  # the lanes are elements o …, or all at one of them
        inside = mask if wide > 1 else None
        place = f.cast(self.index.load(f, (t, o), 1, wide, inside), "i64") * self.step
        weight = self.weight.load(f, (t, o), 1, wide, inside)
        place = place + self.source.place(f, index)
        if wide > 1:
            value = f.gather(f.offset(base, place, kind), kind, mask)
        else:
            value = f.load(base, place, kind, lanes, mask, self.source.strides[last])
        return total + weight * f.select(weight.ne(0), value, 0)
