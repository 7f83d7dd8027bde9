"""Where Python needs a value in the middle of a step: the value is computed at once, and the plan is cut there.

During the trace `Probe` computes what is asked for, node by node, from what surrounds the function now; nothing is
written. Afterwards `cut` splits the graph: first what Python decides by, which writes nothing, then the rest. At a call
the first part runs, Python's decisions are compared, and the second part goes on from its results.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...random.stream import BLOCK
from ...tensor import Tensor
from ..graph.graph import Argument, Captured, Constant, Fetched, Graph, Node, Source, Value
from ..graph.reference import compute_node

__all__ = ["First", "Probe", "cut"]

SMALL = 6  # nodes: fewer are computed by Python at each call
LARGEST = 1 << 12  # elements of arrays that Python computes with then


class Probe:
    """The values of a graph that is still being traced."""

    def __init__(self, arguments: Sequence[np.ndarray]) -> None:
        self.arguments = arguments
        self.known: dict[Value, np.ndarray] = {}

    @classmethod
    def of_captured(cls, value: Value) -> tuple[np.ndarray, list[Tensor]] | None:
        """What a value is, and the captured tensors of integers that it comes from; None where it comes from others.

        Floats are what training changes: nothing that comes from them is the same at the next call.
        """
        sources = [node for node in _needed([value], {}) if isinstance(node.op, Source)]
        for node in sources:
            whole = isinstance(node.op, Captured) and node.outputs[0].dtype.kind in "iub"
            if not whole and not isinstance(node.op, Constant):
                return None
        return cls(())(value), [node.op.tensor for node in sources if isinstance(node.op, Captured)]

    def __call__(self, value: Value) -> np.ndarray:
        for node in _needed([value], self.known):
            self.known.update(zip(node.outputs, self._computed(node), strict=True))
        return self.known[value]

    def _computed(self, node: Node) -> tuple[np.ndarray, ...]:
        op = node.op
        if isinstance(op, Argument):
            return (self.arguments[op.position],)
        if isinstance(op, Captured):
            return (op.tensor.__dict__["array"],)
        if isinstance(op, Constant):
            return (op.array,)
        if isinstance(op, Fetched):
            if op.place is not None:
                op.place.fill(op.place.key, op.place.offset // BLOCK)
            return (np.asarray(op.fetch()),)
        return compute_node(node, [self.known[v] for v in node.inputs])


def _needed(values: Sequence[Value], known: dict[Value, np.ndarray]) -> list[Node]:
    """The nodes that make these values and are not computed yet, in order."""
    found: dict[int, Node] = {}
    pending = [v.node for v in values if v not in known]
    while pending:
        node = pending.pop()
        if id(node) not in found:
            found[id(node)] = node
            pending.extend(v.node for v in node.inputs if v not in known)
    return sorted(found.values(), key=lambda node: node.number)


class First:
    """The part of a graph that comes before Python's decisions."""

    def __init__(self, graph: Graph, asked: int) -> None:
        self.graph, self.asked = graph, asked  # the first outputs are what was asked for, the rest goes on

    @property
    def is_small(self) -> bool:
        nodes = [n for n in self.graph.nodes if not isinstance(n.op, Source)]
        return len(nodes) <= SMALL and all(v.size <= LARGEST for n in self.graph.nodes for v in n.outputs)


def cut(graph: Graph, asked: Sequence[Value], count: int) -> First:
    """Take what makes the values `asked` out of `graph`; what the rest needs of it becomes an argument there.

    `count` is the number of arguments of the function: the further ones come after them.
    """
    graph.renumber()
    early = {id(node) for node in _needed(asked, {})}
    first, changes = Graph(), {}
    first.nodes = [node for node in graph.nodes if id(node) in early]
    first.outputs = list(asked)
    graph.nodes = [node for node in graph.nodes if id(node) not in early]

    def brought(v: Value) -> Value:
        if id(v.node) not in early:
            return v
        if v not in changes:
            op = v.node.op
            if not isinstance(op, (Constant, Argument, Captured)):
                op = Argument(count + len(first.outputs) - len(asked))
                first.outputs.append(v)
            node = Node(op, ())
            changes[v] = node.make((v.shape, v.dtype))[0]
            moved.append(node)
        return changes[v]

    moved: list[Node] = []
    for node in graph.nodes:
        node.inputs = tuple(brought(v) for v in node.inputs)
    graph.outputs = [brought(v) for v in graph.outputs]
    for state in graph.states:
        state.value = brought(state.value)
        state.final = None if state.final is None else brought(state.final)
    graph.nodes = [*moved, *graph.nodes]
    graph.renumber()
    return First(first, len(asked))
