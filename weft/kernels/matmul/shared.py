"""Large products whose operands the threads copy together, part after part along k.

Both operands are read once, in the order of memory. In the copies, what the innermost loop reads lies side by side: for each k
the rows of a tile of A, and the columns of a panel of B. The tiles of a thread do not depend on who has copied what, and
every sum is taken in the same order on any number of threads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..llvm.values import Val
from .pack import pack, pack_panels, pack_rows
from .tiles import Part, Writer

__all__ = ["SharedWriter"]


class SharedWriter(Writer):
    """Writes one product over a workspace: copies of A, copies of B, sums that wait for the next part."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.terms = self.p.k  # of a sum, as they are copied
        if not self.t.in_place:
            self.left_strides = (1, self.t.rows)

    def write(self) -> None:
        f, p, t = self.f, self.p, self.t
        of_a, of_b, _ = t.regions(p)
        self.copy_a = f.arg(p.workspace_word)
        self.copy_b, self.sums_place = (f.offset(self.copy_a, at, "i8") for at in (of_a, of_a + of_b))
        lo, hi = self.share()
        if t.depth == self.terms:
            a = f.arg(p.words[0]) if t.in_place else self.copy_a
            self.part(f.index(0), Part((0,) * len(p.batch), f.index(0), a, self.copy_b, t.depth), lo, hi)
            return
        with f.loop(0, self.terms, t.depth, runs=True) as k:
            with f.when(k.i > 0):
                f.barrier()
            depth = f.intrinsic("smin", self.terms - k.i, t.depth) if self.terms % t.depth else t.depth
            conditions = k.i > 0, k.i >= self.terms - t.depth
            self.part(k.i, Part((0,) * len(p.batch), f.index(0), self.copy_a, self.copy_b, depth, *conditions), lo, hi)

    def part(self, k: Val, part: Part, lo: Val, hi: Val) -> None:
        """Copy what lies from k on, all threads together; then compute this thread's tiles."""
        f = self.f
        if not self.t.in_place:
            self.copy_rows(k, part.depth)
        self.copy_columns(k, part.depth)
        f.barrier()
        with f.when(lo < hi), f.loop(self.block_of(lo), self.block_of(hi - 1) + 1, runs=True) as blocks:
            self.run(replace(part, first=blocks.i * self.t.block), f.index(0), lo, hi)

    def copy_rows(self, k: Val, depth: Any) -> None:
        f, p, t = self.f, self.p, self.t
        first, end = f.split(self.tiles)
        source = f.offset(f.arg(p.words[0]), first * (t.rows * p.a[-2]) + k * p.a[-1], p.kind)
        rows = f.intrinsic("smin", p.m - first * t.rows, (end - first) * t.rows)
        pitch = t.pitch(t.rows, self.size)
        to = f.offset(self.copy_a, first * pitch, "i8")
        pack_rows(f, source, p.a[-2:], (rows, depth), p.kind, (t.rows, pitch // self.size), t.lanes, to)

    def copy_columns(self, k: Val, depth: Any) -> None:
        f, p, t = self.f, self.p, self.t
        first, end = f.split(self.panels)
        source = f.offset(f.arg(p.words[1]), k * p.b[-2], p.kind)
        pitch = t.pitch(self.width, self.size) // self.size
        whole = f.intrinsic("smin", end, self.full_panels) if self.rest_columns else end
        pack_panels(f, source, p.b[-2:], (depth, first, whole), p.kind, t.lanes, self.copy_b, (self.width, pitch))
        if self.rest_columns:
            with f.when((end > self.full_panels) & (first <= self.full_panels)):
                last = f.offset(source, self.full_panels * self.width * p.b[-1], p.kind)
                to = f.offset(self.copy_b, self.full_panels * pitch, p.kind)
                pack(f, last, p.b[-2:], (depth, self.rest_columns), p.kind, t.lanes, to, self.width)

    # --------------------------------------------------------------------------------- where things lie
    def right(self, part: Part, number: Val, column: Val) -> tuple[Val, Val, int]:
        panel = self.f.offset(part.b, number * self.t.pitch(self.width, self.size), "i8")
        return panel, panel, self.width

    def left(self, part: Part, count: Val, row: Val) -> Val:
        if self.t.in_place:
            return super().left(part, count, row)
        return self.f.offset(part.a, count * self.t.pitch(self.t.rows, self.size), "i8")

    def waiting(self, part: Part, number: Val, count: Val) -> Val:
        place = (number * self.tiles + count) * (self.t.rows * self.width)
        return self.f.offset(self.sums_place, place, self.p.kind)

    # The copies lie in the order in which they are read: the processor sees what comes next by itself.
    def after_a(self, a: Val) -> list[tuple[Val, int, bool]]:
        return super().after_a(a) if self.t.in_place else []

    def after_b(self, b: Val, tile: Val) -> list[tuple[Val, int, bool]]:
        return []
