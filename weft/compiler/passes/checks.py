"""Indices checked before anything outside is written.

Operations that take index tensors put a check (`CheckPlaces` of ops/index/places.py) into the graph, divisions of integers
another one (`CheckDivisor` of ops/math/division.py). Whoever writes to a state
in place waits for all of them (schedule.py), and a plan stops between the last check and the first such write.
"""

from __future__ import annotations

from ...errors import IndexRangeError, WeftError
from ..graph.graph import Graph, Node

__all__ = ["has_checks", "may_fail", "wrong_index"]


def may_fail(node: Node) -> bool:
    """Whether the node, or one inside of its bodies, checks indices."""
    return node.op.checks or any(map(has_checks, node.op.bodies))


def has_checks(graph: Graph) -> bool:
    return any(map(may_fail, graph.nodes))


def wrong_index(node: Node, index: int, size: int) -> WeftError:
    """The error of a kernel of a plan that met an index out of range."""
    place = f"in a compiled function{f', at {node.line}' if node.line else ''}"
    if node.op.checks:
        return node.op.error(f"{node.op.message(index, **node.params)} ({place}; nothing was written)")
    return IndexRangeError(f"{node.op.name}: index {index} is out of bounds for dimension with size {size} ({place})")
