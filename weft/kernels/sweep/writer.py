"""Writes the loops of a sweep: rows shared between threads, passes over each row, reductions, private memory."""

from __future__ import annotations

import math
from typing import Any

from ...errors import EntryError
from ..body import Access, run_step
from ..llvm.builder import Function
from ..llvm.values import BITS, Val
from .late import LateSums, finished, fold, prepared
from .sweep import CHUNK, PIECES, Item, LoopOrder, Sweep

__all__ = ["Writer"]

COPIES = 4  # how often a short body is written side by side


class Writer:
    """Writes one sweep with a builder."""

    def __init__(self, f: Function, sweep: Sweep, order: LoopOrder) -> None:
        self.f, self.sweep, self.order = f, sweep, order
        self.items, self.space = sweep.items, sweep.space
        self.tid = f.index(0) if sweep.serial else f.tid
        widest = max(
            (BITS[i.kind] for n, i in enumerate(self.items) if order.axis is not None and i.mask[order.axis]),
            default=32,
        )
        size = 1 if order.axis is None else self.space[order.axis]
        self.lanes = 1 if order.axis is None else max(1, f.target.vector_bytes * 8 // max(widest, 8))
        if widest == 1:
            self.lanes = f.target.vector_bytes
        while self.lanes > 4 and self.lanes // 2 >= size:
            self.lanes //= 2
        self.lanes = min(self.lanes, 64)
        self.env: list[dict[int, Val]] = [{}]
        self.index: list[Any] = [0] * len(self.space)
        self.mask: Val | None = None
        self.private: Val | None = None
        self.late = LateSums(self)
        self.long: Access | None = None  # the store of a long row whose whole vectors are written
        self.past = False  # whether it goes past the caches
        self.shift: Any = 0  # elements before its first whole vector
        self.chunk: int | None = None  # elements of a row that one piece of work has; None: whole rows
        self.crossed = order.crossed(self.lanes)

    # --------------------------------------------------------------------------------- values
    def find(self, number: int) -> Val:
        for layer in reversed(self.env):
            if number in layer:
                return layer[number]
        raise EntryError(f"item {number} ({self.items[number]}) is not known here")

    def known(self, number: int) -> bool:
        return any(number in layer for layer in self.env)

    def wide(self, item: Item) -> bool:
        return self.order.axis is not None and item.mask[self.order.axis]

    def compute(self, number: int, level: int) -> None:
        """Put one load, constant or step into the present layer."""
        if self.known(number):
            return
        item = self.items[number]
        if item.what == "constant":
            self.env[0][number] = self.f.const(item.kind, item.value)
            return
        if item.what == "load":
            lanes = self.lanes if self.wide(item) else 1
            axis = self.order.axis if self.order.axis is not None else 0
            value = item.value.load(self.f, self.index, axis, lanes, self.mask if lanes > 1 else None)
        elif item.what == "step":
            value = run_step(self.f, item.value, _Lookup(self))
        else:
            raise EntryError(f"reduction {number} is not complete here")
        self.env[-1][number] = value

    def compute_level(self, level: int, turn: int, only: set[int] | None = None) -> None:
        """Everything that belongs to a loop level and is known by the given pass."""
        for number, item in enumerate(self.items):
            if self.order.levels[number] != level or item.what in ("rows", "late"):
                continue
            if self.order.passes[number] <= turn and (only is None or number in only):
                self.compute(number, level)

    def store_level(self, level: int, turn: int) -> None:
        for access, number in self.sweep.stores:
            item = self.items[number]
            if item.what != "late" and self.order.levels[number] == level and self.order.passes[number] == turn:
                self.put(access, number)

    def put(self, access: Access, number: int) -> None:
        lanes = self.lanes if self.wide(self.items[number]) else 1
        axis = self.order.axis if self.order.axis is not None else 0
        mask = self.mask if lanes > 1 else None
        access.store(
            self.f,
            self.find(number),
            self.index,
            axis,
            lanes,
            mask,
            past=self.past and access is self.long and mask is None,
        )

    # --------------------------------------------------------------------------------- the whole
    def write(self) -> None:
        f, order = self.f, self.order
        if order.scratch:
            base = f.arg(self.sweep.scratch_word)
            self.private = f.offset(base, self.tid * order.scratch, "u8")
        self.compute_level(0, 0)
        if not order.outer and not order.inner:
            self.late.start_piece(0)
            self.env.append({})
            self.row()
        else:
            self.rows_loop()
        if order.sums:
            if not self.sweep.serial:
                f.barrier()
            self.env = [{}]
            self.late.combine()

    def rows_loop(self) -> None:
        f, order = self.f, self.order
        if self.crossed is not None:
            self.crossed_rows(*self.crossed)
            return
        sizes = [self.space[d] for d in order.outer]
        if order.across:
            sizes[-1] = -(-sizes[-1] // self.lanes)
        chunks, chunk = 1, None
        if self.sweep.rows is None and order.axis is not None and self.space[order.axis] > CHUNK:
            chunk = CHUNK
            chunks = -(-self.space[order.axis] // chunk)
            self.long = self.long_store()
            if self.long is not None:
                self.past = self.long.arg not in {i.value.arg for i in self.items if i.what == "load"}
                self.shift = self.elements_to_line(self.long)
        sizes.append(chunks)
        count = 1
        for s in sizes:
            count *= s
        if not order.sums or self.sweep.serial:
            self.late.start_piece(0)
            lo, hi = (f.index(0), f.index(count)) if self.sweep.serial else f.split(count)
            self.some_rows(lo, hi, sizes, chunk)
            if self.past:
                f.fence()
            return
        first, last = f.split(PIECES)
        with f.loop(first, last) as piece:
            self.late.start_piece(piece.i)
            self.some_rows((piece.i * count) // PIECES, ((piece.i + 1) * count) // PIECES, sizes, chunk)

    def crossed_rows(self, across: int, piece: int) -> None:
        """A short piece of neighbouring rows, one after the other: lines of the crossing access are used up while they are near."""
        f, order = self.f, self.order
        dims = [d for d in order.outer if d != across]
        sizes = [*(self.space[d] for d in dims), -(-self.space[order.axis] // piece), self.space[across]]
        lo, hi = f.split(math.prod(sizes)) if not self.sweep.serial else (f.index(0), f.index(math.prod(sizes)))
        with f.loop(lo, hi) as loop:
            self.env.append({})
            places = self.places(loop.i, sizes)
            self.index[across] = places.pop()
            self.chunk, self.chunk_start = piece, places.pop() * piece
            for d, place in zip(dims, places, strict=True):
                self.index[d] = place
            self.row()
            self.env.pop()

    def long_store(self) -> Access | None:
        """A store along one row so long that no cache keeps it; rather one into memory that the sweep does not read."""
        if (
            self.order.outer
            or self.order.sums
            or len(self.order.inner) != 1
            or self.sweep.nbytes < self.f.target.near.all
        ):
            return None
        whole = lambda access: BITS[access.kind] * self.lanes == 8 * self.f.target.vector_bytes
        stores = [access for access, _ in self.sweep.stores if whole(access) and access.strides == (1,)]
        read = {i.value.arg for i in self.items if i.what == "load"}
        return min(stores, key=lambda access: access.arg in read, default=None)

    def elements_to_line(self, access: Access) -> Val:
        """How many elements lie before the first whole vector of memory."""
        f, size = self.f, BITS[access.kind] // 8
        place = f.emit(f"ptrtoint {f.arg(access.arg).typed} to i64", "i64")
        return (-place & f.target.vector_bytes - 1) // size

    def some_rows(self, lo: Val, hi: Val, sizes: list[int], chunk: int | None) -> None:
        """The rows with these numbers; `sizes` are those of the outer loops, the last one counts chunks of a row."""
        f, order = self.f, self.order
        with f.loop(lo, hi) as loop:
            self.env.append({})
            places = self.places(loop.i, sizes)
            self.chunk_start = places.pop() if chunk is None or sizes[-1] == 1 else places.pop() * chunk
            for d, place in zip(order.outer, places, strict=True):
                self.index[d] = place
            if order.across:
                axis = order.axis
                start = self.index[axis]
                self.index[axis] = start if isinstance(start, int) else start * self.lanes
                if self.space[axis] % self.lanes:
                    left = f.index(self.space[axis]) - self.index[axis]
                    self.mask = f.tail_mask(self.lanes, left)
            self.chunk = chunk
            self.row()
            self.mask = None
            self.env.pop()

    def places(self, number: Val, sizes: list[int]) -> list[Any]:
        """Where along each of the sizes the row with this number is; the last runs fastest."""
        f, rest, places = self.f, number, []
        for n in reversed(range(len(sizes))):
            size = sizes[n]
            if size == 1:
                places.append(0)
            elif all(s == 1 for s in sizes[:n]):
                places.append(rest)
            else:
                unsigned = f.cast(rest, "u64")
                places.append(f.cast(unsigned % size, "i64"))
                rest = f.cast(unsigned // size, "i64")
        return places[::-1]

    def row(self) -> None:
        """All passes over one row."""
        order, items = self.order, self.items
        for turn in range(order.last + 1):
            self.compute_level(0, turn)
            self.compute_level(1, turn)
            if not order.inner:  # rows of one element
                for number, item in enumerate(items):
                    if item.what == "rows" and order.passes[item.source] == turn:
                        total = prepared(self.f, item, self.find(item.source))
                        self.env[-1][number] = finished(self.f, item, total)
            self.late.add_outer(turn)
            self.store_level(0, turn)
            self.store_level(1, turn)
            needed = set(order.needed(turn))
            sums = [
                n
                for n, i in enumerate(items)
                if i.what in ("rows", "late")
                and order.passes[i.source] == turn
                and order.levels[i.source] > 1
                and (i.what == "rows" or not self.in_memory(i))
            ]
            late = [
                n
                for n, i in enumerate(items)
                if i.what == "late"
                and order.passes[i.source] == turn
                and order.levels[i.source] > 1
                and self.in_memory(i)
            ]
            if needed or sums or late:
                totals = self.nest(0, turn, needed, sums, late, [self.start(n) for n in sums])
                for n, total in zip(sums, totals, strict=True):
                    self.finish_row_sum(n, total)

    def start(self, number: int) -> Val:
        item = self.items[number]
        lanes = self.lanes if self.order.axis is not None and self.items[item.source].mask[self.order.axis] else 1
        return self.f.const(item.kind, item.value.identity(item.kind), lanes)

    def in_memory(self, item: Item) -> bool:
        """A late reduction that keeps an inner size: it has many partial sums for one row, each with a place in memory."""
        return any(item.mask[d] for d in self.order.inner)

    def finish_row_sum(self, number: int, total: Val) -> None:
        item, f = self.items[number], self.f
        if item.what == "late":
            self.late.add_value(number, total)
            return
        if total.lanes > 1 and not self.order.across:
            total = fold(f, item.value, total)
        self.env[-1][number] = finished(f, item, total)

    # -------------------------------------------------------------------------------- inner loops
    def nest(
        self, depth: int, turn: int, needed: set[int], sums: list[int], late: list[int], carry: list[Val]
    ) -> list[Val]:
        """The inner loops from `depth` on; returns the totals of the reductions that are carried."""
        f, order = self.f, self.order
        d = order.inner[depth]
        level = 2 + depth
        if depth + 1 < len(order.inner) or order.across or d != order.axis:
            with f.loop(0, self.space[d], carry=carry) as loop:
                self.index[d] = loop.i
                self.env.append({})
                if depth + 1 < len(order.inner):
                    self.compute_level(level, turn, needed)
                    self.store_level(level, turn)
                    loop.next(self.nest(depth + 1, turn, needed, sums, late, loop.carry))
                else:
                    loop.next(self.element(level, turn, needed, sums, late, loop.carry))
                self.env.pop()
            return loop.results
        return self.vectors(d, level, turn, needed, sums, late, carry)

    def vectors(
        self, d: int, level: int, turn: int, needed: set[int], sums: list[int], late: list[int], carry: list[Val]
    ) -> list[Val]:
        f, size, lanes = self.f, self.space[d], self.lanes
        if self.long is not None:
            self.whole_vectors(d, level, turn, needed)
            return carry
        chunk = self.chunk
        lo: Any = 0 if chunk is None else self.chunk_start
        hi: Any = size if chunk is None else f.intrinsic("smin", self.chunk_start + chunk, size)
        full: Any = size // lanes * lanes
        if chunk is not None:
            full = hi if size % lanes == 0 else f.intrinsic("smin", hi, full)
        if not (chunk is None and full == 0):
            copies = self.copies(size, needed, sums)
            parts = [list(carry)] + [[self.start(n) for n in sums] for _ in range(copies - 1)]
            flat = [v for part in parts for v in part]
            with f.loop(lo, full, lanes * copies, carry=flat, runs=chunk is None) as loop:
                following: list[Val] = []
                for c in range(copies):
                    self.index[d] = loop.i if c == 0 else loop.i + c * lanes
                    self.env.append({})
                    mine = loop.carry[c * len(sums) : (c + 1) * len(sums)]
                    following += self.element(level, turn, needed, sums, late, mine)
                    self.env.pop()
                loop.next(following)
            totals = loop.results
            carry = totals[: len(sums)]
            for c in range(1, copies):
                more = totals[c * len(sums) : (c + 1) * len(sums)]
                carry = [self.items[n].value.combine(f, a, b) for n, a, b in zip(sums, carry, more, strict=True)]
        if size % lanes:
            if chunk is None:
                carry = self.tail(d, full, size % lanes, level, turn, needed, sums, late, carry)
            elif sums:  # the tail may or may not be in this chunk: a loop of at most one round
                with f.loop(full, hi, lanes, carry=carry) as loop:
                    loop.next(self.tail(d, loop.i, size % lanes, level, turn, needed, sums, late, loop.carry))
                carry = loop.results
            else:
                with f.when(f.index(full) < hi):
                    self.tail(d, full, size % lanes, level, turn, needed, sums, late, carry)
        return carry

    def whole_vectors(self, d: int, level: int, turn: int, needed: set[int]) -> None:
        """A chunk of a long row: whole vectors of the memory that is stored to, single elements around them."""
        f, lanes = self.f, self.lanes
        lo = self.chunk_start
        hi = f.intrinsic("smin", lo + self.chunk, self.space[d])
        start = f.intrinsic("smin", lo + self.shift, hi)
        end = start + (hi - start) // (lanes * COPIES) * (lanes * COPIES)

        def masked(left: Val, at: Val) -> None:
            self.tail(d, at, left, level, turn, needed, [], [], [])

        with f.when(lo < start):
            masked(start - lo, lo)
        with f.loop(start, end, lanes * COPIES) as loop:
            for c in range(COPIES):
                self.index[d] = loop.i + c * lanes
                self.env.append({})
                self.element(level, turn, needed, [], [], [])
                self.env.pop()
        with f.loop(end, hi, lanes) as loop:
            masked(hi - loop.i, loop.i)

    def copies(self, size: int, needed: set[int], sums: list[int]) -> int:
        """How often the body is written side by side: sums do not wait for each other, memory gets more to do at once."""
        if len(needed) > 12 or len(sums) > 3:
            return 1
        if self.crossed is not None:
            size = math.gcd(size, self.crossed[1])
        return next((c for c in (COPIES, 2) if size % (self.lanes * c) == 0), 1)

    def tail(
        self,
        d: int,
        at: Any,
        left: Any,
        level: int,
        turn: int,
        needed: set[int],
        sums: list[int],
        late: list[int],
        carry: list[Val],
    ) -> list[Val]:
        before, self.mask = self.mask, self.f.tail_mask(self.lanes, left)
        self.index[d] = at
        self.env.append({})
        carry = self.element(level, turn, needed, sums, late, carry)
        self.env.pop()
        self.mask = before
        return carry

    def element(
        self, level: int, turn: int, needed: set[int], sums: list[int], late: list[int], carry: list[Val]
    ) -> list[Val]:
        """One vector of elements: compute, keep, store, add to the reductions."""
        f, order = self.f, self.order
        for number in order.kept:
            if number in needed and order.kept[number] < turn:
                self.env[-1][number] = self.kept_row(number)
        self.compute_level(level, turn, needed)
        for number, first in order.kept.items():
            if first == turn:
                value = f.splat(self.find(number), self.lanes)
                f.store(value, self.private, self.row_place(number), self.mask if self.lanes > 1 else None)
        self.store_level(level, turn)
        following = []
        for number, total in zip(sums, carry, strict=True):
            following.append(self.added(number, total))
        for number in late:
            self.late.add(number)
        return following

    def added(self, number: int, total: Val) -> Val:
        """The running total with the present element; lanes outside the mask do not count."""
        f, item = self.f, self.items[number]
        value = prepared(f, item, self.find(item.source))
        if total.lanes > 1:
            value = f.splat(value, total.lanes)
        new = item.value.combine(f, total, value)
        if self.mask is not None and total.lanes > 1:
            new = f.select(self.mask, new, total)
        return new

    def row_place(self, number: int) -> Any:
        """Where in private memory a kept row holds the present element."""
        f, order = self.f, self.order
        at: Any = 0
        for d in order.inner:
            at = at * self.space[d] + self.index[d] if not isinstance(at, int) or at else self.index[d]
        if order.across and not isinstance(at, int):
            at = at * self.lanes
        bits = BITS[self.items[number].kind] // 8 or 1
        return f.index(at) + order.rows_at[number] // bits

    def kept_row(self, number: int) -> Val:
        kind = self.items[number].kind
        return self.f.load(
            self.private, self.row_place(number), kind, self.lanes, self.mask if self.lanes > 1 else None
        )


class _Lookup:
    """The values of a writer by number."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def __getitem__(self, number: int) -> Val:
        return self.writer.find(number)
