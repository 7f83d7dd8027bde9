"""The two adjoints of convolution over channels-last images: the gradients of its input and of its weights."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.target import PARTS
from ..llvm.values import BITS, Val
from .conv import UNROLLED, ConvShape, DirectConv, Weights, divmod_
from .conv_tiles import (
    Band,
    Kind,
    Pair,
    Panels,
    Taps,
    carried,
    channel_wise,
    each,
    even_parts,
    rank_one,
    sweep,
    transpose,
)

__all__ = ["ConvInputGrad", "ConvWeightGrad", "WeightGradWriter"]

SHARES, SHARE_PIXELS = 24, 128  # of the images, where each has sums of its own: at most so many, and not smaller


class ConvInputGrad(DirectConv):
    """x of y and w: x[n, o·stride + k·dilation − padding, i] = Σ w[c, i, k] · y[n, o, c]; also transposed convolution.

    `body` has index space (n, h, w, c) over x, lanes along c, given: the sum; elements that no window reaches get 0.
    y: Access (n, h, w, o); weight: Access (o, i, kh, kw), dense in (i, kh, kw).
    """

    def __init__(
        self, shape: ConvShape, y: Access, weight: Access, body: Body, workspace_word: int, scratch_word: int
    ) -> None:
        s, so, si = shape, weight.strides[0], shape.kernel[0] * shape.kernel[1]
        wise, inner, outer = s.depthwise, s.outputs // s.groups, s.inputs // s.groups
        groups, channels = (1, (1, s.inputs)) if wise else (s.groups, (inner, outer))
        result, source = (so, si) if wise else (si, so)
        weights = Weights(weight.arg, result, source, so * inner, flipped=True)
        super().__init__(
            s.batch, groups, channels, s.adjoint_taps, y, weights, body, (workspace_word, scratch_word), wise
        )


class ConvWeightGrad(Kernel):
    """w of x and y: w[c, i, k] = Σ x[n, o·stride + k·dilation − padding, i] · y[n, o, c].

    `body` has index space (o, q), lanes along q, given: the sum. q counts (i, kh, kw) in C order, so that a tensor laid
    out as the user's weight (outputs, inputs / groups, *kernel) has strides (inputs / groups · kh · kw, 1).
    x: Access (n, h, w, c); y: Access (n, h, w, o).

    A tile is some input channels of one tap times some vectors of output channels, summed over the pixels of a block of
    images and added to the workspace (group, output vector, tap, input channel, lane); threads share the tiles. With few
    input channels the rows of a tile are channels of several taps, read from a copied band; the images are cut into
    shares, the same for any number of threads, whose sums are added up at the end.
    """

    def __init__(
        self, shape: ConvShape, x: Access, y: Access, body: Body, workspace_word: int, scratch_word: int
    ) -> None:
        self.shape, self.x, self.y, self.body, self.kind = shape, x, y, body, x.kind
        self.workspace_word, self.scratch_word = workspace_word, scratch_word
        wise, s = shape.depthwise, shape
        self.groups = 1 if wise else s.groups
        self.inner, self.outer = (1, s.outputs) if wise else (s.inputs // s.groups, s.outputs // s.groups)
        self.taps = s.kernel[0] * s.kernel[1]
        item = BITS[self.kind] // 8
        block = 64 // item
        self.rows = self.taps * self.inner
        sums = self.groups * self.rows * -(-self.outer // block) * block * item
        self.band = Band.fitting(x, s.forward_taps, s.inputs, s.batch, PARTS.band) if s.few else None
        self.units = s.batch * -(-s.counts[0] // self.band.rows) if self.band else 1
        pixels = s.batch * s.counts[0] * s.counts[1]
        self.shares = max(1, min(SHARES, self.units, pixels // SHARE_PIXELS))
        self.sums = sums // item
        self.workspace = self.shares * sums
        self.scratch = -(-self.band.size * item // 64) * 64 if self.band else 0
        self.flops = 2 * s.multiplications
        elements = s.inputs * s.image[0] * s.image[1] + s.outputs * s.counts[0] * s.counts[1]
        self.nbytes = item * s.batch * elements + sums

    def key(self) -> str:
        return f"ConvWeightGrad{self.shape}{self.x}{self.y}{self.workspace_word},{self.scratch_word}|{self.body.key()}"

    def emit(self, f: Function) -> None:
        writer = WeightGradWriter(self, f)
        if self.band:
            writer.few(self.band)
        else:
            writer.tiles()
        f.barrier()
        writer.deliver()


Block = tuple[Any, Any]  # first, number


@dataclass(frozen=True)
class _Part:
    """Tiles of one form: `number` parts of the input channels from number `first` on, `rows` channels each."""

    kind: Kind
    first: int
    number: int
    rows: int


@dataclass(frozen=True)
class _Run:
    """`count` pixels of a line: addresses of the first in x and y, elements to the next, rows of a tile at `offsets`."""

    x: Val
    x_step: int
    offsets: Sequence[int]
    y: Val
    y_step: int
    count: Any
    runs: bool


class WeightGradWriter:
    """Writes a ConvWeightGrad for one target."""

    def __init__(self, kernel: ConvWeightGrad, f: Function) -> None:
        self.k, self.f, self.kind, self.shape = kernel, f, kernel.kind, kernel.shape
        self.lanes = f.target.lanes_of(self.kind)
        self.wise = self.shape.depthwise
        self.panels = Panels.of(kernel.outer, self.lanes, 1 if self.wise else 8, f.target.registers)
        self.limit = 1 if self.wise else self.panels.rows(f.target.registers)
        self.sums = f.arg(kernel.workspace_word)

    # ------------------------------------------------------------------------------- many channels
    def tiles(self) -> None:
        """Threads share the tiles; blocks of images, or of lines of an image, follow each other."""
        f, k, s = self.f, self.k, self.shape
        images, lines = self._block()
        whole = (0, s.batch), (0, s.counts[0])
        for kind, (first, number, rows) in itertools.product(self.panels.kinds(), even_parts(k.inner, self.limit)):
            part = _Part(kind, first, number, rows)
            lo, hi = f.split(k.groups * kind.number * number * k.taps)
            if images >= s.batch and lines >= s.counts[0]:
                for i in each(f, lo, hi):
                    self._tile(i, part, *whole, start=True)
                continue
            for i in each(f, lo, hi):
                self._clear(i, part)
            for n in self._blocks(s.batch, images):
                for h in self._blocks(s.counts[0], lines):
                    for i in each(f, lo, hi):
                        self._tile(i, part, n, h, start=False)

    def _where(self, i: Val, part: _Part) -> tuple[Val, Any, Val, Val, Val]:
        """(tap, group, input channel, panel, place of the sums) of tile i."""
        k = self.k
        tap, rest = i % k.taps, i // k.taps
        group, panel = divmod_(rest // part.number, part.kind.number if k.groups > 1 else 0)
        channel = (rest % part.number + part.first) * even_parts(k.inner, self.limit)[0][2]
        panel = panel + part.kind.first
        return tap, group, channel, panel, self._place(group, panel, tap * k.inner + channel)

    def _clear(self, i: Val, part: _Part) -> None:
        *_, place = self._where(i, part)
        self._save(place, part.kind, self._zeros(part.rows * part.kind.vectors))

    def _tile(self, i: Val, part: _Part, n: Block, h: Block, start: bool) -> None:
        """Add to tile i what the images n and lines h contribute."""
        tap, group, channel, panel, place = self._where(i, part)
        count = part.rows * part.kind.vectors
        acc = self._zeros(count) if start else self._load(place, part.kind, count)
        target = panel * self.panels.width + group * self.k.outer
        source = target if self.wise else channel + group * self.k.inner
        self._save(place, part.kind, self._pixels(tap, n, h, source, target, part, acc))

    def _block(self) -> Pair:
        """Images and lines of y in one block."""
        s = self.shape
        pixel = 64 + self.panels.width * BITS[self.kind] // 8  # bytes of x and y that one tile reads for a pixel
        image = s.counts[0] * s.counts[1] * pixel
        near = self.f.target.near
        limit = near.pixels if self.k.workspace <= near.sums else near.many_pixels
        if image <= limit:
            return min(s.batch, limit // image), s.counts[0]
        return 1, max(1, limit // (s.counts[1] * pixel))

    def _blocks(self, count: int, size: int) -> Iterator[Block]:
        """(first, number) of each block."""
        f = self.f
        if size >= count:
            yield 0, count
            return
        for i in each(f, 0, -(-count // size)):
            yield i * size, f.intrinsic("smin", size, count - i * size) if count % size else size

    def _place(self, group: Any, panel: Any, row: Any) -> Any:
        """Where the sums of a row (tap, input channel) for the first vector of a panel lie."""
        vector = panel * self.panels.vectors + group * self.panels.total
        return (vector * self.k.rows + row) * self.lanes

    def _zeros(self, count: int) -> list[Val]:
        return [self.f.const(self.kind, 0.0, self.lanes)] * count

    def _load(self, place: Val, kind: Kind, count: int) -> list[Val]:
        start, rows = self.f.offset(self.sums, place, self.kind), self.k.rows
        places = [(i % kind.vectors * rows + i // kind.vectors) * self.lanes for i in range(count)]
        return [self.f.load(start, p, self.kind, self.lanes) for p in places]

    def _save(self, place: Val, kind: Kind, acc: list[Val]) -> None:
        start = self.f.offset(self.sums, place, self.kind)
        for i, value in enumerate(acc):
            self.f.store(value, start, (i % kind.vectors * self.k.rows + i // kind.vectors) * self.lanes)

    def _pixels(self, tap: Val, n: Block, h: Block, source: Val, target: Val, part: _Part, acc: list[Val]) -> list[Val]:
        """Add the products of one tap over the images n and the lines h of y that have a source."""
        f, s, k = self.f, self.shape, self.k
        sizes = zip(s.counts, s.kernel, s.image, s.dilation, s.padding, s.stride, strict=True)
        down, across = (Taps(*dimension) for dimension in sizes)  # results are taps, their "taps" positions of y
        (high, top, first), (wide, left, column) = down.range(f, tap // s.kernel[1]), across.range(f, tap % s.kernel[1])
        runs = down.never_empty
        if h != (0, s.counts[0]):
            begin, runs = f.intrinsic("smax", f.index(first), h[0]), False
            high = f.intrinsic("smin", f.index(h[0]) + h[1], first + high) - begin
            top, first = top + (begin - first) * s.stride[0], begin
        (xn, xh, xw, _), (yn, yh, yw, _) = k.x.strides, k.y.strides
        x = f.offset(f.arg(k.x.arg), top * xh + left * xw + n[0] * xn + source, self.kind)
        y = f.offset(f.arg(k.y.arg), target + n[0] * yn + first * yh + column * yw, self.kind)

        def images(i: Val, acc: list[Val]) -> list[Val]:
            def lines(j: Val, acc: list[Val]) -> list[Val]:
                xi = f.offset(x, i * xn + j * (s.stride[0] * xh), self.kind)
                yi = f.offset(y, i * yn + j * yh, self.kind)
                run = _Run(xi, s.stride[1] * xw, range(part.rows), yi, yw, wide, across.never_empty)
                return self._line(run, part.kind, acc)

            return carried(f, high, acc, lines, runs)

        return carried(f, n[1], acc, images)

    def _line(self, run: _Run, kind: Kind, acc: list[Val]) -> list[Val]:
        """Add the products of the pixels of a line."""
        f, lanes, count = self.f, self.lanes, run.count
        masks = [kind.mask(f, q, lanes) for q in range(kind.vectors)]

        def some(first: Val, pixels: int, acc: list[Val]) -> list[Val]:
            for u in range(pixels):
                xi = f.offset(run.x, (first + u) * run.x_step, self.kind)
                yi = f.offset(run.y, (first + u) * run.y_step, self.kind)
                right = [f.load(yi, q * lanes, self.kind, lanes, mask) for q, mask in enumerate(masks)]
                if self.wise:
                    acc = channel_wise(f, xi, run.offsets, right, masks, acc)
                else:
                    acc = rank_one(f, xi, run.offsets, right, acc)
            return acc

        if isinstance(count, int):
            unroll = max(u for u in range(1, 9) if count % u == 0 and (u == 1 or u * len(acc) <= UNROLLED))
            return carried(f, count // unroll, acc, lambda i, acc: some(i * unroll, unroll, acc), run.runs)
        acc = carried(f, count // 2, acc, lambda i, acc: some(i * 2, 2, acc), runs=False)
        return carried(f, count % 2, acc, lambda i, acc: some(count - 1, 1, acc), runs=False)

    # -------------------------------------------------------------------------------- few channels
    def few(self, band: Band) -> None:
        """Threads take shares of the images, each with sums of its own."""
        f, k, lanes = self.f, self.k, self.lanes
        memory = f.offset(f.arg(k.scratch_word), f.tid * (k.scratch * 8 // BITS[self.kind]), self.kind)
        band.clear(f, memory, lanes)
        whole = self.sums
        for share in each(f, *f.split(k.shares)):
            self.sums = f.offset(whole, share * k.sums, self.kind)
            self._clear_all()
            self._share(band, memory, share * k.units // k.shares, (share + 1) * k.units // k.shares)
        self.sums = whole

    def _clear_all(self) -> None:
        f, lanes = self.f, self.lanes
        zero = f.const(self.kind, 0.0, lanes)
        sweep(f, self.k.rows * self.panels.total * lanes, lanes, lambda i, mask: f.store(zero, self.sums, i, mask))

    def _share(self, band: Band, memory: Val, lo: Val, hi: Val) -> None:
        """Add up some bands; rows of a tile are channels of all taps, or of those in a line of the kernel."""
        f, k, s, lanes = self.f, self.k, self.shape, self.lanes
        limit = min(12, (f.target.registers - 2) // self.panels.vectors - 1)
        number = -(-s.counts[0] // band.rows)
        (down, across), run = s.dilation, s.kernel[1] * k.inner
        apart = [kw * across * k.inner + c for kw in range(s.kernel[1]) for c in range(k.inner)]
        together = [kh * down * band.pitch + a for kh in range(s.kernel[0]) for a in apart]
        for i in each(f, lo, hi):
            n, top = i // number, i % number * band.rows
            lines = f.intrinsic("smin", band.rows, s.counts[0] - top)
            band.copy(f, memory, lanes, n, top)
            y = f.offset(f.arg(k.y.arg), n * k.y.strides[0] + top * k.y.strides[1], self.kind)
            for kind in self.panels.kinds():
                for p in each(f, kind.first, kind.first + kind.number):
                    target = f.offset(y, p * self.panels.width, self.kind)
                    if len(together) <= limit:
                        self._taps(memory, band, together, target, lines, self._place(0, p, 0), kind)
                        continue
                    for kh in each(f, 0, s.kernel[0]):
                        source = f.offset(memory, kh * (down * band.pitch), self.kind)
                        for first, parts, rows in even_parts(run, limit):
                            for part in range(first, first + parts):
                                start = part * even_parts(run, limit)[0][2]
                                place = self._place(0, p, kh * run + start)
                                self._taps(source, band, apart[start : start + rows], target, lines, place, kind)

    def _taps(self, x: Val, band: Band, offsets: Sequence[int], y: Val, lines: Val, place: Val, kind: Kind) -> None:
        """Add the products of the pixels of some lines to one tile, whose rows read x at `offsets`."""
        f, k, s = self.f, self.k, self.shape

        def line(j: Val, acc: list[Val]) -> list[Val]:
            xj = f.offset(x, j * (s.stride[0] * band.pitch), self.kind)
            yj = f.offset(y, j * k.y.strides[1], self.kind)
            run = _Run(xj, s.stride[1] * k.inner, offsets, yj, k.y.strides[2], s.counts[1], runs=True)
            return self._line(run, kind, acc)

        acc = self._load(place, kind, len(offsets) * kind.vectors)
        self._save(place, kind, carried(f, lines, acc, line))

    # ------------------------------------------------------------------------------------ results
    def deliver(self) -> None:
        """Hand the sums to the body, turned so that lanes run along the user's memory."""
        f, k, lanes, run = self.f, self.k, self.lanes, self.k.inner * self.k.taps
        blocks, vectors = -(-run // lanes), -(-k.outer // lanes)
        memory = f.stack(self.kind, lanes * lanes)
        lo, hi = f.split(k.groups * vectors * blocks)
        for i in each(f, lo, hi):
            start = i % blocks * lanes
            group, vector = divmod_(i // blocks, vectors if k.groups > 1 else 0)
            rows = []
            for e in range(min(lanes, run)):
                q = start + e if run % lanes == 0 or run < lanes else f.intrinsic("smin", start + e, run - 1)
                row = q % k.taps * k.inner + q // k.taps
                rows.append(((group * vectors + vector) * k.rows + row) * lanes)
            values = self._totals(rows)
            values += [f.const(self.kind, 0.0, lanes)] * (lanes - len(values))
            for e, value in enumerate(transpose(f, values)):
                f.store(value, memory, e * lanes)
            mask = f.tail_mask(lanes, run - start) if run % lanes else None
            count = f.intrinsic("smin", k.outer - vector * lanes, lanes) if k.outer % lanes else lanes
            with f.loop(0, count, runs=True) as loop:
                value = f.load(memory, loop.i * lanes, self.kind, lanes)
                o = group * k.outer + vector * lanes + loop.i
                k.body.emit(f, (o, start), 1, lanes, mask, [value])

    def _totals(self, places: Sequence[Val]) -> list[Val]:
        """The vectors at these places, those of all shares added."""
        f, k, lanes = self.f, self.k, self.lanes
        first = [f.load(self.sums, p, self.kind, lanes) for p in places]
        if k.shares == 1:
            return first

        def add(share: Val, acc: list[Val]) -> list[Val]:
            start = f.offset(self.sums, (share + 1) * k.sums, self.kind)
            return [a + f.load(start, p, self.kind, lanes) for a, p in zip(acc, places, strict=True)]

        return carried(f, k.shares - 1, first, add)
