"""3×3 convolution with stride 1 by Winograd's minimal filtering (winograd_choice.py decides between it and direct tiles).

F(m×m, 3×3) makes m×m results from a square of m+2 sources: y = Aᵀ[(G w Gᵀ) ⊙ (Bᵀ x B)]A, elementwise in the (m+2)²
frequencies, so that for each of them the sums over channels are one matrix product. It takes 9m²/(m+2)² times fewer
multiplications than direct sums: 4 for m = 4, 2.25 for m = 2. Rounding differs (about 2e-5 relative for m = 4);
WEFT_WINOGRAD=0 switches it off. float32 only. (Lavin & Gray, "Fast algorithms for convolutional neural networks", 2016.)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..body import Access
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import Val
from ..matmul.pack import fetch
from .conv import DirectConv, pack
from .conv_grad import ConvWeightGrad, WeightGradWriter
from .conv_tiles import Kind, Panels, Taps, carried, each, even_parts, rank_one
from .winograd_transforms import (
    Vectors,
    input_transform,
    kernel_adjoint,
    kernel_transform,
    output_adjoint,
    output_transform,
    square,
)

__all__ = ["WinogradConv", "WinogradWeightGrad", "Writer", "tile_count"]

PRODUCT_BYTES = 2048  # registers of one tile of products
PITCH = 16  # elements between frequencies, so that they do not fall on the same cache lines


# ------------------------------------------------------------------------------------------- frequencies in memory


def spread(f: Function, values: Iterable[Vectors], start: Val, pitch: int) -> None:
    """Store a square of vectors, `pitch` elements apart."""
    for number, value in enumerate(value for row in values for value in row):
        f.store(value, start, number * pitch)


def collected(f: Function, side: int, start: Val, pitch: int, lanes: int) -> Callable[[int, int], Val]:
    """Loads one vector of a square that `spread` stored."""
    return lambda a, b: f.load(start, (side * a + b) * pitch, "f32", lanes)


def loaded(f: Function, places: list[list[Val]], offset: Val, lanes: int) -> Callable[[int, int], Val]:
    """Loads the vector that lies `offset` elements behind one of a square of places."""
    return lambda a, b: f.load(places[a][b], offset, "f32", lanes)


def product(
    f: Function,
    count: Any,
    left: Val,
    step: int,
    offsets: Sequence[int],
    right: Val,
    pitches: Sequence[int],
    lanes: int,
    before: Sequence[Val] = (),
) -> list[Val]:
    """`before` + Σ over i < count of left[i · step + offset] · right[i · lanes + pitch …] for all offsets and pitches: a tile."""
    unroll = max(u for u in (1, 2, 4) if u == 1 or (isinstance(count, int) and count % u == 0))

    def some(i: Val, acc: list[Val]) -> list[Val]:
        for u in range(unroll):
            place = i * unroll + u
            w = f.offset(right, place * lanes, "f32")
            acc = rank_one(
                f, f.offset(left, place * step, "f32"), offsets, [f.load(w, p, "f32", lanes) for p in pitches], acc
            )
        return acc

    acc = list(before) or [f.const("f32", 0.0, lanes)] * (len(offsets) * len(pitches))
    return carried(f, count // unroll if isinstance(count, int) else count, acc, some)


def tile_count(batch: int, taps: tuple[Taps, Taps], m: int) -> int:
    """How many squares of m×m results there are."""
    return batch * -(-taps[0].results // m) * -(-taps[1].results // m)


# ------------------------------------------------------------------------------------------- forward and input gradient


class WinogradConv(Kernel):
    """What a DirectConv computes, for 3×3 taps with stride 1, one group and channels in multiples of 16.

    The workspace holds the packed and the transformed weights, the scratch memory the frequencies of one block of tiles
    of m×m results and of its products.
    """

    def __init__(self, direct: DirectConv, m: int, block: int) -> None:
        self.direct, self.m, self.block, self.body = direct, m, block, direct.body
        self.workspace_word, self.scratch_word = direct.workspace_word, direct.scratch_word
        self.frequencies, self.inner, self.outer = (m + 2) ** 2, direct.inner, direct.outer
        self.grid = tuple(-(-t.results // m) for t in direct.taps)
        self.tiles = tile_count(direct.batch, direct.taps, m)
        self.pitch = self.inner * self.outer + PITCH  # of the weights' frequencies
        self.workspace = direct.workspace + self.frequencies * self.pitch * 4
        sizes = (block * self.inner + PITCH, block * self.outer + PITCH)
        self.scratch = 4 * (self.frequencies * sum(sizes) + -(-self.inner // 16) * 16)
        self.flops = 2 * self.frequencies * self.tiles * self.inner * self.outer
        self.nbytes = direct.nbytes + 2 * (self.workspace - direct.workspace)

    def key(self) -> str:
        return f"Winograd{self.m},{self.block}|{self.direct.key()}"

    def emit(self, f: Function) -> None:
        writer = Writer(self, f)
        writer.weights()
        f.barrier()
        blocks = -(-self.tiles // self.block)
        lo, hi = f.split(blocks)
        writer.clear()
        for i in each(f, lo, hi):
            first = i * self.block
            count = f.intrinsic("smin", self.block, self.tiles - first)
            for t in each(f, 0, count):
                writer.input(t, first + t)
            writer.products(count)
            for t in each(f, 0, count):
                writer.output(t, first + t)


class Writer:
    """Writes a WinogradConv for one target."""

    def __init__(self, kernel: WinogradConv, f: Function) -> None:
        self.k, self.f = kernel, f
        self.lanes = f.target.lanes_of("f32")
        k, private = kernel, f.offset(f.arg(kernel.scratch_word), f.tid * (kernel.scratch // 4), "f32")
        self.transformed = f.offset(f.arg(k.workspace_word), k.direct.workspace // 4, "f32")
        self.pitches = k.block * k.inner + PITCH, k.block * k.outer + PITCH
        self.sources = private
        self.sums = f.offset(private, k.frequencies * self.pitches[0], "f32")
        self.zeros = f.offset(self.sums, k.frequencies * self.pitches[1], "f32")

    def weights(self) -> None:
        """Weights to [frequency][vector of results][source channel][lane]."""
        f, k, lanes = self.f, self.k, self.lanes
        vectors = k.outer // lanes
        pack(f, k.direct, k.direct.weights, k.inner, Panels.single(k.outer, lanes))
        f.barrier()
        lo, hi = f.split(vectors * k.inner)
        for i in each(f, lo, hi):
            vector, channel = i // k.inner, i % k.inner
            packed = f.offset(f.arg(k.workspace_word), (vector * (9 * k.inner) + channel) * lanes, "f32")
            taps = collected(f, 3, packed, k.inner * lanes, lanes)
            found = square(lambda w: kernel_transform(f, w, k.m), taps, 3)
            spread(f, found, f.offset(self.transformed, i * lanes, "f32"), k.pitch)

    def clear(self) -> None:
        for c in each(self.f, 0, self.k.inner // self.lanes):
            self.f.store(self.f.const("f32", 0.0, self.lanes), self.zeros, c * self.lanes)

    def _tile(self, number: Val) -> tuple[Val, Val, Val]:
        """(n, h, w): image and first result of a tile."""
        (down, across), m = self.k.grid, self.k.m
        return number // (down * across), number // across % down * m, number % across * m

    def input(self, t: Val, number: Val) -> None:
        """Tile t of the block, which is tile `number` of all, to frequencies; what the next tile reads besides is asked for."""
        f, k, lanes = self.f, self.k, self.lanes
        n, h, w = self._tile(number)
        places = source_places(f, k.direct.source, k.direct.taps, k.m, n, h, w, self.zeros)
        to = f.offset(self.sources, t * k.inner, "f32")
        for c in each(f, 0, k.inner // lanes):
            for place in (p for row in places for p in row[2:]):
                fetch(f, f.offset(place, c * lanes + k.m * k.direct.source.strides[2], "f32"))
            found = square(lambda x: input_transform(f, x), loaded(f, places, c * lanes, lanes), k.m + 2)
            spread(f, found, f.offset(to, c * lanes, "f32"), self.pitches[0])

    def products(self, count: Val) -> None:
        """For each frequency: sources (tiles, inner) · weights (inner, outer)."""
        f, k, lanes = self.f, self.k, self.lanes
        panels = Panels.of(k.outer, lanes, 8, f.target.registers)
        rows = max(r for r in range(1, panels.rows(f.target.registers) + 1) if k.block % r == 0)
        for frequency in each(f, 0, k.frequencies):
            source = f.offset(self.sources, frequency * self.pitches[0], "f32")
            weights = f.offset(self.transformed, frequency * k.pitch, "f32")
            sums = f.offset(self.sums, frequency * self.pitches[1], "f32")
            for kind in panels.kinds():
                for p in each(f, kind.first, kind.first + kind.number):
                    right = f.offset(weights, p * (panels.vectors * k.inner * lanes), "f32")
                    for tile in each(f, 0, (count + (rows - 1)) // rows):
                        left = f.offset(source, tile * (rows * k.inner), "f32")
                        pitches = [q * k.inner * lanes for q in range(kind.vectors)]
                        offsets = [r * k.inner for r in range(rows)]
                        acc = product(f, k.inner, left, 1, offsets, right, pitches, lanes)
                        to = f.offset(sums, tile * (rows * k.outer) + p * panels.width, "f32")
                        for i, value in enumerate(acc):
                            f.store(value, to, i // kind.vectors * k.outer + i % kind.vectors * lanes)

    def output(self, t: Val, number: Val) -> None:
        """Hand the results of tile t of the block to the body."""
        f, k = self.f, self.k
        n, h, w = self._tile(number)
        start = f.offset(self.sums, t * k.outer, "f32")
        following = self._tile(number + 1)
        for o in each(f, 0, k.outer // self.lanes):
            self._ask(*following, o * self.lanes)
            values = collected(f, k.m + 2, f.offset(start, o * self.lanes, "f32"), self.pitches[1], self.lanes)
            found = square(lambda m: output_transform(f, m), values, k.m + 2)
            self._deliver(found, n, h, w, o * self.lanes)

    def _ask(self, n: Val, h: Val, w: Val, o: Val) -> None:
        """Ask for what the body reads and writes at some channels of a tile: its pixels lie too far apart to be foreseen."""
        f, body, m = self.f, self.k.body, self.k.m
        for access in [*body.loads, *(access for access, _ in body.stores)]:
            if access.strides[1] and access.strides[2]:
                start = f.offset(f.arg(access.arg), access.place(f, (n, h, w, o)), access.kind)
                for a, b in itertools.product(range(m), range(m)):
                    fetch(f, f.offset(start, a * access.strides[1] + b * access.strides[2], access.kind))

    def _deliver(self, values: Iterable[Vectors], n: Val, h: Val, w: Val, o: Val) -> None:
        f, k, m, lanes = self.f, self.k, self.k.m, self.lanes
        high, wide = (t.results for t in k.direct.taps)
        if high % m == 0 and wide % m == 0 and m * m * len(k.body.steps) <= 64:
            for a, row in enumerate(values):
                for b, value in enumerate(row):
                    k.body.emit(f, (n, h + a, w + b, o), 3, lanes, None, [value])
            return
        memory = f.stack("f32", m * m * lanes)
        spread(f, values, memory, lanes)
        with f.loop(0, f.intrinsic("smin", high - h, m) if high % m else m, runs=True) as rows:
            with f.loop(0, f.intrinsic("smin", wide - w, m) if wide % m else m, runs=True) as columns:
                value = f.load(memory, (rows.i * m + columns.i) * lanes, "f32", lanes)
                k.body.emit(f, (n, h + rows.i, w + columns.i, o), 3, lanes, None, [value])


def source_places(
    f: Function, source: Access, taps: tuple[Taps, Taps], m: int, n: Val, h: Val, w: Val, zeros: Val
) -> list[list[Val]]:
    """The addresses of the (m+2)² pixels that the m×m results from (h, w) on read; `zeros` for those outside."""
    (sn, sh, sw, _), side = source.strides, m + 2
    down, across = taps
    top, left = h - down.padding, w - across.padding
    start = f.offset(f.arg(source.arg), n * sn + top * sh + left * sw, "f32")
    rows = [(top + a >= 0) & (top + a < down.sources) for a in range(side)]
    columns = [(left + b >= 0) & (left + b < across.sources) for b in range(side)]
    return [
        [f.select(rows[a] & columns[b], f.offset(start, a * sh + b * sw, "f32"), zeros) for b in range(side)]
        for a in range(side)
    ]


# ------------------------------------------------------------------------------------------- weight gradient


class WinogradWeightGrad(Kernel):
    """What a ConvWeightGrad computes: w = Gᵀ [Σ over tiles of (Bᵀ x B) ⊙ (A y Aᵀ)] G, under the same conditions.

    Threads share the tiles of a block while these are transformed, then the frequencies and channels of the products. Where
    all tiles are one block, the products of some channels go back to taps before the next ones are begun.
    """

    def __init__(self, direct: ConvWeightGrad, m: int, block: int) -> None:
        self.direct, self.m = direct, m
        self.workspace_word, self.scratch_word = direct.workspace_word, direct.scratch_word
        self.frequencies, self.inner, self.outer = (m + 2) ** 2, direct.inner, direct.outer
        self.grid = tuple(-(-count // m) for count in direct.shape.counts)
        self.tiles = direct.shape.batch * self.grid[0] * self.grid[1]
        self.block = block = min(block, self.tiles)
        self.pitches = block * self.inner + PITCH, block * self.outer + PITCH
        self.single = self.tiles <= block
        self.sums = 0 if self.single else self.frequencies * self.inner * self.outer
        self.scratch = self.frequencies * PRODUCT_BYTES if self.single else 0
        zeros = max(self.inner, self.outer)
        self.workspace = direct.workspace + 4 * (self.sums + self.frequencies * sum(self.pitches) + zeros)
        self.flops = 2 * self.frequencies * self.tiles * self.inner * self.outer
        self.nbytes = direct.nbytes + 8 * (self.sums + self.frequencies * sum(self.pitches))

    def key(self) -> str:
        return f"Winograd{self.m},{self.block}|{self.direct.key()}"

    def emit(self, f: Function) -> None:
        _WeightWriter(self, f).write()


class _WeightWriter:
    """Writes a WinogradWeightGrad for one target."""

    def __init__(self, kernel: WinogradWeightGrad, f: Function) -> None:
        k = kernel
        self.k, self.f, self.lanes = kernel, f, f.target.lanes_of("f32")
        self.sums = f.offset(f.arg(k.workspace_word), k.direct.workspace // 4, "f32")
        self.sources = f.offset(self.sums, k.sums, "f32")
        self.targets = f.offset(self.sources, k.frequencies * k.pitches[0], "f32")
        self.zeros = f.offset(self.targets, k.frequencies * k.pitches[1], "f32")
        self.panels = Panels.of(k.outer, self.lanes, 8, f.target.registers)
        self.parts = even_parts(k.inner, self.panels.rows(f.target.registers))

    def write(self) -> None:
        f, k, lanes = self.f, self.k, self.lanes
        zero = f.const("f32", 0.0, lanes)
        for c in each(f, 0, max(k.inner, k.outer) // lanes):
            f.store(zero, self.zeros, c * lanes)
        for block in each(f, 0, -(-k.tiles // k.block)):
            count = f.intrinsic("smin", k.block, k.tiles - block * k.block)
            with f.loop(f.tid * count // f.nt, (f.tid + 1) * count // f.nt) as loop:
                self._transform(loop.i, block * k.block + loop.i)
            f.barrier()
            if k.single:
                self._whole_products(count)
            else:
                self._products(count, block)
                f.barrier()
        if not k.single:
            self._kernels()
        f.barrier()
        WeightGradWriter(k.direct, f).deliver()

    def _transform(self, t: Val, number: Val) -> None:
        """Tile t of the block: the frequencies of x and y."""
        f, k, lanes, m, shape = self.f, self.k, self.lanes, self.k.m, self.k.direct.shape
        down, across = k.grid
        n, h, w = number // (down * across), number // across % down * m, number % across * m
        places = source_places(f, k.direct.x, shape.forward_taps, m, n, h, w, self.zeros)
        to = f.offset(self.sources, t * k.inner, "f32")
        for c in each(f, 0, k.inner // lanes):
            self._ask(places, c * lanes, k.direct.x.strides[2], 2)
            found = square(lambda x: input_transform(f, x), loaded(f, places, c * lanes, lanes), m + 2)
            spread(f, found, f.offset(to, c * lanes, "f32"), k.pitches[0])
        places = self._results(n, h, w)
        to = f.offset(self.targets, t * lanes, "f32")
        for o in each(f, 0, k.outer // lanes):
            self._ask(places, o * lanes, k.direct.y.strides[2], 0)
            found = square(lambda y: output_adjoint(f, y), loaded(f, places, o * lanes, lanes), m)
            spread(f, found, f.offset(to, o * (k.block * lanes), "f32"), k.pitches[1])

    def _ask(self, places: list[list[Val]], offset: Val, column: int, first: int) -> None:
        """Ask for the pixels of the next tile, from those of this one; the first columns are the last of this tile."""
        for place in (p for row in places for p in row[first:]):
            fetch(self.f, self.f.offset(place, offset + self.k.m * column, "f32"))

    def _results(self, n: Val, h: Val, w: Val) -> list[list[Val]]:
        """The addresses of the m×m pixels of y from (h, w) on; zeros for those outside."""
        f, m, (high, wide) = self.f, self.k.m, self.k.direct.shape.counts
        sn, sh, sw, _ = self.k.direct.y.strides
        start = f.offset(f.arg(self.k.direct.y.arg), n * sn + h * sh + w * sw, "f32")
        found = [[f.offset(start, a * sh + b * sw, "f32") for b in range(m)] for a in range(m)]
        if high % m == 0 and wide % m == 0:
            return found
        rows, columns = [h + a < high for a in range(m)], [w + b < wide for b in range(m)]
        return [[f.select(rows[a] & columns[b], found[a][b], self.zeros) for b in range(m)] for a in range(m)]

    def _products(self, count: Val, block: Val) -> None:
        """sums[frequency][c][o] += Σ over tiles of sources[t][c] · targets[t][o]."""
        f, k, lanes = self.f, self.k, self.lanes
        for kind, (first, number, rows) in itertools.product(self.panels.kinds(), self.parts):
            lo, hi = f.split(k.frequencies * kind.number * number)
            for i in each(f, lo, hi):
                channel, vector = self._channels(i, first, number, kind)
                frequency = i // (number * kind.number)
                acc = self._product(frequency, channel, vector, rows, kind, count)
                place = frequency * (k.inner * k.outer) + (vector * k.inner + channel) * lanes
                to = f.offset(self.sums, place, "f32")
                with f.when(block > 0):
                    for e, value in enumerate(acc):
                        at = (e % kind.vectors * k.inner + e // kind.vectors) * lanes
                        f.store(value + f.load(to, at, "f32", lanes), to, at)
                with f.when(block.eq(0)):
                    for e, value in enumerate(acc):
                        f.store(value, to, (e % kind.vectors * k.inner + e // kind.vectors) * lanes)

    def _whole_products(self, count: Val) -> None:
        """All frequencies of some channels, and from them the taps."""
        f, k, lanes = self.f, self.k, self.lanes
        private = f.offset(f.arg(k.scratch_word), f.tid * (k.scratch // 4), "f32")
        for kind, (first, number, rows) in itertools.product(self.panels.kinds(), self.parts):
            lo, hi = f.split(kind.number * number)
            for i in each(f, lo, hi):
                channel, vector = self._channels(i, first, number, kind)
                for frequency in each(f, 0, k.frequencies):
                    acc = self._product(frequency, channel, vector, rows, kind, count)
                    to = f.offset(private, frequency * (PRODUCT_BYTES // 4), "f32")
                    for e, value in enumerate(acc):
                        f.store(value, to, e * lanes)
                for e in each(f, 0, rows * kind.vectors):
                    start = f.offset(private, e * lanes, "f32")
                    self._taps(start, PRODUCT_BYTES // 4, vector + e % kind.vectors, channel + e // kind.vectors)

    def _channels(self, i: Val, first: int, number: int, kind: Kind) -> tuple[Val, Val]:
        """(input channel, output vector) of tile i of the products."""
        channel = (i % number + first) * self.parts[0][2]
        return channel, (i // number % kind.number + kind.first) * self.panels.vectors

    def _product(self, frequency: Val, channel: Val, vector: Val, rows: int, kind: Kind, count: Val) -> list[Val]:
        """Σ over the tiles of a block of sources[t][c] · targets[t][o] for `rows` channels and some vectors."""
        f, k, lanes = self.f, self.k, self.lanes
        left = f.offset(self.sources, frequency * k.pitches[0] + channel, "f32")
        right = f.offset(self.targets, frequency * k.pitches[1] + vector * (k.block * lanes), "f32")
        pitches = [q * k.block * lanes for q in range(kind.vectors)]
        return product(f, count, left, k.inner, range(rows), right, pitches, lanes)

    def _kernels(self) -> None:
        """All sums to taps."""
        f, k, lanes = self.f, self.k, self.lanes
        lo, hi = f.split(k.outer // lanes * k.inner)
        for i in each(f, lo, hi):
            self._taps(f.offset(self.sums, i * lanes, "f32"), k.inner * k.outer, i // k.inner, i % k.inner)

    def _taps(self, start: Val, pitch: int, vector: Val, channel: Val) -> None:
        """One vector of each frequency to the nine taps, in the order that `deliver` reads."""
        f, k, lanes = self.f, self.k, self.lanes
        values = collected(f, k.m + 2, start, pitch, lanes)
        to = f.offset(f.arg(k.workspace_word), (vector * (9 * k.inner) + channel) * lanes, "f32")
        spread(f, square(lambda s: kernel_adjoint(f, s), values, k.m + 2), to, k.inner * lanes)
