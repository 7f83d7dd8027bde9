"""Large products of bfloat16 numbers with sums in float32, two terms of a sum in one instruction (AVX512-BF16).

Operands are float32 in memory and are rounded to bfloat16 while threads copy them together, as in shared.py: no pass over
memory is spent on it. In the copies two numbers that follow each other along k lie side by side, as one element of 32 bits:
the innermost loop is that of any product, over k / 2 such pairs.
"""

from __future__ import annotations

from typing import Any

from ..llvm.values import Val
from .pack import hide, load_transposed
from .shared import SharedWriter

__all__ = ["PAIRS", "PairWriter"]

PAIRS = 16  # in a vector
SHORT = 8  # lanes of a tile's rows that are copied at a time


class PairWriter(SharedWriter):
    """Writes one product over a workspace: copies of A and B in pairs, sums that wait for the next part."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.terms = self.p.k // 2
        self.multiply_add = self.add_pairs
        self.left_strides = (self.t.row_pitch // self.size, 1) if self.p.a[-1] == 1 else (1, self.t.rows)

    def add_pairs(self, left: Val, right: Val, total: Val) -> Val:
        """total + both products of every pair. Shape: (16 pairs), (16 pairs), (16 sums)"""
        f = self.f
        x, y = (f.emit(f"bitcast {v.typed} to <32 x bfloat>", "bf16", 32) for v in (left, right))
        name, sums, pairs = "llvm.x86.avx512bf16.dpbf16ps.512", "<16 x float>", "<32 x bfloat>"
        f.declarations[f"declare {sums} @{name}({sums}, {pairs}, {pairs})"] = None
        return f.emit(f"call {sums} @{name}({total.typed}, {pairs} {x.ir}, {pairs} {y.ir})", "f32", PAIRS)

    def left(self, part: Any, count: Val, row: Val) -> Val:
        return self.f.offset(part.a, count * self.t.pitch_of_rows(self.p), "i8")

    # ------------------------------------------------------------------------------------------ copies
    def copy_rows(self, k: Val, depth: Any) -> None:
        f, p, t = self.f, self.p, self.t
        down, along = p.a[-2:]
        source = f.offset(f.arg(p.words[0]), k * (2 * along), p.kind)
        if along == 1:  # each row by itself
            first, end = f.split(p.m)
            with f.loop(first, end) as row:
                line = f.offset(source, row.i * down, p.kind)
                to = f.offset(self.copy_a, row.i * t.row_pitch, "i8")
                with f.loop(0, depth, PAIRS) as place:
                    start = f.intrinsic("smin", place.i, f.index(depth) - PAIRS)
                    f.store(self.following(line, start * 2), to, start)
            return
        pitch = t.pitch_of_rows(p) // self.size
        first, end = f.split(self.tiles)
        with f.loop(0, depth) as place:
            lines = [f.offset(source, (place.i * 2 + i) * along, p.kind) for i in (0, 1)]
            to = f.offset(self.copy_a, place.i * t.rows, p.kind)
            with f.loop(first, f.intrinsic("smin", end, self.full_tiles)) as tile:
                for top in range(0, t.rows, SHORT):
                    self.copy_short(lines, tile.i * t.rows + top, to, tile.i * pitch + top)
            if self.rest_rows:
                with f.when((end > self.full_tiles) & (first <= self.full_tiles)):
                    for top in range(0, self.rest_rows, SHORT):
                        mask = f.tail_mask(SHORT, min(SHORT, self.rest_rows - top))
                        self.copy_short(
                            lines, f.index(self.full_tiles * t.rows + top), to, self.full_tiles * pitch + top, mask
                        )

    def copy_short(self, lines: list[Val], row: Val, to: Val, place: Any, mask: Val | None = None) -> None:
        """SHORT rows of A from `row` on, at one pair of places along k."""
        f, p = self.f, self.p
        down = p.a[-2]
        x, y = (f.load(line, row * down, p.kind, SHORT, mask, down) for line in lines)
        both = f.shuffle(x, y, [i + side for i in range(SHORT) for side in (0, SHORT)])
        name = "llvm.x86.avx512bf16.cvtneps2bf16.512"
        f.declarations[f"declare <16 x bfloat> @{name}(<16 x float>)"] = None
        half = f.emit(f"call <16 x bfloat> @{name}({both.typed})", "bf16", 16)
        f.store(f.emit(f"bitcast <16 x bfloat> {half.ir} to <8 x float>", "f32", SHORT), to, place)

    def copy_columns(self, k: Val, depth: Any) -> None:
        f, p, t = self.f, self.p, self.t
        first, end = f.split(self.panels)
        source = f.offset(f.arg(p.words[1]), k * (2 * p.b[-2]), p.kind)
        pitch = t.pitch(self.width, self.size) // self.size
        whole = f.intrinsic("smin", end, self.full_panels) if self.rest_columns else end
        copy = self.copy_turned if p.b[-2] == 1 != p.b[-1] else self.copy_straight
        copy(source, depth, first, whole, pitch, self.width)
        if self.rest_columns:
            with f.when((end > self.full_panels) & (first <= self.full_panels)):
                copy(source, depth, f.index(self.full_panels), f.index(self.panels), pitch, self.rest_columns)

    def copy_straight(self, source: Val, depth: Any, first: Val, end: Val, pitch: int, columns: int) -> None:
        """Panels of B whose columns lie side by side: two rows of B become one of pairs."""
        f, p = self.f, self.p
        down, across = p.b[-2:]
        with f.loop(0, depth) as place:
            lines = [f.offset(source, (place.i * 2 + i) * down, p.kind) for i in (0, 1)]
            to = f.offset(self.copy_b, place.i * self.width, p.kind)
            with f.loop(first, end) as number:
                for column in range(0, columns, PAIRS):
                    mask = None if columns - column >= PAIRS else f.tail_mask(PAIRS, columns - column)
                    start = (number.i * self.width + column) * across
                    low, high = (f.load(line, start, p.kind, PAIRS, mask, across) for line in lines)
                    halves = f.emit(f"bitcast <32 x bfloat> {self.halves(low, high)} to <32 x i16>", "i16", 32)
                    mixed = f.shuffle(halves, halves, [i + side for i in range(PAIRS) for side in (0, PAIRS)])
                    pairs = f.emit(f"bitcast {mixed.typed} to <16 x float>", "f32", PAIRS)
                    f.store(pairs, to, number.i * pitch + column)

    def copy_turned(self, source: Val, depth: Any, first: Val, end: Val, pitch: int, columns: int) -> None:
        """Panels of B whose terms lie side by side: squares of pairs are transposed in registers."""
        f, p = self.f, self.p
        across, square = p.b[-1], f.stack(p.kind, PAIRS * PAIRS)
        with f.loop(first, end) as number, f.loop(0, depth, PAIRS) as place:
            start = f.intrinsic("smin", place.i, f.index(depth) - PAIRS)
            for column in range(0, columns, PAIRS):
                corner = hide(f, f.offset(source, (number.i * self.width + column) * across + start * 2, p.kind))
                for r in range(PAIRS):
                    line = f.offset(corner, min(r, columns - 1 - column) * across, p.kind)
                    f.store(self.following(line, f.index(0)), square, r * PAIRS)
                to = hide(f, f.offset(self.copy_b, number.i * pitch + start * self.width + column, p.kind))
                turned = load_transposed(f, square, lambda r: r * PAIRS, p.kind, PAIRS)
                for c, x in enumerate(turned):
                    f.store(x, to, c * self.width)

    def following(self, line: Val, start: Val) -> Val:
        """The 32 elements from `start` on, as pairs."""
        f, kind = self.f, self.p.kind
        halves = self.halves(f.load(line, start, kind, PAIRS), f.load(line, start + PAIRS, kind, PAIRS))
        return f.emit(f"bitcast <32 x bfloat> {halves} to <16 x float>", "f32", PAIRS)

    def halves(self, low: Val, high: Val) -> str:
        """The elements of both rounded to bfloat16, those of `low` first; LLVM's name of the vector."""
        name, whole = "llvm.x86.avx512bf16.cvtne2ps2bf16.512", "<16 x float>"
        self.f.declarations[f"declare <32 x bfloat> @{name}({whole}, {whole})"] = None
        return self.f.emit(f"call <32 x bfloat> @{name}({high.typed}, {low.typed})", "bf16", 32).ir
