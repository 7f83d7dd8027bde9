"""Traces at several sizes as one list of steps whose sizes are expressions; what does not unify is refused with its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...compiler.graph.graph import Argument, Captured, Constant, Draw, Fetched, Graph, Node
from ...errors import TraceError, UnsupportedError
from .capture import Sample
from .sizes import Repeated, Size, Sizes, fit, fit_array, fit_number

__all__ = ["Step", "Var", "unified", "unified_graphs"]


@dataclass(eq=False)
class Var:
    """One value of the graph: its sizes and element type, and the step that makes it."""

    step: Step
    index: int
    shape: Sizes
    dtype: np.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(eq=False)
class Step:
    """One operation; `nodes` are those of the single traces."""

    title: str
    op: Any
    inputs: tuple[Var, ...]
    params: dict[str, Any]
    line: str
    scope: str
    nodes: list[Node]
    outputs: list[Var] = field(default_factory=list)
    content: Any = None  # of a constant

    @property
    def output(self) -> Var:
        return self.outputs[0]


class _Refused(TraceError):
    """Something that depends on a size in a way that cannot be written."""


def unified(samples: Sequence[Sample]) -> tuple[list[Step], list[Var]]:
    """The steps of all traces together, and the outputs of the graph."""
    return unified_graphs([s.graph for s in samples], [s.symbols for s in samples], samples[0].scopes)


def unified_graphs(
    graphs: Sequence[Graph], symbols: Sequence[dict[str, int]], scopes: dict[int, str] | None = None
) -> tuple[list[Step], list[Var]]:
    """The same of graphs alone: bodies of loops, for one."""
    known: list[dict[Any, Var]] = [{} for _ in graphs]
    lists = [graph.nodes for graph in graphs]
    steps = [
        _step(list(nodes), known, symbols, (scopes or {}).get(place, ""))
        for place, nodes in enumerate(zip(*lists, strict=False))
    ]
    if len({len(nodes) for nodes in lists}) > 1:
        longest = max(lists, key=len)
        raise TraceError(_text(longest[min(map(len, lists))].line, "the number of operations"))
    return steps, [_one(values, known) for values in zip(*(graph.outputs for graph in graphs), strict=True)]


def _one(values: Sequence[Any], known: list[dict[Any, Var]]) -> Var:
    return known[0][values[0]]


def _text(line: str, what: str) -> str:
    where = (
        f"at {line} " if line and "contextlib.py" not in line else ""
    )  # of a model that is Weft's own there is no line
    return (
        f"onnx.export: {where}{what} depends on the size of a dynamic axis, which an ONNX graph cannot follow; write it without "
        "Python's loops over sizes, or leave that axis fixed (dynamic_shapes)"
    )


def _step(nodes: list[Node], known: list[dict[Any, Var]], symbols: Sequence[dict[str, int]], scope: str) -> Step:
    first = nodes[0]
    titles = {_title(n.op) for n in nodes}
    inputs = [[k.get(v) for v in n.inputs] for n, k in zip(nodes, known, strict=True)]
    if len(titles) > 1 or any(other != inputs[0] for other in inputs[1:]):
        raise TraceError(_text(first.line, "which operation is made"))
    try:
        params = _tree([n.params for n in nodes], symbols)
        step = Step(_title(first.op), first.op, tuple(inputs[0]), params, first.line, scope, nodes)  # type: ignore[arg-type]
        step.content = _content(nodes, symbols)
        for index, values in enumerate(zip(*(n.outputs for n in nodes), strict=True)):
            shape = _tree([v.shape for v in values], symbols)
            step.outputs.append(Var(step, index, shape, values[0].dtype))
    except _Refused as refused:
        raise TraceError(_text(first.line, f"{refused} of {_title(first.op)}")) from None
    for k, node in zip(known, nodes, strict=True):
        k.update(zip(node.outputs, step.outputs, strict=True))
    return step


def _title(op: Any) -> str:
    return getattr(op, "title", type(op).__name__)


def _content(nodes: list[Node], symbols: Sequence[dict[str, int]]) -> Any:
    """What a source holds."""
    op = nodes[0].op
    if isinstance(op, Constant):
        found = fit_array([n.op.array for n in nodes], symbols)
        if found is None:
            raise _Refused("the content of an array")
        return found
    if isinstance(op, Fetched):
        return np.asarray(op.fetch())
    if isinstance(op, Captured):
        if any(n.op.tensor is not op.tensor for n in nodes) and len({n.op.tensor.shape for n in nodes}) > 1:
            raise _Refused("a tensor from outside")
        return op.tensor
    if isinstance(op, Draw):
        raise UnsupportedError(
            f"onnx.export: {'at ' + nodes[0].line + ' ' if nodes[0].line else ''}random numbers are drawn; export the model "
            "in eval mode, or draw outside of it and give the numbers as an argument"
        )
    return op.position if isinstance(op, Argument) else None


def _tree(values: Sequence[Any], symbols: Sequence[dict[str, int]]) -> Any:
    """Parameters of all traces as one: numbers fitted, containers entry by entry, everything else equal."""
    first = values[0]
    if len(values) == 1:
        return first
    if isinstance(first, bool) or first is None or isinstance(first, str):
        return _equal(values)
    if isinstance(first, (int, np.integer)):
        return _fitted(fit([int(v) for v in values], symbols), "a size")
    if isinstance(first, float):
        return _fitted(fit_number(values, symbols), "a number")
    if isinstance(first, dict):
        return {key: _tree([v[key] for v in values], symbols) for key in first}
    if isinstance(first, slice):
        return slice(*(_tree([getattr(v, a) for v in values], symbols) for a in ("start", "stop", "step")))
    if isinstance(first, (tuple, list)):
        return _entries(values, symbols)
    return _equal(values)


def _entries(values: Sequence[Any], symbols: Sequence[dict[str, int]]) -> Any:
    if len({len(v) for v in values}) == 1:
        return tuple(_tree(column, symbols) for column in zip(*values, strict=True))
    if all(len(set(v)) == 1 for v in values):
        count = _fitted(fit([len(v) for v in values], symbols), "a length")
        return Repeated(count, _tree([v[0] for v in values], symbols))
    raise _Refused("a number of parts")


def _fitted(found: Any, what: str) -> Any:
    if found is None:
        raise _Refused(what)
    return found


def _equal(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, np.ndarray):
        same = all(np.array_equal(v, first) for v in values)
    else:
        same = all(v is first or v == first for v in values)
    return _fitted(first if same or first is None else None, "a setting") if first is not None else None


def is_fixed(shape: Sizes) -> bool:
    return not any(isinstance(n, Size) for n in shape)
