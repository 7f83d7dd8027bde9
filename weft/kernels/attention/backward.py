"""The gradients of attention, a block of queries against a block of keys at a time; nothing quadratic is kept.

With P = exp(S - lse), δ = Σ g ∘ o of each query and dS = P ∘ (g vᵀ - δ) · scale:
dv = Pᵀ g, dk = dSᵀ q, dq = dS k.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from ..body import Access
from ..llvm.builder import Function
from ..llvm.values import Val
from ..matmul.pack import hide
from .forward import Attention
from .tiles import ROWS, VECTORS, Matrix, Unit, across, in_pairs

__all__ = ["AttentionBackward"]

HEADS = 8  # with fewer heads than this, the keys of one are shared out
GROUP_KEYS = 256  # keys that are worth a group


class AttentionBackward(Attention):
    """dq, dk and dv of AttentionForward from its operands, o, lse and g, the gradient of o.

    Sizes, strides, mask and scratch as there; dq, dk and dv have the axes of q, k and v and no strides 0. With few heads
    the keys are worked on in `groups` parts whose shares of dq are added in a fixed order: results do not depend on the
    number of threads. Their shares lie in `workspace` bytes of memory (0: none) at argument word `workspace_word`.
    """

    def __init__(
        self,
        batch: tuple[int, ...],
        sizes: tuple[int, int, int, int],
        q: Access,
        k: Access,
        v: Access,
        o: Access,
        lse: Access,
        g: Access,
        dq: Access,
        dk: Access,
        dv: Access,
        scale: float,
        causal: bool,
        mask: Access | None,
        scratch_word: int,
        workspace_word: int = -1,
    ) -> None:
        operands = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "g": g, "dq": dq, "dk": dk, "dv": dv, "mask": mask}
        super().__init__(batch, sizes, operands, scale, causal, scratch_word)
        self.flops = self.flops * (3 * self.width + 2 * self.value_width) // (self.width + self.value_width)
        scores, states = self.block_queries * self.row, self.padded(self.block_queries + ROWS)
        wide, value_wide = self.padded(self.width), self.padded(self.value_width)
        self.give_memory(
            weights=scores,
            changes=scores,
            k=self.width * VECTORS * self.line,
            v=self.value_width * VECTORS * self.line,
            copy_k=self.block_keys * wide,
            copy_q=self.block_queries * wide,
            copy_g=self.block_queries * value_wide,
            deltas=states,
            shifts=states,
        )
        self.groups = max(1, min(-(-HEADS // max(1, self.heads)), self.keys // GROUP_KEYS))
        self.share = self.heads * self.queries * self.width  # elements of one group's dq
        self.workspace = self.groups * self.share * self.bytes if self.groups > 1 else 0
        self.workspace_word = workspace_word

    def key(self) -> str:
        return f"{super().key()} {self.workspace_word}"

    def emit(self, f: Function) -> None:
        writer = BackwardUnit(self, f)
        lo, hi = f.split(self.heads * self.groups)
        with f.loop(lo, hi) as unit:
            group = unit.i % self.groups
            writer.write(unit.i // self.groups, in_pairs(f, group, self.groups) if self.causal else group)
        if self.groups > 1:
            f.barrier()
            self._add_shares(f)

    def _add_shares(self, f: Function) -> None:
        """dq = the sum of the groups' shares, row by row."""
        unit, base = Unit(self, f), f.arg(self.workspace_word)
        lo, hi = f.split(self.heads * self.queries)
        with f.loop(lo, hi) as loop:
            unit.begin(loop.i // self.queries)
            out = unit.operand("dq", loop.i % self.queries)
            for c, mask in unit.vectors(self.width):
                places = [loop.i * self.width + c + g * self.share for g in range(self.groups)]
                total, *others = [f.load(base, p, self.kind, unit.lanes, mask) for p in places]
                for other in others:
                    total = total + other
                unit.store(total, out, 0, c, mask)


@dataclass(frozen=True)
class Block:
    """Keys start … stop - 1 and tiles lo … hi - 1 of queries, which are the queries first … last - 1."""

    start: Val
    stop: Val
    lo: Val
    hi: Val
    first: Val
    last: Val


@dataclass(frozen=True)
class Panel:
    """Keys from `key` on, with kᵀ and vᵀ."""

    key: Val
    columns: int
    lanes: int
    k: Matrix
    v: Matrix


class BackwardUnit(Unit):
    """The keys of a head, or a group of them, against all queries."""

    def operand(self, name: str, row: Any = 0, indices: Sequence[Val] | None = None) -> Matrix:
        kernel = self.kernel
        if name != "dq" or kernel.groups == 1:
            return super().operand(name, row, indices)
        start = ((self.group * kernel.heads + self.head) * kernel.queries + row) * kernel.width
        return Matrix(self.f.offset(self.f.arg(kernel.workspace_word), start, self.kind), kernel.width)

    def write(self, head: Val, group: Val) -> None:
        f, kernel, self.group = self.f, self.kernel, group
        self.begin(head)
        if kernel.groups == 1:
            self.fetch_next(("k", "q", "g", "o", "v", "dv", "dk", "dq"), f.const("i1", True))
        lo, hi = f.index(0), f.index(kernel.keys)
        if kernel.groups > 1:
            size = -(-kernel.keys // (kernel.groups * self.block)) * self.block
            lo = group * size
            hi = f.intrinsic("smin", lo + size, kernel.keys)
        if self.blocks > 1 or (kernel.causal and kernel.keys > kernel.queries):
            self.clear(self.operand("dk"), lo, hi, kernel.width)
            self.clear(self.operand("dv"), lo, hi, kernel.value_width)
        if not self.several:
            self.keys(lo, hi)
            return
        self.clear(self.operand("dq"), 0, kernel.queries, kernel.width)
        with f.loop(lo, hi, self.block) as loop:
            self.keys(loop.i, f.intrinsic("smin", loop.i + self.block, hi))

    def keys(self, start: Val, stop: Val) -> None:
        """A block of keys against the blocks of queries that see it."""
        f, cut, tiles = self.f, self.query_cut, self.block_tiles
        k = self.dense("k", start, stop, self.kernel.width, self.memory["copy_k"])
        lo = start // (self.most * tiles) * tiles if self.kernel.causal else 0
        with f.loop(lo, cut.tiles, tiles) as loop:
            hi = f.intrinsic("smin", loop.i + tiles, cut.tiles)
            first, last = cut.start(f, loop.i), cut.start(f, hi)
            end = f.intrinsic("smin", stop, last) if self.kernel.causal else stop
            self.pairs(Block(start, end, loop.i, hi, first, last), k)

    def pairs(self, block: Block, k: Matrix) -> None:
        """What one block gives to the gradients."""
        f, kernel, cut, kind = self.f, self.kernel, self.query_cut, self.kind
        q = self.dense("q", block.first, block.last, kernel.width, self.memory["copy_q"])
        g = self.dense("g", block.first, block.last, kernel.value_width, self.memory["copy_g"])
        cut.each(f, block.lo, block.hi, lambda query, rows: self.write_states(block, query, rows))

        def panel(key: Val, columns: int, lanes: int) -> None:
            right = [
                self.turned(name, key, columns, lanes, width, self.memory[name])
                for name, width in zip("kv", kernel.sizes[2:], strict=True)
            ]

            def tile(query: Val, rows: int, vectors: int) -> None:
                self.write_pairs(block, Panel(key, columns, lanes, *right), q, g, query, rows, vectors)

            self.tiles_of(key, columns, block.lo, block.hi, tile)

        def of_keys(key: Val, rows: int) -> None:
            seen = f.intrinsic("smax", block.first, key) if kernel.causal else block.first
            for part, x, name, width in (
                ("weights", g, "dv", kernel.value_width),
                ("changes", q, "dk", kernel.width),
            ):
                left = Matrix(self.place(part, block, seen, key), 1, kernel.row)
                right = Matrix(f.offset(x.pointer, (seen - block.first) * x.row, kind), x.row)
                self.add(left, right, block.last - seen, rows, self.operand(name, key), width, self.blocks > 1)

        def of_queries(query: Val, rows: int) -> None:
            left = Matrix(self.place("changes", block, query, block.start), kernel.row)
            count = self.end_for(query, block.stop) - block.start
            self.add(left, k, count, rows, self.operand("dq", query), kernel.width, self.several)

        def single(key: int) -> None:
            cut.each(f, block.lo, block.hi, lambda query, rows: self.write_column(block, f.index(key), query, rows))

        self.panels(block.start, block.stop, panel)
        self.single_keys(block.stop, single)
        tiles = 0, self.key_cut.tiles
        if not self.key_cut.even:
            tiles = block.start // self.most, (block.stop + (self.most - 1)) // self.most
        self.key_cut.each(f, *tiles, of_keys)
        lo = f.intrinsic("smax", block.lo, block.start // self.most) if kernel.causal else block.lo
        cut.each(f, lo, block.hi, of_queries)

    def place(self, part: str, block: Block, query: Val, key: Val) -> Val:
        """Where the pair lies in the weights or changes of a block."""
        row, column = query - block.first, key - block.start
        return hide(self.f, self.f.offset(self.memory[part], row * self.kernel.row + column, self.kind))

    def write_states(self, block: Block, query: Val, rows: int) -> None:
        """δ · scale and lse of the queries of a tile; lse is ∞ where no key was seen, so that all weights are 0."""
        f, kernel, kind = self.f, self.kernel, self.kind
        g, o, sums = self.operand("g", query), self.operand("o", query), []
        for r in range(rows):
            total = f.const(kind, 0.0, self.lanes)
            for c, mask in self.vectors(kernel.value_width):
                total = self.load(g, r, c, mask) * self.load(o, r, c, mask) + total
            sums.append(total)
        deltas, lse = across(f, sums, operator.add) * kernel.scale, self.operand("lse", query)
        mask = self.mask_of(rows, deltas.lanes)
        shift = f.load(lse.pointer, 0, kind, deltas.lanes, mask, lse.row)
        f.store(deltas, self.memory["deltas"], query - block.first, mask)
        f.store(f.select(shift.eq(-inf), inf, shift), self.memory["shifts"], query - block.first, mask)

    def write_pairs(
        self, block: Block, panel: Panel, q: Matrix, g: Matrix, query: Val, rows: int, vectors: int
    ) -> None:
        """P and dS of a tile."""
        f, kernel, kind, lanes = self.f, self.kernel, self.kind, panel.lanes
        weights, changes = (self.place(x, block, query, panel.key) for x in ("weights", "changes"))
        number = query - block.first
        places = [(r, v, r * kernel.row + v * lanes) for r in range(rows) for v in range(vectors)]

        def product(x: Matrix, right: Matrix, width: int) -> list[Val]:
            left = Matrix(f.offset(x.pointer, number * x.row, kind), x.row)
            return self.multiply(left, right, width, rows, vectors, lanes, fetches=True)

        def of_row(part: str, r: int) -> Val:
            return f.splat(f.load(self.memory[part], number + r, kind), lanes)

        for (r, v, place), score in zip(places, product(q, panel.k, kernel.width), strict=True):
            key = panel.key + v * lanes
            score = self.shown(score, query + r, key, self.mask_of(panel.columns - v * lanes, lanes))
            if kernel.causal:
                score = self.before(score, key, query + (r + 1))
            f.store(f.exp(score - of_row("shifts", r)), weights, place)
        for (r, _, place), slope in zip(places, product(g, panel.v, kernel.value_width), strict=True):
            f.store((slope - of_row("deltas", r)) * f.load(weights, place, kind, lanes), changes, place)

    def write_column(self, block: Block, key: Val, query: Val, rows: int) -> None:
        """P and dS of a tile with one key."""
        f, kernel, number = self.f, self.kernel, query - block.first
        score = self.dots(self.operand("q", query), self.operand("k", key), kernel.width, rows)
        slope = self.dots(self.operand("g", query), self.operand("v", key), kernel.value_width, rows)
        mask = self.mask_of(rows, score.lanes)
        shift, delta = (f.load(self.memory[x], number, self.kind, score.lanes, mask) for x in ("shifts", "deltas"))
        weight = f.exp(score - shift)
        for part, x in (("weights", weight), ("changes", (slope - delta) * weight)):
            f.store(x, self.place(part, block, query, key), 0, mask, kernel.row)

    def add(self, left: Matrix, right: Matrix, count: Val, rows: int, out: Matrix, width: int, more: bool) -> None:
        """out = left · right for some rows, added to what is there where there are `more` blocks."""
        f, kind = self.f, self.kind

        def work(c: Any, masks: Sequence[Val | None]) -> None:
            part = Matrix(f.offset(right.pointer, c, kind), right.row)
            for n, x in enumerate(self.multiply(left, part, count, rows, len(masks))):
                r, v = divmod(n, len(masks))
                if more:
                    x = x + self.load(out, r, c + v * self.lanes, masks[v])
                self.store(x, out, r, c + v * self.lanes, masks[v])

        self.columns(width, work)
