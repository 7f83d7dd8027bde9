"""The code of a matrix product, cut as a `Tiling` says: the order of the tiles, one tile, its epilogue.

What a tile needs next is fetched while the tile before is computed, so that operands may lie in the last-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from ..body import Access
from ..llvm.builder import Function
from ..llvm.target import LINE
from ..llvm.values import BITS, Val
from .pack import fetch, hide, load_transposed, pack, totals

if TYPE_CHECKING:
    from .product import Product, Tiling

__all__ = ["Writer"]

CHUNK = 1024  # so many terms are summed one after the other at most
INLINE = 600  # instructions of epilogue that are written out for a tile; longer ones loop over its rows


@dataclass(frozen=True)
class Part:
    """What a block works on: its batch index, its first tile, where A and B begin and how far along k they go.

    `begun` and `last` are the conditions that there were parts before, and that the sums are complete after this one;
    None where all parts are one.
    """

    batch: tuple[Any, ...]
    first: Val
    a: Val
    b: Val
    depth: Any
    begun: Val | None = None
    last: Val | None = None


class Writer:
    """Writes one product. Tiles are numbered in the order in which they are computed; a thread computes one run of them."""

    def __init__(self, p: Product, f: Function, t: Tiling) -> None:
        self.p, self.f, self.t = p, f, t
        self.size = BITS[p.kind] // 8
        self.width = t.lanes * t.vectors
        self.full_panels, self.rest_columns = divmod(p.n, self.width)
        self.full_tiles, self.rest_rows = divmod(p.m, t.rows)
        self.panels = self.full_panels + (self.rest_columns > 0)
        self.tiles = self.full_tiles + (self.rest_rows > 0)
        self.blocks = -(-self.tiles // t.block)
        self.each = self.tiles * self.panels  # tiles of one batch element
        self.left_strides = p.a[-2:]  # of what the tiles read of A: from row to row, from k to k
        self.multiply_add = f.fma if f.target.fma else lambda a, b, c: a * b + c
        self.read = f.rounded_half if p.narrow and not t.pairs else lambda x: x
        if t.scratch(p):
            self.scratch = f.offset(f.arg(p.scratch_word), f.tid * p.scratch, "i8")

    # ------------------------------------------------------------------------------ the order of the tiles
    def write(self) -> None:
        f = self.f
        lo, hi = self.share()
        with f.when(lo < hi), f.loop(self.block_of(lo), self.block_of(hi - 1) + 1, runs=True) as blocks:
            self.block(blocks.i, lo, hi)

    def share(self) -> tuple[Val, Val]:
        """The first of this thread's tiles and the first after them. The last tiles of rows and of columns may be
        smaller, so what is shared out are vectors."""
        f, t, m = self.f, self.t, self.p.m
        across = -(-self.p.n // t.lanes)
        elements = prod(self.p.batch)
        if self.blocks > 1 < t.block:
            return f.split(elements * self.each)
        panelwise = self.blocks == 1  # tiles of one panel after the other; else one row of tiles after the other
        outer, inner, whole = (t.vectors, t.rows, m) if panelwise else (t.rows, t.vectors, across)
        full, rest, count = (
            (self.full_panels, across % t.vectors, self.tiles)
            if panelwise
            else (self.full_tiles, self.rest_rows, self.panels)
        )

        def tile(vectors: Val) -> Val:
            element, place = vectors // (m * across), vectors % (m * across)
            part = f.intrinsic("smin", place // (outer * whole), full)
            place = place - part * (outer * whole)
            sizes = [size * inner for size in (outer, rest or outer)]
            inside, last = ((place + size // 2) // size for size in sizes)
            return element * self.each + part * count + f.select(part < full, inside, last)

        lo, hi = f.split(elements * m * across)
        return tile(lo), tile(hi)

    def block_of(self, tile: Val) -> Val:
        if self.blocks == 1:
            return tile // self.each
        return (tile // self.each) * self.blocks + (tile % self.each) // (self.t.block * self.panels)

    def block(self, number: Val, lo: Val, hi: Val) -> None:
        """The tiles of one block that lie in [lo, hi)."""
        f, p, depth = self.f, self.p, self.t.depth
        element, first = number, f.index(0)
        if self.blocks > 1:
            element, first = number // self.blocks, (number % self.blocks) * self.t.block
        batch = self.unravel(element)
        a = f.offset(f.arg(p.words[0]), Access(0, p.kind, p.a).place(f, (*batch, 0, 0)), p.kind)
        b = f.offset(f.arg(p.words[1]), Access(0, p.kind, p.b).place(f, (*batch, 0, 0)), p.kind)

        if depth == p.k:
            self.run(Part(batch, first, a, b, depth), element, lo, hi)
            return
        with f.loop(0, p.k, depth, runs=True) as k:
            left = f.intrinsic("smin", p.k - k.i, depth)
            places = (f.offset(x, k.i * strides, p.kind) for x, strides in ((a, p.a[-1]), (b, p.b[-2])))
            self.run(Part(batch, first, *places, left, k.i > 0, k.i >= p.k - depth), element, lo, hi)

    def run(self, part: Part, element: Val, lo: Val, hi: Val) -> None:
        """The tiles of a block that lie in [lo, hi), panel after panel."""
        f, first = self.f, part.first
        tall = f.intrinsic("smin", self.tiles - first, self.t.block) if self.blocks > 1 else f.index(self.tiles)
        start = element * self.each + first * self.panels
        lo, hi = f.intrinsic("smax", lo - start, 0), f.intrinsic("smin", hi - start, tall * self.panels)
        with f.loop(lo // tall, (hi + tall - 1) // tall) as panels:
            before = panels.i * tall
            top = f.intrinsic("smax", lo - before, 0) + first
            bottom = f.intrinsic("smin", hi - before, tall) + first
            self.panel(part, panels.i, top, bottom)

    def unravel(self, element: Val) -> tuple[Any, ...]:
        """The batch index of an element."""
        index: list[Any] = []
        for size in reversed(self.p.batch[1:]):
            index.append(element % size)
            element = element // size
        if self.p.batch:
            index.append(element)
        return tuple(index[::-1])

    def panel(self, part: Part, number: Val, top: Val, bottom: Val) -> None:
        """Tiles top … bottom of a panel."""
        f = self.f
        column = hide(f, number * self.width)
        source, b, down = self.right(part, number, column)

        def tiles(columns: int) -> None:
            def tile(count: Val, rows: int) -> None:
                row = hide(f, count * self.t.rows)
                a = self.left(part, count, row)
                index = (*part.batch, row, column)
                following = (row, column + self.width) if self.t.block == 1 else (row + self.t.rows, column)
                ends = self.ends((*part.batch, *following), rows, columns) if part.last is None else []
                if self.t.dots:
                    sums = self.dots(a, b, columns)
                elif self.t.turned:
                    self.turned(index, a, b, down, rows, columns, self.after_b(source, count - top), ends)
                    return
                else:
                    ahead = [*self.after_a(a), *self.after_b(source, count - top)]
                    sums = self.sums(a, b, down, part.depth, rows, columns, ahead, ends)
                if part.last is None:
                    self.finish(index, rows, columns, sums)
                else:
                    self.collect(part, self.waiting(part, number, count), index, rows, columns, sums)

            if self.full_tiles:
                with f.loop(top, f.intrinsic("smin", bottom, self.full_tiles) if self.rest_rows else bottom) as run:
                    tile(run.i, self.t.rows)
            if self.rest_rows:
                with f.when(bottom > self.full_tiles):
                    tile(f.index(self.full_tiles), self.rest_rows)

        if self.full_panels and self.rest_columns:
            with f.when(number < self.full_panels):
                tiles(self.width)
            with f.when(number.eq(self.full_panels)):
                tiles(self.rest_columns)
        else:
            tiles(self.rest_columns or self.width)

    # --------------------------------------------------------------------------------- where things lie
    def right(self, part: Part, number: Val, column: Val) -> tuple[Val, Val, int]:
        """A panel of B: where it comes from, where it lies, and how far one k is from the next there."""
        f, p = self.f, self.p
        source = f.offset(part.b, column * p.b[-1], p.kind)
        if not self.t.packed:
            return source, source, p.b[-2]
        columns = f.intrinsic("smin", p.n - column, self.width) if self.rest_columns else self.width
        pack(f, source, p.b[-2:], (p.k, columns), p.kind, self.t.lanes, self.scratch, self.width)
        return source, self.scratch, self.width

    def left(self, part: Part, count: Val, row: Val) -> Val:
        """Where the rows of tile `count`, which begins with `row`, lie."""
        return self.f.offset(part.a, row * self.p.a[-2], self.p.kind)

    def waiting(self, part: Part, number: Val, count: Val) -> Val:
        """Where the sums of a tile wait for the next part."""
        place = (number * self.t.block + (count - part.first)) * (self.t.rows * self.width)
        return self.f.offset(self.scratch, place, self.p.kind)

    # --------------------------------------------------------------------------- memory ahead of its use
    def ends(self, index: Sequence[Any], rows: int, columns: int) -> list[tuple[Val, int, int, int]]:
        """What the epilogue of a tile reads and writes: (address, bytes from row to row, rows, cache lines of a row)."""
        f, body = self.f, self.p.body
        found = []
        for access in dict.fromkeys([*body.loads, *(x for x, _ in body.stores)]):
            down, along = access.strides[-2:]
            tall, wide = rows, columns
            if self.t.turned:
                down, along, tall, wide = along, down, wide, tall
            if down and along == 1:
                size = max(1, BITS[access.kind] // 8)
                start = f.offset(f.arg(access.arg), access.place(f, index), access.kind)
                found.append((hide(f, start), down * size, tall, -(-wide * size // LINE)))
        return found

    def fetch_ends(self, ends: list[tuple[Val, int, int, int]], number: Val) -> None:
        f = self.f
        for start, down, _, lines in ends:
            fetch(f, f.offset(start, (number // lines) * down + (number % lines) * LINE, "i8"))

    def after_a(self, a: Val) -> list[tuple[Val, int, bool]]:
        """Places that the loop over k asks for: (address, bytes for each k, near) so that the next rows of A arrive."""
        f, p = self.f, self.p
        row, k = p.a[-2:]
        if k != 1 and row == 1:
            return [(f.offset(a, LINE, "i8"), k * self.size, True)]
        if k == 1 and row == p.k:
            return [(f.offset(a, self.t.at_once * row, p.kind), self.t.at_once * self.size, True)]
        return []

    def after_b(self, b: Val, tile: Val) -> list[tuple[Val, int, bool]]:
        """The same for the next panel of B; the tiles of this one share the work."""
        f, p, t = self.f, self.p, self.t
        k, column = p.b[-2:]
        size = self.width * self.size
        lines = max(1, size // LINE)
        if column == 1 and t.block >= lines:
            start = f.select(tile < lines, tile * LINE + size, 0)
            return [(f.offset(b, start, "i8"), k * self.size, False)]
        if column == 1:
            return [(f.offset(b, size + i * LINE, "i8"), k * self.size, False) for i in range(lines)]
        if k == 1 and column == p.k:
            part = max(1, size // t.block)
            start = f.offset(b, tile * (p.k * part) + self.width * p.k * self.size, "i8")
            return [(f.offset(start, i * LINE, "i8"), part, True) for i in range(-(-part // LINE))]
        return []

    # ---------------------------------------------------------------------------------------- one tile
    def mask(self, columns: int, vector: int) -> Val | None:
        """The lanes of a vector of a tile that exist; None for all."""
        left = columns - vector * self.t.lanes
        return None if left >= self.t.lanes else self.f.tail_mask(self.t.lanes, left)

    def sums(
        self,
        a: Val,
        b: Val,
        down: int,
        depth: Any,
        rows: int,
        columns: int,
        ahead: list[tuple[Val, int, bool]],
        ends: list[tuple[Val, int, int, int]],
    ) -> list[Val]:
        """The accumulators of a tile, row after row. Long sums are sums of sums, which rounds less."""
        f, p, lanes = self.f, self.p, self.t.lanes
        vectors = -(-columns // lanes)
        zeros = [f.const(p.kind, 0.0, lanes)] * (rows * vectors)
        if p.k == 0:
            return zeros
        masks = [None if self.t.packed else self.mask(columns, q) for q in range(vectors)]
        below, along = self.left_strides
        a, b = hide(f, a), hide(f, b)
        ahead = [(hide(f, place), *rest) for place, *rest in ahead]

        def chunk(lo: Any, hi: Any, carry: list[Val] = zeros, lines: int = 0) -> list[Val]:
            with f.loop(lo, hi, carry=carry, runs=True) as loop:
                right = [
                    self.read(f.load(b, loop.i * down + q * lanes, p.kind, lanes, masks[q])) for q in range(vectors)
                ]
                for place, each, near in ahead:
                    fetch(f, f.offset(place, loop.i * each, "i8"), near)
                for number in range(lines):
                    self.fetch_ends(ends, loop.i * lines + number)
                following = []
                for r in range(rows):
                    left = f.splat(self.read(f.load(a, loop.i * along + r * below, p.kind)), lanes)
                    following += [
                        self.multiply_add(left, x, y)
                        for x, y in zip(right, loop.carry[r * vectors : (r + 1) * vectors], strict=True)
                    ]
                loop.next(following)
            return loop.results

        if not isinstance(depth, int) or depth <= 2 * CHUNK:
            if not ends or not isinstance(depth, int):
                return chunk(0, depth)
            most = max(tall * lines for _, _, tall, lines in ends)
            each = -(-most // depth)
            split = min(depth, -(-most // each))
            carry = chunk(0, split, zeros, each)
            return chunk(split, depth, carry) if split < depth else carry
        held = f.stack(p.kind, len(zeros) * lanes)
        for i, zero in enumerate(zeros):
            f.store(zero, held, i * lanes)
        with f.loop(0, depth, CHUNK, runs=True) as chunks:
            found = chunk(chunks.i, f.intrinsic("smin", chunks.i + CHUNK, depth))
            for i, value in enumerate(found):
                f.store(f.load(held, i * lanes, p.kind, lanes) + value, held, i * lanes)
        return [f.load(held, i * lanes, p.kind, lanes) for i in range(len(zeros))]

    def dots(self, a: Val, b: Val, columns: int) -> list[Val]:
        """One row times up to one vector of columns, with lanes along k."""
        f, p, lanes = self.f, self.p, self.t.lanes
        zero = f.const(p.kind, 0.0, lanes)
        a, b = hide(f, a), hide(f, b)

        def step(k: Any, carry: Sequence[Val], mask: Val | None = None) -> list[Val]:
            left = self.read(f.load(a, k, p.kind, lanes, mask))
            right = [self.read(f.load(b, k + c * p.b[-1], p.kind, lanes, mask)) for c in range(columns)]
            return [self.multiply_add(left, x, y) for x, y in zip(right, carry, strict=True)]

        whole = p.k // lanes * lanes
        with f.loop(0, whole, lanes, carry=[zero] * columns, runs=True) as loop:
            loop.next(step(loop.i, loop.carry))
        sums = list(loop.results)
        if p.k > whole:
            sums = step(f.index(whole), sums, f.tail_mask(lanes, p.k - whole))
        return [totals(f, sums + [zero] * (lanes - columns))]

    # --------------------------------------------------------------------------------------- the epilogue
    def turned(
        self,
        index: Sequence[Any],
        a: Val,
        b: Val,
        down: int,
        rows: int,
        columns: int,
        ahead: list[tuple[Val, int, bool]],
        ends: list[tuple[Val, int, int, int]],
    ) -> None:
        """Sum a tile some rows at a time, transpose it, and give its columns to the body with lanes along rows."""
        f, p, t = self.f, self.p, self.t
        vectors, groups = -(-columns // t.lanes), -(-rows // t.lanes)
        tile, turned = (f.stack(p.kind, t.rows * self.width) for _ in range(2))
        for top in range(0, rows, t.at_once):
            part, count = f.offset(a, top * p.a[-2], p.kind), min(t.at_once, rows - top)
            sums = self.sums(part, b, down, p.k, count, columns, self.after_a(part) + ahead, ends)
            for i, x in enumerate(sums):
                f.store(x, tile, (top + i // vectors) * self.width + i % vectors * t.lanes)
            ahead, ends = [], []
        for g in range(groups):
            with f.loop(0, vectors * t.lanes, t.lanes, runs=True) as column:
                corner = f.offset(tile, column.i + g * t.lanes * self.width, p.kind)
                square = load_transposed(f, corner, lambda r: r * self.width, p.kind, t.lanes)
                for c, x in enumerate(square):
                    f.store(x, turned, (column.i + c) * t.rows + g * t.lanes)
        axis, masks = len(index) - 2, [self.mask(rows, g) for g in range(groups)]
        known = self.known(axis, index, masks)
        with f.loop(0, columns, runs=True) as column:
            for g in range(groups):
                at = (*index[:-2], index[-2] + g * t.lanes, index[-1] + column.i)
                given = f.load(turned, column.i * t.rows + g * t.lanes, p.kind, t.lanes)
                p.body.emit(f, at, axis, t.lanes, masks[g], [given], known[g])

    def known(self, axis: int, index: Sequence[Any], masks: Sequence[Val | None]) -> list[dict[int, Val]]:
        """For each vector along an axis of a tile, the loads of the body that are the same along the other axis."""
        f, body, lanes = self.f, self.p.body, self.t.lanes
        stored = {x.arg for x, _ in body.stores}
        across = 2 * len(index) - 3 - axis  # the other of the last two axes
        loads = enumerate(body.loads, 1 + len(body.constants))
        steady = [(i, x) for i, x in loads if not x.strides[across] and any(x.strides) and x.arg not in stored]

        def at(vector: int) -> list[Any]:
            return [x + vector * lanes if number == axis else x for number, x in enumerate(index)]

        return [{i: x.load(f, at(q), axis, lanes, mask) for i, x in steady} for q, mask in enumerate(masks)]

    def collect(self, part: Part, kept: Val, index: Sequence[Any], rows: int, columns: int, sums: list[Val]) -> None:
        """Add what earlier parts have left; finish the tile or leave the sums for the next part."""
        f, p, lanes = self.f, self.p, self.t.lanes
        kept, nothing = hide(f, kept), f.const(p.kind, 0.0, lanes)
        sums = [x + f.select(part.begun, f.load(kept, i * lanes, p.kind, lanes), nothing) for i, x in enumerate(sums)]
        with f.when(part.last):
            self.finish(index, rows, columns, sums)
        with f.when(~part.last):
            for i, x in enumerate(sums):
                f.store(x, kept, i * lanes)

    def finish(self, index: Sequence[Any], rows: int, columns: int, sums: list[Val]) -> None:
        """Give a tile to the body, row by row; through a loop over the rows where the body is long."""
        f, body, lanes = self.f, self.p.body, self.t.lanes
        axis, vectors = len(index) - 1, len(sums) // rows
        masks = [self.mask(columns, q) for q in range(vectors)]
        known = self.known(axis, index, masks)

        def row(r: Any, given: Sequence[Val]) -> None:
            for q in range(vectors):
                at = (*index[:-2], index[-2] + r, index[-1] + q * lanes)
                body.emit(f, at, axis, lanes, masks[q], [given[q]], known[q])

        if rows == 1 or self.length() * len(sums) <= INLINE:
            for r in range(rows):
                row(r, sums[r * vectors : (r + 1) * vectors])
            return
        tile = f.stack(self.p.kind, len(sums) * lanes)
        for i, x in enumerate(sums):
            f.store(x, tile, i * lanes)
        with f.loop(0, rows, runs=True) as run:
            places = [run.i * (vectors * lanes) + q * lanes for q in range(vectors)]
            row(run.i, [f.load(tile, place, self.p.kind, lanes) for place in places])

    def length(self) -> int:
        """How many instructions the body takes for one vector."""
        probe, axis = Function("probe", self.f.target), len(self.p.batch) + 1
        given = probe.const(self.p.kind, 0.0, self.t.lanes)
        self.p.body.emit(probe, [probe.index(0)] * (axis + 1), axis, self.t.lanes, None, [given])
        return len(probe.lines)
