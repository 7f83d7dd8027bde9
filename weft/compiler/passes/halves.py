"""bfloat16 in plans: its numbers are held as float32, and products of them are taken two terms at a time.

`widen` makes every bfloat16 value a float32 value that is rounded where the operation has rounded it, as eager code does:
bfloat16 numbers are float32 numbers whose lower half is 0, and every operation on them is computed in float32 anyway. So
all kernels for float32 serve. Arguments and results are converted where they come in and go out.

`narrow` finds the products whose factors are bfloat16 numbers, where the processor multiplies these faster. Such a kernel
rounds what it reads, so it is given what was there before the rounding where that is in memory in any case: the weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...kernels.llvm.target import Target
from ...ops.core.primitive import Primitive, View
from ...ops.core.tracing import converting
from ...runtime.frames import level_outside
from ..graph.geometry import is_view
from ..graph.graph import Constant, Graph, Node, Source, Value
from ..tracing.infer import results_of
from .simplify import Move, remove_dead

__all__ = ["ROUNDED", "narrow", "widen"]

HALF, WHOLE = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
LEAST = 32  # terms, rows and columns of a product that pay for copying it in pairs


class Rounded(Move):
    """Float32 numbers rounded to bfloat16."""

    name, title, cost, exact = "rounded", "Rounded", 3, False

    def lower(self, f: Any, x: Any) -> Any:
        return f.rounded_half(x)

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x.astype(HALF).astype(WHOLE)


ROUNDED = Rounded()


class _Told:
    """Whether it has been said that this processor has no fast bfloat16."""

    once = False


def widen(graph: Graph) -> None:
    """Hold bfloat16 values as float32."""
    if any(v.dtype == HALF for node in graph.nodes for v in node.outputs):
        _Widener(graph).run()


class _Widener:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.wide: dict[Value, Value] = {}  # of values of bfloat16
        self.halves: dict[Value, Value] = {}  # values of bfloat16 for those that are held as float32
        self.changes: dict[Value, Value] = {}  # other values that new nodes make

    def run(self) -> None:
        for node in self.graph.nodes:
            node.inputs = tuple(self.changes.get(v, v) for v in node.inputs)
            if not any(v.dtype == HALF for v in (*node.inputs, *node.outputs)):
                self.nodes.append(node)
            elif not self._widened(node):
                node.inputs = tuple(map(self._half, node.inputs))
                self.nodes.append(node)
        self.graph.nodes = self.nodes
        self.graph.replace(self.changes)
        self.graph.outputs = [self._half(v) for v in self.graph.outputs]
        for state in self.graph.states:
            if state.final is not None and state.final is not state.value:
                state.final = self._half(state.final)
        remove_dead(self.graph)

    def _widened(self, node: Node) -> bool:
        """Put the operation on float32 values in the place of the one on bfloat16; False: there is none."""
        if isinstance(node.op, Constant):
            self.nodes.append(node)  # for results and host calls
            made = Node(Constant(node.op.array.astype(WHOLE)), ())
            self._put(made, made.make((node.output.shape, WHOLE)), node)
            return True
        if not isinstance(node.op, Primitive) or node.op.bodies or not node.inputs:
            return False
        inputs = [self._whole(v) for v in node.inputs]
        convert, _ = converting(WHOLE)
        if node.op is convert:
            self._converted(node, inputs[0])
            return True
        try:
            kinds, _ = results_of(node.op, inputs, node.params)
        except Exception:
            return False
        wanted = [(v.shape, WHOLE if v.dtype == HALF else v.dtype) for v in node.outputs]
        if [(tuple(shape), np.dtype(kind)) for shape, kind in kinds] != wanted:
            return False
        made = Node(node.op, inputs, node.params, node.line)
        results = made.make(*wanted)
        self.nodes.append(made)
        exact = isinstance(node.op, View) or node.op.exact
        for old, new in zip(node.outputs, results, strict=True):
            self._known(old, new if exact or old.dtype != HALF else self._rounded(new, node.line))
        return True

    def _converted(self, node: Node, x: Value) -> None:
        out, line = node.output, node.line
        if out.dtype != HALF:
            self.changes[out] = x if out.dtype == WHOLE else self._add(*converting(out.dtype), x, out.dtype, line)
            return
        if node.inputs[0].dtype != HALF:
            x = x if x.dtype == WHOLE else self._add(*converting(WHOLE), x, WHOLE, line)
            x = self._rounded(x, line)
        self.wide[out] = x

    def _put(self, made: Node, results: Sequence[Value], node: Node) -> None:
        self.nodes.append(made)
        for old, new in zip(node.outputs, results, strict=True):
            self._known(old, new)

    def _known(self, old: Value, new: Value) -> None:
        (self.wide if old.dtype == HALF else self.changes)[old] = new

    def _whole(self, value: Value) -> Value:
        """A value as float32, if it is bfloat16; sources and what Python computes are converted."""
        if value.dtype != HALF:
            return value
        if value not in self.wide:
            self.wide[value] = self._add(*converting(WHOLE), value, WHOLE, value.node.line)
        return self.wide[value]

    def _half(self, value: Value) -> Value:
        """A value of bfloat16 in memory of that type."""
        if value.dtype != HALF or value not in self.wide or isinstance(value.node.op, Source):
            return value
        if value not in self.halves:
            op, params = converting(HALF)
            self.halves[value] = self._add(op, params, self.wide[value], HALF, value.node.line)
        return self.halves[value]

    def _rounded(self, value: Value, line: str) -> Value:
        return self._add(ROUNDED, {}, value, WHOLE, line)

    def _add(self, op: Any, params: dict[str, Any], x: Value, kind: np.dtype, line: str) -> Value:
        node = Node(op, (x,), params, line)
        self.nodes.append(node)
        return node.make((x.shape, kind))[0]


# ------------------------------------------------------------------------------------------- products


def narrow(graph: Graph) -> None:
    """Let products of bfloat16 numbers be computed as such, where the processor does that faster."""
    if not any(node.op is ROUNDED for node in graph.nodes):
        return
    halves = _half_numbers(graph)
    found = [node for node in graph.nodes if node.op.halved is not None and halves.issuperset(node.inputs)]
    found = [node for node in found if node.op.halved is not None and _is_large(node)]
    if found and not Target.host().bfloat:
        _tell()
        return
    before: dict[Node, list[Node]] = {}
    users = graph.users()
    for node in found:
        node.op, made = node.op.halved, []
        node.inputs = tuple(_unrounded(v, users, made) for v in node.inputs)
        before[node] = made
    graph.nodes = [n for node in graph.nodes for n in (*before.get(node, ()), node)]
    remove_dead(graph)


def _tell() -> None:
    if not _Told.once:
        _Told.once = True
        warnings.warn(
            "weft: this processor has no instructions for bfloat16 (AVX512-BF16), so products of bfloat16 numbers are "
            "computed in float32: rounded as asked for, and no faster",
            UserWarning,
            stacklevel=level_outside(),
        )


def _half_numbers(graph: Graph) -> set[Value]:
    """The float32 values that hold bfloat16 numbers, as far as operations say so."""
    convert, _ = converting(WHOLE)
    found: set[Value] = set()
    for node in graph.nodes:
        if node.op is ROUNDED or (node.op is convert and node.inputs[0].dtype == HALF):
            known = True
        else:
            exact = isinstance(node.op, View) or node.op.exact
            known = exact and bool(node.inputs) and all(v in found or v.dtype.kind == "b" for v in node.inputs)
        if known:
            found.update(v for v in node.outputs if v.dtype == WHOLE)
    return found


def _is_large(node: Node) -> bool:
    x, y = node.inputs
    rows = x.size // max(1, x.shape[-1])
    flat = len(y.shape) == 2 or y.size == y.shape[-1] * y.shape[-2]  # no batch of matrices on the right
    return flat and x.shape[-1] % 2 == 0 and min(rows, x.shape[-1], y.shape[-1]) >= LEAST


def _unrounded(value: Value, users: dict[Value, list[Node]], made: list[Node]) -> Value:
    """What was rounded, in the same views, where it is in memory anyway: given from outside, or read by others."""
    views: list[Node] = []
    root = value
    while is_view(root):
        views.append(root.node)
        root = root.node.inputs[0]
    if root.node.op is not ROUNDED:
        return value
    (before,) = root.node.inputs
    if not isinstance(before.node.op, Source) and not is_view(before) and len(users.get(before, ())) == 1:
        return value
    found = before
    for view in reversed(views):
        if len(view.outputs) != 1:
            return value
        copy = Node(view.op, (found,), view.params, view.line)
        made.append(copy)
        found = copy.make((view.output.shape, WHOLE))[0]
    return found
