"""Products of sparse matrices (CSR) with dense ones.

The pattern of a matrix is two integer buffers, `starts` (rows + 1) and `columns` (entries). The transposed matrix is a
pattern of its own, made once by `transposed_pattern`; its third buffer `order` says which value belongs to each entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import BITS, Val
from .indexing import accesses

__all__ = ["SampledProductKernel", "SparseProductKernel", "transposed_pattern"]

VECTORS = 8  # of one row of the result, summed at once


def transposed_pattern(
    starts: np.ndarray, columns: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`starts` and `columns` of the transposed matrix, and for each of its entries the number of the original."""
    order = np.argsort(columns, kind="stable").astype(columns.dtype)
    rows = np.repeat(np.arange(len(starts) - 1, dtype=columns.dtype), np.diff(starts))
    begins = np.searchsorted(columns[order], np.arange(width + 1)).astype(starts.dtype)
    return begins, rows[order], order


def fitting_lanes(f: Function, kind: str, width: int) -> int:
    """A vector, or the shortest power of two that holds all of a narrow row."""
    return min(f.target.lanes_of(kind), 1 << max(1, (width - 1).bit_length()))


class SparseProductKernel(Kernel):
    """y = A x for A (rows, inner) in CSR, x (inner, columns): y[i, j] = Σₑ value[order[e]] · x[column[e], j].

    starts (rows + 1), indices, order: Access over (number,), i32 or i64 (order None: values lie in the order of the
    entries). values: Access over (number,); x: Access over (row, column). `body` has index space (i, j), given: the sum.
    Threads get rows with about equally many entries.
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        entries: int,
        starts: Access,
        indices: Access,
        values: Access,
        x: Access,
        body: Body,
        order: Access | None = None,
    ) -> None:
        self.rows, self.columns, self.entries, self.body = rows, columns, entries, body
        self.starts, self.indices, self.values, self.x, self.order = starts, indices, values, x, order
        self.kind = x.kind
        self.flops = 2 * entries * columns
        self.nbytes = (entries * (columns + 2) + rows * columns * len(accesses(body))) * BITS[x.kind] // 8

    def key(self) -> str:
        operands = (self.starts, self.indices, self.values, self.x, self.order)
        return f"SparseProduct {self.rows} {self.columns} {self.entries} {operands} {self.body.key()}"

    def emit(self, f: Function) -> None:
        lo, hi = self._share(f)
        lanes = fitting_lanes(f, self.kind, self.columns)
        with f.loop(lo, hi) as row:
            first, last = self._start(f, row.i), self._start(f, row.i + 1)
            if self.columns == 1:
                self.body.emit(f, [row.i, f.index(0)], 1, given=[self._dot(f, first, last)])
            else:
                self._row(f, row.i, first, last, lanes)

    def _start(self, f: Function, row: Any) -> Val:
        return f.cast(self.starts.load(f, [row], 0), "i64")

    def _share(self, f: Function) -> tuple[Val, Val]:
        """Rows so that every thread has about as many entries and rows together."""

        def boundary(thread: Val) -> Val:
            wanted = thread * (self.entries + self.rows) // f.nt
            with f.loop(0, self.rows.bit_length(), carry=[f.index(0), f.index(self.rows)], runs=True) as loop:
                low, high = loop.carry
                middle = (low + high) // 2
                below = self._start(f, middle) + middle < wanted
                open_still = low < high
                loop.next([f.select(below & open_still, middle + 1, low), f.select(below, high, middle)])
            return loop.results[0]

        return boundary(f.tid), boundary(f.tid + 1)

    def _entry(self, f: Function, e: Val) -> tuple[Val, Val]:
        """The value of an entry and the row of x that it multiplies."""
        number = e if self.order is None else f.cast(self.order.load(f, [e], 0), "i64")
        return self.values.load(f, [number], 0), f.cast(self.indices.load(f, [e], 0), "i64")

    def _row(self, f: Function, row: Val, first: Val, last: Val, lanes: int) -> None:
        """One row of y, in blocks of vectors whose sums stay in registers."""
        step, full = lanes * VECTORS, self.columns // (lanes * VECTORS) * lanes * VECTORS

        def block(start: Val, width: int) -> None:
            counts = [min(lanes, width - i) for i in range(0, width, lanes)]
            masks = [f.tail_mask(lanes, n) if n < lanes else None for n in counts]
            with f.loop(first, last, carry=[f.const(self.kind, 0.0, lanes)] * len(masks)) as loop:
                value, number = self._entry(f, loop.i)
                many = f.splat(value, lanes)
                places = [(number, start + i * lanes) for i in range(len(masks))]
                found = [self.x.load(f, p, 1, lanes, m) for p, m in zip(places, masks, strict=True)]
                loop.next([many * x + s for x, s in zip(found, loop.carry, strict=True)])
            for i, (mask, total) in enumerate(zip(masks, loop.results, strict=True)):
                self.body.emit(f, [row, start + i * lanes], 1, lanes, mask, given=[total])

        if full:
            with f.loop(0, full, step, runs=True) as loop:
                block(loop.i, step)
        if self.columns % step:
            block(f.index(full), self.columns % step)

    def _dot(self, f: Function, first: Val, last: Val) -> Val:
        """The sum of one row times a vector."""
        with f.loop(first, last, carry=[f.const(self.kind, 0.0)]) as loop:
            value, number = self._entry(f, loop.i)
            loop.next([value * self.x.load(f, [number, f.index(0)], 0) + loop.carry[0]])
        return loop.results[0]


class SampledProductKernel(Kernel):
    """yₑ = Σⱼ a[rowₑ, j] · b[columnₑ, j] for every entry e; row and column numbers are i32 or i64 over (entry,).

    a, b: Access over (row, j), `width` the number of j. `body` has index space (e,), given: the sum.
    """

    def __init__(
        self, entries: int, width: int, rows: Access, columns: Access, a: Access, b: Access, body: Body
    ) -> None:
        self.entries, self.width, self.rows, self.columns = entries, width, rows, columns
        self.a, self.b, self.body = a, b, body
        self.flops = 2 * entries * width
        self.nbytes = entries * (2 * width + 3) * BITS[a.kind] // 8

    def key(self) -> str:
        operands = (self.rows, self.columns, self.a, self.b)
        return f"SampledProduct {self.entries} {self.width} {operands} {self.body.key()}"

    def emit(self, f: Function) -> None:
        lanes = fitting_lanes(f, self.a.kind, self.width)
        lo, hi = f.split(self.entries)
        with f.loop(lo, hi) as entry:
            pair = [f.cast(x.load(f, [entry.i], 0), "i64") for x in (self.rows, self.columns)]
            total, full = f.const(self.a.kind, 0.0, lanes), self.width // lanes * lanes

            def product(j: Val, mask: Val | None, sums: Val, pair: list[Val] = pair) -> Val:
                a, b = (x.load(f, [i, j], 1, lanes, mask) for x, i in zip((self.a, self.b), pair, strict=True))
                return a * b + sums

            if full:
                with f.loop(0, full, lanes, carry=[total], runs=True) as loop:
                    loop.next([product(loop.i, None, loop.carry[0])])
                total = loop.results[0]
            if self.width % lanes:
                total = product(f.index(full), f.tail_mask(lanes, self.width % lanes), total)
            self.body.emit(f, [entry.i], 0, given=[f.total(total)])
