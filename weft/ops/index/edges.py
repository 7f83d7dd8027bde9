"""Edges between numbered places, put in order once: what the primitives of segments.py go along.

`Edges` keeps the sources and targets as they were given and, when it is first needed, the order by target (and, for
gradients, by source). `known_edges` makes one for index tensors and finds it again by their memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime.lazy import LazyModule
from ...tape.modes import mode
from ...tensor import Tensor

__all__ = ["Edges", "known_edges", "settled"]

sparse = LazyModule("scipy.sparse")


class Edges:
    """E edges, each from one of N sources to one of M targets; compared by identity, never written to.

    sources, targets: (E,) integers in any order, repeated or not; size: (M, N)
    `starts` (M + 1), `columns` (E) and `order` (E) are the same edges by target: the edges to i are those from
    starts[i] on, columns has their sources and order their numbers (None: they came in order). Edges to one target
    stay in the order in which they were given, so that sums are added in that order.
    """

    __slots__ = (
        "__weakref__",
        "_back",
        "_in_order",
        "_other",
        "_rows",
        "_sorted",
        "size",
        "sources",
        "targets",
        "used",
    )

    def __init__(self, sources: np.ndarray, targets: np.ndarray, size: tuple[int, int]) -> None:
        kind = np.int32 if max(*size, len(targets)) < 2**31 else np.int64
        self.sources, self.targets = sources.astype(kind, copy=True), targets.astype(kind, copy=True)
        self.size, self.used = size, 0
        self._sorted: tuple[np.ndarray, np.ndarray, np.ndarray | None] | None = None
        self._other: Edges | None = None
        self._rows: Edges | None = None
        self._in_order: Edges | None = None
        self._back: np.ndarray | None = None

    @classmethod
    def to(cls, targets: np.ndarray, count: int) -> Edges:
        """The edges from row e to targets[e]: rows gathered into `count` groups."""
        return cls(np.arange(len(targets)), targets, (count, len(targets)))

    @classmethod
    def between(cls, starts: np.ndarray) -> Edges:
        """Row e belongs to the group i with starts[i] ≤ e < starts[i + 1]."""
        counts = np.diff(starts)
        return cls.to(np.repeat(np.arange(len(counts)), counts), len(counts))

    @property
    def count(self) -> int:
        """The number of edges."""
        return len(self.targets)

    @property
    def T(self) -> Edges:
        """The edges turned round; made once."""
        if self._other is None:
            other = object.__new__(Edges)
            other.sources, other.targets, other.size, other.used = self.targets, self.sources, self.size[::-1], 0
            other._sorted, other._rows, other._in_order, other._back = None, None, None, None
            other._other, self._other = self, other
        return self._other

    def by_row(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """`starts`, `columns`, `order`: the edges by target; found once, in time linear in the edges."""
        if self._sorted is None:
            kind, count = self.targets.dtype, self.count
            if (np.diff(self.targets) >= 0).all():
                starts = np.searchsorted(self.targets, np.arange(self.size[0] + 1))
                self._sorted = starts.astype(kind), self.sources, None
            else:
                ones = np.ones(count, np.int8)
                one_each = sparse.csc_array((ones, self.targets, np.arange(count + 1)), shape=(self.size[0], count))
                found = one_each.tocsr()  # counting, which keeps the order within a target
                order = found.indices.astype(kind)
                self._sorted = found.indptr.astype(kind), self.sources[order], order
        return self._sorted

    def rows(self) -> Edges:
        """The edges as rows (numbers for each edge, as `to` takes them) that go to the same targets; made once."""
        if self._rows is None:
            counted = self.size[1] == self.count and bool((self.sources == np.arange(self.count)).all())
            self._rows = self if counted else Edges.to(self.targets, self.size[0])
        return self._rows

    def in_order(self) -> Edges:
        """The same edges in the order of their targets; made once."""
        if self._in_order is None:
            _, columns, order = self.by_row()
            self._in_order = self if order is None else Edges(columns, self.targets[order], self.size)
        return self._in_order

    def numbers(self, back: bool) -> np.ndarray:
        """(E,): which edge comes where in the order of targets; `back`: where each edge has come to."""
        order = self.by_row()[2]
        if order is None:
            return np.arange(self.count)
        if back and self._back is None:
            self._back = np.empty_like(order)
            self._back[order] = np.arange(self.count)
        return self._back if back else order

    def counts(self) -> np.ndarray:
        """(M,): how many edges go to each target."""
        return np.diff(self.by_row()[0])

    def matrix(self, values: np.ndarray) -> Any:
        """SciPy's (M, N) matrix with values[e] for edge e; several at one place stay apart."""
        starts, columns, order = self.by_row()
        return sparse.csr_array((values if order is None else values[order], columns, starts), shape=self.size)

    def __repr__(self) -> str:
        return f"Edges({self.count} from {self.size[1]} sources to {self.size[0]} targets)"


# ----------------------------------------------------------------------------- found again by their tensors

_known: dict[int, tuple[weakref.ref, int, dict[Any, tuple[np.ndarray, Edges]]]] = {}  # by the owner of the memory


def settled(x: Tensor) -> np.ndarray | None:
    """The values of an index tensor, if they are the same at every call of a trace that is going on; None if not."""
    if x._interpreter is not None:
        return None
    over = mode.interpreter
    return x.array if over is None else over.settled(x)


def known_edges(x: Tensor, key: Any, make: Callable[[np.ndarray], Edges]) -> Edges | None:
    """`make` of the values of x, remembered while the tensor that owns the memory lives and nobody writes to it.

    `key` says what is made. None: x has no values yet that hold from call to call.
    """
    if mode.interpreter is not None or x._interpreter is not None:
        values = settled(x)
        return None if values is None else make(values)
    owner = x if x._base is None else x._base
    found = _known.get(id(owner))
    if found is None or found[0]() is not owner or found[1] != owner._version:
        number = id(owner)
        gone = weakref.ref(owner, lambda _: _known.pop(number, None))
        found = _known[number] = (gone, owner._version, {})
    array = x.array
    place = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype, key)
    if place not in found[2]:
        found[2][place] = array, make(array)  # the array is kept, lest another comes to lie where it was
    return found[2][place][1]
