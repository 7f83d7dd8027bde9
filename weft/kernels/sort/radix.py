"""One line sorted by the digits of its keys, from the last digit to the first.

Each pass counts how often each digit occurs, and moves the entries, in their order, to the places where those of their
digit begin. The line is cut into pieces; all threads may work on them, or one thread alone.
"""

from __future__ import annotations

from collections.abc import Callable

from ..llvm.builder import Function
from ..llvm.values import Val
from .keys import PLACE_BITS, WIDTH, Entries, key_bits, words_of

__all__ = ["SHARED_PIECES", "Radix", "radix_bytes"]

LONG = 1 << 12  # entries from which digits of 11 bits are worth their tables
SHARED_PIECES = 8  # in which a line is cut that threads share; a fixed number, whatever the threads


def digit_bits(length: int) -> int:
    return 11 if length >= LONG else 8


def radix_bytes(kind: str, length: int, pieces: int) -> int:
    """The memory for one line: two times its entries, and the tables of the pieces."""
    return WIDTH // 8 * (2 * words_of(kind) * length + (2 * pieces << digit_bits(length)))


class Radix:
    """Sorts lines of `length` entries in `memory`; with several `pieces` all threads work on one line together."""

    def __init__(self, f: Function, entries: Entries, length: int, memory: Val, pieces: int) -> None:
        self.f, self.entries, self.length, self.pieces = f, entries, length, pieces
        self.bits = digit_bits(length)
        self.size = 1 << self.bits
        size = entries.words * length
        self.buffers = [memory, f.offset(memory, size, "i64")]
        self.counts = f.offset(memory, 2 * size, "i64")
        self.starts = f.offset(self.counts, pieces * self.size, "i64")
        self.own = f.split(pieces) if pieces > 1 else (f.index(0), f.index(1))

    def sort(self, read: Callable[[Val], list[Val]]) -> Val:
        """Sort what `read(t)` gives for each place t; the address of the sorted entries."""
        f, passes = self.f, -(-key_bits(self.entries.kind) // self.bits)
        with f.loop(*self.own) as piece, f.loop(*self._bounds(piece.i)) as loop:
            self.entries.store(read(loop.i), self.buffers[0], loop.i)
        self._wait()
        with f.loop(0, passes, carry=self.buffers) as turn:
            source, target = turn.carry
            shift = turn.i * self.bits
            self._count(source, shift)
            self._wait()
            needed = self._varies(source, shift)
            with f.when(needed):
                self._move(source, target, shift)
            self._wait()
            turn.next([f.select(needed, target, source), f.select(needed, source, target)])
        return turn.results[0]

    def _wait(self) -> None:
        if self.pieces > 1:
            self.f.barrier()

    def _bounds(self, piece: Val) -> tuple[Val, Val]:
        cut = lambda n: n * self.length // self.pieces
        return cut(piece), cut(piece + 1)

    def _digit(self, entry: list[Val], shift: Val) -> Val:
        """The digit of a key that begins at bit `shift`."""
        bits, key = key_bits(self.entries.kind), entry[0]
        if self.entries.words == 1:
            shift = shift + PLACE_BITS
        if bits >= 32:
            key = key ^ (-1 << (WIDTH - 1))  # signed numbers in the order of unsigned ones
        return self.f.binary("lshr", key, shift) & (self.size - 1)

    def _count(self, source: Val, shift: Val) -> None:
        """How often each digit occurs in each of this thread's pieces."""
        f = self.f
        with f.loop(*self.own) as piece:
            counts = f.offset(self.counts, piece.i * self.size, "i64")
            with f.loop(0, self.size, 8) as clear:
                f.store(f.const("i64", 0, 8), counts, clear.i)
            with f.loop(*self._bounds(piece.i)) as loop:
                digit = self._digit(self.entries.load(source, loop.i), shift)
                f.store(f.load(counts, digit, "i64") + 1, counts, digit)

    def _varies(self, source: Val, shift: Val) -> Val:
        """Whether not all keys have the digit of the first one."""
        f = self.f
        digit = self._digit(self.entries.load(source, f.index(0)), shift)
        total = f.index(0)
        for piece in range(self.pieces):
            total = total + f.load(self.counts, digit + piece * self.size, "i64")
        return total.ne(self.length)

    def _move(self, source: Val, target: Val, shift: Val) -> None:
        f = self.f
        if self.pieces > 1:
            with f.when(f.tid.eq(0)):
                self._find_starts()
        else:
            self._find_starts()
        self._wait()
        with f.loop(*self.own) as piece:
            starts = f.offset(self.starts, piece.i * self.size, "i64")
            with f.loop(*self._bounds(piece.i)) as loop:
                entry = self.entries.load(source, loop.i)
                digit = self._digit(entry, shift)
                place = f.load(starts, digit, "i64")
                f.store(place + 1, starts, digit)
                self.entries.store(entry, target, place)

    def _find_starts(self) -> None:
        """Where the entries of each digit and piece begin: digit by digit, piece by piece."""
        f = self.f
        with f.loop(0, self.size, carry=[f.index(0)]) as digit:
            total = digit.carry[0]
            for piece in range(self.pieces):
                place = digit.i + piece * self.size
                f.store(total, self.starts, place)
                total = total + f.load(self.counts, place, "i64")
            digit.next([total])
