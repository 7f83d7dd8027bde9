"""Complex numbers as pairs of real ones, which native code computes with.

Every complex value becomes two real values, or numbers where a part is the same everywhere. Operations say in `planes` what
they do to the parts; those that move elements or are linear with real coefficients do to each part what they do to the
whole. What says nothing gets its complex inputs put together again, and is computed by Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import DtypeError
from ...ops.core.planes import Planes
from ...ops.core.primitive import Primitive, View
from ...ops.core.tracing import joining, parting
from ...tensor import Tensor, wrap
from ..graph.graph import Constant, Graph, Node, Source, Value
from .expand import spliced, traced_parts

__all__ = ["split_planes"]

_KNOWN: dict[Any, tuple[Graph, list[Any], Any] | None] = {}
MOST_KNOWN = 512


@dataclass(frozen=True)
class Parts:
    """What stands for a complex value: real values of the graph, or numbers. `whole`: both parts, (…, 2)."""

    real: Value | float
    imag: Value | float
    whole: Value | None = None

    @property
    def values(self) -> list[Value]:
        return [v for v in (self.real, self.imag, self.whole) if isinstance(v, Value)]


def split_planes(graph: Graph) -> None:
    """Replace every operation on complex values by operations on their parts, where it says which."""
    if any(_is_complex(v) for node in graph.nodes for v in node.outputs):
        _Splitter(graph).run()


def _is_complex(value: Value) -> bool:
    return value.dtype.kind == "c"


class _Splitter:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.changes: dict[Value, Value] = {}  # real results that other nodes make now
        self.parts: dict[Value, Parts] = {}
        self.kept: set[Value] = set()  # complex values that are in the graph as such
        self.whole: dict[Value, Value] = {}  # others, put together

    def run(self) -> None:
        for node in self.graph.nodes:
            node.inputs = tuple(self.changes.get(v, v) for v in node.inputs)
            if not any(map(_is_complex, (*node.inputs, *node.outputs))):
                self.nodes.append(node)
            elif isinstance(node.op, Source) or node.op.bodies or not self._split(node):
                node.inputs = tuple(self._joined(v) for v in node.inputs)
                self.nodes.append(node)
                self.kept.update(node.outputs)
        self.graph.nodes = self.nodes
        self.graph.replace(self.changes)
        self.graph.outputs = [self._joined(v, own=True) for v in self.graph.outputs]
        for state in self.graph.states:
            if state.final is not None and state.final is not state.value:
                state.final = self._joined(state.final, own=True)
        self.graph.nodes = self.graph.live()
        self.graph.renumber()

    # -------------------------------------------------------------------------------------- one node
    def _split(self, node: Node) -> bool:
        """Put what the operation does to the parts in its place; False: it does not say."""
        if node.inputs and all(isinstance(v.node.op, Constant) for v in node.inputs):
            return False  # computed when all passes are done with constants
        operands: list[Any] = [self._parts_of(v) if _is_complex(v) else v for v in node.inputs]
        if isinstance(node.op, View) and node.op.planes is None and not operands[0].values:
            for value in node.outputs:  # one number, wherever it is looked at
                self.parts[value] = operands[0]
            return True
        found = _rule_of(node, operands)
        if found is None:
            return False
        flat = Node(node.op, [v for x in operands for v in (x.values if isinstance(x, Parts) else [x])], {}, node.line)
        graph, results, shape = found
        made = iter(spliced(flat, graph, results, self.nodes))
        for value, form in zip(node.outputs, shape, strict=True):
            parts = [next(made) if part is None else part for part in form]
            if _is_complex(value):
                self.parts[value] = Parts(*parts)
            else:
                self.changes[value] = parts[0]
        return True

    def _parts_of(self, value: Value) -> Parts:
        """The parts of a complex value; those of what is given, or made by Python, are views of its memory."""
        found = self.parts.get(value)
        if found is None:
            found = self.parts[value] = self._constant(value) or self._seen(value)
        return found

    def _constant(self, value: Value) -> Parts | None:
        if not isinstance(value.node.op, Constant):
            return None
        array: Any = value.node.op.array
        if array.size == 1 and array.ndim == 0:
            return Parts(float(array.real), float(array.imag))
        nodes = [Node(Constant(np.ascontiguousarray(part)), ()) for part in (array.real, array.imag)]
        self.nodes += nodes
        return Parts(*(n.make((value.shape, n.op.array.dtype))[0] for n in nodes))

    def _seen(self, value: Value) -> Parts:
        kind = value.dtype.char.lower()
        (view, params), *slices = parting(len(value.shape))
        pair = self._add(view, (value,), params, (*value.shape, 2), kind)
        real, imag = (self._add(op, (pair,), given, value.shape, kind) for op, given in slices)
        return Parts(real, imag, pair)

    def _joined(self, value: Value, own: bool = False) -> Value:
        """A complex value in memory; `own`: in its own, even where it is what was given."""
        given = isinstance(value.node.op, (Source, View))
        if not _is_complex(value) or (value in self.kept and not (own and given)):
            return value
        if value not in self.whole:
            parts, kind = self._parts_of(value), np.dtype(value.dtype.char.lower())
            planes = [self._filled(part, value.shape, kind) for part in (parts.real, parts.imag)]
            op, params = joining()
            self.whole[value] = self._add(op, planes, params, value.shape, value.dtype)
        return self.whole[value]

    def _filled(self, part: Value | float, shape: Sequence[int], kind: np.dtype) -> Value:
        if isinstance(part, Value):
            return part
        node = Node(Constant(np.full(shape, part, kind)), ())
        self.nodes.append(node)
        return node.make((shape, kind))[0]

    def _add(self, op: Any, inputs: Sequence[Value], params: dict[str, Any], shape: Sequence[int], kind: Any) -> Value:
        node = Node(op, inputs, params, inputs[0].node.line)
        self.nodes.append(node)
        return node.make((shape, kind))[0]


# ----------------------------------------------------------------------------------- what operations say


def _rule_of(node: Node, operands: Sequence[Value | Parts]) -> tuple[Graph, list[Any], Any] | None:
    """The graph of what the operation does to parts, its results there, and which of the parts of each output are numbers."""
    rule = _rule(node)
    if rule is None or any(v.size == 0 for v in (*node.inputs, *node.outputs)):
        return None
    forms = tuple(_form(x) for x in operands)
    sizes = tuple((v.shape, v.dtype.str) for v in node.inputs)
    key = (node.op.title, forms, sizes, repr(sorted(node.params.items())))
    if key not in _KNOWN:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = _traced(node, rule, operands)
    return _KNOWN[key]


def _form(operand: Value | Parts) -> Any:
    if isinstance(operand, Value):
        return None
    return tuple(
        part if not isinstance(part, Value) else "value" for part in (operand.real, operand.imag, operand.whole)
    )


def _rule(node: Node) -> Callable[..., Any] | None:
    op = node.op
    if op.planes is not None:
        return op.planes
    if not isinstance(op, Primitive):
        return None
    complexes = [n for n, v in enumerate(node.inputs) if _is_complex(v)]
    if isinstance(op, View) or (complexes and all(n in op.linear for n in complexes)):
        return _each_part(node)
    if complexes == [0, 1] and tuple(op.multilinear) == (0, 1) and len(node.inputs) == 2:
        return _product_of(node)
    return None


def _as_tensor(part: Any, value: Value) -> Tensor:
    """A part of a value as a tensor of its sizes."""
    return part if isinstance(part, Tensor) else wrap(np.full(value.shape, part, value.dtype.char.lower()))


def _is_zero(part: Any) -> bool:
    return not isinstance(part, Tensor) and part == 0


def _each_part(node: Node) -> Callable[..., Any]:
    """y = f(a) + i f(b): for what is linear with real coefficients, or only moves elements."""

    def rule(*operands: Any, **params: Any) -> Any:
        def done(name: str) -> Any:
            pairs = zip(operands, node.inputs, strict=True)
            return node.op(
                *(_as_tensor(getattr(x, name), v) if isinstance(x, Planes) else x for x, v in pairs), **params
            )

        zero = all(_is_zero(x.imag) for x in operands if isinstance(x, Planes))
        real: Any = done("real")
        imag: Any = 0.0 if zero else done("imag")
        if isinstance(real, tuple):
            return tuple(Planes(part, 0.0 if zero else imag[n]) for n, part in enumerate(real))
        return Planes(real, imag)

    return rule


def _product_of(node: Node) -> Callable[..., Any]:
    """(a + ib)(c + id) of what is linear in each of two operands."""

    def rule(x: Planes, other: Planes, **params: Any) -> Any:
        def times(a: Any, b: Any) -> Any:
            if _is_zero(a) or _is_zero(b):
                return 0.0
            return node.op(_as_tensor(a, node.inputs[0]), _as_tensor(b, node.inputs[1]), **params)

        def total(a: Any, b: Any) -> Any:
            return b if _is_zero(a) else a if _is_zero(b) else a + b

        return Planes(
            total(times(x.real, other.real), -times(x.imag, other.imag)),
            total(times(x.real, other.imag), times(x.imag, other.real)),
        )

    return rule


def _traced(node: Node, rule: Callable[..., Any], operands: Sequence[Value | Parts]) -> Any:
    shape: list[list[Any]] = []

    def apply(*tensors: Any) -> Any:
        given = iter(tensors)
        found = rule(
            *(_operand(x, given, v, bool(tensors)) for x, v in zip(operands, node.inputs, strict=True)), **node.params
        )
        if found is None:
            return None
        flat: list[Tensor] = []
        for x, value in zip(found if isinstance(found, tuple) else (found,), node.outputs, strict=True):
            shape.append(_results(x, value, flat))
        return flat

    values = [v for x in operands for v in (x.values if isinstance(x, Parts) else [x])]
    found = traced_parts(apply, [(v.shape, v.dtype) for v in values])
    return None if found is None else (*found, shape)


def _operand(x: Value | Parts, given: Any, value: Value, some: bool) -> Any:
    """An operand as rules take it; where no operand is a tensor (not `some`), a number is made one."""
    if isinstance(x, Value):
        return next(given)
    parts = [next(given) if isinstance(part, Value) else part for part in (x.real, x.imag, x.whole)]
    return Planes(parts[0] if some else _as_tensor(parts[0], value), *parts[1:])


def _results(x: Any, value: Value, flat: list[Tensor]) -> list[Any]:
    """Put the parts of one result among the tensors `flat`; of each part: None for a tensor, or the number."""
    if not isinstance(x, Planes):
        flat.append(x if isinstance(x, Tensor) else wrap(np.full(value.shape, x, value.dtype)))
        return [None]
    kind, form = np.dtype(value.dtype.char.lower()), []
    for part in (x.real, x.imag):
        if isinstance(part, Tensor):
            flat.append(part if part.shape == value.shape else part.expand(value.shape))
            if part.dtype.np != kind:
                raise DtypeError(f"{value.node.op.name}: a part of type {part.dtype} in {value!r}")
        form.append(None if isinstance(part, Tensor) else float(part))
    if x.whole is not None:
        flat.append(x.whole)
    return [*form, None] if x.whole is not None else form
