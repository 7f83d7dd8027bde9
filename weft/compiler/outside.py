"""Gradients asked for outside: `loss.backward()` on what a compiled function returned.

While the trace is still open, a backward pass is traced from the results to the leaves and split off as a graph of its
own. What it needs of the forward pass becomes a further output there and an argument here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import AutogradError
from ..ops.core.base import pick
from ..ops.core.formula import Meta
from ..runtime.locks import fork_safe_lock, held_by_me
from ..tape.modes import mode
from ..tape.node import Node as TapeNode
from ..tape.node import counter
from ..tape.tape import collect, edge_of, leaves, sweep
from ..tensor import Tensor, wrap
from .graph.geometry import order_of
from .graph.graph import Argument, Captured, Constant, Graph, Value
from .tracing.scope import NoWayBack
from .tracing.tracer import Tracer

__all__ = ["Backward", "Pull", "split_backward"]


class Backward:
    """The backward pass of a program: a graph whose arguments are those of the program, the gradients of `results`
    (numbers among the differentiable results) and the values `saved`, and whose outputs are gradients of `leaves`.
    `refusal`: why there is none."""

    def __init__(
        self, graph: Graph, results: list[int], saved: list[Value], leaves: list[Any], refusal: Exception | None = None
    ) -> None:
        self.graph, self.results, self.saved, self.leaves, self.refusal = graph, results, saved, leaves, refusal


def split_backward(tracer: Tracer, results: Sequence[Any], proxies: Sequence[Tensor]) -> Backward | None:
    """Trace the way back from those results whose graph has not been used up, and take it out of the trace's graph."""
    wanted = [k for k, x in enumerate(results) if isinstance(x, Tensor) and x.node is not None and not _is_used_up(x)]
    if not wanted:
        return None
    graph, mark = tracer.graph, len(tracer.graph.nodes)
    roots = [results[k] for k in wanted]
    ends = list(leaves(edge_of(x) for x in roots).values())
    count = len(proxies)
    positions = {id(x): k for k, x in enumerate(proxies)}
    grads = [tracer.fresh(graph.source(Argument(count + k), tuple(x.shape), x.dtype.np)) for k, x in enumerate(roots)]
    try:
        caught = sweep([edge_of(x) for x in roots], grads, ends, retain_graph=True, accumulate=False)
    except NoWayBack as error:
        del graph.nodes[mark:]
        return Backward(Graph(), wanted, [], [positions.get(id(x), x) for x in ends], error)
    ends = [x for x in ends if id(x) in caught]
    outputs = [tracer.value(caught[id(x)].to(x.dtype)) for x in ends]
    targets = [positions.get(id(x), x) for x in ends]
    back = Graph()
    lying = [order_of(stand.shape, stand.strides) for stand in (tracer.stand(caught[id(x)]) for x in ends)]
    back.orders = {number: order for number, order in enumerate(lying) if order is not None}
    saved = _moved(graph, back, mark, count + len(roots), outputs, _written(tracer))
    return Backward(back, wanted, saved, targets)


def _is_used_up(x: Tensor) -> bool:
    return any(node.freed for node in collect([edge_of(x)]))


def _written(tracer: Tracer) -> set[Value]:
    """States that the forward pass changes: their old values must be saved."""
    return {state.value for memory, state in tracer.sources if memory.value is not state.value}


def _moved(graph: Graph, back: Graph, mark: int, first: int, outputs: list[Value], written: set[Value]) -> list[Value]:
    """Move the nodes from `mark` on to `back`; values of earlier nodes that they need."""
    graph.nodes, moved = graph.nodes[:mark], graph.nodes[mark:]
    inside = {id(node) for node in moved}
    changes: dict[Value, Value] = {}
    saved: list[Value] = []

    def brought(v: Value) -> Value:
        if id(v.node) in inside or v in changes:
            return changes.get(v, v)
        op = v.node.op
        if not isinstance(op, (Constant, Argument, Captured)) or v in written:
            op = Argument(first + len(saved))
            saved.append(v)
        changes[v] = back.source(Captured(op.tensor) if isinstance(op, Captured) else op, v.shape, v.dtype)
        return changes[v]

    inputs = [[brought(v) for v in node.inputs] for node in moved]
    back.outputs = [brought(v) for v in outputs]
    for node, given in zip(moved, inputs, strict=True):
        node.inputs = tuple(given)
    back.nodes += moved
    back.renumber()
    return saved


class Pull:
    """The operation of the tape's node for one call: runs the backward plan."""

    title = "Compiled"
    node_name = "CompiledBackward"

    def __init__(self, backward: Backward, build: Callable[[Graph], Any]) -> None:
        self.backward, self.build, self.plan, self.lock = backward, build, None, fork_safe_lock()

    def record(self, made: Sequence[Tensor], tensors: Sequence[Tensor], saved: Sequence[np.ndarray]) -> None:
        """Put the results of a call on the tape."""
        node = TapeNode()
        ends = [tensors[x] if isinstance(x, int) else x for x in self.backward.leaves]
        node.op, node.edges, node.order = self, tuple(edge_of(x) for x in ends), next(counter)
        node.outputs = tuple(Meta(x) for x in made)
        node.saved, node.keeps = ([x.array for x in tensors], list(saved), [(x, x._version) for x in ends]), True
        for index, x in enumerate(made):
            x.node, x._needs_grad = pick(node, index), True

    def pull(self, node: TapeNode, g: Sequence[Any], useful: Any = None) -> list[Any]:
        if self.backward.refusal is not None:
            raise self.backward.refusal
        if mode.grad:
            raise AutogradError(
                "backward: what a compiled function returned cannot be differentiated twice; compile the function that "
                "takes the first derivative"
            )
        arguments, saved, versions = node.saved
        if any(x._version != version for x, version in versions):
            raise AutogradError(
                "backward: a parameter or argument of a compiled function was modified by an inplace operation after "
                "the call; call backward first"
            )
        grads = [
            np.zeros(tuple(m.shape), m.dtype.np) if one is None else np.array(one.array, order="C", copy=None)
            for one, m in zip(g, node.outputs, strict=True)
        ]
        if held_by_me(self.lock):
            raise AutogradError(
                "backward: a signal handler asks for the gradients of a compiled function in the middle of its backward "
                "pass; note in the handler that it is wanted, and compute after the pass"
            )
        with self.lock:
            if self.plan is None:
                self.plan = self.build(self.backward.graph)
            self.plan.rebind()
            found = self.plan.run([*arguments, *grads, *saved])
        return [wrap(a) for a in found]
