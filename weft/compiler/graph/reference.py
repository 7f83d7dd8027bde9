"""The reference executor: a graph run node by node with NumPy, in the order in which it was traced.

It is what compiled code is measured against, and runs graphs where no native plan can be built.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...ops.core.primitive import View
from ...random import Generator
from ...random.stream import BLOCK
from ...tape.modes import mode
from .geometry import empty
from .graph import Argument, Captured, Constant, Draw, Fetched, Graph, Hole, Node, Value

__all__ = ["HostPlan", "compute_node"]


class HostPlan:
    """Runs a graph; what it writes to states becomes visible when everything is computed."""

    def __init__(self, graph: Graph, threads: int | None = None, passes: Sequence[str] | None = None) -> None:
        self.graph = graph
        self.nodes = graph.live()
        last: dict[Value, int] = {v: len(self.nodes) for v in graph.results}
        for place, node in enumerate(self.nodes):
            for v in node.inputs:
                last.setdefault(v, place)
                last[v] = max(last[v], place)
        self.dying: list[list[Value]] = [[] for _ in range(len(self.nodes) + 1)]
        for v, place in last.items():
            self.dying[place].append(v)

    may_fail, late = True, frozenset()  # as of a Plan

    def run(self, arguments: Sequence[np.ndarray], memory: Any = None) -> list[np.ndarray]:
        """The outputs for these arguments; states are written in place, when nothing can fail any more."""
        values: dict[Value, np.ndarray] = {}
        for node, dying in zip(self.nodes, self.dying, strict=False):
            values.update(zip(node.outputs, self._computed(node, values, arguments), strict=True))
            for v in dying:
                values.pop(v, None)
        outputs = [_laid_out(values[v], self.graph.orders.get(number)) for number, v in enumerate(self.graph.outputs)]
        written = [(state, values[state.final]) for state in self.graph.states if state.final is not None]
        written = [(state, np.array(value) if value.base is not None else value) for state, value in written]
        for state, value in written:
            op = state.value.node.op
            np.copyto(arguments[op.position] if isinstance(op, Argument) else state.tensor.array, value)
        return outputs

    def host_work(self) -> collections.Counter[str]:
        """Nothing that a native plan would do better: such graphs are small."""
        return collections.Counter()

    def rebind(self) -> None:
        """Captured arrays are read from their tensors at every run: nothing to do."""

    def _computed(self, node: Node, values: dict[Value, np.ndarray], arguments: Sequence[np.ndarray]) -> tuple:
        op = node.op
        rule = _SOURCES.get(type(op))
        if rule is not None:
            return (rule(op, arguments),)
        return compute_node(node, [values[v] for v in node.inputs])


def _laid_out(array: np.ndarray, order: Sequence[int] | None) -> np.ndarray:
    """A copy with its dimensions in that order."""
    if order is None:
        return np.array(array, order="C")  # of nothing, where it is a result of a branch that was not taken
    made = empty(array.shape, array.dtype, order)
    np.copyto(made, array)
    return made


def compute_node(node: Node, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """What one node computes, by its NumPy reference."""
    op = node.op
    if isinstance(op, Draw):
        return (_drawn(op, inputs),)
    if op.bodies:
        return op.run([HostPlan(body) for body in op.bodies], inputs)
    result = (
        _viewed(op, *inputs, **node.params) if isinstance(op, View) else mode.call(op.compute, *inputs, **node.params)
    )
    return result if result.__class__ is tuple else (np.asarray(result),)


def _viewed(op: View, x: np.ndarray, **params: Any) -> Any:
    """A view, of a copy in order where the strides of x do not allow it."""
    try:
        return op.reference(x, **params)
    except (ShapeError, ValueError):
        return op.reference(np.ascontiguousarray(x), **params)


def _drawn(op: Draw, inputs: Sequence[np.ndarray]) -> np.ndarray:
    first, second, low, high = map(int, inputs[0])
    generator = Generator()
    generator._key, generator.offset = (first, second), BLOCK * (low | high << 64)
    filled = lambda x: inputs[x.number] if isinstance(x, Hole) else x
    return getattr(generator, op.sampler)(*map(filled, op.arguments), **{k: filled(v) for k, v in op.options.items()})


_SOURCES: dict[type, Callable[[Any, Sequence[np.ndarray]], np.ndarray]] = {
    Argument: lambda op, arguments: arguments[op.position],
    Captured: lambda op, arguments: op.tensor.array,
    Constant: lambda op, arguments: op.array,
    Fetched: lambda op, arguments: np.asarray(op.fetch()),
}
