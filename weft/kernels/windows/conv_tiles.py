"""What kernels over windows share: which positions are inside, how channels are cut into panels, loops and tile steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..body import Access, Body
from ..llvm.builder import Function
from ..llvm.values import BITS, Val

__all__ = [
    "Band",
    "Kind",
    "Pair",
    "Panels",
    "Taps",
    "carried",
    "channel_wise",
    "each",
    "even_parts",
    "finish",
    "rank_one",
    "sweep",
    "transpose",
]

Pair = tuple[int, int]
UNROLLED_STEPS = 64  # operations of a body, over all vectors of a tile, that are written out one after the other


# ------------------------------------------------------------------------------------------- geometry


@dataclass(frozen=True)
class Taps:
    """One dimension: result r reads source positions start + m·advance with taps first + m·skip, for m < count.

    forward: source = r·stride + tap·dilation − padding. Otherwise the adjoint with the taps counted backwards:
    r + padding = source·stride + (taps − 1 − tap)·dilation.
    """

    taps: int
    results: int
    sources: int
    stride: int
    padding: int
    dilation: int
    forward: bool = True

    @staticmethod
    def adjoint(taps: int, results: int, sources: int, stride: int, padding: int, dilation: int) -> Taps:
        """The adjoint; with stride 1 it is a forward dimension too."""
        if stride == 1:
            return Taps(taps, results, sources, 1, (taps - 1) * dilation - padding, dilation)
        return Taps(taps, results, sources, stride, padding, dilation, forward=False)

    @property
    def advance(self) -> int:
        return self.dilation if self.forward else -(self.dilation // math.gcd(self.stride, self.dilation))

    @property
    def skip(self) -> int:
        return 1 if self.forward else -(self.stride // math.gcd(self.stride, self.dilation))

    @property
    def extent(self) -> int:
        """Source positions from the first to the last that all results together read, those outside included."""
        return (self.results - 1) * self.stride + (self.taps - 1) * self.dilation + 1

    def count(self, r: int) -> int:
        """How many taps are inside at position r."""
        if self.forward:
            return sum(0 <= r * self.stride + k * self.dilation - self.padding < self.sources for k in range(self.taps))
        places = (r + self.padding - k * self.dilation for k in range(self.taps))
        return sum(p % self.stride == 0 and 0 <= p // self.stride < self.sources for p in places)

    @property
    def whole(self) -> bool:
        """Whether every tap is inside at every position."""
        return self.forward and self.padding <= 0 and self.extent - self.padding <= self.sources

    @property
    def never_empty(self) -> bool:
        return all(self.count(r) for r in range(self.results))

    def range(self, f: Function, r: Val) -> tuple[Any, Val, Any]:
        """(count, start, first) at position r; a count may be negative."""
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
        rest = place % self.stride  # of tap·dilation, taps counted from the front here
        tap = (rest // common * pow(advance, -1, skip)) % skip if skip > 1 else f.index(0)
        source = (place - tap * self.dilation) // self.stride
        behind = f.intrinsic("smax", (source - self.sources + advance) // advance, 0)
        inside = f.select(place >= tap * self.dilation, source // advance + 1, 0)
        count = f.intrinsic("smin", inside, (self.taps - 1 - tap + skip) // skip) - behind
        if common > 1:
            count = f.select((rest % common).eq(0), count, 0)
        return count, source - behind * advance, self.taps - 1 - tap - behind * skip


def _ceiling(x: Val, by: int) -> Val:
    return x if by == 1 else (x + (by - 1)) // by


def even_parts(count: int, limit: int) -> list[tuple[int, int, int]]:
    """Cut `count` into parts of at most `limit`, nearly equal: (first part, number of parts, size), one or two rows."""
    size = -(-count // -(-count // limit))
    full, rest = divmod(count, size)
    return [(0, full, size)] + ([(full, 1, rest)] if rest else [])


@dataclass(frozen=True)
class Kind:
    """`number` panels from number `first` on, of `vectors` registers; only `edge` lanes of the last one if not 0."""

    first: int
    number: int
    vectors: int
    edge: int

    def mask(self, f: Function, vector: int, lanes: int) -> Val | None:
        return f.tail_mask(lanes, self.edge) if self.edge and vector == self.vectors - 1 else None


@dataclass(frozen=True)
class Panels:
    """Channels of a group cut into `full` panels of `vectors` registers, then one of `rest` (0: none).

    `edge` lanes of the very last vector are used.
    """

    lanes: int
    vectors: int
    full: int
    rest: int
    edge: int

    @staticmethod
    def of(channels: int, lanes: int, rows: int, registers: int) -> Panels:
        """Panels for tiles of up to `rows` rows: 2 vectors with many rows, up to 4 with few."""
        total, many = -(-channels // lanes), rows > 4
        most = min(4, (registers - 4) // (min(rows, 4) + 1))
        choices = [v for v in ((2, 3, 4) if many else (4, 3, 2)) if v <= most and total % v == 0]
        vectors = total if total <= (2 if many else most) else choices[0] if choices else 2
        edge = channels - (total - 1) * lanes
        full, rest = divmod(total, vectors)
        if edge < lanes and not rest and full > 1:
            full, rest = full - 1, vectors
        return Panels(lanes, vectors, full, rest, edge)

    @staticmethod
    def single(channels: int, lanes: int) -> Panels:
        """Panels of one vector."""
        total = -(-channels // lanes)
        return Panels(lanes, 1, total, 0, channels - (total - 1) * lanes)

    @property
    def total(self) -> int:
        """Vectors of all panels."""
        return self.full * self.vectors + self.rest

    @property
    def width(self) -> int:
        return self.lanes * self.vectors

    def rows(self, registers: int) -> int:
        """How many rows of a tile the registers have room for."""
        return min(8 if self.vectors > 1 else 12, (registers - 2) // self.vectors - 1)

    def kinds(self) -> list[Kind]:
        edge = self.edge % self.lanes
        found = [Kind(0, self.full, self.vectors, 0 if self.rest else edge)]
        return found + ([Kind(self.full, 1, self.rest, edge)] if self.rest else [])


# ------------------------------------------------------------------------------------------- loops


def each(f: Function, lo: Any, hi: Any) -> Iterator[Val]:
    """`for i in each(f, lo, hi):` writes a loop round what the body writes; none where there is only one round."""
    if isinstance(lo, int) and isinstance(hi, int) and hi - lo <= 1:
        if hi > lo:
            yield f.index(lo)
        return
    with f.loop(lo, hi) as loop:
        yield loop.i


def carried(
    f: Function, count: Any, values: Sequence[Val], step: Callable[[Val, list[Val]], list[Val]], runs: bool = True
) -> list[Val]:
    """Values that go `count` times through step(i, values)."""
    if isinstance(count, int) and count == 1:
        return step(f.index(0), list(values))
    with f.loop(0, count, carry=values, runs=runs) as loop:
        loop.next(step(loop.i, loop.carry))
    return loop.results


def sweep(f: Function, count: int, lanes: int, step: Callable[[Val, Val | None], None]) -> None:
    """step(first, mask) for every vector of a run of known length."""
    whole = count - count % lanes
    for i in each(f, 0, whole // lanes):
        step(i * lanes, None)
    if count % lanes:
        step(f.index(whole), f.tail_mask(lanes, count % lanes))


# ------------------------------------------------------------------------------------------- vectors


def rank_one(f: Function, x: Val, offsets: Sequence[int], right: Sequence[Val], acc: Sequence[Val]) -> list[Val]:
    """acc[r][q] += x[offsets[r]] · right[q]: one step of a tile."""
    out, kind, lanes = [], right[0].kind, right[0].lanes
    for r, offset in enumerate(offsets):
        left = f.splat(f.load(x, offset, kind), lanes)
        out += [f.intrinsic("fmuladd", left, b, acc[r * len(right) + q]) for q, b in enumerate(right)]
    return out


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


def finish(
    f: Function, body: Body, acc: Sequence[Val], index: Callable[[Any], tuple[Any, ...]], masks: Sequence[Val | None]
) -> None:
    """Hand a tile to a body: row r of the sums has index(r), lanes along its last axis; `masks` for each vector."""
    vectors, lanes = len(masks), acc[0].lanes
    rows = len(acc) // vectors

    def row(r: Any, values: Sequence[Val]) -> None:
        *place, first = index(r)
        for q, (value, mask) in enumerate(zip(values, masks, strict=True)):
            body.emit(f, (*place, first + q * lanes), len(place), lanes, mask, [value])

    if len(acc) * len(body.steps) <= UNROLLED_STEPS or rows == 1:
        for r in range(rows):
            row(r, acc[r * vectors : (r + 1) * vectors])
        return
    kind = acc[0].kind
    memory = f.stack(kind, len(acc) * lanes)
    for i, value in enumerate(acc):
        f.store(value, memory, i * lanes)
    with f.loop(0, rows, runs=True) as loop:
        start = f.offset(memory, loop.i * (vectors * lanes), kind)
        row(loop.i, [f.load(start, q * lanes, kind, lanes) for q in range(vectors)])


# ------------------------------------------------------------------------------------------- copies


@dataclass(frozen=True)
class Band:
    """A private copy of the lines of an image that `rows` lines of results read, with zeros where the image ends.

    source: Access (n, h, w, c) with any strides, but with stride 1 of c if there are many channels. The copy is dense,
    (lines, extent, channels).
    """

    source: Access
    taps: tuple[Taps, Taps]
    channels: int
    rows: int

    @staticmethod
    def fitting(source: Access, taps: tuple[Taps, Taps], channels: int, batch: int, limit: int) -> Band:
        """A band of at most `limit` bytes; smaller ones if there would be too few for many threads."""
        high, item = taps[0].results, BITS[source.kind] // 8
        band = Band(source, taps, channels, max(1, min(high, high * batch // 16)))
        while band.rows > 1 and band.size * item > limit:
            band = Band(source, taps, channels, band.rows - 1)
        return band

    @property
    def lines(self) -> int:
        return (self.rows - 1) * self.taps[0].stride + (self.taps[0].taps - 1) * self.taps[0].dilation + 1

    @property
    def pitch(self) -> int:
        """Elements from one line to the next."""
        return self.taps[1].extent * self.channels

    @property
    def size(self) -> int:
        """Elements."""
        return self.lines * self.pitch

    def clear(self, f: Function, memory: Val, lanes: int) -> None:
        """Zeros everywhere: `copy` leaves those beside the image as they are."""
        zero = f.const(self.source.kind, 0.0, lanes)
        sweep(f, self.size, lanes, lambda i, mask: f.store(zero, memory, i, mask))

    def copy(self, f: Function, memory: Val, lanes: int, n: Val, top: Val) -> None:
        """Fill it for the results from line `top` of image n on."""
        (sn, sh, sw, sc), (down, across) = self.source.strides, self.taps
        left = max(0, across.padding)
        width = min(across.extent - left, across.sources)
        with f.loop(0, self.lines) as loop:
            line = top * down.stride - down.padding + loop.i
            inside = f.splat((line >= 0) & (line < down.sources), lanes)
            to = loop.i * self.pitch + left * self.channels
            first = n * sn + line * sh + max(0, -across.padding) * sw
            if sc == 1 and sw == self.channels:
                self._run(f, width * self.channels, inside, first, 1, memory, to, 1)
            elif sc == 1:
                for w in each(f, 0, width):
                    self._run(f, self.channels, inside, first + w * sw, 1, memory, to + w * self.channels, 1)
            else:
                for c in range(self.channels):
                    self._run(f, width, inside, first + c * sc, sw, memory, to + c, self.channels)

    def _run(
        self, f: Function, count: int, inside: Val, read: Val, apart: int, memory: Val, write: Val, step: int
    ) -> None:
        kind, lanes, x = self.source.kind, inside.lanes, f.arg(self.source.arg)

        def copy(i: Val, mask: Val | None) -> None:
            seen = inside if mask is None else inside & mask
            if apart:
                value = f.load(x, read + i * apart, kind, lanes, seen, apart)
            else:  # one pixel repeated: a plain load would be done outside of the image, too
                value = f.gather(f.splat(f.offset(x, read, kind), lanes), kind, seen)
            f.store(value, memory, write + i * step, mask, step)

        sweep(f, count, lanes, copy)
