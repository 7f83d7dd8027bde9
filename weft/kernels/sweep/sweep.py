"""The kernel of pointwise operations and reductions over one index space.

The space is worked through row by row: the *outer* sizes are counted through by one loop that threads share, the
*inner* ones by nested loops. Reductions over the inner sizes are complete at the end of a row, and what uses them runs
in another pass over the row, whose data are still in cache. Reductions over anything else (`late`) are summed in
pieces of the rows, which are combined after a barrier. Every value is computed in the outermost loop it allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..body import Access, Step
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import BITS

__all__ = ["CHUNK", "PIECES", "Item", "LoopOrder", "Several", "Sweep"]

CHUNK = 8192  # elements of a long row that one thread takes at a time
SMALL = 6000  # elements (weighted by cost) up to which one thread does it all
SHARE = 6000  # of larger ones, what a thread must have so that it is worth calling
PIECES = 8  # in which late reductions are summed
CROSSED = 1 << 15  # elements from which rows that cross another access are worked through in short pieces
SHARED = 1024  # bytes of a stride whose multiples share few places of a cache
DEAR = 8  # cost from which a value is kept for the next pass instead of computed again


@dataclass(frozen=True)
class Item:
    """One value of a sweep. `what`: 'constant', 'load', 'step', 'rows' (reduction over rows) or 'late'.

    `mask` says along which sizes it varies; `source` is the item that a reduction sums, `count` how many elements.
    """

    what: str
    kind: str
    mask: tuple[bool, ...]
    value: Any = None  # the number, Access, Step or reducing operation
    source: int = -1
    count: int = 1

    def key(self) -> str:
        value = self.value
        if isinstance(value, Step):
            text = value.key()
        elif self.what in ("rows", "late"):
            text = value.title
        else:
            text = repr(value)
        return f"{self.what}:{self.kind}:{''.join('01'[m] for m in self.mask)}:{text}:{self.source}:{self.count}"


@dataclass
class Sweep(Kernel):
    """`stores` are (Access, number of an item); `rows` marks the inner sizes where there are row reductions."""

    items: tuple[Item, ...]
    stores: tuple[tuple[Access, int], ...]
    space: tuple[int, ...]
    rows: tuple[bool, ...] | None
    cost: int = 1
    serial: bool = False
    scratch: int = 0
    scratch_arg: int = 0
    _order: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        elements = 1
        for s in self.space:
            elements *= s
        self.elements = elements
        self.serial = elements * self.cost <= SMALL or elements == 1
        accesses = [i.value for i in self.items if i.what == "load"] + [a for a, _ in self.stores]
        self.scratch_arg = 1 + max((a.arg for a in accesses), default=-1)
        self.nbytes = sum(BITS[a.kind] // 8 * _extent(a, self.space) for a in accesses)
        self.flops = elements * sum(1 for i in self.items if i.what == "step" and all(i.mask))
        self._order = LoopOrder(self)
        self.most_threads = 0 if self._order.sums else max(2, elements * self.cost // SHARE)
        self.scratch = self._order.scratch
        self.workspace = self._order.piece * self.pieces
        self.workspace_word = self.scratch_arg
        self.scratch_word = self.scratch_arg + (self.workspace > 0)

    @property
    def pieces(self) -> int:
        """In how many parts late reductions are summed: a fixed number, so that threads do not change the result."""
        return 1 if self.serial else PIECES

    def key(self) -> str:
        items = ";".join(i.key() for i in self.items)
        return f"sweep|{self.space}|{items}|{self.stores}|{self.rows}|{self.serial}"

    def emit(self, f: Function) -> None:
        from .writer import Writer

        Writer(f, self, self._order).write()


def _extent(access: Access, space: Sequence[int]) -> int:
    count = 1
    for size, stride in zip(space, access.strides, strict=True):
        count *= size if stride else 1
    return count


class LoopOrder:
    """The order of the loops, the vector axis, the passes over a row, and what each thread's memory holds."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        space, items = sweep.space, sweep.items
        self.accesses = [i.value for i in items if i.what == "load"] + [a for a, _ in sweep.stores]
        self.axis = self._vector_axis()
        has_rows = sweep.rows is not None
        dims = self._ordered(range(len(space)))
        if has_rows:
            self.inner = [d for d in dims if sweep.rows[d]]
            self.outer = [d for d in dims if not sweep.rows[d]]
        else:
            self.inner = [self.axis] if self.axis is not None else []
            self.outer = [d for d in dims if d != self.axis]
        for part in (self.inner, self.outer):
            if self.axis in part:  # the vector axis comes last
                part.remove(self.axis)
                part.append(self.axis)
        self.across = has_rows and self.axis in self.outer  # lanes are rows
        self.level = {d: 1 for d in self.outer} | {d: 2 + n for n, d in enumerate(self.inner)}
        self.levels = [max((self.level[d] for d, m in enumerate(i.mask) if m), default=0) for i in items]
        self._find_passes()
        self._find_kept()
        self._lay_out()

    def _ordered(self, dims: Any) -> list[int]:
        """Dimensions as the largest access runs through memory."""
        space = self.sweep.space
        best = max(self.accesses, key=lambda a: _extent(a, space), default=None)
        if best is None:
            return list(dims)
        return sorted(dims, key=lambda d: -abs(best.strides[d]) if best.strides[d] else -(1 << 60) + d)

    def crossed(self, lanes: int) -> tuple[int, int] | None:
        """The outer size along which an access lies that strides along the vectors, and how much of a row to take before the next.

        So it is in a transposition. Whole rows would fetch a line of memory for each of their elements, and have lost it when the next row wants its neighbours.
        Where strides are such that all these lines share a few places of the cache it holds no more than those of one vector.
        """
        space = self.sweep.space
        if self.sweep.rows is not None or self.sums or self.axis is None or self.sweep.elements < CROSSED:
            return None
        for access in self.accesses:
            stride = access.strides[self.axis]
            lying = [d for d in self.outer if access.strides[d] == 1 and space[d] >= 8]
            piece = lanes * (1 if stride * BITS[access.kind] // 8 % SHARED == 0 else 4)
            if stride > 1 and lying and space[self.axis] > piece:
                return lying[0], piece
        return None

    def _vector_axis(self) -> int | None:
        sums = self.sweep.rows is not None or any(i.what == "late" for i in self.sweep.items)
        space, best, found = self.sweep.space, (0, 0, 0), None
        for d, size in enumerate(space):
            if size == 1:
                continue
            score = sum(_extent(a, space) for a in self.accesses if a.strides[d] == 1)
            score -= sum(_extent(a, space) for a in self.accesses if a.strides[d] not in (0, 1))
            # what is read and written across may rather be gathered than scattered
            written = 0 if sums else sum(a.strides[d] == 1 for a, _ in self.sweep.stores)
            worth = (score * min(size, 8), written, size)
            if found is None or worth > best:
                best, found = worth, d
        return found

    def _find_passes(self) -> None:
        """The pass over the row in which each item is known: one more for each reduction on the way to it."""
        self.passes: list[int] = []
        self.costs: list[int] = []
        for item in self.sweep.items:
            if item.what in ("rows", "late"):
                passed, cost = self.passes[item.source] + (item.what == "rows"), 0
            elif item.what == "step":
                passed = max((self.passes[i] for i in item.value.operands), default=0)
                cost = item.value.op.cost + sum(
                    self.costs[i] for i in set(item.value.operands) if self.levels[i] == self.levels[len(self.passes)]
                )
            else:
                passed, cost = 0, 0
            self.passes.append(passed)
            self.costs.append(cost)
        self.last = max([self.passes[i] for _, i in self.sweep.stores] + self.passes, default=0)

    def _find_kept(self) -> None:
        """Dear full values that a later pass needs again: kept in private memory, one row of each."""
        items, self.kept = self.sweep.items, {}
        if self.sweep.rows is None:
            return
        wanted: dict[int, set[int]] = {}
        for turn in range(self.last + 1):
            for number in self.needed(turn):
                wanted.setdefault(number, set()).add(turn)
        for number, turns in wanted.items():
            if len(turns) > 1 and self.costs[number] >= DEAR and items[number].what == "step":
                if self.levels[number] == 1 + len(self.inner):
                    self.kept[number] = min(turns)

    def needed(self, turn: int) -> list[int]:
        """The inner items to compute in a pass: for its reductions and stores, and what those are made of."""
        items = self.sweep.items
        pending = [
            i.source for n, i in enumerate(items) if i.what in ("rows", "late") and self.passes[i.source] == turn
        ]
        pending += [n for _, n in self.sweep.stores if self.passes[n] == turn]
        pending += [n for n, first in self.kept.items() if first == turn]
        found: set[int] = set()
        while pending:
            n = pending.pop()
            if n in found or self.levels[n] < 2:
                continue
            found.add(n)
            if items[n].what == "step" and not (n in self.kept and self.kept[n] < turn):
                pending.extend(items[n].value.operands)
        return sorted(found)

    def _lay_out(self) -> None:
        """Offsets of the partial sums of late reductions in each piece of the workspace, of kept rows in private memory."""
        space, at = self.sweep.space, 0
        self.sums: dict[int, tuple[int, list[int], int]] = {}
        for n, item in enumerate(self.sweep.items):
            if item.what != "late":
                continue
            dims = [d for d in range(len(space)) if item.mask[d]]
            if self.axis in dims:
                dims.remove(self.axis)
                dims.append(self.axis)
            count = 1
            for d in dims:
                count *= space[d]
            wide = 1 if self.axis in dims else 64
            self.sums[n] = (at, dims, count)
            at += -(-(count * wide * (BITS[item.kind] // 8 or 1) + 64) // 64) * 64
        self.piece, at = at, 0  # bytes of the partial sums of one piece
        self.rows_at: dict[int, int] = {}
        length = 1
        for d in self.inner:
            length *= space[d]
        for n in self.kept:
            self.rows_at[n] = at
            at += -(-(length + 64) * (64 if self.across else 1) * 8 // 64) * 64
        self.scratch = -(-at // 64) * 64


class Several(Kernel):
    """Sweeps without private memory, one after the other in one function; the first is a fill that others write over."""

    def __init__(self, kernels: Sequence[Sweep], fills: bool) -> None:
        self.kernels, self.fills = list(kernels), fills
        self.nbytes = sum(k.nbytes for k in kernels)
        self.serial = sum(k.elements for k in kernels) <= SMALL
        for k in self.kernels:
            k.serial = self.serial

    def key(self) -> str:
        return f"several|{self.fills}|{self.serial}|" + "|".join(k.key() for k in self.kernels)

    def emit(self, f: Function) -> None:
        for number, kernel in enumerate(self.kernels):
            if number == 1 and self.fills and not self.serial:
                f.barrier()
            kernel.emit(f)
