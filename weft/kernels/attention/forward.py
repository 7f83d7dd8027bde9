"""softmax(q kᵀ · scale + mask) v in one kernel; memory is linear in the length.

A block of queries meets a block of keys at a time. Scores lie as (queries, keys) with lanes along the keys: the keys of a
panel are transposed once for a block, and every product is a run of tiles, some rows by two vectors, whose sums stay in
registers. `backward.py` has the gradients.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import inf, prod
from typing import Any

from ..body import Access
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.target import LINE, PARTS
from ..llvm.values import BITS, Val
from ..matmul.pack import hide
from .tiles import ROWS, VECTORS, Matrix, Unit, across, in_pairs

__all__ = ["Attention", "AttentionForward"]

KEYS = 256  # of a block at most
SHARES = 16  # with fewer heads than this, the queries of one are shared out
SHARE_QUERIES = 32  # that are worth a share


class Attention(Kernel):
    """Sizes and operands of an attention, and how large its blocks are on every processor."""

    def __init__(
        self,
        batch: tuple[int, ...],
        sizes: tuple[int, int, int, int],
        operands: dict[str, Access | None],
        scale: float,
        causal: bool,
        scratch_word: int,
    ) -> None:
        self.batch, self.sizes, self.operands = batch, sizes, operands
        self.queries, self.keys, self.width, self.value_width = sizes
        self.scale, self.causal, self.scratch_word = float(scale), causal, scratch_word
        self.kind, self.heads = operands["q"].kind, prod(batch)
        pairs = self.heads * self.queries * self.keys
        self.flops = 2 * pairs * (self.width + self.value_width) // (2 if causal else 1)
        self.nbytes = sum(self._size(name) for name, access in operands.items() if access is not None)
        self.bytes = BITS[self.kind] // 8
        self.line = LINE // self.bytes
        self.block_keys = min(self.keys, KEYS)
        self.row = (-(-self.block_keys // self.line) | 1) * self.line  # of scores: an odd number of cache lines
        self.block_queries = min(self.queries, max(2 * ROWS, PARTS.scores // (self.row * self.bytes)))

    def _size(self, name: str) -> int:
        strides, ends = self.operands[name].strides, (self.queries, self.keys)
        sizes = (*self.batch, ends[name in ("k", "v", "dk", "dv")], self.width)
        return BITS[self.operands[name].kind] // 8 * prod(n for n, s in zip(sizes, strides, strict=False) if s)

    def key(self) -> str:
        what = (self.batch, self.sizes, self.operands, self.scale, self.causal, self.scratch_word)
        return f"{type(self).__name__} {what}"

    def give_memory(self, **parts: int) -> None:
        """Scratch memory of so many elements for each part."""
        self.parts, self.scratch = parts, sum(parts.values()) * self.bytes

    def padded(self, count: int) -> int:
        """Elements in whole cache lines."""
        return -(-count // self.line) * self.line


class AttentionForward(Attention):
    """o = softmax(q kᵀ · scale + mask) v and lse = log Σ exp of each row of scores.

    batch: sizes of the leading axes (…, heads); sizes: L queries, S keys, their width E, V of the values.
    q (*batch, L, E), k (*batch, S, E), v (*batch, S, V), o (*batch, L, V): Access with a stride for each axis (0: the same
    for all). lse: Access over (*batch, L) or None. mask: Access over (*batch, L, S), i1 (true: the pair takes part) or
    of the type of q (added), with strides 0 where it is broadcast. causal: query i sees keys ≤ i. A query that sees no
    key gets o = 0 and lse = -∞. `scratch_word` is the argument word of the scratch memory.
    """

    def __init__(
        self,
        batch: tuple[int, ...],
        sizes: tuple[int, int, int, int],
        q: Access,
        k: Access,
        v: Access,
        o: Access,
        lse: Access | None,
        scale: float,
        causal: bool,
        mask: Access | None,
        scratch_word: int,
    ) -> None:
        operands = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "mask": mask}
        super().__init__(batch, sizes, operands, scale, causal, scratch_word)
        share = -(-self.queries // -(-SHARES // max(1, self.heads)))
        self.block_queries = min(self.block_queries, max(share, SHARE_QUERIES))
        panel, values = self.width * VECTORS * self.line, self.block_keys * self.padded(self.value_width)
        states = self.padded(self.block_queries + ROWS)
        self.give_memory(
            scores=self.block_queries * self.row,
            k=panel,
            values=values,
            maxima=states,
            sums=states,
            factors=self.padded(2 * ROWS),
        )

    def emit(self, f: Function) -> None:
        writer = ForwardUnit(self, f)
        lo, hi = f.split(self.heads * writer.blocks)
        with f.loop(lo, hi) as unit:
            writer.write(unit.i // writer.blocks, unit.i % writer.blocks)


class ForwardUnit(Unit):
    """A block of queries against all keys; with several blocks of keys, maxima and sums of each query are kept."""

    def write(self, head: Val, number: Val) -> None:
        f, kernel, cut = self.f, self.kernel, self.query_cut
        self.begin(head)
        self.fetch_next(("k", "v", "q", "o"), number.eq(self.blocks - 1))
        block = in_pairs(f, number, self.blocks) if kernel.causal else number
        self.lo = block * self.block_tiles
        self.hi = f.intrinsic("smin", self.lo + self.block_tiles, cut.tiles)
        self.first, last = cut.start(f, self.lo), cut.start(f, self.hi)
        end = f.intrinsic("smin", last, kernel.keys) if kernel.causal else f.index(kernel.keys)
        if not self.several:
            self.keys(f.index(0), end)
            return
        self.clear(self.operand("o"), self.first, last, kernel.value_width)
        with f.loop(0, last - self.first) as loop:
            f.store(f.const(self.kind, -inf), self.memory["maxima"], loop.i)
            f.store(f.const(self.kind, 0.0), self.memory["sums"], loop.i)
        with f.loop(0, end, self.block, runs=True) as loop:
            self.keys(loop.i, f.intrinsic("smin", loop.i + self.block, end))

    def keys(self, start: Val, stop: Val) -> None:
        """Scores of a block of keys, weights, and their products with the values."""
        f, kernel = self.f, self.kernel
        values = self.dense("v", start, stop, kernel.value_width, self.memory["values"])

        def panel(key: Val, columns: int, lanes: int) -> None:
            right = self.turned("k", key, columns, lanes, kernel.width, self.memory["k"])

            def tile(query: Val, rows: int, vectors: int) -> None:
                left = self.operand("q", query)
                found = self.multiply(left, right, kernel.width, rows, vectors, lanes, fetches=True)
                at = f.offset(self.memory["scores"], (query - self.first) * kernel.row + (key - start), self.kind)
                for n, x in enumerate(found):
                    f.store(x, at, n // vectors * kernel.row + n % vectors * lanes)

            self.tiles_of(key, columns, self.lo, self.hi, tile)

        def tile(query: Val, rows: int) -> None:
            end = self.end_for(query, stop)
            at = hide(f, f.offset(self.memory["scores"], (query - self.first) * kernel.row, self.kind))
            self.weigh(at, query, rows, start, end)
            self.add_values(Matrix(at, kernel.row), values, query, rows, end - start)

        def single(key: int) -> None:
            def tile(query: Val, rows: int) -> None:
                score = self.dots(self.operand("q", query), self.operand("k", key), kernel.width, rows)
                at = f.offset(self.memory["scores"], (query - self.first) * kernel.row + (key - start), self.kind)
                f.store(score, at, 0, self.mask_of(rows, score.lanes), kernel.row)

            self.query_cut.each(f, self.lo, self.hi, tile)

        self.panels(start, stop, panel)
        self.single_keys(stop, single)
        lo = f.intrinsic("smax", self.lo, start // self.most) if kernel.causal else self.lo
        self.query_cut.each(f, lo, self.hi, tile)

    def weigh(self, at: Val, query: Val, rows: int, start: Val, end: Val) -> None:
        """exp(score - maximum) in place of the scores of some rows; leaves the factors of new and old sums."""
        f, kernel, kind, lanes = self.f, self.kernel, self.kind, self.lanes
        most = self.highest(at, query, rows, start, end)
        place, mask = query - self.first, self.mask_of(rows, most.lanes)
        if self.several:
            before, total = (
                f.load(x, place, kind, most.lanes, mask) for x in (self.memory["maxima"], self.memory["sums"])
            )
            most = f.select(most > before, most, before)
            f.store(most, self.memory["maxima"], place, mask)
        shift = f.select(most.eq(-inf), 0.0, most)
        f.store(shift, self.memory["factors"], 0)
        with f.loop(0, end - start, lanes, carry=[f.const(kind, 0.0, lanes)] * rows, runs=True) as loop:
            found = []
            for r in range(rows):
                score = f.load(at, loop.i + r * kernel.row, kind, lanes)
                weight = f.exp(score - f.splat(f.load(self.memory["factors"], r, kind), lanes))
                f.store(weight, at, loop.i + r * kernel.row)
                found.append(loop.carry[r] + weight)
            loop.next(found)
        sums = across(f, loop.results, operator.add)
        if self.several:
            total = total * f.exp(before - shift)
            sums = sums + total
            f.store(sums, self.memory["sums"], place, mask)
        empty = sums.eq(0.0)
        factor = f.select(empty, 0.0, 1.0 / sums)
        f.store(factor, self.memory["factors"], 0)
        if self.several:
            f.store(total * factor, self.memory["factors"], ROWS)
        if kernel.operands["lse"] is not None:
            out = self.operand("lse", query)
            f.store(f.select(empty, -inf, most + f.log(sums)), out.pointer, 0, mask, out.row)

    def highest(self, at: Val, query: Val, rows: int, start: Val, end: Val) -> Val:
        """The maxima of rows of scores, which get -∞ for pairs that do not take part."""
        f, kernel, kind, lanes = self.f, self.kernel, self.kind, self.lanes
        count = end - start

        def part(lo: Any, hi: Val, most: Sequence[Val], masked: bool) -> list[Val]:
            with f.loop(lo, hi, lanes, carry=most) as loop:
                found, key = [], start + loop.i
                for r in range(rows):
                    score = f.load(at, loop.i + r * kernel.row, kind, lanes)
                    if masked:
                        there = f.tail_mask(lanes, end - key) if kernel.keys % lanes else None
                        last = f.intrinsic("smin", end, query + (r + 1)) if kernel.causal else end
                        score = self.before(self.shown(score, query + r, key, there), key, last)
                        f.store(score, at, loop.i + r * kernel.row)
                    found.append(f.select(score > loop.carry[r], score, loop.carry[r]))
                loop.next(found)
            return loop.results

        most, clear = [f.const(kind, -inf, lanes)] * rows, f.index(0)  # clear: so many keys are seen by all rows
        if kernel.operands["mask"] is None:
            clear = count
            if kernel.causal:
                clear = f.intrinsic("smax", f.intrinsic("smin", query + 1 - start, count), 0)
            clear = clear // lanes * lanes
            most = part(0, clear, most, masked=False)
        if kernel.operands["mask"] is not None or kernel.causal or kernel.keys % lanes:
            most = part(clear, count, most, masked=True)
        return across(f, most, lambda x, y: f.select(x > y, x, y))

    def add_values(self, weights: Matrix, values: Matrix, query: Val, rows: int, count: Val) -> None:
        """o = new factor · Σ over the keys of weight · value + old factor · o."""
        f, kind, out = self.f, self.kind, self.operand("o", query)

        def work(c: Any, masks: Sequence[Val | None]) -> None:
            right = Matrix(f.offset(values.pointer, c, kind), values.row)
            for n, x in enumerate(self.multiply(weights, right, count, rows, len(masks))):
                r, v = divmod(n, len(masks))
                x = x * f.splat(f.load(self.memory["factors"], r, kind), self.lanes)
                if self.several:
                    old = f.splat(f.load(self.memory["factors"], ROWS + r, kind), self.lanes)
                    x = old * self.load(out, r, c + v * self.lanes, masks[v]) + x
                self.store(x, out, r, c + v * self.lanes, masks[v])

        self.columns(self.kernel.value_width, work)
