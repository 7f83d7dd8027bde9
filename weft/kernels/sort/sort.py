"""Kernels that put the elements of lines in order, and what is found in ordered lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import Val
from .keys import Entries, key_of, words_of
from .lines import Lines, Tiles, groups
from .network import Network, network_bytes, network_lanes
from .radix import SHARED_PIECES, Radix, radix_bytes

__all__ = ["SERIAL", "SortLines"]

ALWAYS_NETWORK = 32  # length up to which lines are sorted side by side
LONGEST_NETWORK = 4096  # the same, if there are some lines
SOME_LINES = 4
SHARED_LENGTH = 1 << 15  # of lines that all threads work on together, if there are few
ALWAYS_SHARED = 1 << 20  # the same, if there are many: each thread would need much memory
SERIAL = 1 << 12  # elements up to which one thread does it all


# ------------------------------------------------------------------------------------- what is found


Read = Callable[[Any], tuple[Val, Val]]  # the key and the place of the t-th entry in order
Emit = Callable[[Any, Val], None]  # stores a result: its index along the axis, the value


def _places(f: Function, entries: Entries, bounds: tuple[Any, Any], length: int, read: Read, emit: Emit) -> None:
    """The places of the entries in order."""
    with f.loop(*bounds) as loop:
        emit(loop.i, read(loop.i)[1])


def _mode(f: Function, entries: Entries, bounds: tuple[Any, Any], length: int, read: Read, emit: Emit) -> None:
    """The last place of the first longest run of equal keys; a NaN equals nothing."""
    key, place = read(f.index(0))
    none = f.const("i64", 0, key.lanes)
    with f.loop(1, length, carry=[key, none, none, place]) as loop:
        before, run, longest, best = loop.carry
        key, place = read(loop.i)
        run = f.select(key.eq(before) & ~entries.is_nan(key), run + 1, 0)
        longer = run > longest
        loop.next([key, run, f.select(longer, run, longest), f.select(longer, place, best)])
    emit(0, loop.results[3])


def _median(f: Function, entries: Entries, bounds: tuple[Any, Any], length: int, read: Read, emit: Emit) -> None:
    """The place of the lower median; of a NaN if there is one."""
    key, last = read(f.index(length - 1))
    emit(0, f.select(entries.is_nan(key), last, read(f.index((length - 1) // 2))[1]))


def _nanmedian(f: Function, entries: Entries, bounds: tuple[Any, Any], length: int, read: Read, emit: Emit) -> None:
    """The place of the lower median of what is not NaN."""
    none = f.const("i64", 0, read(f.index(0))[0].lanes)
    with f.loop(0, length, carry=[none]) as loop:
        loop.next([loop.carry[0] + f.select(entries.is_nan(read(loop.i)[0]), none, 1)])
    wanted = f.intrinsic("smax", loop.results[0] - 1, 0) >> 1
    with f.loop(0, -(-length // 2), carry=[none]) as loop:
        loop.next([f.select(wanted.eq(f.splat(loop.i, wanted.lanes)), read(loop.i)[1], loop.carry[0])])
    emit(0, loop.results[0])


FIND = {"places": _places, "mode": _mode, "median": _median, "nanmedian": _nanmedian}


class SortLines(Kernel):
    """Orders the elements along `axis` of the space `shape` (all sizes > 0) and stores what is found there.

    find: 'places' (of the first `count` entries), or one in each line: 'mode' (its place), 'median', 'nanmedian' (the
    element). `body` (given: what was found) stores. Short lines are sorted side by side in lanes, long ones digit by
    digit; few long lines, and very long ones, by all threads together, in the memory of `workspace`.
    """

    def __init__(
        self,
        shape: Sequence[int],
        axis: int,
        source: Access,
        body: Body,
        word: int,
        descending: bool = False,
        find: str = "places",
        count: int = 1,
    ) -> None:
        self.lines = Lines(shape, axis, source, body)
        self.descending, self.find, self.count, self.memory_word = descending, find, count, word
        length, lines = self.lines.length, self.lines.count
        self.side_by_side = length <= ALWAYS_NETWORK or (
            length <= LONGEST_NETWORK // words_of(source.kind) and lines >= SOME_LINES
        )
        shared = length >= (SHARED_LENGTH if lines < SOME_LINES else ALWAYS_SHARED)
        self.pieces = SHARED_PIECES if shared else 1
        self.serial = prod(shape) <= SERIAL
        size = network_bytes(source.kind, length)
        if not self.side_by_side:
            size = radix_bytes(source.kind, length, self.pieces)
        size = -(-size // 64) * 64
        self.scratch, self.workspace = (0, size) if self.pieces > 1 else (size, 0)
        self.scratch_word = self.workspace_word = word
        self.flops, self.nbytes = prod(shape) * length.bit_length(), 16 * prod(shape)

    def key(self) -> str:
        what = f"{self.find} {self.count} {self.descending} {self.memory_word} {self.scratch} {self.serial}"
        return f"SortLines {what} {self.lines.key()}"

    def emit(self, f: Function) -> None:
        if self.side_by_side:
            self._sort_side_by_side(f)
        elif self.pieces > 1:
            self._sort_together(f)
        else:
            self._sort_alone(f)

    def _memory(self, f: Function) -> Val:
        return f.offset(f.arg(self.memory_word), f.tid * self.scratch, "i8")

    def _sort_side_by_side(self, f: Function) -> None:
        lines, lanes = self.lines, network_lanes(f)
        entries = Entries(f, lines.source.kind)
        network = Network(f, entries, lines.length, self._memory(f))
        across = lines.others[-1]
        with groups(f, lines, lanes) as (places, mask):
            tiles = Tiles(f, lines, places, lanes)
            network.sort(self._block_reader(tiles, self._reader(f, places, across, lanes, mask, entries), entries))

            def read(t: Any) -> tuple[Val, Val]:
                entry = entries.load(network.memory, f.index(t), lanes)
                return entries.key(entry), entries.place(entry)

            def emit(t: Any, place: Val) -> None:
                found = self._found(f, places, place, across, mask)
                lines.body.emit(f, lines.index(places, t), across, lanes, mask, given=[found])

            stored = 0
            if self.find == "places" and tiles.can_store:
                stored = self.count // lanes * lanes
                with f.loop(0, stored, lanes) as loop:
                    tiles.store(loop.i, [read(loop.i + i)[1] for i in range(lanes)])
            FIND[self.find](f, entries, (stored, self.count), lines.length, read, emit)

    def _sort_alone(self, f: Function) -> None:
        entries = Entries(f, self.lines.source.kind)
        radix = Radix(f, entries, self.lines.length, self._memory(f), 1)
        with f.loop(*f.split(self.lines.count)) as line:
            self._sort_one(f, entries, radix, line.i, (0, self.count))

    def _sort_together(self, f: Function) -> None:
        entries = Entries(f, self.lines.source.kind)
        radix = Radix(f, entries, self.lines.length, f.arg(self.memory_word), self.pieces)
        with f.loop(0, self.lines.count) as line:
            if self.find == "places":
                self._sort_one(f, entries, radix, line.i, f.split(self.count))
            else:
                self._sort_one(f, entries, radix, line.i, (0, self.count), f.tid.eq(0))
            f.barrier()

    def _sort_one(
        self, f: Function, entries: Entries, radix: Radix, number: Val, bounds: tuple[Any, Any], mine: Val | None = None
    ) -> None:
        """One line; what is found in it is stored by all threads, each in its bounds, or by one thread alone."""
        lines = self.lines
        places = lines.line(f, number)
        ordered = radix.sort(self._reader(f, places, lines.axis, 1, None, entries))

        def read(t: Any) -> tuple[Val, Val]:
            entry = entries.load(ordered, f.index(t))
            return entries.key(entry), entries.place(entry)

        def emit(t: Any, place: Val) -> None:
            found = self._found(f, places, place, lines.axis, None)
            lines.body.emit(f, lines.index(places, t), lines.axis, given=[found])

        with nullcontext() if mine is None else f.when(mine):
            FIND[self.find](f, entries, bounds, lines.length, read, emit)

    def _reader(
        self, f: Function, places: list[Any], axis: int, lanes: int, mask: Val | None, entries: Entries
    ) -> Callable[[Val], list[Val]]:
        """The entries of a line (of several along `axis`) as they come."""
        source = self.lines.source

        def read(t: Val) -> list[Val]:
            x = source.load(f, self.lines.index(places, t), axis, lanes, mask)
            return entries.make(key_of(f, f.splat(x, lanes), self.descending), t)

        return read

    def _block_reader(
        self, tiles: Tiles, read: Callable[[Val], list[Val]], entries: Entries
    ) -> Callable[[Val, int], list[list[Val]]]:
        """Several entries at once, by whole tiles where that is possible."""

        def read_block(start: Val, count: int) -> list[list[Val]]:
            if not tiles.can_load or count % tiles.lanes:
                return [read(start + i) for i in range(count)]
            found = [x for i in range(0, count, tiles.lanes) for x in tiles.load(start + i)]
            return [entries.make(key_of(tiles.f, x, self.descending), start + i) for i, x in enumerate(found)]

        return read_block

    def _found(self, f: Function, places: list[Any], place: Val, axis: int, mask: Val | None) -> Val:
        """The place itself, or the element there."""
        if self.find in ("places", "mode"):
            return place
        source, lanes = self.lines.source, place.lanes
        start = f.index(source.place(f, self.lines.index(places, 0))) + place * source.strides[self.lines.axis]
        if lanes == 1:
            return f.load(f.arg(source.arg), start, source.kind)
        start = start + f.iota("i64", lanes) * source.strides[axis]
        return f.gather(f.offset(f.arg(source.arg), start, source.kind), source.kind, mask)
