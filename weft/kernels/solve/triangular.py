"""Triangular systems by substitution, several right sides in the lanes of vectors.

xᵢ = (bᵢ − Σⱼ Aᵢⱼ xⱼ) / Aᵢᵢ      over j < i from the first row on, or (upper) over j > i from the last row back
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import BITS, Val
from ..memory.indexing import unravel

__all__ = ["TriangularSolve"]

VECTORS = 4  # of right sides at a time: as many sums that do not wait for each other
Strides = tuple[int, ...]


class TriangularSolve(Kernel):
    """X of A X = B for the matrices of a batch; argument words: A (…, n, n), B (…, n, m), X, with strides in elements."""

    def __init__(
        self, kind: str, batch: tuple[int, ...], n: int, m: int, upper: bool, unit: bool, strides: Sequence[Strides]
    ) -> None:
        self.kind, self.batch, self.n, self.m = kind, batch, n, m
        self.upper, self.unit, self.strides = upper, unit, tuple(strides)
        self.flops = prod(batch) * n * n * m
        self.nbytes = prod(batch) * (n * n // 2 + 2 * n * m) * BITS[kind] // 8

    def key(self) -> str:
        what = (self.kind, self.batch, self.n, self.m, self.upper, self.unit)
        return f"TriangularSolve {what} {self.strides}"

    def emit(self, f: Function) -> None:
        lanes = 1
        while 2 * lanes <= min(self.m, f.target.lanes_of(self.kind)):
            lanes *= 2
        wide = min(VECTORS, self.m // lanes) * lanes
        blocks = -(-self.m // wide)
        lo, hi = f.split(prod(self.batch) * blocks)
        with f.loop(lo, hi) as unit:
            places = unravel(f, unit.i // blocks, self.batch) if self.batch else []
            # the last columns are done twice where they do not fill a block
            first = f.intrinsic("smin", unit.i % blocks * wide, self.m - wide)
            pointers = [self._start(f, word, places) for word in range(3)]
            self._columns(f, pointers, [first + v for v in range(0, wide, lanes)], lanes)

    def _start(self, f: Function, word: int, places: Sequence[Any]) -> Val:
        place = f.index(0)
        for index, stride in zip(places, self.strides[word], strict=False):
            place = place + index * stride
        return f.offset(f.arg(word), place, self.kind)

    def _columns(self, f: Function, pointers: list[Val], columns: list[Val], lanes: int) -> None:
        """All rows of some right sides, each vector of them with a sum of its own."""
        (a_row, a_column), (b_row, b_column), (x_row, x_column) = (s[-2:] for s in self.strides)
        a, b, x = pointers
        with f.loop(0, self.n) as rows:
            i = self.n - 1 - rows.i if self.upper else rows.i
            sums = [f.load(b, i * b_row + c * b_column, self.kind, lanes, stride=b_column) for c in columns]
            with f.loop(0, rows.i, carry=sums) as terms:
                j = self.n - 1 - terms.i if self.upper else terms.i
                factor = f.load(a, i * a_row + j * a_column, self.kind)
                known = [f.load(x, j * x_row + c * x_column, self.kind, lanes, stride=x_column) for c in columns]
                terms.next([s - factor * k for s, k in zip(terms.carry, known, strict=True)])
            found = terms.results
            if not self.unit:
                found = [s / f.load(a, i * (a_row + a_column), self.kind) for s in found]
            for c, value in zip(columns, found, strict=True):
                f.store(value, x, i * x_row + c * x_column, stride=x_column)
