"""Convolution over channels-last images as register tiles: the forward pass, and what the input gradient shares with it.

Argument words. Every kernel here reads its tensors through `Access` values whose strides are in the order
(n, h, w, c): samples, rows, columns, channels. The stride of c must be 1 (exception: `ConvShape.few`). The shared memory
`workspace` (bytes, 0: none) is argument word `workspace_word`; private memory `scratch` (bytes for each thread) is
`scratch_word`. Neither needs to be cleared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.target import PARTS
from ..llvm.values import BITS, Val
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
    finish,
    rank_one,
    transpose,
)

__all__ = ["UNROLLED", "ConvForward", "ConvShape", "DirectConv", "Weights", "divmod_", "pack"]

UNROLLED = 64  # multiplications in a row


@dataclass(frozen=True)
class ConvShape:
    """The sizes of one convolution, y[n, o, c] = Σ_{k,i} w[c, i, k] · x[n, o·stride + k·dilation − padding, i].

    x: (batch, *image, inputs), y: (batch, *counts, outputs), w: (outputs, inputs / groups, *kernel). `padding` is what lies
    before the image; how far it reaches behind follows from `counts`. One dimension: heights of 1.
    """

    batch: int
    inputs: int
    outputs: int
    image: Pair
    counts: Pair
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    @property
    def few(self) -> bool:
        """So few input channels that x is copied before use: forward and weight gradient take x with any strides."""
        return self.groups == 1 and self.inputs <= 4

    @property
    def depthwise(self) -> bool:
        return self.groups == self.inputs == self.outputs and self.groups > 1

    @property
    def multiplications(self) -> int:
        """Of the whole form, those with padding included."""
        inner = self.inputs // self.groups * self.kernel[0] * self.kernel[1]
        return self.batch * self.counts[0] * self.counts[1] * self.outputs * inner

    @property
    def forward_taps(self) -> tuple[Taps, Taps]:
        """Results are positions of y, sources those of x."""
        sizes = zip(self.kernel, self.counts, self.image, self.stride, self.padding, self.dilation, strict=True)
        height, width = (Taps(*dimension) for dimension in sizes)
        return height, width

    @property
    def adjoint_taps(self) -> tuple[Taps, Taps]:
        """Results are positions of x, sources those of y."""
        sizes = zip(self.kernel, self.image, self.counts, self.stride, self.padding, self.dilation, strict=True)
        height, width = (Taps.adjoint(*dimension) for dimension in sizes)
        return height, width


@dataclass(frozen=True)
class Weights:
    """Where the weights lie: strides of the result channel, the source channel and the group; the taps are dense.

    `flipped`: panels hold the taps in the opposite order.
    """

    arg: int
    result: int
    source: int
    group: int
    flipped: bool = False


class DirectConv(Kernel):
    """result[n, r, o] = Σ over taps k and channels i of source[n, s(r, k), i] · weight[k, i, o], by register tiles.

    A tile is some rows times some vectors of result channels. Rows are images at one pixel, so that only taps inside
    the image are worked on; or, with few images or few channels, the pixels of a line, read from a copy of a band of the
    image with zeros around it. Weights are first packed into panels, one for some vectors of channels, in the workspace.
    channels: (source, result) channels of one group. `wise`: every channel by itself, source channels = 1. `narrow`: so few
    result channels that lanes run along the source channels and are added up at the end.
    """

    def __init__(
        self,
        batch: int,
        groups: int,
        channels: Pair,
        taps: tuple[Taps, Taps],
        source: Access,
        weights: Weights,
        body: Body,
        words: Pair,
        wise: bool = False,
        few: bool = False,
    ) -> None:
        self.batch, self.groups, (self.inner, self.outer) = batch, groups, channels
        self.taps, self.source, self.weights, self.body = taps, source, weights, body
        self.workspace_word, self.scratch_word = words
        self.wise, self.kind = wise, source.kind
        self.narrow = groups == 1 and not wise and self.outer <= 4 and self.inner >= 16
        self.depth = taps[0].taps * taps[1].taps * self.inner
        item, (high, wide) = BITS[self.kind] // 8, (t.results for t in taps)
        block = 64 // item
        across, along = (self.inner, self.outer) if self.narrow else (self.outer, self.inner)
        self.workspace = groups * taps[0].taps * taps[1].taps * along * -(-across // block) * block * item
        self.band: Band | None = None
        self.copied = False
        if all(t.forward for t in taps) and not wise and (few or batch < 4):
            self.band = Band.fitting(source, taps, groups * self.inner, batch, PARTS.band)
            self.copied = source.strides[3] != 1 or not all(t.whole for t in taps)
        self.scratch = -(-self.band.size * item // 64) * 64 if self.band and self.copied else 0
        results = batch * high * wide * groups * self.outer
        self.flops = 2 * results * self.depth
        sources = batch * groups * self.inner * taps[0].sources * taps[1].sources
        self.nbytes = item * (sources + results) + self.workspace

    def key(self) -> str:
        parts = (self.batch, self.groups, self.inner, self.outer, self.taps, self.source, self.weights, self.band)
        words = (self.workspace_word, self.scratch_word, self.wise)
        return f"DirectConv{parts}{words}|{self.body.key()}"

    def emit(self, f: Function) -> None:
        writer = DirectWriter(self, f)
        writer.pack()
        f.barrier()
        if self.band:
            writer.bands(self.band)
        else:
            writer.images()


class ConvForward(DirectConv):
    """y of x and w. `body` has index space (n, h, w, o), lanes along o, given: the sum; it stores.

    x: Access (n, h, w, c); weight: Access (o, i, kh, kw), dense in (i, kh, kw). The type is that of x, f32 or f64.
    """

    def __init__(
        self, shape: ConvShape, x: Access, weight: Access, body: Body, workspace_word: int, scratch_word: int
    ) -> None:
        s, so, si = shape, weight.strides[0], shape.kernel[0] * shape.kernel[1]
        wise, inner, outer = s.depthwise, s.inputs // s.groups, s.outputs // s.groups
        groups, channels = (1, (1, s.outputs)) if wise else (s.groups, (inner, outer))
        weights = Weights(weight.arg, so, si, so * outer)
        words = workspace_word, scratch_word
        super().__init__(s.batch, groups, channels, s.forward_taps, x, weights, body, words, wise, s.few)


# ------------------------------------------------------------------------------------------- emission


class DirectWriter:
    """Writes a DirectConv for one target."""

    def __init__(self, kernel: DirectConv, f: Function) -> None:
        self.k, self.f, self.kind = kernel, f, kernel.kind
        self.lanes = f.target.lanes_of(self.kind)
        line = kernel.taps[1].results if kernel.band else kernel.batch
        self.panels = Panels.of(kernel.outer, self.lanes, line, f.target.registers)
        limit = self.panels.rows(f.target.registers)
        if kernel.narrow:
            limit = (f.target.registers - 6) // (kernel.outer + 1)
        self.parts = even_parts(line, limit)
        self.rows = self.parts[0][2]

    def pack(self) -> None:
        if self.k.narrow:
            w = self.k.weights
            turned = Weights(w.arg, w.source, w.result, 0, w.flipped)
            pack(self.f, self.k, turned, self.k.outer, Panels.single(self.k.inner, self.lanes))
        else:
            pack(self.f, self.k, self.k.weights, self.k.inner, self.panels)

    def panel(self, group: Any, p: Any) -> Any:
        """Where a panel starts in the workspace."""
        return p * (self.k.depth * self.panels.width) + group * (self.k.depth * self.panels.total * self.lanes)

    def images(self) -> None:
        """Tiles of images at one pixel."""
        f, k, high = self.f, self.k, self.k.taps[0].results
        for first, tiles, rows in self.parts:
            if k.workspace <= f.target.near.weights:  # a line of some images, all panels
                lo, hi = f.split(tiles * high)
                for i in each(f, lo, hi):
                    n, h = (i // high + first) * self.rows, i % high
                    for kind in self.panels.kinds():
                        for group, p in self._panels(0, k.groups * kind.number, kind):
                            self._lines(n, rows, (h, h + 1), group, p, kind)
            else:  # one panel, some images
                for kind in self.panels.kinds():
                    lo, hi = f.split(tiles * k.groups * kind.number)
                    for group, p, tile in self._panels(lo, hi, kind, tiles):
                        self._lines((tile + first) * self.rows, rows, (0, high), group, p, kind)

    def _panels(self, lo: Any, hi: Any, kind: Kind, inner: int = 0) -> Iterator[tuple[Any, ...]]:
        """(group, panel) for the numbers lo … hi of a kind of panel; (group, panel, i) with i < inner counted too."""
        for number in each(self.f, lo, hi):
            rest = (number % inner,) if inner else ()
            panel = number // inner if inner else number
            group, p = divmod_(panel, kind.number if self.k.groups > 1 else 0)
            yield group, p + kind.first, *rest

    def _channel(self, group: Any, p: Any) -> Any:
        """The first source channel of a panel."""
        return p * self.panels.width if self.k.wise else group * self.k.inner

    def _lines(self, n: Val, rows: int, lines: tuple[Any, Any], group: Any, p: Val, kind: Kind) -> None:
        """All pixels of some lines of `rows` images, for one panel."""
        f, k = self.f, self.k
        sn, sh, sw, _ = k.source.strides
        source = f.offset(f.arg(k.source.arg), n * sn + self._channel(group, p), self.kind)
        offsets = [r * sn for r in range(rows)]
        for h in each(f, *lines):
            vertical = k.taps[0].range(f, h)
            for w in each(f, 0, k.taps[1].results):
                horizontal = k.taps[1].range(f, w)
                acc = self._tile(source, offsets, group, p, kind, vertical, horizontal, (sh, sw))
                self._finish(acc, group, p, kind, (n, h, w), 0)

    def bands(self, band: Band) -> None:
        """Tiles of pixels of one line, from a copy of the lines with zeros around them."""
        f, k = self.f, self.k
        (down, _), high = k.taps, k.taps[0].results
        number = -(-high // band.rows)
        memory = f.offset(f.arg(k.scratch_word), f.tid * (k.scratch * 8 // BITS[self.kind]), self.kind)
        if k.copied:
            band.clear(f, memory, self.lanes)
        lo, hi = f.split(k.batch * number)
        for i in each(f, lo, hi):
            n, top = i // number, i % number * band.rows
            end = f.intrinsic("smin", top + band.rows, high)
            if k.copied:
                band.copy(f, memory, self.lanes, n, top)
                source, strides = memory, (band.pitch, band.channels)
            else:
                sn, sh, sw, _ = k.source.strides
                place = n * sn + (top * down.stride - down.padding) * sh - k.taps[1].padding * sw
                source, strides = f.offset(f.arg(k.source.arg), place, self.kind), (sh, sw)
            for kind in self.panels.kinds():
                for group, p in self._panels(0, k.groups * kind.number, kind):
                    start = f.offset(source, self._channel(group, p), self.kind)
                    for h in each(f, 0, end - top):
                        self._line(start, strides, (n, h + top), h * down.stride, group, p, kind)

    def _line(self, source: Val, strides: Pair, at: tuple[Val, Val], line: Val, group: Any, p: Val, kind: Kind) -> None:
        """The pixels of one line, some at a time."""
        down, across = self.k.taps
        for first, tiles, rows in self.parts:
            for tile in each(self.f, 0, tiles):
                w = (tile + first) * self.rows
                offsets = [r * across.stride * strides[1] for r in range(rows)]
                horizontal = across.taps, w * across.stride, 0
                acc = self._tile(source, offsets, group, p, kind, (down.taps, line, 0), horizontal, strides)
                self._finish(acc, group, p, kind, (*at, w), 2)

    def _tile(
        self,
        source: Val,
        offsets: list[int],
        group: Any,
        p: Val,
        kind: Kind,
        vertical: tuple[Any, Val, Any],
        horizontal: tuple[Any, Val, Any],
        strides: Pair,
    ) -> list[Val]:
        """The sums of one tile; vertical and horizontal are (count, start, first) of the taps."""
        f, k, (sh, sw) = self.f, self.k, strides
        if k.narrow:
            return self._narrow_tile(source, offsets, vertical, horizontal, strides)
        (down, top, row), (across, left, column) = vertical, horizontal
        width = kind.vectors * self.lanes
        tap = k.inner * width
        line = k.taps[1].taps * tap
        x = f.offset(source, top * sh + left * sw, self.kind)
        w = f.offset(f.arg(k.workspace_word), self.panel(group, p) + row * line + column * tap, self.kind)
        one_run = not k.wise and k.taps[1].advance * sw == k.inner and k.taps[1].skip == 1

        def lines(i: Val, acc: list[Val]) -> list[Val]:
            xi = f.offset(x, i * (k.taps[0].advance * sh), self.kind)
            wi = f.offset(w, i * (k.taps[0].skip * line), self.kind)
            if one_run:
                return self._run(xi, offsets, wi, kind, across, acc)

            def columns(j: Val, acc: list[Val]) -> list[Val]:
                xj = f.offset(xi, j * (k.taps[1].advance * sw), self.kind)
                return self._run(xj, offsets, f.offset(wi, j * (k.taps[1].skip * tap), self.kind), kind, 1, acc)

            return carried(f, across, acc, columns, k.taps[1].never_empty)

        zero = f.const(self.kind, 0.0, self.lanes)
        return carried(f, down, [zero] * (len(offsets) * kind.vectors), lines, k.taps[0].never_empty)

    def _narrow_tile(
        self, source: Val, offsets: list[int], vertical: tuple, horizontal: tuple, strides: Pair
    ) -> list[Val]:
        """The sums of a tile with few result channels, which are the first lanes of one vector for each row."""
        f, k, lanes, (sh, sw) = self.f, self.k, self.lanes, strides
        (down, top, row), (across, left, column), (tall, wide) = vertical, horizontal, k.taps
        x = f.offset(source, top * sh + left * sw, self.kind)
        taps, tap = tall.taps * wide.taps, k.outer * lanes
        edge = f.tail_mask(lanes, k.inner % lanes) if k.inner % lanes else None

        def vectors(x: Val, w: Val, mask: Val | None, acc: list[Val]) -> list[Val]:
            """Some source channels of one tap."""
            right = [f.load(w, o * lanes, self.kind, lanes) for o in range(k.outer)]
            left = [f.load(x, offset, self.kind, lanes, mask) for offset in offsets]
            pairs = [(a, b) for a in left for b in right]
            return [f.intrinsic("fmuladd", a, b, c) for (a, b), c in zip(pairs, acc, strict=True)]

        def one(i: Val, j: Val, acc: list[Val]) -> list[Val]:
            xi = f.offset(x, i * (tall.advance * sh) + j * (wide.advance * sw), self.kind)
            number = (row + i * tall.skip) * wide.taps + column + j * wide.skip
            w = f.offset(f.arg(k.workspace_word), number * tap, self.kind)

            def some(v: Val, acc: list[Val]) -> list[Val]:
                return vectors(f.offset(xi, v * lanes, self.kind), f.offset(w, v * (taps * tap), self.kind), None, acc)

            full = k.inner // lanes
            acc = carried(f, full, acc, some)
            if edge:
                acc = vectors(
                    f.offset(xi, full * lanes, self.kind), f.offset(w, full * taps * tap, self.kind), edge, acc
                )
            return acc

        def line(i: Val, acc: list[Val]) -> list[Val]:
            return carried(f, across, acc, lambda j, acc: one(i, j, acc), wide.never_empty)

        zero = f.const(self.kind, 0.0, lanes)
        acc = carried(f, down, [zero] * (len(offsets) * k.outer), line, tall.never_empty)
        found = []
        for r in range(len(offsets)):
            value = zero
            for o in range(k.outer):
                value = f.insert(value, f.total(acc[r * k.outer + o]), o)
            found.append(value)
        return found

    def _run(self, x: Val, offsets: list[int], w: Val, kind: Kind, taps: Any, acc: list[Val]) -> list[Val]:
        """Add the products of consecutive source channels, of one tap or of several in a line."""
        f, k, lanes = self.f, self.k, self.lanes
        length = taps * k.inner if isinstance(taps, int) else k.inner
        unroll = max(u for u in range(1, 13) if length % u == 0 and (u == 1 or u * len(acc) <= UNROLLED))
        count = length // unroll if isinstance(taps, int) else taps * (length // unroll)
        masks = [kind.mask(f, q, lanes) for q in range(kind.vectors)]

        def some(i: Val, acc: list[Val]) -> list[Val]:
            for u in range(unroll):
                xi = f.offset(x, i * unroll + u, self.kind)
                wi = f.offset(w, (i * unroll + u) * (kind.vectors * lanes), self.kind)
                right = [f.load(wi, q * lanes, self.kind, lanes) for q in range(kind.vectors)]
                acc = (
                    channel_wise(f, xi, offsets, right, masks, acc) if k.wise else rank_one(f, xi, offsets, right, acc)
                )
            return acc

        return carried(f, count, acc, some, isinstance(taps, int) or k.taps[1].never_empty)

    def _finish(self, acc: list[Val], group: Any, p: Val, kind: Kind, at: tuple[Val, ...], axis: int) -> None:
        """Hand the sums of a tile to the body; rows are consecutive along `axis`."""
        channel = p * self.panels.width + group * self.k.outer
        masks = [kind.mask(self.f, q, self.lanes) for q in range(kind.vectors)]
        finish(self.f, self.k.body, acc, lambda r: (*at[:axis], at[axis] + r, *at[axis + 1 :], channel), masks)


def pack(f: Function, k: DirectConv, w: Weights, inner: int, panels: Panels) -> None:
    """Weights to panels [group][panel][tap][channel < inner][vector] in the workspace: squares of lanes are turned.

    Lanes run along the channel whose stride is `w.result`, `inner` counts the one with stride `w.source`.
    """
    taps, lanes, kind = k.taps[0].taps * k.taps[1].taps, panels.lanes, k.kind
    dense = w.source == taps  # (channel, tap) is one run in memory, otherwise each channel is one
    run, runs = (inner * taps, 1) if dense else (taps, inner)
    blocks, edge = -(-run // lanes), int(panels.edge < lanes)
    for first, number, count in ((0, panels.total - edge, lanes), (panels.total - 1, edge, panels.edge)):
        lo, hi = f.split(k.groups * number * runs * blocks) if number else (0, 0)
        for i in each(f, lo, hi):
            start, channel = i % blocks * lanes, i // blocks % runs
            group, vector = divmod_(i // (blocks * runs), number if k.groups > 1 else 0)
            vector = vector + first
            panel, column = vector // panels.vectors, vector % panels.vectors
            width = f.select(panel < panels.full, panels.width, f.index(panels.rest * lanes))
            place = (group * panels.total + panel * panels.vectors) * (taps * inner * lanes) + column * lanes
            target = f.offset(f.arg(k.workspace_word), place, kind)
            read = vector * (lanes * w.result) + channel * w.source + group * w.group + start
            mask = f.tail_mask(lanes, run - start) if run % lanes else None
            rows = [f.load(f.arg(w.arg), read + r * w.result, kind, lanes, mask) for r in range(count)]
            rows += [f.const(kind, 0.0, lanes)] * (lanes - count)
            for element, value in enumerate(transpose(f, rows)[:run]):
                tap = (start + element) % taps
                row = (taps - 1 - tap if w.flipped else tap) * inner + channel + (start + element) // taps
                if run % lanes == 0 or run < lanes:
                    f.store(value, target, row * width)
                else:
                    with f.when(start + element < run):
                        f.store(value, target, row * width)


def divmod_(number: Val, by: int) -> tuple[Any, Val]:
    """(number // by, number % by); (0, number) where by is 0."""
    return (number // by, number % by) if by else (0, number)
