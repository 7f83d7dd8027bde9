"""The matrix product C[b…, i, j] = Σ_k A[b…, i, k] · B[b…, k, j] with an epilogue, as one kernel.

    Product(kind: str, batch: tuple[int, ...], m: int, n: int, k: int, a: tuple[int, ...], b: tuple[int, ...], body: Body)
    Product.planned(the same)    the same product with axes folded or swapped so that it runs faster

`kind` is 'f32' or 'f64'. Argument word 0 is A with strides `a` = (batch…, row, k), word 1 is B with strides
`b` = (batch…, k, column), in elements, any integers. `body` has one given value, the accumulator, and the index space
(batch…, i, j); it does every load and store besides A and B. Its accesses name argument words from 2 on; the last word
(`scratch_word`) is the scratch memory when `scratch` is not 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from .body import Body
from .kernel import Kernel
from .llvm import BITS, Function, Val
from .matmul_pack import load_transposed

OPT = dict(pack_b=None, pack_a=None, block=None, inline=200, unroll=1, depth=4096, pfc=1, pa=1, pa1=1, pn=1, loca=3, locb=2, locp=3)


@dataclass(frozen=True)
class Tiling:
    """How a product is cut: tiles of `rows` × `vectors` vectors; `block` tiles down, then the next panel of columns."""

    lanes: int
    rows: int
    vectors: int
    block: int
    pack_a: bool
    pack_b: bool
    depth: int


def tiling(p: Product, vector_bytes: int, registers: int) -> Tiling:
    lanes = vector_bytes * 8 // BITS[p.kind]
    sums = 16 if registers >= 32 else 12
    across = -(-p.n // lanes)
    most = sums if across == 1 else sums // 2
    down = -(-p.m // most)
    rows = -(-p.m // down)
    vectors = 2 if rows > 4 else 4 if rows > 2 else 8
    vectors = max(1, min(vectors, across, sums // rows))
    down = -(-p.m // rows)
    pack_b = p.b[-1] != 1
    if OPT['pack_b'] is not None:
        pack_b = pack_b or OPT['pack_b']
    block = OPT['block'] or down
    return Tiling(lanes, rows, vectors, min(block, down), bool(OPT['pack_a']), pack_b, p.k)


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
    ) -> None:
        self.kind, self.batch, self.m, self.n, self.k = kind, batch, m, n, k
        self.a, self.b, self.body = a, b, body
        accesses = [*body.loads, *(access for access, _ in body.stores)]
        self.scratch_word = 1 + max(1, *(x.arg for x in accesses))
        self.flops = 2 * prod(batch) * m * n * k
        self.scratch = 4 * k * 64 + 4096 + (4*k*m if OPT['pack_a'] else 0)

    @classmethod
    def planned(cls, *given: Any) -> Product:
        return cls(*given)

    def key(self) -> str:
        return f"product {self.kind} {self.batch} {self.m} {self.n} {self.k} {self.a} {self.b} {self.body.key()}"

    def emit(self, f: Function) -> None:
        if 0 not in (*self.batch, self.m, self.n):
            _Writer(self, f, tiling(self, f.target.vector_bytes, f.target.registers)).write()


class _Writer:
    """Writes one product."""

    def __init__(self, p: Product, f: Function, t: Tiling) -> None:
        self.p, self.f, self.t = p, f, t
        self.width = t.lanes * t.vectors
        self.full_panels, self.rest_columns = divmod(p.n, self.width)
        self.full_tiles, self.rest_rows = divmod(p.m, t.rows)
        self.panels = self.full_panels + (self.rest_columns > 0)
        self.tiles = self.full_tiles + (self.rest_rows > 0)
        self.blocks = -(-self.tiles // t.block)
        self.fma = f.fma if f.target.fma else lambda a, b, c: a * b + c
        if p.scratch:
            self.scratch = f.offset(f.arg(p.scratch_word), f.tid * p.scratch, "i8")

    def write(self) -> None:
        f = self.f
        count = prod(self.p.batch) * self.tiles * self.panels
        lo, hi = f.split(count)
        with f.when(lo < hi), f.loop(self.block_of(lo), self.block_of(hi - 1) + 1, runs=True) as blocks:
            self.block(blocks.i, lo, hi)

    def block_of(self, place: Val) -> Val:
        each = self.tiles * self.panels
        if self.blocks == 1:
            return place // each
        return (place // each) * self.blocks + (place % each) // (self.t.block * self.panels)

    def block(self, number: Val, lo: Val, hi: Val) -> None:
        f, p = self.f, self.p
        if self.blocks == 1:
            element, first, tall = number, 0, self.tiles
            start = number * (self.tiles * self.panels)
        else:
            element, first = number // self.blocks, (number % self.blocks) * self.t.block
            tall = f.intrinsic("smin", f.const("i64", self.tiles) - first, self.t.block)
            start = element * (self.tiles * self.panels) + first * self.panels
        lo = f.intrinsic("smax", lo - start, 0)
        hi = f.intrinsic("smin", hi - start, tall * self.panels)
        batch = self.unravel(element)
        a = f.offset(f.arg(0), self.place(batch, p.a), p.kind)
        b = f.offset(f.arg(1), self.place(batch, p.b), p.kind)
        left, right = lo // tall, (hi + (tall - 1)) // tall
        def panel(number: Any, columns: int) -> None:
            top = f.intrinsic("smax", lo - number * tall, 0)
            bottom = f.intrinsic("smin", hi - number * tall, tall)
            self.panel(batch, a, b, number * self.width, columns, first, top, bottom)

        if self.full_panels:
            end = right if not self.rest_columns else f.intrinsic("smin", right, self.full_panels)
            with f.loop(left, end) as panels:
                panel(panels.i, self.width)
        if self.rest_columns:
            with f.when(right > self.full_panels):
                panel(f.const('i64', self.full_panels), self.rest_columns)

    def unravel(self, element: Val) -> list[Any]:
        index: list[Any] = []
        for size in reversed(self.p.batch[1:]):
            index.append(element % size)
            element = element // size
        if self.p.batch:
            index.append(element)
        return index[::-1]

    def place(self, batch: Sequence[Val], strides: Sequence[int]) -> Any:
        total = 0
        for i, stride in zip(batch, strides, strict=False):
            if stride:
                total = i * stride + total
        return total

    def panel(self, batch, a, b, column, columns, first, top, bottom) -> None:
        f, p, t = self.f, self.p, self.t
        b = f.offset(b, column * p.b[-1], p.kind)
        step = p.b[-2]
        src = b
        if t.pack_b:
            self.pack_b(b, columns)
            b, step = self.scratch, self.width

        def tile(number: Any, rows: int) -> None:
            row = (number + first) * t.rows
            place, ks, rs = f.offset(a, row * p.a[-2], p.kind), p.a[-1], p.a[-2]
            if OPT['pfc']:
                self.prefetch_ends(batch, row, column, rows, columns)
            ahead = []
            if OPT['pa']: ahead += self.ahead_a(place)
            if OPT['pn']: ahead += self.ahead_b(src, f.index(number))
            sums = self.sums(place, b, step, rows, columns, ks, rs, ahead)
            self.finish(batch, row, column, rows, columns, sums)

        full = f.const("i64", self.full_tiles) - first
        end = f.intrinsic("smin", bottom, full) if self.rest_rows else bottom
        with f.loop(top, end) as tiles:
            tile(tiles.i, t.rows)
        if self.rest_rows:
            with f.when(bottom > full):
                tile(full, self.rest_rows)

    def fetch(self, place, hint):
        f = self.f
        f.declarations['declare void @llvm.prefetch.p0(ptr, i32, i32, i32)'] = None
        f.do(f"call void @llvm.prefetch.p0({place.typed}, i32 0, i32 {hint}, i32 1)")

    def prefetch_ends(self, batch, row, column, rows, columns):
        f, p, t = self.f, self.p, self.t
        seen = set()
        for x in [x for x, _ in p.body.stores] + list(p.body.loads):
            if x in seen or not x.strides[-2] or x.strides[-1] != 1: continue
            seen.add(x)
            for r in range(rows):
                for q in range(0, columns, 512 // BITS[x.kind]):
                    self.fetch(f.offset(f.arg(x.arg), x.place(f, (*batch, row + r, column + q)), x.kind), 3)

    def ahead_a(self, a):
        f, p, t = self.f, self.p, self.t
        size = BITS[p.kind] // 8
        if p.a[-1] != 1:
            if p.a[-2] != 1: return []
            if OPT['pa'] == 2: return [(f.offset(a, 64 * p.a[-1], p.kind), p.a[-1] * size, OPT['loca'])]
            return [(f.offset(a, 64 // size, p.kind), p.a[-1] * size, OPT['loca'])]
        if p.a[-2] == p.k and OPT['pa1']:
            return [(f.offset(a, t.rows * p.k, p.kind), t.rows * size, OPT['loca'])]
        return []

    def ahead_b(self, b, number):
        f, p, t = self.f, self.p, self.t
        size = BITS[p.kind] // 8
        lines = max(1, self.width * size // 64)
        if p.b[-1] == 1:
            if t.block >= lines:
                base = f.select(number < lines, number * (64 // size) + self.width, 0)
                return [(f.offset(b, base, p.kind), p.b[-2] * size, OPT['locb'])]
            return [(f.offset(b, self.width + i * (64 // size), p.kind), p.b[-2] * size, OPT['locb']) for i in range(lines)]
        if p.b[-1] == p.k:
            each = max(1, self.width * size // t.block)
            start = f.offset(f.offset(b, self.width * p.k, p.kind), number * (p.k * each), 'i8')
            return [(f.offset(start, 64 * i, 'i8'), each, OPT['locp']) for i in range(-(-each // 64))]
        return []

    def tail(self, columns: int) -> Val | None:
        return self.f.tail_mask(self.t.lanes, columns % self.t.lanes) if columns % self.t.lanes else None

    def sums(self, a: Val, b: Val, step: int, rows: int, columns: int, ks, rs, ahead) -> list[list[Val]]:
        f, p, lanes = self.f, self.p, self.t.lanes
        vectors = -(-columns // lanes)
        zero = f.const(p.kind, 0.0, lanes)
        if p.k == 0:
            return [[zero] * vectors for _ in range(rows)]
        mask = None if self.t.pack_b else self.tail(columns)
        def one(k, carry):
            right = [
                f.load(b, k * step + q * lanes, p.kind, lanes, mask if q == vectors - 1 else None)
                for q in range(vectors)
            ]
            following = []
            for base, each, hint in ahead:
                self.fetch(f.offset(base, k * each, 'i8'), hint)
            for r in range(rows):
                left = f.splat(f.load(a, k * ks + r * rs, p.kind), lanes)
                following += [self.fma(left, right[q], carry[r * vectors + q]) for q in range(vectors)]
            return following
        U=OPT['unroll']
        if p.k % U: U = 1
        with f.loop(0, p.k, U, carry=[zero] * (rows * vectors), runs=True) as loop:
            c = loop.carry
            for u in range(U):
                c = one(loop.i + u if u else loop.i, c)
            loop.next(c)
        return [loop.results[r * vectors : (r + 1) * vectors] for r in range(rows)]

    def finish(self, batch, row, column, rows, columns, sums) -> None:
        f, p, lanes = self.f, self.p, self.t.lanes
        vectors = -(-columns // lanes)
        mask = self.tail(columns)
        axis = len(batch) + 1
        known = []
        stored = {x.arg for x, _ in p.body.stores}
        n0 = 1 + len(p.body.constants)
        for q in range(vectors):
            m = mask if q == vectors - 1 else None
            known.append({n0 + i: x.load(f, (*batch, row, column + q * lanes), axis, lanes, m) for i, x in enumerate(p.body.loads) if x.strides[-2] == 0 and x.arg not in stored})
        for r in range(rows):
            for q in range(vectors):
                index = (*batch, row + r, column + q * lanes)
                p.body.emit(f, index, axis, lanes, mask if q == vectors - 1 else None, [sums[r][q]], known[q])

    def pack_b(self, b: Val, columns: int) -> None:
        f, p, t = self.f, self.p, self.t
        lanes = t.lanes
        if p.b[-1] == 1:
            vectors = -(-columns // lanes)
            mask = self.tail(columns)
            with f.loop(0, p.k) as L:
                for q in range(vectors):
                    f.store(f.load(b, L.i * p.b[-2] + q * lanes, p.kind, lanes, mask if q == vectors - 1 else None), self.scratch, L.i * self.width + q * lanes)
            return
        with f.loop(0, columns, lanes) as c, f.loop(0, p.k, lanes) as k:
            base = f.offset(b, c.i * p.b[-1] + k.i, p.kind)
            if OPT.get('tr', 1):
                cols = load_transposed(f, lambda r: (base, r * p.b[-1]), p.kind, lanes)
            else:
                from .matmul_pack import transpose
                cols = transpose(f, [f.load(base, r * p.b[-1], p.kind, lanes) for r in range(lanes)])
            dst = f.offset(self.scratch, k.i * self.width + c.i, p.kind)
            for r, v in enumerate(cols):
                f.store(v, dst, r * self.width)
