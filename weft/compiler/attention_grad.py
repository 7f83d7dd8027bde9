"""The gradients of attention, one tile of queries against all keys at a time; nothing quadratic is kept.

With P = exp(S - lse), δ = Σ g ∘ o of each query and dS = P ∘ (g vᵀ - δ) · scale:
dv = Pᵀ g, dk = dSᵀ q, dq = dS k.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any

from .attention import KEYS, ROW, Attention, Part, Side
from .body import Access
from .llvm import BITS, Function, Val

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
        self.scratch = (2 * self.width + self.value_width + 2 * KEYS) * ROW
        self.groups = max(1, min(-(-HEADS // max(1, self.heads)), self.keys // GROUP_KEYS))
        self.share = self.heads * self.queries * self.width  # elements of one group's dq
        self.workspace = self.groups * self.share * BITS[self.kind] // 8 if self.groups > 1 else 0
        self.workspace_word = workspace_word

    def key(self) -> str:
        return f"{super().key()} {self.workspace_word}"

    def emit(self, f: Function) -> None:
        units = self.heads * self.groups
        in_turn = self.causal and self.groups > 1  # later keys see fewer queries
        lo, hi = (f.tid, f.index(units)) if in_turn else f.split(units)
        with f.loop(lo, hi, f.nt if in_turn else 1) as unit:
            self._unit(f, unit.i // self.groups, unit.i % self.groups)
        if self.groups > 1:
            f.barrier()
            self._add_shares(f)

    def _unit(self, f: Function, head: Val, group: Val) -> None:
        """One group of keys of one head, against all queries."""
        whole = self.tiles(f)[0]
        part = BackwardPart(self, f, whole, head, f.index(0))
        size = -(-self.keys // (self.groups * part.rows)) * part.rows
        lo: Any = group * size if self.groups > 1 else f.index(0)
        hi: Any = f.intrinsic("smin", lo + size, self.keys) if self.groups > 1 else f.index(self.keys)
        part.clear("dk", lo, hi, self.width)
        part.clear("dv", lo, hi, self.value_width)
        with f.loop(0, -(-self.queries // whole.queries), runs=True) as loop:
            self.on_tiles(f, head, loop.i, partial(BackwardPart, group=group, lo=lo, hi=hi))

    def _add_shares(self, f: Function) -> None:
        """dq = the sum of the groups' shares, row by row."""
        access, base = self.operands["dq"], f.arg(self.workspace_word)
        lo, hi = f.split(self.heads * self.queries)
        with f.loop(lo, hi) as loop:
            head, query = loop.i // self.queries, loop.i % self.queries
            part = Part(self, f, self.tiles(f)[0], head, query)
            for c in range(0, self.width, part.wide):
                mask = f.tail_mask(part.wide, self.width - c) if self.width - c < part.wide else None
                places = [loop.i * self.width + c + g * self.share for g in range(self.groups)]
                total, *others = [f.load(base, p, self.kind, part.wide, mask) for p in places]
                for other in others:
                    total = total + other
                access.store(f, total, [*part.indices, query, c], len(self.batch) + 1, part.wide, mask)


class BackwardPart(Part):
    """The gradients that one tile of queries gives to a range of keys, and its own."""

    def __init__(self, *given: Any, group: Val | None = None, lo: Val | None = None, hi: Val | None = None) -> None:
        super().__init__(*given)
        self.group, self.lo, self.hi = group, lo, hi

    def at(self, name: str) -> Val:
        kernel = self.kernel
        if name != "dq" or kernel.groups == 1:
            return super().at(name)
        start = (self.group * kernel.heads + self.head) * (kernel.queries * kernel.width)
        return self.f.offset(self.f.arg(kernel.workspace_word), start, self.kind)

    def strides(self, name: str) -> tuple[int, ...]:
        return (self.kernel.width, 1) if name == "dq" and self.kernel.groups > 1 else super().strides(name)

    def columns(self, width: int, vectors: int, work: Any) -> None:
        """work(column, masks) for blocks of up to `vectors` vectors."""
        f, size = self.f, self.wide * vectors
        full = width // size * size
        if full:
            with f.loop(0, full, size, runs=True) as loop:
                work(loop.i, (None,) * vectors)
        if rest := width % size:
            counts = [min(self.wide, rest - start) for start in range(0, rest, self.wide)]
            work(f.index(full), [f.tail_mask(self.wide, n) if n < self.wide else None for n in counts])

    def clear(self, name: str, lo: Val, hi: Val, width: int) -> None:
        """Rows lo … hi - 1 of a gradient become 0."""
        f, at, (row, column) = self.f, self.at(name), self.strides(name)
        zero = f.const(self.kind, 0.0, self.wide)
        with f.loop(lo, hi) as loop:

            def work(c: Val, masks: Sequence[Val | None]) -> None:
                f.store(zero, at, loop.i * row + c * column, masks[0], column)

            self.columns(width, 1, work)

    def write(self) -> None:
        f, kernel = self.f, self.kernel
        parts = self.scratch(kernel.width, kernel.value_width, kernel.width, KEYS, KEYS)
        self.packed, self.packed_slope, self.slope, self.scores, self.changes = parts
        self.pack("q", self.packed, kernel.width, kernel.scale)
        self.pack("g", self.packed_slope, kernel.value_width)
        self.dots, self.normalizers = self.row_dots(), self.row_normalizers()
        with f.loop(0, kernel.width, runs=True) as loop:
            self.store_row(self.constants(0.0), self.row(self.slope, loop.i))
        end = self.last_key(self.hi)
        with f.loop(self.lo, end, self.keys) as loop:
            stop = f.intrinsic("smin", loop.i + self.keys, end)
            self.write_scores(loop.i, stop)
            self.apply_mask(loop.i, stop)
            self.write_weights(stop - loop.i)
            self.write_changes(loop.i, stop)
            self.add_rows(self.scores, "g", "dv", kernel.value_width, loop.i, stop)
            self.add_rows(self.changes, "q", "dk", kernel.width, loop.i, stop)
            self.add_slope(loop.i, stop - loop.i)
        self.unpack(self.slope, "dq", kernel.width)

    def row_dots(self) -> list[Val]:
        """Σ over the values of g ∘ o for each query; through the block of changes, which is still free."""
        f, width = self.f, self.kernel.value_width
        places = [(self.at(name), *self.strides(name)) for name in ("g", "o")]
        with f.loop(0, self.tile.present, runs=True) as loop:
            starts = [f.offset(at, (self.first + loop.i) * row, self.kind) for at, row, _ in places]
            total = f.const(self.kind, 0.0, self.wide)
            for c in range(0, width, self.wide):
                mask = f.tail_mask(self.wide, width - c) if width - c < self.wide else None
                parts = zip(starts, places, strict=True)
                g, o = (f.load(at, c * column, self.kind, self.wide, mask, column) for at, (_, _, column) in parts)
                total = g * o + total
            f.store(f.total(total), self.changes, loop.i)
        return self.load_row(self.changes)

    def row_normalizers(self) -> list[Val]:
        """lse of each query; ∞ where no key was seen, so that all weights are 0."""
        f, at, (stride,), found = self.f, self.at("lse"), self.strides("lse"), []
        for v in range(self.vectors):
            mask = self.mask_of(self.tile.valid(v))
            place = (self.first + v * self.lanes) * stride
            value = f.load(at, place, self.kind, self.lanes, mask, stride)
            found.append(f.select(value.eq(-inf), inf, value))
        return found

    def write_weights(self, count: Val) -> None:
        """P in place of the scores."""
        f = self.f
        with f.loop(0, count, runs=True) as loop:
            at = self.row(self.scores, loop.i)
            row = zip(self.load_row(at), self.normalizers, strict=True)
            self.store_row([f.exp(s - n) for s, n in row], at)

    def write_changes(self, start: Val, stop: Val) -> None:
        """dS = P ∘ (g vᵀ - δ) · scale."""
        f, kernel, at, (row, column) = self.f, self.kernel, self.at("v"), self.strides("v")

        def work(key: Val, rows: int) -> None:
            left = Side(f.offset(at, key * row, self.kind), column, row)
            sums = self.multiply(
                left, Side(self.packed_slope, self.queries), kernel.value_width, self.constants(0.0, rows)
            )
            weights = self.row(self.scores, key - start)
            found = []
            for r in range(rows):
                values = zip(sums[r * self.vectors :], self.dots, self.load_row(weights, r), strict=False)
                found += [(s - d) * kernel.scale * p for s, d, p in values]
            self.store_row(found, self.row(self.changes, key - start))

        self.in_rows(start, stop, kernel.keys, work)

    def add_rows(self, block: Val, source: str, name: str, width: int, start: Val, stop: Val) -> None:
        """gradient[key] += Σ over the queries of block[key, query] · source[query]."""
        f, kernel = self.f, self.kernel
        rows_at, (source_row, source_column) = self.at(source), self.strides(source)
        at, (row, column) = self.at(name), self.strides(name)

        def columns(c: Val, masks: Sequence[Val | None]) -> None:
            def work(key: Val, rows: int) -> None:
                target = f.offset(at, key * row + c * column, self.kind)
                places = [(r * row + v * self.wide * column, m) for r in range(rows) for v, m in enumerate(masks)]
                sums = [f.load(target, p, self.kind, self.wide, m, column) for p, m in places]
                left = Side(self.row(block, key - start), 1, self.queries)
                first = f.offset(rows_at, self.first * source_row + c * source_column, self.kind)
                sums = self.multiply(left, Side(first, source_row, source_column), self.tile.present, sums, masks)
                for value, (p, m) in zip(sums, places, strict=True):
                    f.store(value, target, p, m, column)

            self.in_rows(start, stop, kernel.keys, work)

        self.columns(width, min(kernel.tiles(f)[0].vectors, -(-width // self.wide)), columns)

    def add_slope(self, start: Val, count: Val) -> None:
        """slope[e] += Σ over the keys of k[key, e] · dS[key]."""
        f, kernel, at, (row, column) = self.f, self.kernel, self.at("k"), self.strides("k")

        def work(e: Val, rows: int) -> None:
            target = self.row(self.slope, e)
            sums = [x for r in range(rows) for x in self.load_row(target, r)]
            left = Side(f.offset(at, start * row + e * column, self.kind), row, column)
            self.store_row(self.multiply(left, Side(self.changes, self.queries), count, sums), target)

        self.in_rows(0, kernel.width, kernel.width, work)
