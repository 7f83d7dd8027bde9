"""How many elements fall into each of some equal intervals."""

from __future__ import annotations

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import Val
from ..memory.indexing import vector_lanes

__all__ = ["Histogram"]

PIECES = 8  # that are counted each for itself; a fixed number, whatever the threads
SERIAL = 1 << 12


class Histogram(Kernel):
    """Counts of the dense elements x in `bins` equal intervals from `low` to `high`, both included.

    `body` (given: the count of a bin as i64) stores, over the space (bins,). Each piece of x has its own counts in
    `workspace`, and one more for what lies outside.
    """

    def __init__(self, x: Access, size: int, bins: int, low: float, high: float, body: Body, word: int) -> None:
        self.x, self.size, self.bins, self.low, self.high, self.body = x, size, bins, low, high, body
        self.room = -(-(bins + 1) // 8) * 8
        self.workspace, self.workspace_word = 8 * PIECES * self.room, word
        self.serial, self.flops, self.nbytes = size <= SERIAL, 4 * size, 8 * size

    def key(self) -> str:
        what = (self.x, self.size, self.bins, self.low, self.high, self.workspace_word)
        return f"Histogram {what} {self.body.key()}"

    def emit(self, f: Function) -> None:
        memory = f.arg(self.workspace_word)
        with f.loop(*f.split(PIECES)) as piece:
            self._count(f, piece.i, f.offset(memory, piece.i * self.room, "i64"))
        f.barrier()
        with f.loop(*f.split(self.bins)) as loop:
            total = f.index(0)
            for piece in range(PIECES):
                total = total + f.load(memory, loop.i + piece * self.room, "i64")
            self.body.emit(f, [loop.i], 0, given=[total])

    def _count(self, f: Function, piece: Val, counts: Val) -> None:
        lanes = vector_lanes(f, self.x.kind)
        vectors = self.size // lanes
        with f.loop(0, self.room, 8) as clear:
            f.store(f.const("i64", 0, 8), counts, clear.i)
        with f.loop(piece * vectors // PIECES * lanes, (piece + 1) * vectors // PIECES * lanes, lanes) as loop:
            self._add(f, counts, loop.i, lanes)
        with f.when(piece.eq(PIECES - 1)), f.loop(vectors * lanes, self.size) as loop:
            self._add(f, counts, loop.i, 1)

    def _add(self, f: Function, counts: Val, start: Val, lanes: int) -> None:
        x = self.x.load(f, [start], 0, lanes)
        inside = (x >= self.low) & (x <= self.high)
        scaled = f.select(inside, (x - self.low) / (self.high - self.low) * self.bins, 0.0)
        number = f.emit(f"fptosi {scaled.typed} to {f.const('i32', 0, lanes).type}", "i32", lanes)  # always in range
        number = f.select(inside, f.intrinsic("smin", number, self.bins - 1), self.bins)
        for lane in range(lanes):
            one = f.cast(f.extract(number, lane) if lanes > 1 else number, "i64")
            f.store(f.load(counts, one, "i64") + 1, counts, one)
