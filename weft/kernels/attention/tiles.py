"""Writing the pieces of attention kernels: rows cut into tiles, panels of keys, products of tiles.

What the next head reads and writes is asked for while one is computed, so that operands may lie in the last-level cache.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, lcm
from typing import TYPE_CHECKING, Any

from ..llvm.builder import Function
from ..llvm.target import LINE
from ..llvm.values import Val
from ..matmul.pack import fetch, hide, load_transposed, totals

if TYPE_CHECKING:
    from .forward import Attention

__all__ = ["ROWS", "VECTORS", "Matrix", "Unit", "across", "in_pairs"]

ROWS = 8  # of a tile at most
VECTORS = 2  # of a tile
FETCHES = 64  # runs of rows of the next head that are asked for at most


@dataclass(frozen=True)
class Matrix:
    """Elements in memory: those of a column `row` apart, those of a row `column` apart."""

    pointer: Val
    row: int
    column: int = 1


@dataclass(frozen=True)
class Cut:
    """`count` rows in tiles: `whole` of `size` rows, then those of `small` rows.

    Even: `small` is `size` - 1. Else tiles begin at the multiples of `size`, and at most the last is small.
    """

    count: int
    size: int
    even: bool

    @staticmethod
    def of(count: int, most: int, even: bool) -> Cut:
        return Cut(count, -(-count // -(-count // most)) if even else most, even)

    @property
    def tiles(self) -> int:
        return -(-self.count // self.size)

    @property
    def small(self) -> int:
        return self.size - 1 if self.even else self.count % self.size

    @property
    def whole(self) -> int:
        return self.count - self.tiles * self.small if self.even else self.count // self.size

    def start(self, f: Function, tile: Any) -> Val:
        """The first row of a tile; the end of the rows for the tile after the last."""
        if self.even and self.whole < self.tiles:
            return f.index(tile) * self.small + f.intrinsic("smin", f.index(tile), self.whole)
        return f.intrinsic("smin", f.index(tile) * self.size, self.count)

    def each(self, f: Function, lo: Any, hi: Any, work: Callable[[Val, int], None]) -> None:
        """work(first row, rows) for the tiles lo … hi - 1."""
        lo, hi = f.index(lo), f.index(hi)
        if self.whole:
            with f.loop(lo, f.intrinsic("smin", hi, self.whole)) as loop:
                work(loop.i * self.size, self.size)
        if self.whole < self.tiles:
            with f.loop(f.intrinsic("smax", lo, self.whole), hi) as loop:
                work(self.start(f, loop.i), self.small)


class Unit:
    """Writes the code of one head at a time, or of a part of one."""

    def __init__(self, kernel: Attention, f: Function) -> None:
        self.kernel, self.f, self.kind = kernel, f, kernel.kind
        self.lanes = f.target.vector_bytes // kernel.bytes
        self.most = ROWS if f.target.many_registers else 6  # rows of a tile
        self.panel = VECTORS * self.lanes
        self.several = kernel.keys > kernel.block_keys  # blocks of keys
        step = lcm(self.most, self.panel)
        self.block = kernel.block_keys // step * step if self.several else kernel.keys
        even = not (kernel.causal or self.several)
        self.query_cut, self.key_cut = (Cut.of(n, self.most, even) for n in kernel.sizes[:2])
        tiles = self.query_cut.tiles
        most = tiles if kernel.block_queries == kernel.queries else kernel.block_queries // self.query_cut.size
        self.blocks = -(-tiles // most)  # of queries
        self.block_tiles = -(-tiles // self.blocks)
        self.fetches = 0
        plain, rest = not kernel.causal and kernel.operands["mask"] is None, kernel.keys % self.lanes
        self.single = rest if plain and rest <= self.lanes // 8 else 0  # last keys, which are not worth a panel

    def begin(self, head: Val) -> None:
        self.head, self.indices, self.memory = head, self.indices_of(head), self.scratch()

    def indices_of(self, head: Val) -> list[Val]:
        found: list[Val] = []
        for size in reversed(self.kernel.batch):
            found.insert(0, head % size)
            head = head // size
        return found

    # -------------------------------------------------------------------------------------------- memory
    def scratch(self) -> dict[str, Val]:
        """The parts of this thread's memory."""
        f, found = self.f, {}
        at = f.offset(f.arg(self.kernel.scratch_word), f.tid * self.kernel.scratch, "i8")
        for name, count in self.kernel.parts.items():
            found[name] = hide(f, at)
            at = f.offset(at, count, self.kind)
        return found

    def operand(self, name: str, row: Any = 0, indices: Sequence[Val] | None = None) -> Matrix:
        """An operand of this head (or another) from one of its rows on."""
        access, indices = self.kernel.operands[name], self.indices if indices is None else indices
        rest = len(access.strides) - len(indices) - 1
        place = access.place(self.f, [*indices, row, *(0,) * rest])
        return Matrix(self.f.offset(self.f.arg(access.arg), place, access.kind), *access.strides[len(indices) :])

    def mask_of(self, count: int, lanes: int) -> Val | None:
        return self.f.tail_mask(lanes, count) if count < lanes else None

    def vectors(self, width: int) -> list[tuple[int, Val | None]]:
        """The columns at which vectors begin, and which of their lanes exist."""
        return [(c, self.mask_of(width - c, self.lanes)) for c in range(0, width, self.lanes)]

    def load(self, x: Matrix, row: Any, column: Any, mask: Val | None = None) -> Val:
        place = row * x.row + column * x.column
        return self.f.load(x.pointer, place, self.kind, self.lanes, mask, x.column)

    def store(self, value: Val, x: Matrix, row: Any, column: Any, mask: Val | None = None) -> None:
        self.f.store(value, x.pointer, row * x.row + column * x.column, mask, x.column)

    def clear(self, out: Matrix, lo: Any, hi: Any, width: int) -> None:
        """Rows lo … hi - 1 become 0."""
        with self.f.loop(lo, hi) as loop:
            for c, mask in self.vectors(width):
                self.store(self.f.const(self.kind, 0.0, self.lanes), out, loop.i, c, mask)

    def dense(self, name: str, lo: Any, hi: Any, width: int, to: Val) -> Matrix:
        """Rows lo … hi - 1 of an operand as whole vectors: where they lie, or copied to scratch memory."""
        f, found, row = self.f, self.operand(name, lo), self.kernel.padded(width)
        if found.column == 1 and width % self.lanes == 0:
            return found
        with f.loop(0, f.index(hi) - lo) as loop:
            for c, mask in self.vectors(width):
                f.store(self.load(found, loop.i, c, mask), to, loop.i * row + c)
        return Matrix(to, row)

    def turned(self, name: str, key: Val, columns: int, lanes: int, width: int, to: Val) -> Matrix:
        """to[e, j] = scale · x[key + j, e] for the keys of a panel; lanes past the end hold other numbers of x, or 0."""
        f, kind, x, scale = self.f, self.kind, self.operand(name, key), self.kernel.scale
        for first in range(0, columns, lanes):
            there = min(lanes, columns - first)
            if x.column != 1 or width < lanes:
                with f.loop(0, width, runs=True) as loop:
                    mask, place = self.mask_of(there, lanes), loop.i * x.column + first * x.row
                    f.store(f.load(x.pointer, place, kind, lanes, mask, x.row) * scale, to, loop.i * self.panel + first)
                continue
            with f.loop(0, width, lanes, runs=True) as loop:
                start = loop.i if width % lanes == 0 else f.intrinsic("smin", loop.i, width - lanes)
                corner = hide(f, f.offset(x.pointer, start + first * x.row, kind))
                square = load_transposed(f, corner, lambda r, n=there: min(r, n - 1) * x.row, kind, lanes)
                place = hide(f, f.offset(to, start * self.panel + first, kind))
                for r, vector in enumerate(square):
                    f.store(vector * scale, place, r * self.panel)
        return Matrix(to, self.panel)

    # ------------------------------------------------------------------------- memory ahead of its use
    def fetch_next(self, names: Sequence[str], condition: Val) -> None:
        """Let products ask for the operands of the next head: a table has where each run of rows starts and its step."""
        f, kernel, runs = self.f, self.kernel, []
        indices, count = self.indices_of(self.head + 1), min(kernel.width, kernel.value_width)
        for name in names:
            width = kernel.width if name in ("q", "k", "dq", "dk") else kernel.value_width
            rows = kernel.keys if name in ("k", "v", "dk", "dv") else kernel.queries
            for row in range(0, max(1, rows - count // 2), count):  # less than half a run is not worth one
                x = self.operand(name, row, indices)
                runs += [(f.offset(x.pointer, c, self.kind), x.row) for c in range(0, width, 2 * kernel.line)]
        runs = [*runs[:FETCHES], (f.arg(kernel.operands["q"].arg), 0)]
        self.fetches = len(runs) - 1
        self.starts, self.steps, self.fetched = (f.stack("i64", n) for n in (len(runs), len(runs), 1))
        for n, (start, step) in enumerate(runs):
            f.store(start, self.starts, n)
            f.store(f.index(step * kernel.bytes), self.steps, n)
        f.store(f.select(condition, f.index(0), self.fetches), self.fetched, 0)

    def next_fetch(self) -> tuple[Val, Val]:
        """The start and the step of a run of rows."""
        f = self.f
        number = f.load(self.fetched, 0, "i64")
        f.store(f.intrinsic("smin", number + 1, self.fetches), self.fetched, 0)
        return hide(f, f.load(self.starts, number, "ptr")), hide(f, f.load(self.steps, number, "i64"))

    # -------------------------------------------------------------------------------------------- blocks
    def panels(self, lo: Any, hi: Any, work: Callable[[Val, int, int], None]) -> None:
        """work(key, columns, lanes) for the panels of keys from lo to hi; only the last ones are narrower."""
        f, keys, lanes = self.f, self.kernel.keys - self.single, self.lanes
        whole = keys // self.panel * self.panel
        if whole:
            with f.loop(lo, f.intrinsic("smin", f.index(hi), whole), self.panel) as loop:
                work(loop.i, self.panel, lanes)
        for start in range(whole, keys, lanes):
            columns, narrow = min(lanes, keys - start), lanes
            while narrow > 4 and columns <= narrow // 2:
                narrow //= 2
            with f.when(f.index(hi) > start):
                work(f.index(start), columns, narrow)

    def tiles_of(self, key: Val, columns: int, lo: Any, hi: Any, work: Callable[[Val, int, int], None]) -> None:
        """work(query, rows, vectors) for those of the tiles lo … hi - 1 of queries that see the keys of a panel."""
        f, vectors = self.f, -(-columns // self.lanes)
        if not self.kernel.causal:
            self.query_cut.each(f, lo, hi, lambda query, rows: work(query, rows, vectors))
            return
        lo = f.intrinsic("smax", f.index(lo), key // self.most)
        for seen in range(1, vectors + 1):
            end = hi
            if seen < vectors:
                end = f.intrinsic("smin", (key + seen * self.lanes) // self.most, hi)
            self.query_cut.each(f, lo, end, lambda query, rows, seen=seen: work(query, rows, seen))
            lo = f.intrinsic("smax", lo, end)

    def single_keys(self, hi: Val, work: Callable[[int], None]) -> None:
        """work(key) for the keys before hi that are in no panel."""
        for key in range(self.kernel.keys - self.single, self.kernel.keys):
            with self.f.when(hi > key):
                work(key)

    def end_for(self, query: Val, stop: Val) -> Val:
        """Where the keys end that the queries of a tile see, at most at `stop`."""
        return self.f.intrinsic("smin", stop, query + self.most) if self.kernel.causal else stop

    def columns(self, width: int, work: Callable[[Any, Sequence[Val | None]], None]) -> None:
        """work(column, masks) for some vectors of a row at a time."""
        full = width // self.panel * self.panel
        if full:
            with self.f.loop(0, full, self.panel, runs=True) as loop:
                work(loop.i, (None,) * VECTORS)
        if width > full:
            work(full, [mask for _, mask in self.vectors(width - full)])

    # ------------------------------------------------------------------------------------------ products
    def multiply(
        self, left: Matrix, right: Matrix, count: Any, rows: int, vectors: int, lanes: int = 0, fetches: bool = False
    ) -> list[Val]:
        """Σₜ left[r, t] · right[t, v] for t < count, which is not 0; row by row."""
        f, kind, lanes = self.f, self.kind, lanes or self.lanes
        a, b = hide(f, left.pointer), hide(f, right.pointer)
        start, step = self.next_fetch() if fetches and self.fetches else (None, None)
        with f.loop(0, count, carry=[f.const(kind, 0.0, lanes)] * (rows * vectors), runs=True) as loop:
            if start is not None:
                place = f.offset(start, loop.i * step, "i8")
                fetch(f, place, near=False)
                fetch(f, f.offset(place, LINE, "i8"), near=False)
            terms = [f.load(b, loop.i * right.row + v * lanes, kind, lanes) for v in range(vectors)]
            found = []
            for r in range(rows):
                x = f.splat(f.load(a, loop.i * left.column + r * left.row, kind), lanes)
                found += [x * y + loop.carry[r * vectors + v] for v, y in enumerate(terms)]
            loop.next(found)
        return loop.results

    def dots(self, left: Matrix, right: Matrix, width: int, rows: int) -> Val:
        """scale · Σₜ left[r, t] · right[0, t] in lane r."""
        sums = [self.f.const(self.kind, 0.0, self.lanes)] * rows
        for c, mask in self.vectors(width):
            y = self.load(right, 0, c, mask)
            sums = [self.load(left, r, c, mask) * y + x for r, x in enumerate(sums)]
        return across(self.f, sums, operator.add) * self.kernel.scale

    def shown(self, score: Val, query: Any, key: Any, there: Val | None) -> Val:
        """A vector of scores with the mask tensor: -∞ for pairs that do not take part."""
        access = self.kernel.operands["mask"]
        if access is None:
            return score
        given = access.load(self.f, [*self.indices, query, key], len(self.indices) + 1, score.lanes, there)
        return self.f.select(given, score, -inf) if access.kind == "i1" else score + given

    def before(self, score: Val, key: Val, end: Val) -> Val:
        """A vector of scores from `key` on: -∞ for the keys from `end` on."""
        return self.f.select(self.f.tail_mask(score.lanes, end - key), score, -inf)


def in_pairs(f: Function, number: Val, count: int) -> Val:
    """0, count - 1, 1, count - 2, …: where work grows along `count` parts, every run of them has about its share."""
    return f.select((number % 2).eq(0), number // 2, count - 1 - number // 2)


def across(f: Function, rows: Sequence[Val], combine: Callable[[Val, Val], Val]) -> Val:
    """A vector whose lane r is all lanes of rows[r] combined; it has as many lanes as the next power of two."""
    count = max(2, 1 << (len(rows) - 1).bit_length())
    rows = [*rows, *[rows[-1]] * (count - len(rows))]
    while rows[0].lanes > count:
        half = rows[0].lanes // 2
        rows = [combine(f.shuffle(x, x, range(half)), f.shuffle(x, x, range(half, 2 * half))) for x in rows]
    lanes = rows[0].lanes
    parts = [totals(f, rows[i : i + lanes], combine) for i in range(0, count, lanes)]
    while len(parts) > 1:
        size = 2 * parts[0].lanes
        parts = [f.shuffle(x, y, range(size)) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
