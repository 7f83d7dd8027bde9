"""The nodes of a graph that have kernels of their own: operations that say so, and random numbers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kernels.anchor import Anchor, Strides
from ...kernels.body import Access, Body
from ...kernels.kernel import Kernel
from ...kernels.llvm.values import type_of
from ..graph.graph import Constant, Draw, Graph, Hole, Node, Value
from .kinds import has_halves

__all__ = ["find_anchors"]


def draw(node: Node) -> Anchor | None:
    """Random numbers whose parameters are numbers, or probabilities one for each element."""
    from ...kernels.memory.philox import RandomFill

    op, out = node.op, node.output
    if out.size == 0 or any(isinstance(a, Hole) for a in (*op.arguments[1:], *op.options.values())):
        return None
    given = inspect.signature(getattr(op.generator, op.sampler)).bind(*op.arguments, **op.options)
    given.apply_defaults()
    options, kind, probability = given.arguments, type_of(out.dtype), False
    if op.sampler in ("uniform", "normal"):
        if kind not in ("f32", "f64"):
            return None
        names = ("low", "high") if op.sampler == "uniform" else ("mean", "std")
        parameters = tuple(options[name] for name in names)
    elif op.sampler == "bernoulli":
        parameters, kind = (options["p"],), "i1"
        probability = isinstance(options["p"], Hole)
        if probability and (node.inputs[1].shape != out.shape or type_of(node.inputs[1].dtype) not in ("f32", "f64")):
            return None
    elif op.sampler == "integers":
        parameters = (options["low"], options["high"])
        kind = "i64" if options["low"] < 0 else "u64"
    else:
        return None
    if not probability and not all(isinstance(p, (int, float)) for p in parameters):
        return None

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        access = None
        if probability:
            access, parameters_ = Access(1, type_of(node.inputs[1].dtype), (1,)), ()
        else:
            parameters_ = parameters
        return RandomFill(out.size, op.sampler, kind, body, 0, parameters_, access)

    anchor = Anchor(node, node.inputs, (out.size,), make, kind)
    anchor.dense = node.inputs[1:2] if probability else ()
    return anchor


def find_anchors(graph: Graph) -> dict[Node, Any]:
    """The nodes that have kernels of their own; constants that these kernels read join the graph."""
    found = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        native = draw if isinstance(node.op, Draw) else node.op.native
        anchor = None if native is None or has_halves(node) else native(node)
        if anchor is not None:
            anchor.operands = tuple(_value(v) for v in anchor.operands)
            found[node] = anchor
            nodes += [v.node for v in anchor.operands if v not in node.inputs]
        nodes.append(node)
    graph.nodes = nodes
    return found


def _value(operand: Any) -> Value:
    """An array that is the same at every call as a value of the graph; what is one already, as it is."""
    if not isinstance(operand, np.ndarray):
        return operand
    return Node(Constant(operand), ()).make((operand.shape, operand.dtype))[0]
