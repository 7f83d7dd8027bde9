"""Running results along a dimension as anchors."""

from __future__ import annotations

from collections.abc import Sequence

from .anchors import Anchor, Strides
from .body import Access, Body
from .graph import Node
from .kernel import Kernel
from .llvm import type_of


def running(node: Node, combine: str, dim: int, reverse: bool = False) -> Anchor | None:
    """The inputs, all of one shape and type, combined from one end of dimension `dim` on; see `Scan`."""
    from .scans import Scan

    out, kind = node.output, type_of(node.output.dtype)
    if kind is None or kind == "i1" or not out.size or not out.shape:
        return None
    if any(v.shape != out.shape or v.dtype != out.dtype for v in node.inputs):
        return None

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        value = Body(loads=tuple(Access(n, kind, s) for n, s in enumerate(strides)))
        return Scan(out.shape, dim % len(out.shape), value, body, combine, reverse)

    return Anchor(node, node.inputs, out.shape, make)
