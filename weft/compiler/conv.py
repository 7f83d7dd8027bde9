"""Convolution over channels-last images as register tiles: the forward pass, and what the gradients share with it.

Argument words. Every kernel here reads its tensors through `Access` values whose strides are in the order
(n, h, w, c): samples, rows, columns, channels. The stride of c must be 1 (exception: `ConvShape.few`). The shared memory
`workspace` (bytes, 0: none) is argument word `workspace_word`; private memory `scratch` (bytes for each thread) is
`scratch_word`. Neither needs to be cleared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .body import Access, Body
from .kernel import Kernel
from .llvm import BITS, Function, Val

Pair = tuple[int, int]
CACHED_WEIGHTS = 400_000  # bytes of packed weights that stay in the second-level cache beside the images
BAND_BYTES = 1 << 17  # of one band of a copied image


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


# ------------------------------------------------------------------------------------------- geometry


@dataclass(frozen=True)
class Taps:
    """One dimension: result position r reads source positions start + m·advance with taps first + m·skip, m < count.

    forward: source = r·stride + tap·dilation − padding; otherwise r + padding = source·stride + tap·dilation.
    """

    taps: int
    results: int
    sources: int
    stride: int
    padding: int
    dilation: int
    forward: bool = True

    @property
    def advance(self) -> int:
        return self.dilation if self.forward else -self.dilation // math.gcd(self.stride, self.dilation)

    @property
    def skip(self) -> int:
        return 1 if self.forward else self.stride // math.gcd(self.stride, self.dilation)

    def at(self, r: int) -> int:
        """How many taps there are at a position known now."""
        if self.forward:
            return sum(0 <= r * self.stride + k * self.dilation - self.padding < self.sources for k in range(self.taps))
        places = (r + self.padding - k * self.dilation for k in range(self.taps))
        return sum(p % self.stride == 0 and 0 <= p // self.stride < self.sources for p in places)

    @property
    def whole(self) -> bool:
        """Whether every tap is inside at every position."""
        return self.forward and self.padding <= 0 and (self.at(self.results - 1) == self.taps)

    @property
    def never_empty(self) -> bool:
        return all(self.at(r) for r in range(self.results))

    def range(self, f: Function, r: Val) -> tuple[Any, Val, Any]:
        """(count, start, first) at position r."""
        if self.whole:
            return self.taps, r * self.stride - self.padding, 0
        return self._forward(f, r) if self.forward else self._backward(f, r)

    def _forward(self, f: Function, r: Val) -> tuple[Any, Val, Any]:
        start = r * self.stride - self.padding
        first = _ceiling(f.intrinsic("smax", 0 - start, 0), self.dilation)
        last = _ceiling(f.intrinsic("smax", self.sources - start, 0), self.dilation)
        count = f.intrinsic("smin", last, self.taps) - first
        return count, start + first * self.dilation, first

    def _backward(self, f: Function, r: Val) -> tuple[Any, Val, Any]:
        common = math.gcd(self.stride, self.dilation)
        skip, advance = self.stride // common, self.dilation // common
        place = r + self.padding
        rest = place % self.stride  # tap·dilation ≡ rest (mod stride)
        tap = (rest // common * pow(advance, -1, skip)) % skip if skip > 1 else f.index(0)
        source = (place - tap * self.dilation) // self.stride  # of the first such tap, exact where there is one
        below = f.intrinsic("smax", (source - self.sources + advance) // advance, 0)
        inside = f.select(place >= tap * self.dilation, source // advance + 1, 0)
        count = f.intrinsic("smin", inside, (self.taps - 1 - tap + skip) // skip) - below
        if common > 1:
            count = f.select((rest % common).eq(0), count, 0)
        return count, source - below * advance, tap + below * skip


def _ceiling(x: Val, by: int) -> Val:
    return x if by == 1 else (x + (by - 1)) // by


def even_parts(count: int, limit: int) -> Pair:
    """Cut `count` into parts of at most `limit` that are as equal as possible: (size, size of the last one)."""
    size = -(-count // -(-count // limit))
    return size, count - (-(-count // size) - 1) * size


@dataclass(frozen=True)
class Panels:
    """How the result channels of a group are cut: `full` panels of `vectors` registers, then one of `rest` (0: none).

    `edge` lanes of the very last vector are used.
    """

    lanes: int
    vectors: int
    full: int
    rest: int
    edge: int

    @staticmethod
    def of(channels: int, lanes: int, rows: int, registers: int) -> Panels:
        """Panels for tiles of up to `rows` rows."""
        total = -(-channels // lanes)
        most = max(1, min(4, (registers - 4) // (min(rows, 4) + 1)))
        preferred = (2, 3, 4, 1) if rows > 4 else (4, 3, 2, 1)
        whole = [v for v in preferred if v <= most and total % v == 0]
        vectors = total if total <= min(most, 2 if rows > 4 else most) else whole[0]
        if vectors == 1 and total > 1 and most > 1:
            vectors = min(2, most)
        edge = channels - (total - 1) * lanes
        full, rest = divmod(total, vectors)
        if edge < lanes and not rest and full > 1:
            full, rest = full - 1, vectors
        return Panels(lanes, vectors, full, rest, edge)

    @property
    def total(self) -> int:
        """Vectors."""
        return self.full * self.vectors + self.rest

    @property
    def width(self) -> int:
        return self.lanes * self.vectors

    def kinds(self) -> list[Kind]:
        edge = self.edge if self.edge < self.lanes else 0
        found = [Kind(0, self.full, self.vectors, 0 if self.rest else edge)] if self.full else []
        return found + ([Kind(self.full, 1, self.rest, edge)] if self.rest else [])


@dataclass(frozen=True)
class Kind:
    """`number` panels from number `first` on, of `vectors` registers; only `edge` lanes of the last one if not 0."""

    first: int
    number: int
    vectors: int
    edge: int

    def mask(self, f: Function, vector: int, lanes: int) -> Val | None:
        return f.tail_mask(lanes, self.edge) if self.edge and vector == self.vectors - 1 else None


# ------------------------------------------------------------------------------------------- loops


def each(f: Function, lo: Any, hi: Any) -> Iterator[Any]:
    """A loop for `for`: one round with the emitted counter, or the Python number where there is only one."""
    if isinstance(lo, int) and isinstance(hi, int) and hi - lo <= 1:
        if hi > lo:
            yield f.index(lo)
        return
    with f.loop(lo, hi) as loop:
        yield loop.i


def carried(
    f: Function, count: Any, values: Sequence[Val], step: Callable[[Any, list[Val]], list[Val]], runs: bool = True
) -> list[Val]:
    """Values that go `count` times through step(i, values)."""
    if isinstance(count, int) and count == 1:
        return step(f.index(0), list(values))
    with f.loop(0, count, carry=values, runs=runs) as loop:
        loop.next(step(loop.i, loop.carry))
    return loop.results


def sweep(f: Function, count: int, lanes: int, step: Callable[[Any, Val | None], None]) -> None:
    """step(first, mask) for every vector of a run of known length."""
    whole = count - count % lanes
    for i in each(f, 0, whole // lanes):
        step(i * lanes, None)
    if count % lanes:
        step(f.index(whole), f.tail_mask(lanes, count % lanes))


def rank_one(f: Function, x: Val, offsets: Sequence[int], right: Sequence[Val], acc: Sequence[Val]) -> list[Val]:
    """acc[r][q] += x[offsets[r]] · right[q]: one step of a tile."""
    out, kind, lanes = [], right[0].kind, right[0].lanes
    for r, offset in enumerate(offsets):
        left = f.splat(f.load(x, offset, kind), lanes)
        out += [f.intrinsic("fmuladd", left, b, acc[r * len(right) + q]) for q, b in enumerate(right)]
    return out


def transpose(f: Function, rows: Sequence[Val]) -> list[Val]:
    """The square of lanes turned: lane j of result i is lane i of row j."""
    rows, lanes, distance = list(rows), len(rows), 1
    while distance < lanes:
        low = [i if not i & distance else lanes + i - distance for i in range(lanes)]
        high = [i + distance if not i & distance else lanes + i for i in range(lanes)]
        for i in range(lanes):
            if not i & distance:
                a, b = rows[i], rows[i + distance]
                rows[i], rows[i + distance] = f.shuffle(a, b, low), f.shuffle(a, b, high)
        distance *= 2
    return rows


def channel_wise(
    f: Function, x: Val, offsets: Sequence[int], right: Sequence[Val], masks: Sequence[Val | None], acc: Sequence[Val]
) -> list[Val]:
    """acc[r][q] += x[offsets[r] + lanes of vector q] · right[q], lane by lane."""
    out, kind, lanes = [], right[0].kind, right[0].lanes
    for r, offset in enumerate(offsets):
        for q, (b, mask) in enumerate(zip(right, masks, strict=True)):
            left = f.load(x, offset + q * lanes, kind, lanes, mask)
            out.append(f.intrinsic("fmuladd", left, b, acc[r * len(right) + q]))
    return out


# ------------------------------------------------------------------------------------------- the kernel


@dataclass(frozen=True)
class Weights:
    """Where the weights lie: strides of the result channel, the source channel, the group and the two tap axes.

    `flipped`: panels hold the taps in the opposite order.
    """

    arg: int
    result: int
    source: int
    group: int
    taps: Pair
    flipped: bool = False


class DirectConv(Kernel):
    """result[n, r, o] = Σ over taps k and channels i of source[n, s(r, k), i] · weight[k, i, o], by register tiles.

    A tile is some rows times some vectors of result channels. Rows are images at one pixel, so that only taps inside
    the image are worked on; or, with few images or few channels, the pixels of a line, read from a copy of a band of the
    image with zeros around it. Weights are first packed into panels, one for each vector group of channels, in the
    workspace. `wise`: every channel by itself (depth-wise), `outer` of them and `inner` = 1.
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
        self.depth = taps[0].taps * taps[1].taps * self.inner
        self.banded = taps[0].forward and taps[1].forward and not wise and (few or batch < 4)
        item, (high, wide) = BITS[self.kind] // 8, (t.results for t in taps)
        block = 64 // item
        self.workspace = groups * self.depth * -(-self.outer // block) * block * item
        self.copied = self.banded and not (all(t.whole for t in taps) and source.strides[3] == 1)
        self.band = self._band_rows(item) if self.banded else 0
        self.scratch = self._band_size() * item + 64 if self.copied else 0
        count = batch * high * wide * groups * self.outer
        self.flops = 2 * count * self.depth
        sources = batch * groups * self.inner * taps[0].sources * taps[1].sources
        self.nbytes = item * (sources + count) + self.workspace

    def key(self) -> str:
        parts = (self.batch, self.groups, self.inner, self.outer, self.taps, self.source, self.weights, self.banded)
        return f"{type(self).__name__}{parts}{self.workspace_word},{self.scratch_word},{self.wise}|{self.body.key()}"

    @property
    def _extent(self) -> int:
        """Columns of the copied band."""
        return (self.taps[1].results - 1) * self.taps[1].stride + (self.taps[1].taps - 1) * self.taps[1].dilation + 1

    def _band_input(self, rows: int) -> int:
        return (rows - 1) * self.taps[0].stride + (self.taps[0].taps - 1) * self.taps[0].dilation + 1

    def _band_size(self) -> int:
        return self._band_input(self.band) * self._extent * self.groups * self.inner

    def _band_rows(self, item: int) -> int:
        """Result rows of one band: its copy fits the cache, and there are some bands for every thread."""
        high, line = self.taps[0].results, self._extent * self.groups * self.inner * item
        rows = max(1, min(high, high * self.batch // 16))
        while rows > 1 and self._band_input(rows) * line > BAND_BYTES:
            rows -= 1
        return rows

    # ------------------------------------------------------------------------------------ emission
    def emit(self, f: Function) -> None:
        lanes = 8 * f.target.vector_bytes // BITS[self.kind]
        line = self.taps[1].results if self.banded else self.batch
        panels = Panels.of(self.outer, lanes, line, f.target.registers)
        limit = min(8 if panels.vectors > 1 else 12, (f.target.registers - 2) // panels.vectors - 1)
        self.tile = even_parts(line, limit)
        self.panels, self.lanes = panels, lanes
        self._pack(f)
        f.barrier()
        if self.banded:
            self._bands(f)
        else:
            self._images(f)

    def _pack(self, f: Function) -> None:
        """Weights to panels [group][panel][tap][source channel][vector]: squares of lanes × lanes are turned."""
        w, panels, taps = self.weights, self.panels, self.taps[0].taps * self.taps[1].taps
        dense = w.source == taps  # (source channel, tap) is one run in memory, otherwise each source channel is one
        run, starts = (self.inner * taps, 1) if dense else (taps, self.inner)
        blocks = -(-run // self.lanes)
        edge = panels.edge < self.lanes
        for first, number, count in ((0, panels.total - edge, self.lanes), (panels.total - 1, int(edge), panels.edge)):
            if number == 0:
                continue
            lo, hi = f.split(self.groups * number * starts * blocks)
            with f.loop(lo, hi) as loop:
                e, i = loop.i % blocks * self.lanes, loop.i // blocks % starts
                vector = loop.i // (blocks * starts)
                group, vector = (vector // number, vector % number + first) if self.groups > 1 else (0, vector + first)
                p, q = vector // panels.vectors, vector % panels.vectors
                width = f.index(panels.width)
                if panels.rest:
                    width = f.select(p < panels.full, width, panels.rest * self.lanes)
                read = vector * (self.lanes * w.result) + i * w.source + group * w.group + e
                target = f.offset(f.arg(self.workspace_word), self._panel(group, p) + q * self.lanes, self.kind)
                rows = self._runs(f, read, count, run - e if run % self.lanes else None)
                for column, value in enumerate(rows[:run]):
                    tap = (e + column) % taps if taps > 1 else f.index(0)
                    row = (taps - 1 - tap if w.flipped else tap) * self.inner + i + (e + column) // taps
                    if run % self.lanes == 0 or run < self.lanes:
                        f.store(value, target, row * width)
                    else:
                        with f.when(e + column < run):
                            f.store(value, target, row * width)

    def _runs(self, f: Function, read: Val, count: int, length: Val | None) -> list[Val]:
        """Vectors across `count` runs of weights."""
        w, mask = self.weights, None if length is None else f.tail_mask(self.lanes, length)
        zero = f.const(self.kind, 0.0, self.lanes)
        rows = [f.load(f.arg(w.arg), read + r * w.result, self.kind, self.lanes, mask) for r in range(count)]
        return transpose(f, rows + [zero] * (self.lanes - count))

    def _panel(self, group: Any, p: Any) -> Any:
        """Where a panel starts in the workspace."""
        place = p * (self.depth * self.panels.width)
        return place if self.groups == 1 else place + group * (self.depth * self.panels.total * self.lanes)

    def _images(self, f: Function) -> None:
        """Tiles of images at one pixel."""
        (rows, last), high = self.tile, self.taps[0].results
        full = self.batch // rows
        for first, tiles, rows in ((0, full, rows), (full, 1, last if last < rows else 0)):
            if rows == 0:
                continue
            if self.workspace <= CACHED_WEIGHTS:  # a line of some images, all panels
                lo, hi = f.split(tiles * high)
                with f.loop(lo, hi) as loop:
                    n, h = (loop.i // high + first) * self.tile[0], loop.i % high
                    for kind in self.panels.kinds():
                        for group, p in self._panels(f, 0, self.groups * kind.number, kind):
                            self._lines(f, n, rows, h, h + 1, group, p, kind)
            else:  # one panel, some images
                for kind in self.panels.kinds():
                    lo, hi = f.split(tiles * self.groups * kind.number)
                    for group, p, tile in self._panels(f, lo, hi, kind, tiles):
                        self._lines(f, (tile + first) * self.tile[0], rows, 0, high, group, p, kind)

    def _panels(self, f: Function, lo: Any, hi: Any, kind: Kind, inner: int = 0) -> Iterator[tuple[Val, ...]]:
        """(group, panel) for the numbers lo … hi of a kind of panel; (group, panel, i) with i < inner counted as well."""
        for number in each(f, lo, hi):
            rest = (number % inner,) if inner else ()
            number = number // inner if inner else number
            if self.groups == 1:
                yield f.index(0), number + kind.first, *rest
            else:
                yield number // kind.number, number % kind.number + kind.first, *rest

    def _lines(
        self, f: Function, n: Val, rows: int, h_lo: Any, h_hi: Any, group: Val, p: Val, kind: Kind
    ) -> None:
        """All pixels of some lines of `rows` images, for one panel."""
        sn, sh, sw, _ = self.source.strides
        source = f.offset(f.arg(self.source.arg), n * sn + self._channel(group, p), self.kind)
        for h in each(f, h_lo, h_hi):
            vertical = self.taps[0].range(f, h)
            for w in each(f, 0, self.taps[1].results):
                horizontal = self.taps[1].range(f, w)
                acc = self._tile(f, source, [r * sn for r in range(rows)], group, p, kind, vertical, horizontal, (sh, sw))
                self._finish(f, acc, [(n + r, h, w) for r in range(rows)], group, p, kind)

    def _channel(self, group: Any, p: Any) -> Any:
        """The first source channel of a panel."""
        return p * self.panels.width if self.wise else group * self.inner

    def _bands(self, f: Function) -> None:
        """Tiles of pixels of one line, from a copy of the lines with zeros around them."""
        (high, wide), band = (t.results for t in self.taps), self.band
        across, down = self.taps[1].stride, self.taps[0].stride
        bands = -(-high // band)
        if self.copied:
            self._clear(f)
        lo, hi = f.split(self.batch * bands)
        with f.loop(lo, hi) as loop:
            n, top = loop.i // bands, loop.i % bands * band
            bottom = f.intrinsic("smin", top + band, high) if high % band else top + band
            if self.copied:
                source, (sh, sw) = self._copy(f, n, top), (self._extent * self.groups * self.inner, self.groups * self.inner)
            else:
                sn, sh, sw, _ = self.source.strides
                source = f.offset(f.arg(self.source.arg), n * sn + top * (down * sh), self.kind)
            for kind in self.panels.kinds():
                for group, p in self._panels(f, 0, self.groups * kind.number, kind):
                    start = f.offset(source, self._channel(group, p), self.kind)
                    for h in each(f, 0, bottom - top):
                        vertical = self.taps[0].taps, h * down, 0
                        self._line(f, start, (n, h + top), vertical, (sh, sw), group, p, kind)

    def _line(
        self, f: Function, source: Val, at: tuple[Val, Val], vertical: Any, strides: Pair, group: Val, p: Val, kind: Kind
    ) -> None:
        """The pixels of one line, some at a time."""
        rows, last = self.tile
        full, across, wide = self.taps[1].results // rows, self.taps[1].stride, self.taps[1].taps
        for first, tiles, rows in ((0, full, rows), (full, 1, last if last < rows else 0)):
            for tile in each(f, 0, tiles if rows else 0):
                w = (tile + first) * self.tile[0]
                offsets = [r * across * strides[1] for r in range(rows)]
                acc = self._tile(f, source, offsets, group, p, kind, vertical, (wide, w * across, 0), strides)
                self._finish(f, acc, [(*at, w + r) for r in range(rows)], group, p, kind)

    def _clear(self, f: Function) -> None:
        """Zeros in the private band: its edges stay so."""
        start = f.offset(f.arg(self.scratch_word), f.tid * (self.scratch * 8 // BITS[self.kind]), self.kind)
        zero = f.const(self.kind, 0.0, self.lanes)
        sweep(f, self._band_size(), self.lanes, lambda i, mask: f.store(zero, start, i, mask))

    def _copy(self, f: Function, n: Val, top: Val) -> Val:
        """Copy the lines that the results from line `top` on need; returns where the band is."""
        sn, sh, sw, sc = self.source.strides
        vertical, horizontal = self.taps
        channels, x = self.groups * self.inner, f.arg(self.source.arg)
        left = max(0, horizontal.padding)
        width = min(self._extent - left, horizontal.sources)
        band = f.offset(f.arg(self.scratch_word), f.tid * (self.scratch * 8 // BITS[self.kind]), self.kind)
        with f.loop(0, self._band_input(self.band)) as lines:
            line = top * vertical.stride - vertical.padding + lines.i
            inside = (line >= 0) & (line < vertical.sources)
            to = lines.i * (self._extent * channels) + left * channels
            first = n * sn + line * sh + max(0, -horizontal.padding) * sw
            if sc == 1 and sw == channels:
                runs = [(width * channels, 0, 0, 1, 1)]
            else:
                runs = [(width, c * sc, c, sw, channels) for c in range(channels)]
            for count, read, write, step_in, step_out in runs:
                self._run(f, count, inside, (x, first + read, step_in), (band, to + write, step_out))
        return band

    def _run(self, f: Function, count: int, inside: Val, source: tuple, target: tuple) -> None:
        """Copy a run of known length from (pointer, index, step) to another, zeros if it is not inside."""
        every = f.splat(inside, self.lanes)

        def copy(i: Val, mask: Val | None) -> None:
            (x, read, step_in), (y, write, step_out) = source, target
            seen = every if mask is None else every & mask
            f.store(f.load(x, read + i * step_in, self.kind, self.lanes, seen, step_in), y, write + i * step_out, mask, step_out)

        sweep(f, count, self.lanes, copy)

    def _tile(
        self, f: Function, source: Val, offsets: list[int], group: Val, p: Val, kind: Kind, vertical: Any, horizontal: Any,
        strides: Pair,
    ) -> list[Val]:
        """The sums of one tile."""
        (down, top, row), (across, left, column) = vertical, horizontal
        (taps_h, taps_w), (sh, sw), width = self.taps, strides, kind.vectors * self.lanes
        inner, line = self.inner, taps_w.taps * self.inner * width
        x = f.offset(source, top * sh + left * sw, self.kind)
        start = self._panel(group, p) + row * line + column * (inner * width)
        w = f.offset(f.arg(self.workspace_word), start, self.kind)
        merged = not self.wise and taps_w.advance * sw == inner and taps_w.skip == 1
        masks = [kind.mask(f, q, self.lanes) for q in range(kind.vectors)]

        def step(x: Val, w: Val, acc: list[Val]) -> list[Val]:
            right = [f.load(w, q * self.lanes, self.kind, self.lanes) for q in range(kind.vectors)]
            return channel_wise(f, x, offsets, right, masks, acc) if self.wise else rank_one(f, x, offsets, right, acc)

        def run(x: Val, w: Val, taps: Any, acc: list[Val]) -> list[Val]:
            """Consecutive source channels, of one tap or of several in a line."""
            length = taps * inner if isinstance(taps, int) else inner
            unroll = next(u for u in (12, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1) if length % u == 0 and u * len(acc) <= 160 or u == 1)
            count = length // unroll if isinstance(taps, int) else taps * (inner // unroll)

            def some(i: Val, acc: list[Val]) -> list[Val]:
                xi, wi = f.offset(x, i * unroll, self.kind), f.offset(w, i * (unroll * width), self.kind)
                for u in range(unroll):
                    acc = step(f.offset(xi, u, self.kind), f.offset(wi, u * width, self.kind), acc)
                return acc

            return carried(f, count, acc, some, runs=isinstance(taps, int) or taps_w.never_empty)

        def lines(i: Val, acc: list[Val]) -> list[Val]:
            xi = f.offset(x, i * (taps_h.advance * sh), self.kind)
            wi = f.offset(w, i * (taps_h.skip * line), self.kind)
            if merged:
                return run(xi, wi, across, acc)

            def columns(j: Val, acc: list[Val]) -> list[Val]:
                xj = f.offset(xi, j * (taps_w.advance * sw), self.kind)
                return run(xj, f.offset(wi, j * (taps_w.skip * inner * width), self.kind), 1, acc)

            return carried(f, across, acc, columns, taps_w.never_empty)

        zero = f.const(self.kind, 0.0, self.lanes)
        return carried(f, down, [zero] * (len(offsets) * kind.vectors), lines, taps_h.never_empty)

    def _finish(
        self, f: Function, acc: list[Val], at: list[tuple[Any, ...]], group: Val, p: Val, kind: Kind
    ) -> None:
        """Hand the sums of a tile to the body."""
        first = p * self.panels.width + (0 if self.groups == 1 else group * self.outer)
        for r, (n, h, w) in enumerate(at):
            for q in range(kind.vectors):
                value, mask = acc[r * kind.vectors + q], kind.mask(f, q, self.lanes)
                self.body.emit(f, (n, h, w, first + q * self.lanes), 3, self.lanes, mask, [value])


class ConvForward(DirectConv):
    """y of x and w. `body` has index space (n, h, w, o), lanes along o, given: the sum; it stores.

    x: Access (n, h, w, c); weight: Access (o, i, kh, kw), any strides. The type is that of x, f32 or f64.
    """

    def __init__(
        self, shape: ConvShape, x: Access, weight: Access, body: Body, workspace_word: int, scratch_word: int
    ) -> None:
        s, (so, si, *steps) = shape, weight.strides
        sizes = zip(s.kernel, s.counts, s.image, s.stride, s.padding, s.dilation, strict=True)
        height, width = (Taps(*each) for each in sizes)
        groups, channels = (1, (1, s.outputs)) if s.depthwise else (s.groups, (s.inputs // s.groups, s.outputs // s.groups))
        weights = Weights(weight.arg, so, si, so * (s.outputs // s.groups), (steps[0], steps[1]))
        words = workspace_word, scratch_word
        super().__init__(s.batch, groups, channels, (height, width), x, weights, body, words, s.depthwise, s.few)
