"""The matrix product C[b…, i, j] = Σ_k A[b…, i, k] · B[b…, k, j] with an epilogue, as one kernel.

    Product(kind: str, batch: tuple[int, ...], m: int, n: int, k: int, a: tuple[int, ...], b: tuple[int, ...], body: Body)
    Product.planned(the same)    the same product with axes folded or swapped so that it runs faster

`kind` is 'f32' or 'f64'. Argument word 0 is A with strides `a` = (batch…, row, k), word 1 is B with strides
`b` = (batch…, k, column), in elements, any integers. `body` has one given value, the accumulator, and the index space
(batch…, i, j); it does every load and store besides A and B. Its accesses name argument words from 2 on; the last word
(`scratch_word`) is the scratch memory when `scratch` is not 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from .body import Access, Body
from .kernel import Kernel
from .llvm import BITS, Function, Val
from .matmul_pack import LINE, fetch, hide, pack, totals

OPT = dict(pack_b=None, block=None, inline=600, unroll=1, freeze=1, dot=4)

NEAR_BYTES = 512 * 1024  # what of B stays in the second-level cache beside the rest
PACKED_TILES = 32  # so many tiles of rows pay for copying a panel that could be read in place
SERIAL_FLOPS = 20_000
WIDTHS = ((16, 16), (16, 32), (32, 16), (64, 32))  # bytes and number of vector registers of processors


@dataclass(frozen=True)
class Tiling:
    """How a product is cut on one kind of processor.

    A tile is `rows` × `vectors` vectors of `lanes` columns and a panel all tiles of the same columns. `block` tiles of a
    panel are computed before the next panel. `packed`: panels of B are copied to scratch memory. `dots`: instead, one row
    × one vector of columns at a time with lanes along k.
    """

    lanes: int
    rows: int
    vectors: int
    block: int
    packed: bool
    dots: bool = False

    @staticmethod
    def of(p: Product, vector_bytes: int, registers: int) -> Tiling:
        size = BITS[p.kind] // 8
        lanes = vector_bytes // size
        if p.m <= OPT["dot"] and p.a[-1] == p.b[-2] == 1 != p.b[-1] and p.k >= 2 * lanes:
            return Tiling(lanes, 1, 1, p.m, False, True)
        sums = 16 if registers >= 32 else 12
        across = -(-p.n // lanes)
        rows = _even(p.m, sums if across == 1 else sums // 2)
        fits = (q for q in (8, 4, 2, 1) if rows * q <= sums and (rows + 1) * q < registers)
        vectors = min(across, next(fits))
        tiles = -(-p.m // rows)
        masks_are_slow = vector_bytes == 16 and p.n % lanes != 0
        if p.b[-1] == 1 and p.k * p.n * size <= NEAR_BYTES and not masks_are_slow:
            r = Tiling(lanes, rows, vectors, 1, False)
        else:
            r = Tiling(lanes, rows, vectors, tiles, p.b[-1] != 1 or tiles >= PACKED_TILES or masks_are_slow)
        if OPT["pack_b"] is not None:
            r = replace(r, packed=OPT["pack_b"])
        if OPT["block"] is not None:
            r = replace(r, block=min(tiles, OPT["block"]))
        return r


def _even(count: int, most: int) -> int:
    """The size of parts of at most `most` that cut `count` as evenly as possible."""
    return -(-count // -(-count // most))


class Product(Kernel):
    """C[b…, i, j] = Σ_k A[b…, i, k] · B[b…, k, j], handed to `body` in vectors along j."""

    def __init__(
        self,
        kind: str,
        batch: tuple[int, ...],
        m: int,
        n: int,
        k: int,
        a: tuple[int, ...],
        b: tuple[int, ...],
        body: Body,
        words: tuple[int, int] = (0, 1),
    ) -> None:
        self.kind, self.batch, self.m, self.n, self.k = kind, tuple(batch), m, n, k
        self.a, self.b, self.body, self.words = tuple(a), tuple(b), body, words
        accesses = _accesses(body)
        size, elements = BITS[kind] // 8, prod(batch) * m * n
        self.scratch_word = 1 + max([1, *(x.arg for x in accesses)])
        self.flops = 2 * elements * k
        self.nbytes = size * (_extent((*batch, m, k), a) + _extent((*batch, k, n), b))
        self.nbytes += sum(max(1, BITS[x.kind] // 8) * _extent((*batch, m, n), x.strides) for x in accesses)
        self.serial = self.flops + elements < SERIAL_FLOPS
        cuts = [Tiling.of(self, *width) for width in WIDTHS] if elements else []
        self.scratch = max((k * t.vectors * t.lanes * size for t in cuts if t.packed), default=0)

    @classmethod
    def planned(
        cls,
        kind: str,
        batch: tuple[int, ...],
        m: int,
        n: int,
        k: int,
        a: tuple[int, ...],
        b: tuple[int, ...],
        body: Body,
    ) -> Product:
        """The same product with the same argument words: batch axes become rows, columns or one axis where strides
        allow it, and rows change places with columns (then A with B) where that costs less."""
        p = cls(kind, batch, m, n, k, a, b, body)
        while (folded := p._fold()) is not None:
            p = folded
        return min(p, p.swapped(), key=Product.cost)

    def swapped(self) -> Product:
        """Cᵀ = Bᵀ Aᵀ."""
        a, b = ((*x[:-2], x[-1], x[-2]) for x in (self.b, self.a))
        body = _with_strides(self.body, lambda s: (*s[:-2], s[-1], s[-2]))
        return Product(self.kind, self.batch, self.n, self.m, self.k, a, b, body, self.words[::-1])

    def _fold(self) -> Product | None:
        """One batch axis fewer; None where no axis can go. Strides are looked at in the order (batch…, i, j, k)."""
        sizes, last = (*self.batch, self.m, self.n), len(self.batch)
        a, b = (*self.a[:-1], 0, self.a[-1]), (*self.b[:-2], 0, self.b[-1], self.b[-2])
        spaces = [x.strides for x in _accesses(self.body)]

        def fits(x: int, into: int) -> bool:
            if sizes[into] == 1:
                return (a if into == last + 1 else b)[x] == 0
            return all(s[x] == sizes[into] * s[into] for s in (a, b, *spaces))

        def join(strides: tuple[int, ...], x: int, into: int) -> tuple[int, ...]:
            joined = list(strides)
            if sizes[into] == 1 != sizes[x]:
                joined[into] = strides[x]
            return (*joined[:x], *joined[x + 1 :])

        for x in range(last):
            for into in (*range(x + 1, last), last, last + 1):
                if sizes[x] == 1 or fits(x, into):
                    *batch, m, n = (size * sizes[x] if y == into else size for y, size in enumerate(sizes) if y != x)
                    a, b = join(a, x, into), join(b, x, into)
                    body = _with_strides(self.body, lambda s, x=x, into=into: join(s, x, into))
                    sides = (*a[:-2], a[-1]), (*b[:-3], b[-1], b[-2])
                    return Product(self.kind, tuple(batch), m, n, self.k, *sides, body, self.words)
        return None

    def cost(self) -> float:
        """An estimate in cycles, to choose between forms of one product."""
        t = Tiling.of(self, 64, 32)
        vectors = prod(self.batch) * -(-self.n // t.lanes)
        if t.dots:
            work = self.m * vectors * (1.5 * self.k * min(1, self.n / t.lanes) + 4 * t.lanes)
        else:
            work = self.m * vectors * self.k * max(1, 4 / (t.rows * t.vectors))
        if t.packed:
            each = 3 if self.b[-1] == 1 else 6 if self.b[-2] == 1 and self.k >= t.lanes else 2 * t.lanes
            work += vectors * self.k * each
        spaces = [x.strides for x in _accesses(self.body)]
        return work + self.m * vectors * sum(1 if s[-1] in (0, 1) else 2 * t.lanes for s in spaces)

    def key(self) -> str:
        sizes = f"{self.batch} {self.m} {self.n} {self.k} {self.a} {self.b} {self.words}"
        return f"product {self.kind} {sizes} {self.body.key()}"

    def emit(self, f: Function) -> None:
        if 0 not in (*self.batch, self.m, self.n):
            tiling = Tiling.of(self, f.target.vector_bytes, f.target.registers)
            _Writer(self, f, tiling).write()


def _extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many different elements an access touches."""
    return prod(size for size, stride in zip(shape, strides, strict=True) if stride)


def _accesses(body: Body) -> list[Access]:
    return [*body.loads, *(access for access, _ in body.stores)]


def _with_strides(body: Body, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Body:
    """The body in another index space."""
    loads = tuple(replace(x, strides=change(x.strides)) for x in body.loads)
    stores = tuple((replace(x, strides=change(x.strides)), number) for x, number in body.stores)
    return Body(body.given, body.constants, loads, body.steps, stores)


class _Writer:
    """Writes one product with one tiling. Tiles are numbered block by block, in a block panel by panel, and every thread
    computes one run of them."""

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
        self.multiply_add = f.fma if f.target.fma else lambda a, b, c: a * b + c
        if t.packed:
            self.scratch = f.offset(f.arg(p.scratch_word), f.tid * p.scratch, "i8")

    # ------------------------------------------------------------------------------ the order of the tiles
    def write(self) -> None:
        f = self.f
        lo, hi = self.share()
        with f.when(lo < hi), f.loop(self.block_of(lo), self.block_of(hi - 1) + 1, runs=True) as blocks:
            self.block(blocks.i, lo, hi)

    def share(self) -> tuple[Val, Val]:
        """The first of this thread's tiles and the first after them. Where the last panel is narrower and comes last,
        tiles are counted by their vectors."""
        f, t = self.f, self.t
        across = -(-self.p.n // t.lanes)
        narrow = across % t.vectors
        elements = prod(self.p.batch)
        if not narrow or self.blocks > 1:
            return f.split(elements * self.each)
        wide = self.full_panels * self.tiles

        def tile(vectors: Val) -> Val:
            element, rest = vectors // (self.tiles * across), vectors % (self.tiles * across)
            inside = f.select(rest < wide * t.vectors, rest // t.vectors, (rest - wide * t.vectors) // narrow + wide)
            return element * self.each + inside

        lo, hi = f.split(elements * self.tiles * across)
        return tile(lo), tile(hi)

    def block_of(self, tile: Val) -> Val:
        if self.blocks == 1:
            return tile // self.each
        return (tile // self.each) * self.blocks + (tile % self.each) // (self.t.block * self.panels)

    def block(self, number: Val, lo: Val, hi: Val) -> None:
        """The tiles of one block that lie in [lo, hi)."""
        f, p = self.f, self.p
        element, first, tall = number, f.index(0), f.index(self.tiles)
        if self.blocks > 1:
            element, first = number // self.blocks, (number % self.blocks) * self.t.block
            tall = f.intrinsic("smin", self.tiles - first, self.t.block)
        start = element * self.each + first * self.panels
        lo, hi = f.intrinsic("smax", lo - start, 0), f.intrinsic("smin", hi - start, tall * self.panels)
        batch = self.unravel(element)
        a = f.offset(f.arg(p.words[0]), Access(0, p.kind, p.a).place(f, (*batch, 0, 0)), p.kind)
        b = f.offset(f.arg(p.words[1]), Access(0, p.kind, p.b).place(f, (*batch, 0, 0)), p.kind)
        with f.loop(lo // tall, (hi + tall - 1) // tall) as panels:
            before = panels.i * tall
            top = f.intrinsic("smax", lo - before, 0) + first
            bottom = f.intrinsic("smin", hi - before, tall) + first
            self.panel(batch, a, b, panels.i, top, bottom)

    def unravel(self, element: Val) -> list[Any]:
        """The batch index of an element."""
        index: list[Any] = []
        for size in reversed(self.p.batch[1:]):
            index.append(element % size)
            element = element // size
        if self.p.batch:
            index.append(element)
        return index[::-1]

    def panel(self, batch: list[Any], a: Val, b: Val, number: Val, top: Val, bottom: Val) -> None:
        """Tiles top … bottom of a panel."""
        f, p = self.f, self.p
        column = hide(f, number * self.width)
        source, down = f.offset(b, column * p.b[-1], p.kind), p.b[-2]
        b = source
        if self.t.packed:
            columns = f.intrinsic("smin", p.n - column, self.width) if self.rest_columns else self.width
            pack(f, source, p.b[-2:], (p.k, columns), p.kind, self.t.lanes, self.scratch, self.width)
            b, down = self.scratch, self.width

        def tiles(columns: int) -> None:
            def tile(number: Val, rows: int) -> None:
                row = hide(f, number * self.t.rows)
                place = f.offset(a, row * p.a[-2], p.kind)
                self.fetch_ends((*batch, row, column), rows, columns)
                if self.t.dots:
                    sums = self.dots(place, b, columns)
                else:
                    ahead = [*self.after_a(place), *self.after_b(source, number - top)]
                    sums = self.sums(place, b, down, rows, columns, ahead)
                self.finish((*batch, row, column), rows, columns, sums)

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

    # --------------------------------------------------------------------------- memory ahead of its use
    def fetch_ends(self, index: Sequence[Any], rows: int, columns: int) -> None:
        """Ask for what the epilogue of a tile reads and writes."""
        f, body = self.f, self.p.body
        for access in dict.fromkeys(_accesses(body)):
            if access.strides[-2] and access.strides[-1] == 1:
                step = LINE // max(1, BITS[access.kind] // 8)
                for r in range(rows):
                    for q in range(0, columns, step):
                        place = access.place(f, (*index[:-2], index[-2] + r, index[-1] + q))
                        fetch(f, f.offset(f.arg(access.arg), place, access.kind))

    def after_a(self, a: Val) -> list[tuple[Val, int, bool]]:
        """Places that the loop over k asks for: (address, bytes for each k, near) so that the next rows of A arrive."""
        f, p = self.f, self.p
        row, k = p.a[-2:]
        if k != 1 and row == 1:
            return [(f.offset(a, LINE, "i8"), k * self.size, True)]
        if k == 1 and row == p.k:
            return [(f.offset(a, self.t.rows * row, p.kind), self.t.rows * self.size, True)]
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
        self, a: Val, b: Val, down: int, rows: int, columns: int, ahead: list[tuple[Val, int, bool]]
    ) -> list[list[Val]]:
        """The accumulators of a tile: for each row its vectors."""
        f, p, lanes = self.f, self.p, self.t.lanes
        vectors = -(-columns // lanes)
        zero = f.const(p.kind, 0.0, lanes)
        if p.k == 0:
            return [[zero] * vectors] * rows
        masks = [None if self.t.packed else self.mask(columns, q) for q in range(vectors)]
        a, b = hide(f, a), hide(f, b)
        ahead = [(hide(f, place), *rest) for place, *rest in ahead]
        U = OPT["unroll"]
        if p.k % U:
            U = 1
        with f.loop(0, p.k, U, carry=[zero] * (rows * vectors), runs=True) as loop:
            carry = loop.carry
            for u in range(U):
                k = loop.i + u if u else loop.i
                right = [f.load(b, k * down + q * lanes, p.kind, lanes, masks[q]) for q in range(vectors)]
                if u == 0:
                    for place, each, near in ahead:
                        fetch(f, f.offset(place, k * each, "i8"), near)
                following = []
                for r in range(rows):
                    left = f.splat(f.load(a, k * p.a[-1] + r * p.a[-2], p.kind), lanes)
                    following += [self.multiply_add(left, right[q], carry[r * vectors + q]) for q in range(vectors)]
                carry = following
            loop.next(following)
        return [loop.results[r * vectors : (r + 1) * vectors] for r in range(rows)]

    def dots(self, a: Val, b: Val, columns: int) -> list[list[Val]]:
        """One row times up to one vector of columns, with lanes along k."""
        f, p, lanes = self.f, self.p, self.t.lanes
        zero = f.const(p.kind, 0.0, lanes)

        def step(k: Any, carry: Sequence[Val], mask: Val | None = None) -> list[Val]:
            left = f.load(a, k, p.kind, lanes, mask)
            right = [f.load(b, k + c * p.b[-1], p.kind, lanes, mask) for c in range(columns)]
            return [self.multiply_add(left, x, y) for x, y in zip(right, carry, strict=True)]

        whole = p.k // lanes * lanes
        with f.loop(0, whole, lanes, carry=[zero] * columns, runs=True) as loop:
            loop.next(step(loop.i, loop.carry))
        sums = list(loop.results)
        if p.k > whole:
            sums = step(f.index(whole), sums, f.tail_mask(lanes, p.k - whole))
        return [[totals(f, sums + [zero] * (lanes - columns))]]

    # --------------------------------------------------------------------------------------- the epilogue
    def finish(self, index: Sequence[Any], rows: int, columns: int, sums: list[list[Val]]) -> None:
        """Give a tile to the body, row by row; through a loop over the rows where the body is long."""
        f, body, lanes = self.f, self.p.body, self.t.lanes
        axis, vectors = len(index) - 1, len(sums[0])
        masks = [self.mask(columns, q) for q in range(vectors)]
        stored = {x.arg for x, _ in body.stores}
        first = 1 + len(body.constants)
        steady = [(first + i, x) for i, x in enumerate(body.loads) if x.strides[-2] == 0 and x.arg not in stored]

        def at(r: Any, q: int) -> tuple[Any, ...]:
            return (*index[:-2], index[-2] + r, index[-1] + q * lanes)

        known = [{i: x.load(f, at(0, q), axis, lanes, masks[q]) for i, x in steady} for q in range(vectors)]

        def row(r: Any, given: Sequence[Val]) -> None:
            for q in range(vectors):
                body.emit(f, at(r, q), axis, lanes, masks[q], [given[q]], known[q])

        if rows == 1 or self.length() * rows * vectors <= OPT["inline"]:
            for r in range(rows):
                row(r, sums[r])
            return
        tile = f.stack(self.p.kind, rows * vectors * lanes)
        for r in range(rows):
            for q in range(vectors):
                f.store(sums[r][q], tile, (r * vectors + q) * lanes)
        with f.loop(0, rows, runs=True) as run:
            places = [run.i * (vectors * lanes) + q * lanes for q in range(vectors)]
            row(run.i, [f.load(tile, place, self.p.kind, lanes) for place in places])

    def length(self) -> int:
        """How many instructions the body takes for one vector."""
        probe = Function("probe", self.f.target)
        zero = probe.index(0)
        given = probe.const(self.p.kind, 0.0, self.t.lanes)
        self.p.body.emit(probe, [zero] * (len(self.p.batch) + 2), len(self.p.batch) + 1, self.t.lanes, None, [given])
        return len(probe.lines)
