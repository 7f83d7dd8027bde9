"""The bodies of loops and branches while they are traced, and how they are cut out of the graph and of the tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd.batched import levels_of
from ...autograd.forward import no_tangents
from ...errors import AutogradError, ShapeError, TraceError
from ...ops.core.base import pick
from ...ops.core.batching import variable, zeros_of
from ...ops.core.formula import Meta
from ...ops.core.tracing import repeating
from ...tape.node import Node as TapeNode
from ...tape.node import counter
from ...tape.tape import edge_of, push_along, sweep
from ...tensor import Tensor, new
from ..graph.geometry import contiguous_strides, is_view, stand_in
from ..graph.graph import Argument, Constant, Fetched, Graph, Node, Source, Value
from .arrays import Memory, Stand, user_line

__all__ = [
    "NoWayBack",
    "Part",
    "Scope",
    "batches_of",
    "differentiable",
    "edge_if_needed",
    "filled",
    "history",
    "partials",
    "recorded",
]

WIDEST = 4  # a saved part of a value up to so many times as large is saved as the whole of it


class NoWayBack(AutogradError):
    """A gradient was asked for through a loop whose length only the run tells."""


class Scope:
    """A body while it is traced."""

    def __init__(self, tracer: Any, name: str) -> None:
        self.tracer, self.name = tracer, name
        self.mark, self.order = len(tracer.graph.nodes), next(counter)
        self.looked_up: list[Stand] = []  # whose value was worked out within
        self.given: list[Memory] = []
        self.streams = {id(s): _place_of(s) for s in tracer.streams.known.values()}

    def __enter__(self) -> Scope:
        self.tracer.scopes.append(self)
        self.resting = no_tangents()  # forward passes push the loop or branch as a whole
        self.resting.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.resting.__exit__(None, None, None)
        self.tracer.scopes.pop()

    def argument(self, shape: Sequence[int], kind: np.dtype, needs_grad: bool = False) -> Tensor:
        """A tensor that the body is given."""
        x = self.tracer.fresh(self.tracer.graph.source(Argument(-1), shape, kind))
        self.given.append(self.tracer.stand(x).memory)
        if needs_grad and kind.kind in "fcV":
            x._needs_grad = True
        return x

    def escaped(self) -> TraceError:
        return TraceError(
            f"compile: at {user_line()} a tensor made inside the body of {self.name} is used outside of it; return it "
            "from the body"
        )

    def check_write(self, memory: Memory) -> None:
        """Refuse writes to what lies outside."""
        if memory.scope is self and memory not in self.given:
            return
        what, remedy = (
            ("a tensor that the body is given", ".clone() it first")
            if memory in self.given
            else ("a tensor from outside", "take it into the carry, or return its new value, and write that afterwards")
        )
        raise TraceError(
            f"compile: at {user_line()} the body of {self.name} writes to {what} in place, which would happen once for "
            f"all iterations; {remedy}"
        )

    def cut(self, hoist: bool) -> list[Node]:
        """Take the nodes of the body out of the graph. Sources stay outside, and, with `hoist`, what is the same in every
        iteration."""
        graph, kept, moved, inside = self.tracer.graph, [], [], set()
        for node in graph.nodes[self.mark :]:
            if isinstance(node.op, Source):
                stays = not isinstance(node.op, Argument)
            else:
                stays = hoist and not any(id(v.node) in inside for v in node.inputs)
            (kept if stays else moved).append(node)
            if not stays:
                inside.add(id(node))
        graph.nodes[self.mark :] = kept
        for stand in self.looked_up:
            if stand.value is not None and id(stand.value.node) in inside:
                stand.value, stand.version = None, -1
                if stand.memory.value is not None and id(stand.memory.value.node) in inside:
                    stand.memory.value = None
        if self.tracer.scopes[-1] is not None:
            self.tracer.scopes[-1].looked_up += self.looked_up
        return moved

    def drawn(self) -> list[tuple[Any, tuple[int, int], int]]:
        """(stream, key, first word) of the random streams that the body has moved on."""
        found = []
        for stream in self.tracer.streams.known.values():
            key, offset = self.streams.get(id(stream), (stream.key, stream.offset))
            if stream.made_here and id(stream) not in self.streams:
                continue  # a generator of the body's own: new in every iteration
            if _place_of(stream) != (key, offset):
                found.append((stream, key, offset))
        return found

    def repeat_draws(self, count: int, reverse: bool) -> dict[Value, Value]:
        """Let every draw of the body take other words in every iteration: arguments of the body, and their stacks."""
        words = {}
        for stream, key, offset in self.drawn():
            now, end = _place_of(stream)
            if now != key or end < offset:
                raise TraceError(
                    f"compile: at {user_line()} the body of {self.name} seeds a random generator, which would give every "
                    "iteration the same numbers; seed it before"
                )
            words[id(stream)] = end - offset
            stream.generator.offset = offset + count * (end - offset)
        graph, found = self.tracer.graph, {}
        for node in list(graph.nodes[self.mark :]):
            place = node.op.place if isinstance(node.op, Fetched) else None
            if place is None:
                continue
            places = place.stream.places
            places.remove(place)
            if count:
                more = place.repeated(count, words.get(id(place.stream), 0), reverse)
                places.append(more)
                found[node.output] = self.tracer.placed(more)
            node.op = Argument(-1)
        return found


def _place_of(stream: Any) -> tuple[tuple[int, int], int]:
    return stream.generator.key, stream.generator.offset


class Part:
    """Nodes as a graph of their own: values from elsewhere become arguments, constants and windows come along.

    `saved` are those from elsewhere that `is_saved` says change from iteration to iteration, `operands` the others.
    """

    def __init__(self, nodes: Sequence[Node], is_saved: Callable[[Value], bool] = lambda v: False) -> None:
        self.nodes, self.inside, self.is_saved = nodes, {id(n) for n in nodes}, is_saved
        self.front: list[Node] = []
        self.known: dict[Value, Value] = {}
        self.saved: dict[Value, Value] = {}
        self.operands: dict[Value, Value] = {}
        for node in nodes:
            node.inputs = tuple(map(self, node.inputs))

    def __call__(self, v: Value) -> Value:
        """The value as it is called here."""
        if id(v.node) in self.inside:
            return v
        if v not in self.known:
            self._bring(v)
        return self.known[v]

    def _bring(self, v: Value) -> None:
        op = v.node.op
        if isinstance(op, Constant) or (is_view(v) and self._is_window(v)):
            self._copy(v.node, [self(x) for x in v.node.inputs])
        else:
            table = self.saved if self.is_saved(v) else self.operands
            self.known[v] = table[v] = self.argument(v)

    def _is_window(self, v: Value) -> bool:
        """Whether a view can be taken here: of a dense argument, and not of a much larger one that must be saved."""
        root, steps = v, []
        while is_view(root):
            steps.append(root)
            root = root.node.inputs[0]
        seen = stand_in(root.shape, root.dtype, contiguous_strides(root.shape, root.dtype.itemsize))
        try:
            for step in reversed(steps):
                seen = step.node.op.reference(seen, **step.node.params)
                seen = seen[step.index] if isinstance(seen, tuple) else seen
        except (ShapeError, ValueError):
            return False
        return isinstance(root.node.op, Source) or not self.is_saved(root) or root.size <= WIDEST * v.size

    def _copy(self, node: Node, inputs: Sequence[Value]) -> None:
        made = self._add(node.op, inputs, node.params, *((v.shape, v.dtype) for v in node.outputs))
        self.known.update(zip(node.outputs, made, strict=True))

    def _add(self, op: Any, inputs: Sequence[Value], params: dict[str, Any], *kinds: Any) -> tuple[Value, ...]:
        self.front.append(Node(op, inputs, params))
        self.inside.add(id(self.front[-1]))
        return self.front[-1].make(*kinds)

    def argument(self, like: Value) -> Value:
        return self._add(Argument(-1), (), {}, (like.shape, like.dtype))[0]

    def zero(self, shape: Sequence[int], kind: np.dtype) -> Value:
        number = self._add(Constant(np.zeros((), kind)), (), {}, ((), kind))
        step, params = repeating(shape)
        return self._add(step, number, params, (shape, kind))[0]

    def graph(self, arguments: Sequence[Value], results: Sequence[Value], first: int = 0) -> Graph:
        """The finished graph; its arguments are numbered in the order given here, from `first` on."""
        for position, v in enumerate(arguments):
            v.node.op = Argument(first + position)
        made = Graph()
        made.outputs = [self(v) for v in results]
        made.nodes = [*self.front, *self.nodes]
        made.renumber()
        return made


# ------------------------------------------------------------------------------------------ gradients


def history(outs: Sequence[Tensor], order: int) -> tuple[list[TapeNode], dict[int, Any]]:
    """What the tape has recorded since `order` on the way to some tensors, and the edges at which that ends."""
    nodes, ends, seen = [], {}, set()
    pending = [edge_of(x) for x in outs if x._needs_grad]
    while pending:
        edge = pending.pop()
        if edge is None or id(edge) in seen:
            continue
        seen.add(id(edge))
        if isinstance(edge, TapeNode) and edge.order >= order:
            nodes.append(edge)
            pending.extend(edge.edges)
        else:
            ends[id(edge)] = edge
    return nodes, ends


def partials(
    outs: Sequence[Tensor],
    seeds: Sequence[Tensor],
    variables: Sequence[Tensor],
    ends: Sequence[Any],
    order: int,
    create_graph: bool = False,
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """Derivatives of Σ⟨out, seed⟩ by `variables` and by the edges `ends`, beyond which nothing is followed."""
    nodes, _ = history(outs, order)
    stops = {id(edge): new(Tensor) for edge in ends}
    before = [(node, node.edges) for node in nodes]
    stopped = lambda edge: stops.get(id(edge), edge)
    targets = [*map(edge_of, variables), *stops.values()]
    try:
        for node, edges in before:
            node.edges = tuple(map(stopped, edges))
        roots = [stopped(edge_of(x)) for x in outs]
        caught = sweep(roots, seeds, targets, retain_graph=True, create_graph=create_graph, accumulate=False)
    finally:
        for node, edges in before:
            node.edges = edges
    found = [caught.get(id(target)) for target in targets]
    return found[: len(variables)], found[len(variables) :]


def recorded(op: Any, outs: Sequence[Tensor], flags: Sequence[bool], edges: Sequence[Any], saved: Any) -> None:
    """Put the results of a loop or branch on the tape, those that `flags` say have gradients."""
    node = TapeNode()
    node.op, node.edges, node.order = op, tuple(edges), next(counter)
    node.outputs, node.saved, node.keeps = tuple(map(Meta, outs)), saved, True
    push_along(node, tuple(outs))
    for index, (x, flag) in enumerate(zip(outs, flags, strict=True)):
        if flag:
            x.node, x._needs_grad = pick(node, index), True


def batches_of(g: Sequence[Tensor | None]) -> list[Any]:
    """The vmaps over which gradients vary, outermost first."""
    found = {level for x in g if x is not None for level in levels_of(x)}
    return sorted(found, key=lambda level: level.level)


def edge_if_needed(x: Tensor) -> Any:
    return edge_of(x) if x._needs_grad else None


def differentiable(x: Tensor) -> Tensor:
    """x with a place of its own on the tape."""
    if x._needs_grad:
        return variable(x)
    x = x.detach()
    return x.requires_grad_() if x.is_floating_point() or x.is_complex() else x


def filled(found: Sequence[Tensor | None], metas: Sequence[Any]) -> list[Tensor]:
    """Gradients in the types of what they are gradients of; zeros where there is none."""
    return [zeros_of(m) if g is None else g.to(m.dtype) for g, m in zip(found, metas, strict=True)]
