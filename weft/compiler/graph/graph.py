"""The graph of one traced function: values, the operations that make them, and the state they read and write.

A graph is functional: every value is made once. What eager code did in place appears as the `final`
value of a state. Nodes are kept in an order in which inputs come before their users.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...kernels.operation import NativeForm

__all__ = ["Argument", "Captured", "Constant", "Draw", "Fetched", "Graph", "Hole", "Node", "Source", "State", "Value"]


class Value:
    """One array of the graph: its shape and NumPy type, and the node (and output number) that makes it."""

    __slots__ = ("dtype", "index", "node", "shape", "size")

    def __init__(self, node: Node, index: int, shape: Sequence[int], dtype: Any) -> None:
        self.node, self.index = node, index
        self.shape, self.dtype = tuple(map(int, shape)), np.dtype(dtype)
        self.size = math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def known(self) -> np.ndarray | None:
        """Its array, if it is the same at every call."""
        return self.node.op.array if isinstance(self.node.op, Constant) else None

    def __repr__(self) -> str:
        name = f"%{self.node.number}" + (f".{self.index}" if len(self.node.outputs) > 1 else "")
        return f"{name}:{self.dtype.name}{list(self.shape)}"


class Node:
    """One operation of the graph.

    `op` is a `Primitive`, or one of the classes below for what is not an operation on tensors.
    `line` is the user's source line, for messages and `explain`.
    """

    __slots__ = ("inputs", "line", "number", "op", "outputs", "params")

    def __init__(self, op: Any, inputs: Sequence[Value], params: dict[str, Any] | None = None, line: str = "") -> None:
        self.op, self.inputs, self.params, self.line = op, tuple(inputs), params or {}, line
        self.outputs: tuple[Value, ...] = ()
        self.number = -1

    def make(self, *kinds: tuple[Sequence[int], Any]) -> tuple[Value, ...]:
        """Give the node its outputs, one (shape, dtype) each."""
        self.outputs = tuple(Value(self, i, shape, dtype) for i, (shape, dtype) in enumerate(kinds))
        return self.outputs

    @property
    def output(self) -> Value:
        return self.outputs[0]

    def __repr__(self) -> str:
        outs = ", ".join(map(repr, self.outputs))
        ins = str(self.op) if isinstance(self.op, Source) else ", ".join(repr(v).split(":")[0] for v in self.inputs)
        params = ", ".join(f"{k}={v!r}" for k, v in self.params.items())
        return f"{outs} = {self.op.name}({', '.join(x for x in (ins, params) if x)})"


class Source(NativeForm):
    """What is in the graph from the start: not computed by it. Its text is what is printed of it."""

    name = "source"

    def __str__(self) -> str:
        return ""


class Argument(Source):
    """A tensor among the arguments of the call; `position` counts the tensor leaves of (args, kwargs).

    `strides` are those in bytes that it always has; None: it is made contiguous.
    """

    name = "argument"

    def __init__(self, position: int, strides: tuple[int, ...] | None = None) -> None:
        self.position, self.strides = position, strides

    def __str__(self) -> str:
        return str(self.position)


class Captured(Source):
    """The value that a tensor of the surrounding program (parameter, buffer, optimiser state) has at the call."""

    name = "captured"

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


class Constant(Source):
    """An array that is the same at every call."""

    name = "constant"

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __str__(self) -> str:
        return str(self.array.item()) if self.array.size == 1 else ""


class Fetched(Source):
    """A number that Python gives at every call (a learning rate, the place in a random stream)."""

    name = "fetched"
    place: Any = None  # the place in a random stream that it gives, if it does

    def __init__(self, fetch: Callable[[], Any], label: str = "") -> None:
        self.fetch, self.label = fetch, label

    def __str__(self) -> str:
        return self.label


class Draw(NativeForm):
    """Random numbers: method `sampler` of a generator. The inputs are the tensors among the parameters.

    `arguments` and `options` are those of the call, with `Hole(k)` in place of the k-th input. The first
    input is a `Fetched` (key, offset) pair of uint64 words where the stream was reserved in advance, see `reserved`.
    """

    name = "draw"

    def __init__(self, sampler: str, generator: Any, arguments: Sequence[Any], options: dict[str, Any]) -> None:
        self.sampler, self.generator = sampler, generator
        self.arguments, self.options = tuple(arguments), options


class Hole:
    """The place of a graph input among Python arguments."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"Hole({self.number})"


class State:
    """A tensor of the surrounding program: the value it had, and the one it is left with (None: not written)."""

    def __init__(self, tensor: Any, value: Value) -> None:
        self.tensor, self.value = tensor, value
        self.final: Value | None = None


class Graph:
    """What was traced: nodes in order of making, the sources, the results and the states."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.states: list[State] = []
        self.outputs: list[Value] = []
        self.orders: dict[
            int, tuple[int, ...]
        ] = {}  # of outputs, by number, that do not lie with the last dimension densest

    def add(self, op: Any, inputs: Sequence[Value], params: dict[str, Any] | None = None, line: str = "") -> Node:
        node = Node(op, inputs, params, line)
        node.number = len(self.nodes)
        self.nodes.append(node)
        return node

    def source(self, op: Source, shape: Sequence[int], dtype: Any) -> Value:
        """A value that is given, not computed."""
        return self.add(op, ()).make((shape, dtype))[0]

    def constant(self, array: np.ndarray) -> Value:
        return self.source(Constant(array), array.shape, array.dtype)

    @property
    def results(self) -> list[Value]:
        """Everything that must be there at the end: outputs and what is written to states."""
        return [*self.outputs, *(s.final for s in self.states if s.final is not None)]

    def live(self) -> list[Node]:
        """The nodes that the results and the checks of indices need, in order."""
        wanted = {v.node for v in self.results}
        wanted.update([node for node in self.nodes if node.op.checks])
        pending = list(wanted)
        while pending:
            for v in pending.pop().inputs:
                node = v.node
                if node not in wanted:
                    wanted.add(node)
                    pending.append(node)
        return [n for n in self.nodes if n in wanted]

    def users(self) -> dict[Value, list[Node]]:
        """The nodes that read each value."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for v in node.inputs if len(node.inputs) < 2 else dict.fromkeys(node.inputs):
                if v in found:
                    found[v].append(node)
                else:
                    found[v] = [node]
        return found

    def renumber(self) -> None:
        for number, node in enumerate(self.nodes):
            node.number = number

    def replace(self, changes: dict[Value, Value]) -> None:
        """Let every reader of a key read its value instead."""
        if not changes:
            return

        def final(v: Value) -> Value:
            while v in changes:
                v = changes[v]
            return v

        for node in self.nodes:
            if not changes.keys().isdisjoint(node.inputs):
                node.inputs = tuple(final(v) for v in node.inputs)
        self.outputs = [final(v) for v in self.outputs]
        for state in self.states:
            if state.final is not None:
                state.final = final(state.final)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __str__(self) -> str:
        self.renumber()
        lines = [f"  {node!r}" for node in self.nodes]
        lines += [f"  {s.value!r} ← {s.final!r}" for s in self.states if s.final is not None]
        lines.append(f"  return {', '.join(map(repr, self.outputs))}")
        return "\n".join(lines)
