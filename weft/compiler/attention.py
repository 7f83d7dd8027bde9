"""softmax(q kᵀ · scale + mask) v in one pass over the keys; memory is linear in the length.

Lanes run along queries: a block of scores lies as Sᵀ (keys × queries), so that maxima and sums over keys are vertical,
keys and values are read where they lie, and only the queries of a tile are transposed. `attention_grad.py` has the
gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

from .body import Access
from .kernel import Kernel
from .llvm import BITS, Function, Val

KEYS = 128  # keys of a block, whose scores stay in the nearest cache
ROW = 128  # bytes: the widest tile of queries, two vectors


@dataclass(frozen=True)
class Tile:
    """So many queries at once: `vectors` of `lanes`; only `present` of them are there."""

    lanes: int
    vectors: int
    present: int

    @property
    def queries(self) -> int:
        return self.lanes * self.vectors

    def valid(self, vector: int) -> int:
        """How many lanes of a vector belong to queries."""
        return max(0, min(self.lanes, self.present - vector * self.lanes))


@dataclass(frozen=True)
class Side:
    """A factor in memory: elements `step` apart along the sum, `row` apart from row to row or from lane to lane."""

    pointer: Val
    step: int
    row: int = 1


class Attention(Kernel):
    """Sizes and operands of an attention, and how its queries are cut into tiles."""

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

    def _size(self, name: str) -> int:
        strides, ends = self.operands[name].strides, (self.queries, self.keys)
        sizes = (*self.batch, ends[name in ("k", "v", "dk", "dv")], self.width)
        return BITS[self.operands[name].kind] // 8 * prod(n for n, s in zip(sizes, strides, strict=False) if s)

    def key(self) -> str:
        what = (self.batch, self.sizes, self.operands, self.scale, self.causal, self.scratch_word)
        return f"{type(self).__name__} {what}"

    def tiles(self, f: Function) -> list[Tile]:
        """The tile of most queries, and one for what is left over."""
        lanes = 8 * f.target.vector_bytes // BITS[self.kind]
        vectors = 2 if self.queries > lanes else 1
        rest = self.queries % (lanes * vectors)
        whole = [Tile(lanes, vectors, lanes * vectors)] if self.queries >= lanes * vectors else []
        while lanes > 4 and rest <= lanes // 2:
            lanes //= 2
        return [*whole, Tile(lanes, -(-rest // lanes), rest)] if rest else whole

    def on_tiles(self, f: Function, head: Val, number: Val, part: Callable[..., Any]) -> None:
        """Write the work of tile `number` of a head: that of a whole tile or that of the last."""
        tiles = self.tiles(f)
        first, last = number * tiles[0].queries, -(-self.queries // tiles[0].queries) - 1
        if len(tiles) == 1:
            part(self, f, tiles[0], head, first).write()
            return
        with f.when(number < last):
            part(self, f, tiles[0], head, first).write()
        with f.when(number >= last):
            part(self, f, tiles[1], head, first).write()


def transpose(f: Function, rows: Sequence[Val]) -> list[Val]:
    """The columns of a square of as many vectors as they have lanes: halves interleaved, once for each bit."""
    lanes, half = len(rows), len(rows) // 2
    low = [x for i in range(half) for x in (i, lanes + i)]
    high = [x + half for x in low]
    for _ in range(lanes.bit_length() - 1):
        rows = [f.shuffle(rows[i], rows[i + half], order) for i in range(half) for order in (low, high)]
    return list(rows)


class Part:
    """Writes the code of one tile of queries of one head."""

    def __init__(self, kernel: Attention, f: Function, tile: Tile, head: Val, first: Val) -> None:
        self.kernel, self.f, self.tile, self.head, self.first = kernel, f, tile, head, first
        self.kind, self.lanes, self.vectors, self.queries = kernel.kind, tile.lanes, tile.vectors, tile.queries
        most = kernel.tiles(f)[0].vectors  # the last tile is worked on in the same blocks of rows
        self.rows = min(16 // most, (f.target.registers - most - 1) // most)
        self.keys = KEYS // self.rows * self.rows
        self.wide = 8 * f.target.vector_bytes // BITS[self.kind]
        self.side = min(4, self.lanes)  # of squares that are transposed: LLVM takes long over shuffles of wide vectors
        self.indices: list[Val] = []
        for size in reversed(kernel.batch):
            self.indices.insert(0, head % size)
            head = head // size

    # -------------------------------------------------------------------------------------------- memory
    def at(self, name: str) -> Val:
        """Where the operand of this head begins."""
        access = self.kernel.operands[name]
        rest = len(access.strides) - len(self.indices)
        return self.f.offset(self.f.arg(access.arg), access.place(self.f, [*self.indices, *(0,) * rest]), access.kind)

    def strides(self, name: str) -> tuple[int, ...]:
        """Strides within a head."""
        return self.kernel.operands[name].strides[len(self.indices) :]

    def scratch(self, *rows: int) -> list[Val]:
        """Pieces of this thread's memory, each of so many rows of a tile."""
        f, found = self.f, []
        at = f.offset(f.arg(self.kernel.scratch_word), f.tid * self.kernel.scratch, "i8")
        for count in rows:
            found.append(at)
            at = f.offset(at, count * ROW, "i8")
        return found

    def row(self, block: Val, number: Any) -> Val:
        """Row `number` of a block in scratch memory."""
        return self.f.offset(block, number * self.queries, self.kind)

    def load_row(self, at: Val, number: int = 0) -> list[Val]:
        start = number * self.queries
        return [self.f.load(at, start + v * self.lanes, self.kind, self.lanes) for v in range(self.vectors)]

    def store_row(self, values: Sequence[Val], at: Val, number: int = 0) -> None:
        for v, value in enumerate(values):
            self.f.store(value, at, number * self.queries + v * self.lanes)

    def constants(self, value: float, rows: int = 1) -> list[Val]:
        return [self.f.const(self.kind, value, self.lanes)] * (rows * self.vectors)

    def mask_of(self, count: int) -> Val | None:
        return self.f.tail_mask(self.lanes, count) if count < self.lanes else None

    def squares(self, width: int, work: Callable[[Val, Val, int, int], None]) -> None:
        """work(query, column, queries, columns) for squares of `side`, the last maybe of fewer."""
        f, side, present = self.f, self.side, self.tile.present

        def across(query: Val, queries: int) -> None:
            if width >= side:
                with f.loop(0, width // side * side, side, runs=True) as loop:
                    work(query, loop.i, queries, side)
            if width % side:
                work(query, f.index(width // side * side), queries, width % side)

        if present >= side:
            with f.loop(0, present // side * side, side, runs=True) as loop:
                across(loop.i, side)
        if present % side:
            across(f.index(present // side * side), present % side)

    def pack(self, name: str, to: Val, width: int, factor: float = 1.0) -> None:
        """to[e][query] = factor · x[query, e]; queries past the end are what they are."""
        f, side, (row, column), at = self.f, self.side, self.strides(name), self.at(name)

        def square(query: Val, e: Val, queries: int, columns: int) -> None:
            start = f.offset(at, (self.first + query) * row + e * column, self.kind)
            mask = f.tail_mask(side, columns) if columns < side else None
            numbers = [min(j, queries - 1) for j in range(side)]
            loaded = [f.load(start, n * row, self.kind, side, mask, column) for n in numbers]
            base = f.offset(self.row(to, e), query, self.kind)
            for i, x in enumerate(transpose(f, loaded)[:columns]):
                f.store(x if factor == 1 else x * factor, base, i * self.queries)

        self.squares(width, square)

    def unpack(self, source: Val, name: str, width: int) -> None:
        """x[query, e] = source[e][query]."""
        f, side, (row, column), at = self.f, self.side, self.strides(name), self.at(name)

        def square(query: Val, e: Val, queries: int, columns: int) -> None:
            base = f.offset(self.row(source, e), query, self.kind)
            loaded = [f.load(base, min(i, columns - 1) * self.queries, self.kind, side) for i in range(side)]
            start = f.offset(at, (self.first + query) * row + e * column, self.kind)
            mask = f.tail_mask(side, columns) if columns < side else None
            for j, x in enumerate(transpose(f, loaded)[:queries]):
                f.store(x, start, j * row, mask, column)

        self.squares(width, square)

    # ------------------------------------------------------------------------------------------ products
    def in_rows(self, lo: Any, hi: Any, count: int, work: Callable[[Val, int], None]) -> None:
        """work(start, rows) for blocks of rows from lo to hi ≤ count; the rows of a block past hi may be worked on."""
        f, full = self.f, count // self.rows * self.rows
        if full:
            with f.loop(lo, f.intrinsic("smin", f.index(hi), full), self.rows) as loop:
                work(loop.i, self.rows)
        if count % self.rows:
            with f.when(f.index(hi) > full):
                work(f.index(full), count % self.rows)

    def multiply(
        self,
        left: Side,
        right: Side,
        count: Any,
        sums: Sequence[Val],
        masks: Sequence[Val | None] = (),
    ) -> list[Val]:
        """sums[r][v] += Σₜ left[t, r] · right[t, v] for t < count; `masks` of the vectors of a row if they have any."""
        f, lanes, masks = self.f, sums[0].lanes, masks or (None,) * self.vectors
        with f.loop(0, count, carry=sums, runs=True) as loop:
            at, found = f.offset(right.pointer, loop.i * right.step, self.kind), []
            vectors = [f.load(at, v * lanes * right.row, self.kind, lanes, m, right.row) for v, m in enumerate(masks)]
            at = f.offset(left.pointer, loop.i * left.step, self.kind)
            for r in range(len(sums) // len(masks)):
                number = f.splat(f.load(at, r * left.row, self.kind), lanes)
                found += [number * x + loop.carry[r * len(masks) + v] for v, x in enumerate(vectors)]
            loop.next(found)
        return loop.results

    # -------------------------------------------------------------------------------------------- scores
    def last_key(self, limit: Any) -> Any:
        """Where the keys end that the queries of this tile see, in whole blocks of rows, at most at `limit`."""
        f = self.f
        if not self.kernel.causal:
            return limit
        end = self.first + self.queries
        if self.queries % self.rows:
            end = (end + (self.rows - 1)) // self.rows * self.rows
        return f.intrinsic("smin", end, limit)

    def write_scores(self, start: Val, stop: Any) -> None:
        """scores[key - start] = k[key] · packed queries."""
        f, kernel, at, (row, column) = self.f, self.kernel, self.at("k"), self.strides("k")

        def work(key: Val, rows: int) -> None:
            left = Side(f.offset(at, key * row, self.kind), column, row)
            sums = self.multiply(left, Side(self.packed, self.queries), kernel.width, self.constants(0.0, rows))
            self.store_row(sums, self.row(self.scores, key - start))

        self.in_rows(start, stop, kernel.keys, work)

    def apply_mask(self, start: Val, stop: Any) -> None:
        """To the scores of a block; without a mask tensor only keys after the first query can be hidden."""
        f, kernel = self.f, self.kernel
        if kernel.operands["mask"] is None and not kernel.causal:
            return
        lo = start
        if kernel.operands["mask"] is None:
            lo = f.intrinsic("smax", start, self.first + 1)
        with f.loop(lo, stop) as loop:
            at = self.row(self.scores, loop.i - start)
            self.store_row(self.masked(self.load_row(at), loop.i), at)

    def masked(self, values: Sequence[Val], key: Val) -> list[Val]:
        """One row of scores with the mask: -∞ for pairs that do not take part."""
        f, mask, found = self.f, self.kernel.operands["mask"], []
        for v, value in enumerate(values):
            first, present = self.first + v * self.lanes, self.mask_of(self.tile.valid(v))
            if mask is not None:
                given = mask.load(f, [*self.indices, first, key], len(self.indices), self.lanes, present)
                value = f.select(given, value, -inf) if mask.kind == "i1" else value + given
            if self.kernel.causal:
                value = f.select(f.iota("i32", self.lanes) < f.cast(key - first, "i32"), -inf, value)
            found.append(value)
        return found


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
        self.scratch = (self.width + self.value_width + KEYS) * ROW

    def emit(self, f: Function) -> None:
        count = -(-self.queries // self.tiles(f)[0].queries)
        units = self.heads * count
        in_turn = self.causal and self.heads < 16  # later tiles cost more: deal them out one by one
        lo, hi = (f.tid, f.index(units)) if in_turn else f.split(units)
        with f.loop(lo, hi, f.nt if in_turn else 1) as unit:
            self.on_tiles(f, unit.i // count, unit.i % count, ForwardPart)


class ForwardPart(Part):
    """Online softmax: running maxima and sums of each query, the output rescaled when a maximum grows."""

    def write(self) -> None:
        f, kernel = self.f, self.kernel
        self.packed, self.out, self.scores = self.scratch(kernel.width, kernel.value_width, KEYS)
        self.pack("q", self.packed, kernel.width, kernel.scale)
        maxima, totals = self.constants(-inf), self.constants(0.0)
        end = self.last_key(kernel.keys)
        if kernel.keys <= self.keys:
            maxima, totals = self.block(f.index(0), end, maxima, totals, first=True)
        else:
            with f.loop(0, kernel.value_width, runs=True) as loop:
                self.store_row(self.constants(0.0), self.row(self.out, loop.i))
            with f.loop(0, end, self.keys, carry=[*maxima, *totals], runs=True) as loop:
                stop = f.intrinsic("smin", loop.i + self.keys, end)
                state = self.block(loop.i, stop, loop.carry[: self.vectors], loop.carry[self.vectors :], first=False)
                loop.next([*state[0], *state[1]])
            maxima, totals = loop.results[: self.vectors], loop.results[self.vectors :]
        empty = [t.eq(0.0) for t in totals]
        factors = [f.select(e, 0.0, 1.0 / t) for e, t in zip(empty, totals, strict=True)]
        with f.loop(0, kernel.value_width, runs=True) as loop:
            at = self.row(self.out, loop.i)
            self.store_row([x * y for x, y in zip(self.load_row(at), factors, strict=True)], at)
        self.unpack(self.out, "o", kernel.value_width)
        if kernel.operands["lse"] is not None:
            at, (stride,) = self.at("lse"), self.strides("lse")
            for v, (m, t, e) in enumerate(zip(maxima, totals, empty, strict=True)):
                value = f.select(e, -inf, m + f.log(t))
                f.store(value, at, (self.first + v * self.lanes) * stride, self.mask_of(self.tile.valid(v)), stride)

    def block(
        self, start: Val, stop: Any, maxima: Sequence[Val], totals: Sequence[Val], first: bool
    ) -> tuple[list[Val], list[Val]]:
        """The keys of one block: scores, maxima, weights, and their products with the values."""
        f = self.f
        count = f.index(stop) - start
        self.write_scores(start, stop)
        self.apply_mask(start, stop)
        with f.loop(0, count, carry=maxima, runs=True) as loop:
            row = self.load_row(self.row(self.scores, loop.i))
            loop.next([f.select(s > m, s, m) for s, m in zip(row, loop.carry, strict=True)])
        highest = loop.results
        shift = [f.select(m.eq(-inf), 0.0, m) for m in highest]
        with f.loop(0, count, carry=self.constants(0.0), runs=True) as loop:
            at = self.row(self.scores, loop.i)
            row = [f.exp(s - m) for s, m in zip(self.load_row(at), shift, strict=True)]
            self.store_row(row, at)
            loop.next([t + p for t, p in zip(loop.carry, row, strict=True)])
        decay = [] if first else [f.exp(m - s) for m, s in zip(maxima, shift, strict=True)]
        self.add_values(start, count, decay)
        sums = loop.results if first else [t * d + s for t, d, s in zip(totals, decay, loop.results, strict=True)]
        return highest, list(sums)

    def add_values(self, start: Val, count: Val, decay: Sequence[Val]) -> None:
        """out[c] = out[c] · decay + Σ over the keys of value[key, c] · weight[key]; no decay: the first block."""
        f, kernel, at, (row, column) = self.f, self.kernel, self.at("v"), self.strides("v")

        def work(c: Val, rows: int) -> None:
            out, sums = self.row(self.out, c), self.constants(0.0, rows)
            if decay:
                sums = [x * d for r in range(rows) for x, d in zip(self.load_row(out, r), decay, strict=True)]
            left = Side(f.offset(at, start * row + c * column, self.kind), row, column)
            self.store_row(self.multiply(left, Side(self.scores, self.queries), count, sums), out)

        self.in_rows(0, kernel.value_width, kernel.value_width, work)
