"""Cheap branches without a jump: both are computed, and their results chosen element by element.

What the other branch computes is thrown away whole, its gradients too, so that nothing of it can be seen.
"""

from __future__ import annotations

import copy

from ...ops.core.pointwise import Elementwise
from ...ops.core.primitive import Contraction, Reduction
from ...ops.core.primitive import View as ViewStep
from ...ops.core.tracing import choosing
from ..graph.bodies import Branch, copied
from ..graph.graph import Argument, Constant, Graph, Node, Value

__all__ = ["choose"]

MOST_ELEMENTS = 1 << 15  # that both branches compute: about what a change between native code and Python costs
MOST_PRODUCTS = 1 << 20  # multiplications in matrix products


def choose(graph: Graph) -> None:
    """Write out the branches that are cheap, in nested graphs too."""
    nodes: list[Node] = []
    changes: dict[Value, Value] = {}
    for node in graph.nodes:
        node.inputs = tuple(changes.get(v, v) for v in node.inputs)
        bodies = [copied(body) for body in node.op.bodies]
        for body in bodies:
            choose(body)
        if isinstance(node.op, Branch) and node.inputs[0].shape == () and _are_cheap(bodies):
            changes.update(zip(node.outputs, _written_out(node, bodies, nodes), strict=True))
            continue
        if bodies:
            node.op = copy.copy(node.op)
            node.op.bodies = tuple(bodies)
        nodes.append(node)
    graph.nodes = nodes
    graph.replace(changes)
    graph.renumber()


def _are_cheap(bodies: list[Graph]) -> bool:
    elements = products = 0
    for node in (node for body in bodies for node in body.nodes):
        if not isinstance(node.op, (Argument, Constant, Elementwise, Reduction, ViewStep, Contraction)):
            return False
        if isinstance(node.op, Contraction):
            products += node.output.size * max(v.shape[-1] for v in node.inputs)
        elif not isinstance(node.op, (Argument, Constant, ViewStep)):
            elements += max(v.size for v in (*node.inputs, *node.outputs))
    return elements <= MOST_ELEMENTS and products <= MOST_PRODUCTS


def _written_out(node: Node, bodies: list[Graph], nodes: list[Node]) -> list[Value]:
    """Both branches behind `nodes`, and what the results of the node become."""
    results = []
    for body in bodies:
        known: dict[Value, Value] = {}
        for part in body.nodes:
            if isinstance(part.op, Argument):
                known[part.output] = node.inputs[part.op.position]
                continue
            made = Node(part.op, [known[v] for v in part.inputs], part.params, part.line)
            known.update(zip(part.outputs, made.make(*((v.shape, v.dtype) for v in part.outputs)), strict=True))
            nodes.append(made)
        results.append([known[v] for v in body.outputs])
    chosen = []
    step, params = choosing()
    for pair in zip(*(values[: node.op.common] for values in results), strict=True):
        nodes.append(Node(step, (node.inputs[0], *pair), params, node.line))
        chosen += nodes[-1].make((pair[0].shape, pair[0].dtype))
    return [*chosen, *results[0][node.op.common :], *results[1][node.op.common :]]
