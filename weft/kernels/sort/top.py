"""The first few elements of lines in order, without sorting the rest."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import BITS, Val
from ..memory.indexing import vector_lanes
from .keys import key_kind, key_of, lane_bits, set_bits
from .lines import Lines
from .sort import SERIAL

__all__ = ["MOST", "SPARSE", "TopOfLines"]

MOST = 256  # that are kept in order while a line is walked
FRONT = 16  # entries in front of the lists: a vector
SPARSE = 8  # a line is sorted instead if it is less than so many times longer
TRIED = 4  # so many times `count` elements are looked at first


class TopOfLines(Kernel):
    """The places of the `count` elements that come first in order along `axis`, equal ones by their places.

    The best so far are kept in order. A line is walked in vectors; what comes before the last of the best (seldom, in a
    line without order) is put among them and moves the following ones on. So that this is not often in a rising line
    either, the best of some elements all over the line are found before: what comes behind the last of them is left out.
    `body` (given: the place as i64) stores.
    """

    def __init__(
        self,
        shape: Sequence[int],
        axis: int,
        source: Access,
        body: Body,
        word: int,
        count: int,
        descending: bool,
    ) -> None:
        self.lines = Lines(shape, axis, source, body)
        self.count, self.descending, self.scratch_word = count, descending, word
        self.serial = prod(shape) <= SERIAL
        self.kind = key_kind(source.kind)
        self.room = -(-count // FRONT) * FRONT + FRONT  # entries of the lists of keys and places, in whole vectors
        self.scratch = (2 * self.room + FRONT) * BITS[self.kind] // 8
        self.flops = self.nbytes = 4 * prod(shape)

    def key(self) -> str:
        return f"TopOfLines {self.count} {self.descending} {self.scratch_word} {self.lines.key()}"

    def emit(self, f: Function) -> None:
        memory = f.offset(f.arg(self.scratch_word), f.tid * self.scratch, "i8")
        with f.loop(*f.split(self.lines.count)) as line:
            _Writer(self, f, memory, self.lines.line(f, line.i)).write()


class _Writer:
    """One line. In front of the lists are entries that nothing comes before; the best are numbered from there."""

    def __init__(self, kernel: TopOfLines, f: Function, memory: Val, places: list[Any]) -> None:
        self.kernel, self.f, self.places, self.kind = kernel, f, places, kernel.kind
        self.keys = f.offset(memory, FRONT, self.kind)
        self.numbers = f.offset(memory, kernel.room + FRONT, self.kind)
        self.state = f.offset(memory, 2 * kernel.room, self.kind)  # the last key that is good enough, how many are kept
        self.lanes = f.target.lanes_of(self.kind)
        f.store(f.const(self.kind, -1 << (BITS[self.kind] - 1), self.lanes), self.keys, -self.lanes)

    def write(self) -> None:
        f, lines, count = self.f, self.kernel.lines, self.kernel.count
        self._begin(f.const(self.kind, (1 << (BITS[self.kind] - 1)) - 1))
        with f.loop(0, TRIED * count) as tried:
            self._offer(tried.i * (lines.length // (TRIED * count)))
        self._begin(f.load(self.keys, count - 1, self.kind))
        lanes = vector_lanes(f, lines.source.kind)
        whole = lines.length // lanes * lanes
        with f.loop(0, whole, lanes) as loop:
            bits = lane_bits(f, self._key(loop.i, lanes) <= self._limit())
            with f.when(bits.ne(0)), set_bits(f, bits) as lane:
                self._offer(loop.i + lane)  # the limit may have become lower on the way
        with f.loop(whole, lines.length) as loop:
            self._offer(loop.i)
        with f.loop(0, count) as loop:
            place = f.cast(f.load(self.numbers, loop.i, self.kind), "i64")
            lines.body.emit(f, lines.index(self.places, loop.i), lines.axis, given=[place])

    def _begin(self, limit: Val) -> None:
        """Empty lists, for elements with keys up to a limit."""
        self.f.store(limit, self.state, 0)
        self.f.store(self.f.const(self.kind, 0), self.state, 1)

    def _limit(self) -> Val:
        return self.f.load(self.state, 0, self.kind)

    def _key(self, at: Val, lanes: int = 1) -> Val:
        lines = self.kernel.lines
        x = lines.source.load(self.f, lines.index(self.places, at), lines.axis, lanes)
        return key_of(self.f, self.f.splat(x, lanes), self.kernel.descending)

    def _offer(self, at: Val) -> None:
        """Keep element `at` if it is good enough. When all are kept, an equal one is not."""
        f, count = self.f, self.kernel.count
        key = self._key(at)
        with f.when(key <= self._limit()):
            known = f.load(self.state, 1, self.kind)
            self._put(key, at, known)
            known = f.intrinsic("smin", known + 1, count)
            before_last = f.intrinsic("ssub.sat", f.load(self.keys, count - 1, self.kind), 1)
            f.store(f.select(known.eq(count), before_last, self._limit()), self.state, 0)
            f.store(known, self.state, 1)

    def _put(self, key: Val, at: Val, known: Val) -> None:
        """Element `at` into the list of `known` ones, behind those that are equal."""
        f, lanes, kind = self.f, self.lanes, self.kind
        place = f.cast(at, kind)
        blocks = -(-self.kernel.count // lanes)
        with f.loop(0, blocks) as loop:
            start = (f.index(blocks - 1) - loop.i) * lanes  # from the back, so that nothing is read after it was moved
            numbers = f.iota(kind, lanes) + f.cast(start, kind)
            here, before = self._with_earlier(self.keys, start)
            moves, follows = (here > key) | (numbers >= known), (before > key) | (numbers > known)
            for memory, new in ((self.keys, key), (self.numbers, place)):
                own, earlier = self._with_earlier(memory, start)
                f.store(f.select(moves, f.select(follows, earlier, new), own), memory, start)

    def _with_earlier(self, memory: Val, start: Val) -> tuple[Val, Val]:
        """A vector of a list, and the entries before each. From whole vectors: what was just stored is there at once."""
        f, lanes = self.f, self.lanes
        here, earlier = (f.load(memory, at, self.kind, lanes) for at in (start, start - lanes))
        return here, f.shuffle(earlier, here, range(lanes - 1, 2 * lanes - 1))
