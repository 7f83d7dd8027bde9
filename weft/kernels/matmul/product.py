"""The matrix product C[b…, i, j] = Σ_k A[b…, i, k] · B[b…, k, j] with an epilogue, as one kernel.

    Product(kind: str, batch: tuple[int, ...], m: int, n: int, k: int, a: tuple[int, ...], b: tuple[int, ...], body: Body)
    Product.planned(the same)    the same product with axes folded or swapped so that it runs faster

`kind` is 'f32' or 'f64'; `narrow`: operands (of float32) count as rounded to bfloat16, sums do not. Argument word 0 is A with strides `a` = (batch…, row, k), word 1 is B with strides
`b` = (batch…, k, column), in elements, any integers. `body` has one given value, the accumulator, and the index space
(batch…, i, j); it does every load and store besides A and B. Its accesses name argument words from 2 on; after them come
the scratch memory (`scratch_word`) when `scratch` is not 0 and the workspace (`workspace_word`) when that is not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import lcm, prod
from typing import Any

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.target import LINE, PARTS, Target, everywhere
from ..llvm.values import BITS
from .pairs import PAIRS, PairWriter
from .shared import SharedWriter
from .tiles import Writer
from .tuning import Choice, chosen, cut

__all__ = ["Product", "Tiling"]

PACKED_TILES = 32  # so many tiles of rows pay for copying a panel that could be read in place
UNALIGNED_TILES = 8  # the same where vectors of the panel lie across cache lines
DEEP = 128  # elements of a panel along k above which 3 vectors do not stay in the first level of the cache
DOT_ROWS = 4  # up to so many rows, dot products are faster than transposing B
PART_DEPTH = 512  # of a sum over k that is taken in parts
SHARED_DEPTH = 256  # the same where threads copy the operands: a panel takes half of the first level of the cache
SHARED_TILES = 4  # so many tiles of rows and of columns pay for copying
PAIR_DEPTH = 1024  # pairs of terms of a sum that are taken at once, in products of bfloat16 numbers
LEAST_PAIRS = 1 << 18  # multiplications of such products that pay for copying
SHARED_BYTES = 1 << 26  # that copies and waiting sums may take
LATENCY = 4  # cycles of a multiply-add
LOADS = 2  # vectors that are loaded in a cycle
AHEAD = 3  # cache lines that are asked for beside them, for each k of a tile
TURN = 11  # cycles to transpose one vector of a tile
ACROSS = 1.1  # what tiles that are transposed cost where each of their rows along k lies on a cache line of its own
SERIAL_WORK = 20_000  # operations of a thread below which it costs more than it gains
MANY_PLANNED = 1024
PLANNED: dict[Any, tuple[Product, Product]] = {}  # folded, and in the form that costs least, by all they depend on


@dataclass(frozen=True)
class Tiling:
    """How a product is cut on one kind of processor.

    A tile is `rows` × `vectors` vectors of `lanes` columns; a panel is all tiles of the same columns. `block` tiles of a
    panel are computed, then those of the next panel, and after the last panel the next block. `packed`: panels of B are
    copied to scratch memory. `depth` is how far along k a block goes at a time; where that is not all of k, the sums wait
    in scratch memory. `turned`: sums have lanes along columns, the epilogue along rows; `at_once` rows of a tile are
    summed, and whole tiles are transposed. `dots`: one row and one vector of columns at a time, with lanes along k.
    `shared`: the threads together copy both operands (`in_place`: all of B, while A is read as it lies), `depth` of them at a time, and where that is not all of k the sums
    wait in the workspace (shared.py). `pairs`: the same with elements that are pairs of bfloat16 numbers; `depth` counts
    these (pairs.py).
    """

    lanes: int
    rows: int
    vectors: int
    block: int
    packed: bool
    depth: int
    at_once: int
    turned: bool = False
    dots: bool = False
    shared: bool = False
    pairs: bool = False
    in_place: bool = False

    @staticmethod
    def of(p: Product, target: Target) -> Tiling:
        """The tiling that was chosen for a product, else the usual one."""
        usual = Tiling.usual(p, target)
        return usual if p.choice is None else p.choice.of(p, usual, target)

    @staticmethod
    def usual(p: Product, target: Target) -> Tiling:
        if p.narrow and target.bfloat and (found := Tiling.pairing(p, target)):
            return found
        size, near, lanes = BITS[p.kind] // 8, target.near, target.lanes_of(p.kind)
        if p.m <= DOT_ROWS and p.a[-1] == p.b[-2] == 1 != p.b[-1] and p.k >= 2 * lanes:
            return Tiling(lanes, 1, 1, p.m, False, p.k, 1, dots=True)
        across = -(-p.n // lanes)
        rows, vectors = p.tile(across, target)
        tiles = -(-p.m // rows)
        copied = p.b[-1] != 1 or (target.masked_load > 1 and p.n % lanes)
        if copied and p.strided(-2, lanes) < p.strided(-1, lanes):
            tall = lcm(rows, lanes)
            return Tiling(lanes, tall, vectors, -(-p.m // tall), True, p.k, rows, turned=True)
        beside = p.a[-1] == 1 != p.b[-1]  # rows of A are read as they lie, panels are copied when they are needed
        if not target.many_registers and not beside and (found := Tiling.sharing(p, target, rows, vectors)):
            return found
        if copied:
            return Tiling(lanes, rows, vectors, tiles, True, p.k, rows)
        sums = rows * across * lanes * size  # bytes, of a row of tiles
        if p.a[-1] != 1 and p.k >= 3 * PART_DEPTH and 2 * sums <= PARTS.sums:
            kept = min(tiles, max(1, near.operand // sums))
            return Tiling(lanes, rows, vectors, kept, False, _even(p.k, PART_DEPTH), rows)
        if target.many_registers and (found := Tiling.keeping(p, target, rows, vectors)):
            return found
        aligned = p.b[-2] * size % target.vector_bytes == 0
        # With many registers a panel is read so fast that it must come from the first level: all its tiles are done at once.
        in_rows = not target.many_registers and (aligned or tiles < UNALIGNED_TILES)
        if in_rows and p.k * p.n * size <= near.operand:
            return Tiling(lanes, rows, vectors, 1, False, p.k, rows)
        packed = tiles >= (PACKED_TILES if aligned else UNALIGNED_TILES)
        return Tiling(lanes, rows, vectors, tiles, packed, p.k, rows)

    @staticmethod
    def sharing(p: Product, target: Target, rows: int, vectors: int) -> Tiling | None:
        """A large product by operands that are copied: with few registers, rows and columns of a tile are read so often
        that they must lie in the first levels of the cache, side by side. None where that does not pay.

        Rows of tiles one after the other where all panels stay near: what the epilogue reads and writes then lies in one
        piece. Else blocks of rows that stay near.
        """
        tiles, depth, size = -(-p.m // rows), _even(p.k, SHARED_DEPTH), BITS[p.kind] // 8
        lanes, near = target.lanes_of(p.kind), target.near
        found = Tiling(lanes, rows, vectors, 1, True, depth, rows, shared=True)
        small = min(tiles, -(-p.n // found.width)) < SHARED_TILES or p.k < 4 * lanes or prod(p.batch) != 1
        if small or sum(found.regions(p)) > SHARED_BYTES:
            return None
        if depth * p.n * size <= near.block:
            return found
        return replace(found, block=_even(tiles, max(1, near.block // (rows * depth * size))))

    @staticmethod
    def keeping(p: Product, target: Target, rows: int, vectors: int) -> Tiling | None:
        """A gradient of weights whose A is read across its rows, line by line: all panels are done for so many rows as stay
        near, before the next ones. None where A stays near as it is, or the last level of the cache is not far."""
        size, near, lanes = BITS[p.kind] // 8, target.near, target.lanes_of(p.kind)
        if not (p.a[-2] == 1 != p.a[-1] and p.b[-1] == 1 and prod(p.batch) == 1 and p.k >= 4 * lanes):
            return None
        least = near.operand if target.far else 8 * near.operand
        block = max(SHARED_TILES, near.block // (rows * p.k * size))
        if p.m * p.k * size <= least or block * rows >= p.m:
            return None
        found = Tiling(lanes, rows, vectors, block, True, p.k, rows, shared=True, in_place=True)
        small = -(-p.n // found.width) < SHARED_TILES or sum(found.regions(p)) > SHARED_BYTES
        return None if small else found

    @staticmethod
    def pairing(p: Product, target: Target) -> Tiling | None:
        """A product of bfloat16 numbers in pairs of terms; None where k is odd or that does not pay."""
        if p.k % 2 or p.k < 2 * PAIRS or prod(p.batch) != 1 or p.m * p.n * p.k < LEAST_PAIRS:
            return None
        depth, near = _even(p.k // 2, PAIR_DEPTH), target.near
        across = -(-p.n // PAIRS)
        rows, vectors = (16, 1) if across == 1 else (8, 2 if across == 2 else 3)
        found = Tiling(PAIRS, rows, vectors, 1, True, depth, rows, shared=True, pairs=True)
        if sum(found.regions(p)) > SHARED_BYTES:
            return None
        if depth * p.n * BITS[p.kind] // 8 <= near.block:
            return found
        return replace(found, block=_even(-(-p.m // rows), max(1, near.block // found.pitch_of_rows(p))))

    @property
    def row_pitch(self) -> int:
        """Bytes from a row of pairs to the next, where rows are copied one by one: an odd number of cache lines."""
        return (-(-self.depth * 4 // LINE) | 1) * LINE

    def pitch_of_rows(self, p: Product) -> int:
        """Bytes from a copied tile of A to the next."""
        if self.pairs and p.a[-1] == 1:
            return self.rows * self.row_pitch
        return self.pitch(self.rows, BITS[p.kind] // 8)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.lanes * self.vectors

    def workspace(self, p: Product) -> int:
        """Bytes that threads share."""
        return sum(self.regions(p)) if self.shared else 0

    def regions(self, p: Product) -> tuple[int, int, int]:
        """Bytes of the workspace for the copies of A and of B, and for the sums that wait."""
        size, panels, tiles = BITS[p.kind] // 8, -(-p.n // self.width), -(-p.m // self.rows)
        terms = p.k // 2 if self.pairs else p.k
        sums = tiles * panels * self.rows * self.width if self.depth < terms else 0
        return 0 if self.in_place else tiles * self.pitch_of_rows(p), panels * self.pitch(self.width, size), sums * size

    def pitch(self, wide: int, size: int) -> int:
        """Bytes from a copied tile of A, or panel of B, to the next: an odd number of cache lines, so that those which are
        written in turns go to different places of the cache, and room for a vector past the end."""
        return (-(-wide * self.depth * size // LINE) + 1 | 1) * LINE

    def scratch(self, p: Product) -> int:
        """Bytes of scratch memory for each thread, whole cache lines."""
        elements = 0
        if self.shared:
            return 0
        if self.depth < p.k:
            elements = self.rows * self.block * -(-p.n // self.width) * self.width
        elif self.packed:
            elements = p.k * self.width
        return -(-elements * BITS[p.kind] // (8 * LINE)) * LINE


def _even(count: int, most: int) -> int:
    """The size of parts of at most `most` that cut `count` as evenly as possible."""
    return -(-count // max(1, -(-count // most)))


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
        choice: Choice | None = None,
        narrow: bool = False,
    ) -> None:
        self.choice, self.narrow = choice, narrow
        self.kind, self.batch, self.m, self.n, self.k = kind, tuple(batch), m, n, k
        self.a, self.b, self.body, self.words = tuple(a), tuple(b), body, words
        spaces, size, elements = accesses(body), BITS[kind] // 8, prod(batch) * m * n
        self.scratch_word = 1 + max([1, *(x.arg for x in spaces)])
        self.flops = 2 * elements * k
        self.pace = 2 if narrow and elements and Tiling.of(self, Target.host()).pairs else 1
        self.nbytes = size * (_extent((*batch, m, k), a) + _extent((*batch, k, n), b))
        self.nbytes += sum(max(1, BITS[x.kind] // 8) * _extent((*batch, m, n), x.strides) for x in spaces)
        self.serial = self.flops + elements < SERIAL_WORK
        self.scratch = max(Tiling.of(self, x).scratch(self) for x in everywhere()) if elements else 0
        self.workspace = Tiling.of(self, Target.host()).workspace(self) if elements else 0
        self.workspace_word = self.scratch_word + (self.scratch > 0)
        self.most_threads = 0 if self.workspace else max(2, (self.flops + elements) // SERIAL_WORK)

    @functools.cached_property
    def _text(self) -> str:
        sizes = f"{self.batch} {self.m} {self.n} {self.k} {self.a} {self.b} {self.words}"
        half = "bf16 " * self.narrow
        return f"product {half}{self.kind} {sizes} {self.choice or ''} {self.body.key()}"

    def key(self) -> str:
        return self._text

    def emit(self, f: Function) -> None:
        if 0 not in (*self.batch, self.m, self.n):
            tiling = Tiling.of(self, f.target)
            writer = PairWriter if tiling.pairs else SharedWriter if tiling.shared else Writer
            writer(self, f, tiling).write()

    # ------------------------------------------------------------------------ other forms of one product
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
        narrow: bool = False,
    ) -> Product:
        """The same product with the same argument words: batch axes become rows, columns or one axis where strides
        allow it, and rows change places with columns (then A with B) where that costs less. Layers that are alike share
        one object."""
        known = (Target.host(), kind, batch, m, n, k, a, b, body.key(), narrow)
        found = PLANNED.get(known)
        if found is None:
            p = cls(kind, batch, m, n, k, a, b, body, narrow=narrow)
            while (folded := p._fold()) is not None:
                p = folded
            found = p, min(p, p.swapped(), key=Product.cost) if p.m and p.n else p
            if len(PLANNED) >= MANY_PLANNED:
                PLANNED.clear()
            PLANNED[known] = found
        folded, usual = found
        return usual if narrow else folded.tuned(usual, chosen(folded))

    def tuned(self, usual: Product, choice: Choice | None) -> Product:
        """This product in the form that was chosen; `usual` where there is none, or where it would add in another order."""
        if choice is None or not (self.m and self.n):
            return usual
        p = self.swapped() if choice.swapped else self
        made = Product(p.kind, p.batch, p.m, p.n, p.k, p.a, p.b, p.body, p.words, choice)
        target = Target.host()
        return made if cut(Tiling.of(made, target)) == cut(Tiling.of(usual, target)) else usual

    def swapped(self) -> Product:
        """Cᵀ = Bᵀ Aᵀ."""
        a, b = ((*x[:-2], x[-1], x[-2]) for x in (self.b, self.a))
        body = _with_strides(self.body, lambda s: (*s[:-2], s[-1], s[-2]))
        return Product(self.kind, self.batch, self.n, self.m, self.k, a, b, body, self.words[::-1], narrow=self.narrow)

    def _fold(self) -> Product | None:
        """One batch axis fewer; None where no axis can go. Strides are looked at in the order (batch…, i, j, k)."""
        sizes, last = (*self.batch, self.m, self.n), len(self.batch)
        a, b = (*self.a[:-1], 0, self.a[-1]), (*self.b[:-2], 0, self.b[-1], self.b[-2])
        spaces = [x.strides for x in accesses(self.body)]

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
                    return Product(self.kind, tuple(batch), m, n, self.k, *sides, body, self.words, narrow=self.narrow)
        return None

    def cost(self) -> float:
        """An estimate in cycles, to choose between forms of one product."""
        target = Target.host().usual
        t = Tiling.of(self, target)
        vectors = prod(self.batch) * -(-self.n // t.lanes)
        if t.dots:
            work = self.m * vectors * (1.5 * self.k * min(1, self.n / t.lanes) + 4 * t.lanes)
        else:
            tile = t.rows * t.vectors
            each = max(1 / target.rate, LATENCY / tile, (t.rows + t.vectors + AHEAD) / (LOADS * tile))
            work = self.m * vectors * self.k * each
        if t.pairs:
            work = work / 2 + (self.m + self.n) * self.k / PAIRS
        elif t.packed:
            square = 6 / target.rate if self.m <= t.rows else 6  # less where the panel is not read again
            each = 3 if self.b[-1] == 1 else square if self.b[-2] == 1 and self.k >= t.lanes else 2 * t.lanes
            work += vectors * self.k * each
        steps = sum(step.op.cost for step in self.body.steps) / target.rate
        if t.turned:
            each = TURN + self.strided(-2, t.lanes) + steps
            work *= ACROSS if self.a[-1] != 1 else 1
            return work + prod(self.batch) * -(-self.m // t.lanes) * self.n * each
        return work + self.m * vectors * (self.strided(-1, t.lanes) + steps)

    def tile(self, across: int, target: Target) -> tuple[int, int]:
        """Rows and vectors of a tile, where a row of the product is `across` vectors.

        With many registers 8 rows and 3 vectors; deep panels of a product whose A lies along its rows (a gradient of weights)
        do not stay in the first level: 12 rows read them less often. Large products that read A as it lies take fewer rows
        and a wider panel. So do rows of A that lie a multiple of 4 KiB apart: all of them go to the same eight places of the
        cache, and six leave room there for the panel.
        """
        if target.many_registers and across > 2 and self.m > 4:
            rows, conflict = _even(self.m, 12), self.a[-2] * BITS[self.kind] % (8 * 4096) == 0
            if self.a[-1] != 1 and self.k > DEEP and rows > 8:
                return rows, 2
            if self.a[-1] == 1 and across >= 16 and self.k >= 128 and self.m >= (64 if conflict else 1024):
                return _even(self.m, 6), 4
            return _even(self.m, 8), _even(across, 3)
        sums = 16 if target.many_registers else 12
        rows = _even(self.m, sums if across == 1 else sums // 2)
        fits = (q for q in (8, 4, 2, 1) if rows * q <= sums and (rows + 1) * q < target.registers)
        return rows, min(across, next(fits))

    def strided(self, axis: int, lanes: int) -> int:
        """What the loads and stores of the body cost, in cycles for each vector, with lanes along an axis."""
        return sum(1 if x.strides[axis] in (0, 1) else 2 * lanes for x in accesses(self.body))


def accesses(body: Body) -> list[Access]:
    """Every load and store of a body."""
    return [*body.loads, *(access for access, _ in body.stores)]


def _with_strides(body: Body, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Body:
    """The body in another index space."""
    loads = tuple(replace(x, strides=change(x.strides)) for x in body.loads)
    stores = tuple((replace(x, strides=change(x.strides)), number) for x, number in body.stores)
    return Body(body.given, body.constants, loads, body.steps, stores)


def _extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many different elements an access touches."""
    return prod(size for size, stride in zip(shape, strides, strict=True) if stride)
