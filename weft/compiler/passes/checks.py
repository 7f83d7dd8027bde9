"""Indices checked before anything outside is written.

Operations that take index tensors put a check (`CheckPlaces` of ops/index/places.py) into the graph. Whoever writes to a state
in place waits for all of them (schedule.py), and a plan stops between the last check and the first such write.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...errors import IndexRangeError
from ...kernels.body import Access
from ...kernels.kernel import Kernel
from ...kernels.llvm.builder import Function
from ...kernels.llvm.values import Val, type_of
from ...kernels.memory.indexing import merged_axes, over_space, report_wrong, thin, vector_lanes
from ..fuse.anchors import Strides, Whole
from ..graph.graph import Graph, Node

SERIAL = 1 << 14  # indices that one thread looks at alone


def may_fail(node: Node) -> bool:
    """Whether the node, or one inside of its bodies, checks indices."""
    return getattr(node.op, "checks", False) or any(map(has_checks, getattr(node.op, "bodies", ())))


def has_checks(graph: Graph) -> bool:
    return any(map(may_fail, graph.nodes))


def check_places(node: Node) -> Whole | None:
    """The check of an index tensor as a kernel."""
    (index,), p = node.inputs, node.params
    kind = type_of(index.dtype)
    if kind is None or index.dtype.kind not in "iu" or not index.size:
        return None

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        return PlacesCheck(index.shape, Access(0, kind, strides[0]), p["low"], p["size"], p["skip"], 2)

    return Whole(node, (index,), make)


class PlacesCheck(Kernel):
    """Reports an index outside of low … size − 1 that is not `skip`, and tells the plan to stop."""

    halts = True

    def __init__(self, shape: Sequence[int], index: Access, low: int, size: int, skip: int | None, flag: int) -> None:
        groups = merged_axes(shape, [index.strides])
        self.shape, self.index = tuple(prod(shape[a] for a in g) for g in groups), thin(index, groups)
        self.low, self.size, self.skip, self.flag = low, size, skip, flag
        self.serial, self.nbytes = prod(shape) <= SERIAL, 8 * prod(shape)

    def key(self) -> str:
        return f"PlacesCheck {self.shape} {self.index} {self.low} {self.size} {self.skip} {self.flag} {self.serial}"

    def emit(self, f: Function) -> None:
        lanes = vector_lanes(f, self.index.kind)
        over_space(f, self.shape, lanes, lambda index, mask: self._vector(f, index, lanes, mask))

    def _vector(self, f: Function, index: list[Any], lanes: int, mask: Val | None) -> None:
        given = f.splat(f.cast(self.index.load(f, index, len(index) - 1, lanes, mask), "i64"), lanes)
        outside = (given < self.low) | (given >= self.size)
        if self.skip is not None:
            outside = outside & given.ne(self.skip)
        if mask is not None:
            outside = outside & mask
        report_wrong(f, outside, given, self.size, self.flag, halt=True)


def wrong_index(node: Node, index: int, size: int) -> IndexRangeError:
    """The error of a kernel of a plan that met an index out of range."""
    place = f"in a compiled function{f', at {node.line}' if node.line else ''}"
    if getattr(node.op, "checks", False):
        return IndexRangeError(f"{node.op.message(index, **node.params)} ({place}; nothing was written)")
    return IndexRangeError(f"{node.op.name}: index {index} is out of bounds for dimension with size {size} ({place})")
