"""Calls of ranks of one machine as native steps: what is sent put where all see it, a wait, and the sum as other operations.

A call becomes `publish` (this rank's part is there), `await_ranks` (those of all are), and what makes the result of the parts,
in the order of ranks: sums are fused with what reads them, an optimiser's update, say. Where only pieces of a sum are read,
pieces are summed. Ranks on several machines, and types that NumPy's sums take otherwise, keep their calls in Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...kernels.anchor import Strides, Whole
from ...kernels.kernel import Kernel
from ...kernels.memory import ranks as kernels
from ...kernels.operation import NativeForm
from ...ops.core.primitive import View
from ..graph.graph import Graph, Node, Value
from .expand import spliced, traced_parts
from .simplify import remove_dead

__all__ = ["AWAIT", "PUBLISH", "meet_natively"]

INTEGER = np.dtype(np.int64)
MANY, LARGE = 8, 1 << 20  # ranks from which sums of so many bytes are made part by part, in two calls from Python


class Publish(NativeForm):
    """(x, token) → (sent, token): x is where other ranks see it."""

    name = title = "publish"
    shared = urgent = True

    def native(self, node: Any) -> Whole:
        def make(strides: Sequence[Strides], results: Sequence[Strides | None]) -> Kernel:
            return kernels.Publish(node.inputs[0].nbytes)

        return Whole(node, node.inputs, make, dense=True)


class Await(NativeForm):
    """sent → (x of rank 0, x of rank 1, …), which stay where those ranks have put them."""

    name = title = "await_ranks"
    shared = lent = True

    def native(self, node: Any) -> Whole:
        def make(strides: Sequence[Strides], results: Sequence[Strides | None]) -> Kernel:
            return kernels.Await(len(node.outputs))

        return Whole(node, node.inputs, make)


PUBLISH, AWAIT = Publish(), Await()


def meet_natively(graph: Graph) -> None:
    """Put native steps in the place of the calls of ranks that share one machine."""
    if any(node.op.shared for node in graph.nodes):
        calls = _Calls(graph)
        if calls.fit():
            calls.run()


class _Calls:
    """The calls of a graph: which of them are made natively, and how."""

    def __init__(self, graph: Graph) -> None:
        from ...ops.collective import exchange

        self.graph, self.users = graph, graph.users()
        self.whole, self.start, self.wait = exchange.EXCHANGE, exchange.START, exchange.WAIT
        self.nodes: list[Node] = []
        self.changes: dict[Value, Value] = {}
        self.sent: dict[Value, tuple[Value, Node]] = {}  # what is known of a ticket: `sent`, and the node of the call
        results = set(graph.results)
        self.chosen = {
            node
            for node in graph.nodes
            if (node.op is self.whole and _is_simple(node))
            or (node.op is self.start and _is_simple(node) and self._is_paired(node, results))
        }

    def _is_paired(self, node: Node, results: set[Value]) -> bool:
        """Whether a call that is started here is waited for here."""
        ticket = node.output
        users = self.users.get(ticket, ())
        return ticket not in results and bool(users) and all(user.op is self.wait for user in users)

    def fit(self) -> bool:
        """Whether there is room for what is sent; calls inside of loops stay as they are, with those around them."""
        from ...runtime.cluster.board import MOST_CALLS

        if any(_calls_inside(body) for node in self.graph.nodes for body in node.op.bodies):
            return False
        sizes: dict[Any, list[int]] = {}
        for node in self.chosen:
            sizes.setdefault(node.params["group"], []).append(-(-node.inputs[0].nbytes // 64) * 64)
        return all(len(each) <= MOST_CALLS and sum(each) <= group.board.most for group, each in sizes.items())

    def run(self) -> None:
        for node in self.graph.nodes:
            node.inputs = tuple(self.changes.get(v, v) for v in node.inputs)
            if node in self.chosen:
                self._publish(node)
                if node.op is self.whole:
                    self._finish(node, node, self.sent[node.output][0])
            elif node.op is self.wait and node.inputs[1] in self.sent:
                sent, call = self.sent[node.inputs[1]]
                self._finish(node, call, sent)
            elif node.outputs[0] not in self.changes:
                self.nodes.append(node)
        self.graph.nodes = self.nodes
        self.graph.replace(self.changes)
        remove_dead(self.graph)
        self.graph.renumber()

    def _publish(self, node: Node) -> None:
        from ...ops.collective.parts import flat_part

        x, token = node.inputs
        shape = ", ".join(map(str, x.shape))
        option = node.params["option"]
        form = f"{node.params['call']} {x.dtype} ({shape})" + ("" if option is None else f" {option}")
        (flat,) = self._spliced(flat_part, [x], node) if len(x.shape) != 1 else (x,)
        made = Node(PUBLISH, (flat, token), {"group": node.params["group"], "form": form}, node.line)
        sent, after = made.make(((), INTEGER), (token.shape, token.dtype))
        self.nodes.append(made)
        self.changes[node.outputs[1]] = after
        self.sent[node.output] = sent, node

    def _finish(self, node: Node, call: Node, sent: Value) -> None:
        """The result of a call, or of the pieces of it that are read."""
        from ...ops.collective.parts import combination, total

        x = call.inputs[0]
        made = Node(AWAIT, (sent,), {"group": call.params["group"], "form": sent.node.params["form"]}, node.line)
        rows = list(made.make(*[((x.size,), x.dtype)] * call.params["group"].size))
        self.nodes.append(made)
        result = node.output
        users = self.users.get(result, ())
        pieces = call.params["call"] == "all_reduce" and len(x.shape) == 1 and result not in self.graph.results
        if pieces and users and all(isinstance(user.op, View) for user in users):
            for user in users:
                parts = [Node(user.op, (row,), user.params, user.line) for row in rows]
                views = [part.make((user.output.shape, user.output.dtype))[0] for part in parts]
                self.nodes += parts
                combine = functools.partial(total, call.params["option"])
                (self.changes[user.output],) = self._spliced(combine, views, user)
        else:
            (self.changes[result],) = self._spliced(combination(x.shape, **call.params), rows, node)

    def _spliced(self, function: Callable[..., Any], values: list[Value], node: Node) -> list[Value]:
        parts, results = traced_parts(function, [(v.shape, v.dtype) for v in values])
        return spliced(Node(node.op, values, {}, node.line), parts, results, self.nodes)


def _calls_inside(graph: Graph) -> bool:
    return any(node.op.shared or any(map(_calls_inside, node.op.bodies)) for node in graph.nodes)


def _is_simple(node: Node) -> bool:
    """Whether other operations make the same of what ranks send, bit for bit."""
    x, call, group = node.inputs[0], node.params["call"], node.params["group"]
    if group.board is None or not x.size or x.dtype.str[1:] not in ("f4", "f8", "i4", "i8"):
        return False
    if call in ("all_reduce", "reduce_scatter"):
        if group.size > MANY and x.nbytes > LARGE and call == "all_reduce":
            return False
        op = node.params["option"].partition(" ")[0]
        return op in ("sum", "product", "min", "max") or (op == "avg" and x.dtype.kind == "f")
    return True
