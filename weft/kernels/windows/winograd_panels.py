"""Winograd's filtering where few tiles meet large weights: threads share the results' channels, not the tiles.

Blocks of tiles (winograd.py) would each read all transformed weights, which no cache keeps. Here all tiles are transformed
first; then a panel of some vectors of results transforms its own weights, a few source channels at a time, and multiplies
them at once with all tiles. Sums are taken in the same order, so results are equal to the bit.
"""

from __future__ import annotations

from ..llvm.builder import Function
from ..llvm.target import PROCESSORS, Target
from ..llvm.values import Val
from .conv import DirectConv, pack
from .conv_tiles import Kind, Panels, each
from .winograd import PITCH, WinogradConv, Writer, collected, loaded, product, source_places, spread
from .winograd_transforms import input_transform, kernel_transform, output_transform, square

__all__ = ["WinogradPanels"]

ROWS, MOST_ROWS = 8, 12  # of a tile: those that panels are chosen for, and room for more
TRANSFORM = 8  # tiles that cost about as much as transforming the weights of a panel
MOST_GROUPS = 8


class WinogradPanels(WinogradConv):
    """What a WinogradConv computes. Where there are fewer panels than threads, `groups` of tiles are done side by side.

    The workspace holds the packed weights and the frequencies of all tiles, the scratch memory the transformed weights of a
    panel and `chunk` source channels, and the sums of a group of tiles.
    """

    def __init__(self, direct: DirectConv, m: int, threads: int, near: int | None = None) -> None:
        super().__init__(direct, m, 8)
        wide = max(Panels.of(self.outer, size // 4, ROWS, registers).width for size, registers in PROCESSORS)
        self.groups = self._groups(-(-self.outer // wide), threads)
        self.chunk, near = self.inner, Target.host().near.weights if near is None else near
        while self.chunk % 32 == 0 and 4 * self.frequencies * self.chunk * wide > near:
            self.chunk //= 2
        self.row = self.inner + PITCH  # from tile to tile, so that they do not fall on the same places of the cache
        self.pitch_of_tiles = (self.tiles + MOST_ROWS) * self.row
        self.of_weights = wide * self.chunk + PITCH
        self.of_sums = (-(-self.tiles // self.groups) + MOST_ROWS) * wide + PITCH
        self.workspace = direct.workspace + 4 * self.frequencies * self.pitch_of_tiles
        self.scratch = 4 * (self.frequencies * (self.of_weights + self.of_sums) + -(-self.inner // 16) * 16)
        self.nbytes = direct.nbytes + 2 * (self.workspace - direct.workspace)

    def _groups(self, panels: int, threads: int) -> int:
        """In how many parts the tiles are cut: all threads should be busy, and weights transformed for many tiles."""

        def cost(groups: int) -> int:
            return -(-panels * groups // threads) * (-(-self.tiles // groups) + TRANSFORM)

        return min(range(1, max(2, min(MOST_GROUPS, self.tiles // ROWS) + 1)), key=cost)

    def key(self) -> str:
        return f"Winograd panels {self.m},{self.groups},{self.chunk}|{self.direct.key()}"

    def emit(self, f: Function) -> None:
        writer = _PanelWriter(self, f)
        pack(f, self.direct, self.direct.weights, self.inner, Panels.single(self.outer, writer.lanes))
        writer.clear()
        writer.inputs()
        f.barrier()
        for kind in writer.panels.kinds():
            lo, hi = f.split(kind.number * self.groups)
            for unit in each(f, lo, hi):
                writer.panel(kind, kind.first + unit // self.groups, unit % self.groups)


class _PanelWriter(Writer):
    """Writes a WinogradPanels for one target."""

    k: WinogradPanels

    def __init__(self, kernel: WinogradPanels, f: Function) -> None:
        super().__init__(kernel, f)
        k, private = kernel, f.offset(f.arg(kernel.scratch_word), f.tid * (kernel.scratch // 4), "f32")
        self.sources = f.offset(f.arg(k.workspace_word), k.direct.workspace // 4, "f32")
        self.chunk = private
        self.sums = f.offset(private, k.frequencies * k.of_weights, "f32")
        self.zeros = f.offset(self.sums, k.frequencies * k.of_sums, "f32")
        self.panels = Panels.of(k.outer, self.lanes, ROWS, f.target.registers)
        self.rows = self.panels.rows(f.target.registers)

    def inputs(self) -> None:
        """All tiles to frequencies, some channels of a tile at a time: [frequency][tile][channel]."""
        f, k, lanes = self.f, self.k, self.lanes
        vectors = k.inner // lanes
        parts = next(p for p in (4, 2, 1) if vectors % p == 0)
        lo, hi = f.split(k.tiles * parts)
        for i in each(f, lo, hi):
            t, first = i // parts, i % parts * (vectors // parts)
            places = source_places(f, k.direct.source, k.direct.taps, k.m, *self._tile(t), self.zeros)
            to = f.offset(self.sources, t * k.row, "f32")
            for c in each(f, first, first + vectors // parts):
                found = square(lambda x: input_transform(f, x), loaded(f, places, c * lanes, lanes), k.m + 2)
                spread(f, found, f.offset(to, c * lanes, "f32"), k.pitch_of_tiles)

    def panel(self, kind: Kind, number: Val, group: Val) -> None:
        """The results of a panel at a group of tiles."""
        f, k = self.f, self.k
        first = group * k.tiles // k.groups
        count = (group + 1) * k.tiles // k.groups - first
        vector = number * self.panels.vectors
        for chunk in each(f, 0, k.inner // k.chunk):
            self.transform(kind, vector, chunk * k.chunk)
            for frequency in each(f, 0, k.frequencies):
                self.multiply(kind, frequency, chunk, first, count)
        for t in each(f, 0, count):
            self.results(kind, t, first + t, vector)

    def transform(self, kind: Kind, vector: Val, channel: Val) -> None:
        """Packed weights of a panel, `chunk` source channels from one on, to [frequency][vector][channel][lane]."""
        f, k, lanes = self.f, self.k, self.lanes
        for i in each(f, 0, kind.vectors * k.chunk):
            place = (vector + i // k.chunk) * (9 * k.inner) + channel + i % k.chunk
            packed = f.offset(f.arg(k.workspace_word), place * lanes, "f32")
            taps = collected(f, 3, packed, k.inner * lanes, lanes)
            found = square(lambda w: kernel_transform(f, w, k.m), taps, 3)
            spread(f, found, f.offset(self.chunk, i * lanes, "f32"), k.of_weights)

    def multiply(self, kind: Kind, frequency: Val, chunk: Val, first: Val, count: Val) -> None:
        """Add to the sums of all tiles of a group, at one frequency, what a chunk of source channels gives."""
        f, k, lanes, width = self.f, self.k, self.lanes, kind.vectors * self.lanes
        source = f.offset(self.sources, frequency * k.pitch_of_tiles + first * k.row + chunk * k.chunk, "f32")
        right = f.offset(self.chunk, frequency * k.of_weights, "f32")
        sums = f.offset(self.sums, frequency * k.of_sums, "f32")
        zero = f.const("f32", 0.0, lanes)
        for tile in each(f, 0, (count + (self.rows - 1)) // self.rows):
            left = f.offset(source, tile * (self.rows * k.row), "f32")
            to = f.offset(sums, tile * (self.rows * width), "f32")
            places = [i * lanes for i in range(self.rows * kind.vectors)]
            before = [f.select(chunk > 0, f.load(to, p, "f32", lanes), zero) for p in places]
            offsets, pitches = (
                [r * k.row for r in range(self.rows)],
                [q * k.chunk * lanes for q in range(kind.vectors)],
            )
            acc = product(f, k.chunk, left, 1, offsets, right, pitches, lanes, before)
            for place, value in zip(places, acc, strict=True):
                f.store(value, to, place)

    def results(self, kind: Kind, t: Val, number: Val, vector: Val) -> None:
        """Hand the results of tile t of the group to the body."""
        f, k, lanes = self.f, self.k, self.lanes
        place, following = self._tile(number), self._tile(number + 1)
        for q in range(kind.vectors):
            start = f.offset(self.sums, t * (kind.vectors * lanes) + q * lanes, "f32")
            self._ask(*following, (vector + q) * lanes)
            values = collected(f, k.m + 2, start, k.of_sums, lanes)
            found = square(lambda x: output_transform(f, x), values, k.m + 2)
            self._deliver(found, *place, (vector + q) * lanes)
