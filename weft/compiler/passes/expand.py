"""Operations that are made of others, written out so that their parts can be fused with what stands around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import ArgumentError
from ..graph.graph import Argument, Constant, Graph, Node, Source, Value

__all__ = ["expand", "results_of", "spliced", "traced", "traced_parts"]

_KNOWN: dict[Any, tuple[Graph, list[Any]] | None] = {}
MOST_KNOWN = 512


def expand(graph: Graph) -> None:
    """Replace every node whose operation has `parts(*tensors, **params)` by what that function computes."""
    changes: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node.inputs = tuple(changes.get(v, v) for v in node.inputs)
        found = _parts_of(node)
        if found is None:
            nodes.append(node)
            continue
        made = spliced(node, *found, nodes)
        changes.update(zip(node.outputs, made, strict=True))
    graph.nodes = nodes
    graph.replace(changes)
    graph.renumber()


def _parts_of(node: Node) -> tuple[Graph, list[Any]] | None:
    """The graph of the parts, and for each output its value there or the number of the input that it is."""
    parts = node.op.parts
    if parts is None or any(v.dtype.kind not in "fiub" or v.size == 0 for v in node.inputs):
        return None
    kinds = tuple((v.shape, v.dtype.str) for v in node.inputs)
    key = (node.op.title, kinds, repr(sorted(node.params.items())))
    if key not in _KNOWN:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = traced(node)
    return _KNOWN[key]


def results_of(op: Any, inputs: Sequence[Value], params: dict[str, Any]) -> list[Value]:
    """What the parts of an operation give for such inputs: values of the right sizes and types."""
    _, results = _parts_of(Node(op, inputs, params))
    return [inputs[r] if isinstance(r, int) else r for r in results]


def traced(node: Node) -> tuple[Graph, list[Any]] | None:
    """What `_parts_of` finds; None where the operation has no parts with these parameters."""
    kinds = [(v.shape, v.dtype) for v in node.inputs]
    return traced_parts(lambda *xs: node.op.parts(*xs, **node.params), kinds)


def traced_parts(function: Callable[..., Any], kinds: Sequence[Any]) -> tuple[Graph, list[Any]] | None:
    """The graph of a function of tensors of these (shape, type), and its results there; None where it gives None."""
    from ...tape.modes import no_grad
    from ...tensor import wrap
    from ...utils.pytree import tree_flatten
    from ..program import COPY, OUTPUT
    from ..trace import trace

    inputs = tuple(wrap(np.empty(shape, kind)) for shape, kind in kinds)  # only their geometry is looked at
    leaves, spec = tree_flatten((inputs, {}))
    with no_grad():
        program = trace(function, leaves, spec)
    program.graph.nodes = program.graph.live()
    expand(program.graph)
    outputs = program.graph.outputs
    results = [outputs[what] if kind in (OUTPUT, COPY) else what for kind, what in program.results]
    return None if results == [None] else (program.graph, results)


def spliced(node: Node, parts: Graph, results: list[Any], nodes: list[Node]) -> list[Value]:
    """Copy the parts behind `nodes`, reading the inputs of `node`; returns what its outputs become."""
    known: dict[Value, Value] = {}
    for part in parts.nodes:
        if isinstance(part.op, Argument):
            known[part.output] = node.inputs[part.op.position]
            continue
        if isinstance(part.op, Source) and not isinstance(part.op, Constant):
            raise ArgumentError(f"the parts of {node.op.name} read a tensor that is not among their arguments")
        copy = Node(part.op, tuple(known[v] for v in part.inputs), part.params, node.line)
        known.update(zip(part.outputs, copy.make(*((v.shape, v.dtype) for v in part.outputs)), strict=True))
        nodes.append(copy)
    return [node.inputs[r] if isinstance(r, int) else known[r] for r in results]
