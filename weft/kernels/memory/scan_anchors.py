"""Running results along a dimension as anchors."""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.fuse.anchors import Anchor, Strides
from ...compiler.graph.graph import Node
from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.values import type_of


def running(node: Node, combine: str, dim: int, reverse: bool = False) -> Anchor | None:
    """The inputs, all of one shape and type, combined from one end of dimension `dim` on; see `Scan`."""
    from .scans import IS_RECORD, Scan

    first = node.inputs[0]
    kind, places = type_of(first.dtype), combine in IS_RECORD
    if kind is None or not first.size or not first.shape or (kind == "i1" and not places):
        return None
    same = node.inputs if places else (*node.inputs, node.output)
    if any(v.shape != first.shape or v.dtype != first.dtype for v in same):
        return None

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        value = Body(loads=tuple(Access(n, kind, s) for n, s in enumerate(strides)))
        return Scan(first.shape, dim % len(first.shape), value, body, combine, reverse)

    return Anchor(node, node.inputs, node.output.shape, make)
