"""A model run on symbolic tensors for export: at the sizes that were given, and at others where axes are dynamic."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...compiler.graph.graph import Graph, Node, Value
from ...compiler.passes.expand import spliced, traced
from ...compiler.program import Program
from ...compiler.trace import trace
from ...errors import InvalidValueError, ShapeError, TraceError, WeftError
from ...nn import Module
from ...tape.modes import mode, no_grad
from ...tensor import Tensor, wrap
from ...utils.pytree import TreeSpec, tree_flatten

__all__ = ["Sample", "sample_as_given", "samples_of"]

Axes = list[dict[int, str]]  # for every tensor among the arguments: axis → symbol


@dataclass
class Sample:
    """One trace: its program, the values of the symbols, and which module every node belongs to."""

    program: Program
    symbols: dict[str, int]
    scopes: dict[int, str]  # number of a node → name of the innermost module that made it

    @property
    def graph(self) -> Graph:
        return self.program.graph


def samples_of(
    function: Callable, leaves: Sequence[Any], spec: TreeSpec, axes: Axes, has_rule: Callable[[Any], bool]
) -> list[Sample]:
    """One trace at the given sizes if all axes are fixed, else three at sizes in which every symbol differs."""
    given = _symbols_of(leaves, axes)
    if not given:
        return [_traced(function, leaves, spec, {}, has_rule)]
    found: list[Sample] = []
    errors: list[WeftError] = []
    for symbols in _tries(given):
        try:
            found.append(_traced(function, _resized(leaves, axes, symbols), spec, symbols, has_rule))
        except (ShapeError, InvalidValueError, IndexError) as error:
            errors.append(error)
        if len(found) == 3:
            return found
    raise TraceError(
        f"onnx.export: the model runs at fewer than three sizes of the dynamic axes {sorted(given)} around those given; "
        f"fix them ({errors[0] if errors else 'no size to try'})"
    )


def sample_as_given(
    function: Callable, leaves: Sequence[Any], spec: TreeSpec, axes: Axes, has_rule: Callable[[Any], bool]
) -> Sample | None:
    """The trace at the sizes that were given; None where all axes are fixed, or one is 1, which broadcasts."""
    given = _symbols_of(leaves, axes)
    return _traced(function, leaves, spec, given, has_rule) if given and min(given.values()) > 1 else None


def _symbols_of(leaves: Sequence[Any], axes: Axes) -> dict[str, int]:
    """The sizes that the symbols have in the given arguments."""
    found: dict[str, int] = {}
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    for tensor, names in zip(tensors, axes, strict=True):
        for axis, name in names.items():
            if found.setdefault(name, tensor.shape[axis]) != tensor.shape[axis]:
                raise ShapeError(
                    f"onnx.export: the dynamic axis {name!r} is {found[name]} and {tensor.shape[axis]} in the arguments"
                )
    return found


# Steps from the given sizes, for the first symbol, the second, …; no two symbols grow alike.
_STEPS = [
    [(1, 3), (2, 7), (4, 5), (3, 11), (6, 8)],
    [(1, 0), (2, -1), (4, -2), (3, -3)],
    [(2, 2), (4, 4), (8, 8), (6, 16), (4, 32), (10, 12)],
    [(0, -1), (1, -2), (3, -4)],
]


def _tries(given: dict[str, int]) -> Iterator[dict[str, int]]:
    """Sizes to trace at, all larger than 1: those of size 1 broadcast, which others do not."""
    seen: set[tuple[int, ...]] = set()
    for steps in _STEPS:
        for k, pair in enumerate(steps):
            sizes = {}
            for place, (name, size) in enumerate(given.items()):
                step = pair[min(place, 1)] + (place - 1) * (k + 1) * (place > 1)
                sizes[name] = max(2 + place + k, size + step) if step >= 0 else size + step
            key = tuple(sizes.values())
            if min(key) > 1 and key not in seen and all(n not in {s[i] for s in seen} for i, n in enumerate(key)):
                seen.add(key)
                yield sizes


def _resized(leaves: Sequence[Any], axes: Axes, symbols: dict[str, int]) -> list[Any]:
    """The arguments with their contents repeated or cut to other sizes."""
    names = iter(axes)
    made = []
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            made.append(leaf)
            continue
        shape = list(leaf.shape)
        for axis, name in next(names).items():
            shape[axis] = symbols[name]
        array = leaf.detach().numpy()
        made.append(wrap(np.resize(array, shape).astype(array.dtype)) if array.size else leaf)
    return made


def _traced(
    function: Callable, leaves: Sequence[Any], spec: TreeSpec, symbols: dict[str, int], has_rule: Callable[[Any], bool]
) -> Sample:
    with no_grad(), _scopes(function) as scopes:
        program = trace(function, leaves, spec, to_look=True)
    if program.first is not None or (program.ledger is not None and program.decisions()):
        raise TraceError(
            f"onnx.export: Python decides by values of tensors at {', '.join(program.decisions())}; an ONNX graph would "
            "keep the way that these values went: use weft.where or cond"
        )
    graph = program.graph
    named = {id(node): scopes.name(node.number) for node in graph.nodes}
    _prepare(graph, has_rule, named)
    graph.renumber()
    return Sample(program, symbols, {node.number: named.get(id(node), "") for node in graph.nodes})


def _prepare(graph: Graph, has_rule: Callable[[Any], bool], named: dict[int, str]) -> None:
    """What is needed, in operations that have rules; in the bodies of loops and branches as well."""
    graph.nodes = [node for node in graph.live() if not node.op.checks]
    _expand(graph, has_rule, named)
    for node in graph.nodes:
        for body in node.op.bodies or ():
            _prepare(body, has_rule, {})


def _expand(graph: Graph, has_rule: Callable[[Any], bool], named: dict[int, str]) -> None:
    """Operations without a rule, written out in those that they are made of."""
    changes: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node.inputs = tuple(changes.get(v, v) for v in node.inputs)
        found = None if node.op.parts is None or has_rule(node.op) else traced(node)
        if found is None:
            nodes.append(node)
            continue
        start = len(nodes)
        changes.update(zip(node.outputs, spliced(node, *found, nodes), strict=True))
        named.update({id(part): named.get(id(node), "") for part in nodes[start:]})
    graph.nodes = nodes
    graph.replace(changes)
    graph.nodes = [node for node in graph.live() if not node.op.checks]


class _Scopes:
    """Which module was running when nodes were made, by numbers of nodes at its start."""

    def __init__(self) -> None:
        self.marks: list[tuple[int, str]] = [(0, "")]
        self.stack: list[str] = [""]

    def enter(self, name: str) -> None:
        self.stack.append(name)
        self._mark()

    def leave(self) -> None:
        self.stack.pop()
        self._mark()

    def _mark(self) -> None:
        if mode.interpreter is not None and hasattr(mode.interpreter, "graph"):
            self.marks.append((len(mode.interpreter.graph.nodes), self.stack[-1]))

    def name(self, number: int) -> str:
        """Marks lie in order: the last one that is not behind the node."""
        low, high = 0, len(self.marks)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.marks[middle][0] <= number else (low, middle)
        return self.marks[low][1]


@contextlib.contextmanager
def _scopes(function: Callable) -> Iterator[_Scopes]:
    """Follow the modules of a model while it runs."""
    scopes, handles = _Scopes(), []
    if isinstance(function, Module):
        for name, module in function.named_modules():
            handles.append(module.register_forward_pre_hook(lambda m, x, name=name: scopes.enter(name)))
            handles.append(module.register_forward_hook(lambda m, x, y: scopes.leave()))
    try:
        yield scopes
    finally:
        for handle in handles:
            handle.remove()


def leaves_of(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], TreeSpec]:
    """The arguments taken apart."""
    leaves, spec = tree_flatten((tuple(args), kwargs))
    return list(leaves), spec
