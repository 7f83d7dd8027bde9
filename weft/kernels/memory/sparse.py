"""What comes along the entries of a sparse matrix, or along the edges of a graph, row by row.

The pattern of a matrix is two integer buffers: the entries of row i are those from starts[i] to starts[i + 1], `indices`
has the row of the dense operands that each one multiplies. A third one, `order`, says which value belongs to each entry. Results stand in registers while the entries of a row go by, one vector of columns beside the
other; each row belongs to one thread and entries are taken in order, so that no number of threads changes a bit. Products
are rounded before they are added, as NumPy's are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import BITS, Val
from .indexing import COMBINE, accesses

__all__ = ["DOT_LANES", "AlongRows", "ExtremeKernel", "SampledProductKernel", "SparseProductKernel", "TiedSumKernel"]

UNROLLED = 32  # vectors of one row for which there is code of their own
AHEAD = 128  # lines of memory between the entry that is added and the one that is asked for,
ENTRIES = (8, 128)  # but at least and at most so many entries
DOT_LANES = 8  # partial sums of one product of two rows


def ahead(lines: int) -> int:
    """How many entries ahead rows of so many lines are asked for."""
    return min(max(AHEAD // lines, ENTRIES[0]), ENTRIES[1])


def scattered(places: Sequence[Any]) -> list[Any]:
    """Every third one, three times round: lines asked for one after the other look like a stream, whose next lines would come too."""
    return [place for first in range(3) for place in places[first::3]]


def fitting_lanes(f: Function, kind: str, width: int) -> int:
    """A vector, or the shortest power of two that holds all of a narrow row."""
    return min(f.target.lanes_of(kind), 1 << max(1, (width - 1).bit_length()))


class Piece(NamedTuple):
    """Neighbouring columns of one head, a vector of them; those of `mask` if there is one."""

    head: Any
    start: Any
    mask: Val | None


class AlongRows(Kernel):
    """One result for each row and column, made of the entries of the row; `shape` (rows, columns) or (rows, heads, columns).

    starts (rows + 1), indices (entries): Access over (number,), i32 or i64. `body` has index space `shape`, given: the
    result. Threads get rows with about equally many entries.
    """

    def __init__(self, shape: Sequence[int], entries: int, starts: Access, indices: Access, body: Body) -> None:
        self.shape, self.entries, self.body = tuple(shape), entries, body
        self.rows, self.columns = shape[0], shape[-1]
        self.heads = shape[1] if len(shape) == 3 else 1
        self.starts, self.indices = starts, indices

    # -------------------------------------------------------------------------- what a kind says
    kind: str
    sources: tuple[Access, ...] = ()  # operands of which every entry reads a row
    held = 1  # registers for each vector of the result while the entries of a row go by

    def begin(self, lanes: int, f: Function) -> Val:
        """What a row without entries has."""
        return f.const(self.kind, 0.0, lanes)

    def prepare(self, f: Function, row: Val, pieces: Sequence[Piece], lanes: int) -> Any:
        """What is the same for all entries of a row."""

    def step(
        self, f: Function, e: Val, number: Val, pieces: Sequence[Piece], lanes: int, sums: Sequence[Val], prepared: Any
    ) -> list[Val]:
        """The results so far with entry e, which comes from row `number`."""
        raise NotImplementedError

    def finish(self, f: Function, total: Val, first: Val, last: Val) -> Val:
        return total

    def ask_ahead(self, f: Function, e: Val) -> None:
        """Ask for what entry e needs beside rows of the sources."""

    # ----------------------------------------------------------------------------------- the loops
    def emit(self, f: Function) -> None:
        lo, hi = self._share(f)
        lanes = 1 if self.columns == 1 else fitting_lanes(f, self.kind, self.columns)
        with f.loop(lo, hi) as row:
            first, last = self._start(f, row.i), self._start(f, row.i + 1)
            for block in self._blocks(f, lanes, f.target.registers // 2 // self.held):
                self._block(f, row.i, first, last, block, lanes)

    def _start(self, f: Function, row: Any) -> Val:
        return f.cast(self.starts.load(f, [row], 0), "i64")

    def _share(self, f: Function) -> tuple[Val, Val]:
        """Rows so that every thread has about as many entries and rows together."""

        def boundary(thread: Val) -> Val:
            wanted = thread * (self.entries + self.rows) // f.nt
            with f.loop(0, self.rows.bit_length(), carry=[f.index(0), f.index(self.rows)], runs=True) as loop:
                low, high = loop.carry
                middle = (low + high) // 2
                below = self._start(f, middle) + middle < wanted
                open_still = low < high
                loop.next([f.select(below & open_still, middle + 1, low), f.select(below, high, middle)])
            return loop.results[0]

        return boundary(f.tid), boundary(f.tid + 1)

    def _blocks(self, f: Function, lanes: int, vectors: int) -> Iterator[list[Piece]]:
        """The columns of all heads in blocks of so many vectors; many of them in a loop, which is open then."""
        each = -(-self.columns // lanes)  # vectors of a head
        if self.heads * each <= UNROLLED:
            pieces = [p for head in range(self.heads) for p in self._pieces(f, head, 0, self.columns, lanes)]
            yield from (pieces[at : at + vectors] for at in range(0, len(pieces), vectors))
            return
        step = lanes * vectors
        full = self.columns // step * step
        with f.loop(0, self.heads, runs=True) as heads:
            if full:
                with f.loop(0, full, step, runs=True) as loop:
                    yield list(self._pieces(f, heads.i, loop.i, step, lanes))
            if self.columns % step:
                yield list(self._pieces(f, heads.i, full, self.columns % step, lanes))

    def _pieces(self, f: Function, head: Any, start: Any, width: int, lanes: int) -> Iterator[Piece]:
        for at in range(0, width, lanes):
            count = min(lanes, width - at)
            yield Piece(head, start + at, f.tail_mask(lanes, count) if count < lanes else None)

    def _block(self, f: Function, row: Val, first: Val, last: Val, pieces: Sequence[Piece], lanes: int) -> None:
        """Some vectors of one row, which stay in registers."""
        prepared = self.prepare(f, row, pieces, lanes)
        with f.loop(first, last, carry=[self.begin(lanes, f)] * len(pieces)) as loop:
            number = f.cast(self.indices.load(f, [loop.i], 0), "i64")
            self._ask_ahead(f, loop.i, pieces, lanes)
            loop.next(self.step(f, loop.i, number, pieces, lanes, loop.carry, prepared))
        for piece, total in zip(pieces, loop.results, strict=True):
            total = self.finish(f, total, first, last)
            self.body.emit(f, self.at(row, piece), len(self.shape) - 1, lanes, piece.mask, given=[total])

    def _ask_ahead(self, f: Function, e: Val, pieces: Sequence[Piece], lanes: int) -> None:
        """Rows come from anywhere in memory: those of later entries are asked for now."""
        line = max(1, 64 // (lanes * BITS[self.kind] // 8))  # vectors in a line of memory
        later = f.intrinsic("smin", e + ahead(len(pieces[::line])), self.entries - 1)
        number = f.cast(self.indices.load(f, [later], 0), "i64")
        for access in self.sources:
            for piece in scattered(pieces[::line]):
                f.prefetch(f.arg(access.arg), access.place(f, self.at(number, piece)), access.kind)
        self.ask_ahead(f, later)

    def at(self, row: Any, piece: Piece) -> list[Any]:
        """The index of a piece of a row of an operand, or of the result."""
        return [row, piece.start] if len(self.shape) == 2 else [row, piece.head, piece.start]

    def load(self, f: Function, access: Access, row: Any, piece: Piece, lanes: int) -> Val:
        found = access.load(f, self.at(row, piece), len(self.shape) - 1, lanes, piece.mask)
        return f.splat(found, lanes)


class SparseProductKernel(AlongRows):
    """y[i, h, j] = Σₑ value[order[e], h] · x[indexₑ, h, j]; without values just the sum.

    values: Access over (number,) or (number, head); order: Access over (number,) (None: as the entries lie).
    """

    def __init__(
        self,
        shape: Sequence[int],
        entries: int,
        starts: Access,
        indices: Access,
        values: Access | None,
        x: Access,
        body: Body,
        order: Access | None = None,
    ) -> None:
        super().__init__(shape, entries, starts, indices, body)
        self.values, self.x, self.order, self.kind, self.sources = values, x, order, x.kind, (x,)
        width = self.heads * self.columns
        self.flops = (2 if values else 1) * entries * width
        self.nbytes = (entries * (width + 2) + self.rows * width * len(accesses(body))) * BITS[x.kind] // 8

    def key(self) -> str:
        operands = (self.starts, self.indices, self.values, self.x, self.order)
        return f"SparseProduct {self.shape} {self.entries} {operands} {self.body.key()}"

    def ask_ahead(self, f, e):
        if self.values is not None and self.order is not None:
            place = f.cast(self.order.load(f, [e], 0), "i64")
            f.prefetch(f.arg(self.values.arg), place * self.values.strides[0], self.kind)

    def step(self, f, e, number, pieces, lanes, sums, prepared):
        found = [self.load(f, self.x, number, piece, lanes) for piece in pieces]
        if self.values is None:
            return [total + x for total, x in zip(sums, found, strict=True)]
        place = e if self.order is None else f.cast(self.order.load(f, [e], 0), "i64")
        weights: dict[Any, Val] = {}
        for piece in pieces:
            key = piece.head if isinstance(piece.head, int) else None
            if key not in weights:
                index = [place, piece.head][: len(self.values.strides)]
                weights[key] = f.splat(self.values.load(f, index, 0), lanes)
        chosen = [weights[piece.head if isinstance(piece.head, int) else None] for piece in pieces]
        terms = [f.rounded_product(w, x) for w, x in zip(chosen, found, strict=True)]
        return [total + term for total, term in zip(sums, terms, strict=True)]


class ExtremeKernel(AlongRows):
    """y[i, j] = the largest or smallest x[indexₑ, j] of the entries of i ('amax', 'amin'); 0 where there are none."""

    def __init__(
        self, shape: Sequence[int], entries: int, starts: Access, indices: Access, x: Access, body: Body, combine: str
    ) -> None:
        super().__init__(shape, entries, starts, indices, body)
        self.x, self.combine, self.kind, self.sources = x, combine, x.kind, (x,)
        self.flops = entries * self.columns
        self.nbytes = (entries * (self.columns + 1) + self.rows * self.columns) * BITS[x.kind] // 8

    def key(self) -> str:
        operands = (self.starts, self.indices, self.x, self.combine)
        return f"Extreme {self.shape} {self.entries} {operands} {self.body.key()}"

    def begin(self, lanes, f):
        return f.const(self.kind, float("-inf" if self.combine == "amax" else "inf"), lanes)

    def step(self, f, e, number, pieces, lanes, sums, prepared):
        found = [self.load(f, self.x, number, piece, lanes) for piece in pieces]
        return [COMBINE[self.combine](f, best, x) for best, x in zip(sums, found, strict=True)]

    def finish(self, f, total, first, last):
        return f.select(first.eq(last), f.const(self.kind, 0.0, total.lanes), total)


class TiedSumKernel(AlongRows):
    """y[i, j] = Σ g[indexₑ, j] over the entries of i for which a[indexₑ, j] = b[i, j]."""

    def __init__(
        self,
        shape: Sequence[int],
        entries: int,
        starts: Access,
        indices: Access,
        a: Access,
        b: Access,
        g: Access,
        body: Body,
    ) -> None:
        super().__init__(shape, entries, starts, indices, body)
        self.a, self.b, self.g, self.kind, self.held = a, b, g, g.kind, 2
        self.sources = (a, g) if g.strides[0] else (a,)
        self.flops = 2 * entries * self.columns
        self.nbytes = (entries * (2 * self.columns + 1) + 2 * self.rows * self.columns) * BITS[g.kind] // 8

    def key(self) -> str:
        operands = (self.starts, self.indices, self.a, self.b, self.g)
        return f"TiedSum {self.shape} {self.entries} {operands} {self.body.key()}"

    def prepare(self, f, row, pieces, lanes):
        return [self.load(f, self.b, row, piece, lanes) for piece in pieces]

    def step(self, f, e, number, pieces, lanes, sums, prepared):
        result = []
        for piece, total, wanted in zip(pieces, sums, prepared, strict=True):
            same = self.load(f, self.a, number, piece, lanes).eq(wanted)
            g = self.load(f, self.g, number, piece, lanes)
            result.append(total + f.select(same, g, f.const(self.kind, 0.0, lanes)))
        return result


class SampledProductKernel(Kernel):
    """y[e, h] = Σⱼ a[rowₑ, h, j] · b[columnₑ, h, j] for every edge e, in DOT_LANES partial sums.

    Edges are gone through by row, so that rows of a are read once: starts (rows + 1), columns, order (the number of each
    edge; None: they lie so): Access over (number,). a, b: Access over (row, head, j). `body` has index space (e, head),
    or (e,) where there is one head; given: the sum.
    """

    def __init__(
        self,
        rows: int,
        entries: int,
        heads: int,
        width: int,
        starts: Access,
        columns: Access,
        order: Access | None,
        a: Access,
        b: Access,
        body: Body,
        rank: int = 2,
    ) -> None:
        self.rows, self.entries, self.heads, self.width, self.rank = rows, entries, heads, width, rank
        self.starts, self.columns, self.order, self.a, self.b, self.body = starts, columns, order, a, b, body
        self.flops = 2 * entries * heads * width
        self.nbytes = (entries * (heads * (width + 1) + 2) + rows * heads * width) * BITS[a.kind] // 8

    def key(self) -> str:
        operands = (self.starts, self.columns, self.order, self.a, self.b)
        return f"SampledProduct {self.rows} {self.entries} {self.heads} {self.width} {self.rank} {operands} {self.body.key()}"

    _start, _share = AlongRows._start, AlongRows._share

    def emit(self, f: Function) -> None:
        lo, hi = self._share(f)
        together = self.rank == 2 and 1 < self.heads <= DOT_LANES and not self.heads & (self.heads - 1)
        with f.loop(lo, hi) as row, f.loop(self._start(f, row.i), self._start(f, row.i + 1)) as entry:
            number = f.cast(self.columns.load(f, [entry.i], 0), "i64")
            place = entry.i if self.order is None else f.cast(self.order.load(f, [entry.i], 0), "i64")
            self._ask_ahead(f, entry.i)
            if together:
                sums = [self._partial(f, row.i, number, head) for head in range(self.heads)]
                self.body.emit(f, [place, 0], 1, self.heads, given=[folded(f, sums)])
            elif self.heads * -(-self.width // DOT_LANES) <= UNROLLED:
                for head in range(self.heads):
                    self._store(f, place, head, self._partial(f, row.i, number, head))
            else:
                with f.loop(0, self.heads, runs=True) as heads:
                    self._store(f, place, heads.i, self._partial(f, row.i, number, heads.i))

    def _ask_ahead(self, f: Function, e: Val) -> None:
        line = 64 * 8 // BITS[self.b.kind]
        later = f.intrinsic("smin", e + ahead(-(-self.heads * self.width // line)), self.entries - 1)
        number = f.cast(self.columns.load(f, [later], 0), "i64")
        if self.b.strides[1:] == (self.width, 1) or self.heads == 1:
            for j in range(0, min(self.heads * self.width, 8 * line), line):
                f.prefetch(f.arg(self.b.arg), number * self.b.strides[0] + j, self.b.kind)

    def _store(self, f: Function, place: Val, head: Any, sums: Val) -> None:
        self.body.emit(f, [place, head][: self.rank], 0, given=[folded(f, [sums])])

    def _partial(self, f: Function, row: Val, number: Val, head: Any) -> Val:
        """DOT_LANES partial sums of one product."""
        total, full = f.const(self.a.kind, 0.0, DOT_LANES), self.width // DOT_LANES * DOT_LANES

        def added(j: Any, mask: Val | None, total: Val) -> Val:
            a = f.splat(self.a.load(f, [row, head, j], 2, DOT_LANES, mask), DOT_LANES)
            b = f.splat(self.b.load(f, [number, head, j], 2, DOT_LANES, mask), DOT_LANES)
            return total + f.rounded_product(a, b)

        if 0 < full <= UNROLLED * DOT_LANES:
            for j in range(0, full, DOT_LANES):
                total = added(j, None, total)
        elif full:
            with f.loop(0, full, DOT_LANES, carry=[total], runs=True) as loop:
                loop.next([added(loop.i, None, loop.carry[0])])
            total = loop.results[0]
        if self.width % DOT_LANES:
            total = added(full, f.tail_mask(DOT_LANES, self.width % DOT_LANES), total)
        return total


def folded(f: Function, sums: list[Val]) -> Val:
    """One lane for each of 1, 2, 4 … vectors: its lanes added, halves to halves. All are folded at once."""
    size = sums[0].lanes  # of the groups of lanes that belong to one vector
    while size > 1:
        half = size // 2
        pairs = list(zip(sums[::2], sums[1::2], strict=True)) if len(sums) > 1 else [(sums[0], None)]
        sums = []
        for a, b in pairs:
            lanes = a.lanes if b is None else 2 * a.lanes
            low = [g + k for g in range(0, lanes, size) for k in range(half)]
            high = [i + half for i in low]
            other = a if b is None else b
            if len(low) == 1:
                sums.append(f.extract(a, 0) + f.extract(a, 1))
            else:
                sums.append(f.shuffle(a, other, low) + f.shuffle(a, other, high))
        size = half
    return sums[0]
