"""Many lines sorted side by side, one in each lane, by the comparisons of a bitonic network.

Blocks of a few entries are sorted in registers and then merged: two sorted runs of p entries are one after p
comparisons of entry i with entry 2p − 1 − i and of entries k apart, k = p/2, p/4, …, 1, inside each half. The smaller
entry always goes to the lower place, so what is behind the end (as if infinite) never moves and needs no comparison.
"""

from __future__ import annotations

from collections.abc import Callable

from ..llvm.builder import Function
from ..llvm.target import PROCESSORS
from ..llvm.values import Val
from .keys import WIDTH, Entries, words_of

__all__ = ["Network", "network_bytes", "network_lanes"]

MOST_LANES = max(size for size, _ in PROCESSORS) * 8 // WIDTH
LARGEST_BLOCK = 16
UNROLLED = 4


def network_bytes(kind: str, length: int) -> int:
    """The memory for lines of this length on any processor."""
    return MOST_LANES * WIDTH // 8 * words_of(kind) * -(-length // LARGEST_BLOCK) * LARGEST_BLOCK


def network_lanes(f: Function) -> int:
    return 8 * f.target.vector_bytes // WIDTH


def comparisons(size: int) -> list[tuple[int, int]]:
    """The comparisons that sort `size` entries (a power of 2), by Batcher's odd-even merging."""
    found, p = [], 1
    while p < size:
        k = p
        while k >= 1:
            starts = range(k % p, size - k, 2 * k)
            pairs = [(j + i, j + i + k) for j in starts for i in range(min(k, size - j - k))]
            found += [(a, b) for a, b in pairs if a // (2 * p) == b // (2 * p)]
            k //= 2
        p *= 2
    return found


class Network:
    """Sorts `length` entries in each lane; `read(t, count)` gives those from place t of the input on (in each lane).

    The sorted entries are in `memory`: entry t is `entries.load(memory, t, lanes)`.
    """

    def __init__(self, f: Function, entries: Entries, length: int, memory: Val) -> None:
        self.f, self.entries, self.length, self.memory = f, entries, length, memory
        self.lanes = network_lanes(f)
        self.block = LARGEST_BLOCK if f.target.many_registers and entries.words == 1 else LARGEST_BLOCK // 2
        self.padded = -(-length // self.block) * self.block

    def sort(self, read: Callable[[Val, int], list[list[Val]]]) -> None:
        f, block = self.f, self.block
        full = self.length // block * block
        with f.loop(0, full, block) as loop:
            self._sort_block(loop.i, read(loop.i, block))
        if full < self.length:
            some = read(f.index(full), self.length - full)
            self._sort_block(f.index(full), some + [self.entries.last(self.lanes)] * (self.padded - self.length))
        with f.loop(0, (-(-self.padded // block) - 1).bit_length()) as level:
            self._merge(level.i)

    def _sort_block(self, start: Val, held: list[list[Val]]) -> None:
        for a, b in comparisons(self.block):
            held[a], held[b] = self.entries.ordered(held[a], held[b])
        for i, entry in enumerate(held):
            self.entries.store(entry, self.memory, start + i)

    def _merge(self, level: Val) -> None:
        """Sorted runs of block · 2^level entries two by two."""
        f, end = self.f, self.padded
        run = f.index(self.block) << level
        with f.loop(0, f.index(end) - run, run * 2) as pair:
            last = pair.i + run * 2 - 1
            first = f.intrinsic("smax", last + (1 - end), 0)
            self._compare(first, run, lambda i: (pair.i + i, last - i))
        with f.loop(0, level) as half:
            self._compare_apart(run >> (half.i + 1))
        with f.loop(0, end, self.block) as block:
            self._finish_block(block.i)

    def _compare_apart(self, apart: Val) -> None:
        """Every entry of the first half of 2 · apart entries with the one so far behind it."""
        f, end = self.f, self.padded
        with f.loop(0, f.index(end) - apart, apart * 2) as pair:
            count = f.intrinsic("smin", f.index(end) - apart - pair.i, apart)
            self._compare(f.index(0), count, lambda i: (pair.i + i, pair.i + apart + i))

    def _compare(self, first: Val, last: Val, places: Callable[[Val], tuple[Val, Val]]) -> None:
        with self.f.loop(first, last, UNROLLED) as loop:
            for i in range(UNROLLED):
                a, b = places(loop.i + i)
                low, high = self.entries.ordered(self._load(a), self._load(b))
                self.entries.store(low, self.memory, a)
                self.entries.store(high, self.memory, b)

    def _finish_block(self, start: Val) -> None:
        """The comparisons inside a block, in registers."""
        held = [self._load(start + i) for i in range(self.block)]
        apart = self.block // 2
        while apart:
            for a in (i for i in range(self.block) if not i & apart):
                held[a], held[a + apart] = self.entries.ordered(held[a], held[a + apart])
            apart //= 2
        for i, entry in enumerate(held):
            self.entries.store(entry, self.memory, start + i)

    def _load(self, place: Val) -> list[Val]:
        return self.entries.load(self.memory, place, self.lanes)
