"""The order of dimensions in memory: images with their channels densest, operands as their kernels need them."""

from __future__ import annotations

from typing import Any

from ...kernels.anchor import Strides
from ...ops.core.pointwise import Elementwise
from ..fuse.anchors import find_anchors
from ..graph.bodies import straighten
from ..graph.geometry import Geometry, is_view, ordered_strides
from ..graph.graph import Draw, Graph, Node, Source, Value
from .simplify import MOVE, Move, order_views

__all__ = ["choose_geometry", "order_memory"]

LAST = (0, 2, 3, 1)  # images with the channels densest
VOLUMES = (0, 2, 3, 4, 1)  # and volumes


def choose_geometry(graph: Graph) -> tuple[dict[Node, Any], Geometry]:
    """The nodes that have kernels of their own, and how values lie in memory to suit these."""
    anchors = find_anchors(graph)
    return anchors, Geometry(choose_layouts(graph, anchors))


def order_memory(graph: Graph, anchors: dict[Node, Any], geometry: Geometry) -> None:
    """Copies of what does not lie as those who read it need: views, kernels, loops."""
    order_views(graph, geometry)
    order_operands(graph, anchors, geometry)
    straighten(graph, geometry)


def choose_layouts(graph: Graph, anchors: dict[Node, Any]) -> dict[Value, tuple[int, ...]]:
    """Images that convolutions read or make lie with their channels densest, and so do those computed from them."""
    layouts: dict[Value, tuple[int, ...]] = {}
    for node, anchor in anchors.items():
        for v in anchor.images:
            if v.node is node or not (isinstance(v.node.op, Source) or is_view(v)):
                layouts[v] = channels_last(v)
    _spread_layouts(graph, anchors, layouts)
    return layouts


def order_operands(graph: Graph, anchors: dict[Node, Any], geometry: Geometry) -> None:
    """Copy operands of kernels that do not lie as these need them: sources and views. One copy serves all."""
    nodes: list[Node] = []
    copies: dict[tuple[Value, Strides], Value] = {}
    for node in graph.nodes:
        anchor = anchors.get(node)
        wanted = [] if anchor is None else [(v, None) for v in anchor.dense]
        wanted += [] if anchor is None else [(v, None) for v in anchor.rows if not _has_rows(v, geometry)]
        wanted += [] if anchor is None else [(v, channels_last(v)) for v in anchor.images if v.node is not node]
        for v, order in wanted:
            strides = ordered_strides(v.shape, v.dtype.itemsize, order or range(len(v.shape)))
            if geometry(v).strides == strides:
                continue
            if (v, strides) not in copies:
                nodes.append(Node(MOVE, (v,), line=node.line))
                copies[v, strides] = nodes[-1].make((v.shape, v.dtype))[0]
                if order is not None:
                    geometry.layouts[copies[v, strides]] = order
            _replace_operand(node, anchor, v, copies[v, strides])
        nodes.append(node)
    graph.nodes = nodes
    graph.renumber()


def _has_rows(value: Value, geometry: Geometry) -> bool:
    """Whether neighbours in the last dimension are neighbours in memory, or all the same number."""
    return value.shape[-1] == 1 or geometry(value).strides[-1] in (0, value.dtype.itemsize)


def _replace_operand(node: Node, anchor: Any, value: Value, copy: Value) -> None:
    node.inputs = tuple(copy if v is value else v for v in node.inputs)
    anchor.operands = tuple(copy if v is value else v for v in anchor.operands)


def _spread_layouts(graph: Graph, anchors: dict[Node, Any], layouts: dict[Value, tuple[int, ...]]) -> None:
    """Give the operands and results of elementwise operations on images the layout of these."""
    changed = True
    while changed:
        changed = False
        for node in (*graph.nodes, *reversed(graph.nodes)):
            if not isinstance(node.op, (Elementwise, Move)):
                continue
            out = node.output
            same = [v for v in (out, *node.inputs) if v.shape == out.shape and len(v.shape) in (3, 4, 5)]
            order = next((layouts[v] for v in same if v in layouts), None)
            if order is None and any(_shows_volumes(v, anchors, layouts) for v in same):
                order = VOLUMES
            if order is None:
                continue
            for v in same:
                if v not in layouts and not isinstance(v.node.op, (Source, Draw)) and not is_view(v):
                    layouts[v] = order
                    changed = True


def channels_last(value: Value) -> tuple[int, ...]:
    return LAST if len(value.shape) == 4 else (0, 2, 1)


def _shows_volumes(value: Value, anchors: dict[Node, Any], layouts: dict[Value, tuple[int, ...]]) -> bool:
    """Whether a view shows what a kernel made as volumes (n, c, d, h, w) with the channels densest."""
    if len(value.shape) != 5 or not is_view(value):
        return False
    view = Geometry(layouts).possible(value)
    if view is None:
        return False
    steps = [view.strides[d] for d in VOLUMES if value.shape[d] > 1]
    return view.root.node in anchors and steps == sorted(steps, reverse=True) and value.shape[1] > 1
