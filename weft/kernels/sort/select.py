"""The median of long lines without sorting them: one digit of its key after the other, from the first to the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import Val
from ..memory.indexing import vector_lanes
from .keys import key_bits, key_kind, key_of, lane_bits, nan_key, set_bits
from .lines import Lines

__all__ = ["LONG", "MedianOfLines"]

PIECES = 8  # of a line, that threads share; a fixed number, whatever the threads
DIGIT = 11  # bits
LONG = 1 << 12  # elements from which this is better than sorting


class MedianOfLines(Kernel):
    """The lower median of the elements along `axis`: NaN if there is one, or (`known`) of what is not NaN.

    Each pass counts, among the elements whose keys begin with the digits found so far, how often each next digit occurs,
    and finds the one in which the element wanted is. `body` (given: the element) stores. All threads work on one line.
    """

    def __init__(self, shape: Sequence[int], axis: int, source: Access, body: Body, word: int, known: bool) -> None:
        self.lines, self.known, self.workspace_word = Lines(shape, axis, source, body), known, word
        self.workspace = 8 * PIECES * ((1 << DIGIT) + 8)
        self.flops = self.nbytes = 4 * prod(shape)

    def key(self) -> str:
        return f"MedianOfLines {self.known} {self.workspace_word} {self.lines.key()}"

    def emit(self, f: Function) -> None:
        with f.loop(0, self.lines.count) as line:
            _Writer(self, f, self.lines.line(f, line.i)).write()


class _Writer:
    """One line; `counts` has a table of digits for each piece, `single` one number."""

    def __init__(self, kernel: MedianOfLines, f: Function, places: list[Any]) -> None:
        self.f, self.lines, self.known, self.places = f, kernel.lines, kernel.known, places
        self.source, self.length = kernel.lines.source, kernel.lines.length
        self.kind = key_kind(self.source.kind)
        self.counts = f.arg(kernel.workspace_word)
        self.single = f.offset(self.counts, PIECES << DIGIT, "i64")

    def write(self) -> None:
        f = self.f
        rank, width = self._rank(), key_bits(self.source.kind)
        passes = -(-width // DIGIT)
        none = f.const(self.kind, 0)
        with f.loop(0, passes, carry=[none, none, rank]) as turn:
            mask, start, rank = turn.carry
            shift = f.cast(f.intrinsic("smax", f.index(width - DIGIT) - turn.i * DIGIT, 0), self.kind)
            self._count(mask, start, shift)
            f.barrier()
            digit, rank = self._find(rank)
            f.barrier()
            taken = f.const(self.kind, (1 << DIGIT) - 1) << shift
            turn.next([mask | taken, (start & ~taken) | (f.cast(digit, self.kind) << shift), rank])
        self._store(turn.results[1])

    def _rank(self) -> Val:
        """The number of the element wanted, in order."""
        f, n = self.f, self.length
        if self.source.kind not in ("f32", "f64"):
            return f.index((n - 1) // 2)
        nan = self._flipped(f.const(self.kind, nan_key(self.source.kind)))
        count = lambda keys, at, total: total + f.intrinsic("ctpop", lane_bits(f, keys.eq(nan)))
        missing = self._gathered(f.index(0), count, lambda a, b: a + b)
        if self.known:
            return f.intrinsic("smax", f.index(n - 1) - missing, 0) >> 1
        return f.select(missing.ne(0), n - 1, f.index((n - 1) // 2))

    def _store(self, key: Val) -> None:
        """The first element with this key."""
        f, n = self.f, self.length

        def look(keys: Val, at: Val, first: Val) -> Val:
            bits = lane_bits(f, keys.eq(key))
            here = at + f.call("llvm.cttz.i64", "i64", 1, bits, f.const("i1", False))
            return f.select(bits.ne(0), f.intrinsic("smin", first, here), first)

        smaller = lambda a, b: f.intrinsic("smin", a, b)
        place = self._gathered(f.index(n), look, smaller)
        with f.when(f.tid.eq(0)):
            element = self.source.load(f, self.lines.index(self.places, place), self.lines.axis)
            self.lines.body.emit(f, self.lines.index(self.places, 0), self.lines.axis, given=[element])
        f.barrier()

    # ------------------------------------------------------------------------------------- passes
    def _count(self, mask: Val, start: Val, shift: Val) -> None:
        """How often each digit occurs in each piece, among the keys that begin as `start` does in the bits of `mask`."""
        f, size = self.f, 1 << DIGIT
        with f.loop(*f.split(PIECES)) as piece:
            counts = f.offset(self.counts, piece.i * size, "i64")
            with f.loop(0, size, 8) as clear:
                f.store(f.const("i64", 0, 8), counts, clear.i)

            def add(keys: Val, at: Val, carried: Val) -> Val:
                with set_bits(f, lane_bits(f, (keys & mask).eq(start))) as lane:
                    key = self._key(at + lane, 1)
                    digit = f.cast(f.binary("lshr", key, shift), "i64") & (size - 1)
                    f.store(f.load(counts, digit, "i64") + 1, counts, digit)
                return carried

            self._walk(piece.i, f.index(0), add)

    def _find(self, rank: Val) -> tuple[Val, Val]:
        """The digit of the element of this rank, and its rank among those that have it."""
        f, size = self.f, 1 << DIGIT
        with f.loop(0, size, carry=[f.index(0), f.index(0), rank]) as loop:
            before, digit, left = loop.carry
            after = before
            for piece in range(PIECES):
                after = after + f.load(self.counts, loop.i + piece * size, "i64")
            here = (before <= rank) & (rank < after)
            loop.next([after, f.select(here, loop.i, digit), f.select(here, rank - before, left)])
        return loop.results[1], loop.results[2]

    def _gathered(self, start: Val, step: Callable[[Val, Val, Val], Val], join: Callable[[Val, Val], Val]) -> Val:
        """The results of all pieces, joined; every thread has them."""
        f = self.f
        with f.loop(*f.split(PIECES)) as piece:
            f.store(self._walk(piece.i, start, step), self.single, piece.i)
        f.barrier()
        found = start
        for piece in range(PIECES):
            found = join(found, f.load(self.single, piece, "i64"))
        f.barrier()
        return found

    def _walk(self, piece: Val, start: Val, step: Callable[[Val, Val, Val], Val]) -> Val:
        """step(keys, place of the first, what the last step gave) for the vectors of a piece, and at last single elements."""
        f, lanes = self.f, vector_lanes(self.f, self.source.kind)
        vectors = self.length // lanes
        lo, hi = (n * vectors // PIECES * lanes for n in (piece, piece + 1))
        with f.loop(lo, hi, lanes, carry=[start]) as loop:
            loop.next([step(self._key(loop.i, lanes), loop.i, loop.carry[0])])
        rest = f.select(piece.eq(PIECES - 1), vectors * lanes, f.index(self.length))
        with f.loop(rest, self.length, carry=loop.results) as tail:
            tail.next([step(self._key(tail.i, 1), tail.i, tail.carry[0])])
        return tail.results[0]

    def _key(self, at: Val, lanes: int) -> Val:
        """Keys in the order of unsigned numbers."""
        x = self.source.load(self.f, self.lines.index(self.places, at), self.lines.axis, lanes)
        return self._flipped(key_of(self.f, self.f.splat(x, lanes)))

    def _flipped(self, key: Val) -> Val:
        bits = key_bits(self.source.kind)
        return key ^ (-1 << (bits - 1)) if bits >= 32 else key
