"""The graph made smaller: what is computed twice, computed from constants alone, or not needed at all."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels.operation import NativeForm
from ...ops.core.tracing import joining, parting, swapping
from ..graph.geometry import Geometry, contiguous_strides, is_view, ordered_strides
from ..graph.graph import Captured, Constant, Draw, Graph, Node, Source, Value
from ..graph.reference import compute_node

__all__ = [
    "MOVE",
    "Move",
    "fold_constants",
    "open_windows",
    "order_views",
    "orient",
    "remove_dead",
    "remove_neutral",
    "separate_results",
    "share_equal",
]

LARGEST_CONSTANT = 4096  # elements: larger results are computed at run time


class Move(NativeForm):
    """The identity, for values that must be written to a place of their own."""

    name, title, exact = "move", "Move", True

    def lower(self, f: Any, x: Any) -> Any:
        return x

    def native_types(self, kinds: Any, params: Any) -> tuple[None, Any]:
        return None, kinds[0]

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x.copy()


MOVE = Move()


def remove_dead(graph: Graph) -> None:
    """Drop nodes whose results nobody reads."""
    graph.nodes = graph.live()
    graph.renumber()


def fold_constants(graph: Graph) -> None:
    """Compute at compile time what depends on nothing but small constants."""
    changes: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.append(node)
        if isinstance(node.op, (Source, Draw)) or node.op.bodies or not node.inputs or not node.outputs:
            continue
        if not all(isinstance(v.node.op, Constant) for v in (changes.get(v, v) for v in node.inputs)):
            continue
        arrays = [changes.get(v, v).node.op.array for v in node.inputs]
        if node.op.checks:
            if _passes(node, arrays):
                nodes.pop()
            continue
        if any(v.size > LARGEST_CONSTANT for v in (*node.inputs, *node.outputs)):
            continue
        for value, array in zip(node.outputs, compute_node(node, arrays), strict=True):
            made = Node(Constant(np.array(array, value.dtype, order="C").reshape(value.shape)), ())
            changes[value] = made.make((value.shape, value.dtype))[0]
            nodes.insert(-1, made)
    graph.nodes = nodes
    graph.replace(changes)
    remove_dead(graph)


def _passes(node: Node, arrays: list[np.ndarray]) -> bool:
    """Whether a check of constants finds nothing; what it finds is told when the plan runs, if it comes to it."""
    try:
        compute_node(node, arrays)
    except node.op.error:
        return False
    return True


def share_equal(graph: Graph) -> None:
    """Compute equal expressions once."""
    seen: dict[Any, Node] = {}
    changes: dict[Value, Value] = {}
    for node in graph.nodes:
        if not changes.keys().isdisjoint(node.inputs):
            node.inputs = tuple(changes.get(v, v) for v in node.inputs)
        if isinstance(node.op, Draw):
            continue
        key = _identity(node)
        if key is None:
            continue
        first = seen.setdefault(key, node)
        if first is not node:
            changes.update(zip(node.outputs, first.outputs, strict=True))
    graph.replace(changes)
    remove_dead(graph)


def _identity(node: Node) -> Any:
    """What two nodes have in common that give the same values; None: nothing can be said."""
    if isinstance(node.op, Constant):
        array = node.op.array
        return ("constant", array.dtype.str, array.shape, array.tobytes()) if array.size <= 64 else None
    if isinstance(node.op, Source):
        return None
    if node.op.checks:  # whoever asks, and in whatever order
        (x,) = node.inputs
        while is_view(x) and x.node.inputs[0].size == x.size:
            x = x.node.inputs[0]
        return id(node.op), id(x), *(node.params[name] for name in ("low", "size", "skip"))
    if not node.params:
        return id(node.op), node.inputs, ""
    if any(isinstance(p, np.ndarray) for p in node.params.values()):
        return None
    return id(node.op), node.inputs, repr(sorted(node.params.items()))


def remove_neutral(graph: Graph) -> None:
    """Let readers of an operation that changes nothing read its operand: x · 1, x + 0, a copy, a cast to its own type."""
    geometry = Geometry()
    changes: dict[Value, Value] = {}
    for node in graph.nodes:
        node.inputs = tuple(changes.get(v, v) for v in node.inputs)
        if node.op.unchanged is None or len(node.outputs) != 1:
            continue
        numbers = [v.node.op.array.item() if _is_number(v) else None for v in node.inputs]
        number = node.op.unchanged(numbers, **node.params)
        if number is None:
            continue
        x = node.inputs[number]
        if x.shape != node.output.shape or x.dtype != node.output.dtype:
            continue
        view = geometry.possible(x)
        if view is not None and view.strides == contiguous_strides(
            x.shape, x.dtype.itemsize
        ):  # views of it stay possible
            changes[node.output] = x
    graph.replace(changes)
    remove_dead(graph)


def _is_number(value: Value) -> bool:
    return isinstance(value.node.op, Constant) and value.size == 1


def orient(graph: Graph) -> None:
    """Compute the transpose of an operation directly where only the transpose of its result is read.

    For operations that say `transposes`: f(a, b)ᵀ = f(bᵀ, aᵀ), with ᵀ swapping the last two dimensions.
    """
    geometry, users, results = Geometry(), graph.users(), set(graph.results)
    changes: dict[Value, Value] = {}
    before: dict[Node, list[Node]] = {}  # new nodes, by the one that they replace
    for view in graph.nodes:
        if not is_view(view.outputs[0]):
            continue
        made = view.inputs[0]
        node = made.node
        if not node.op.transposes or made in results or users.get(made) != [view]:
            continue
        strides, swapped = contiguous_strides(made.shape, made.dtype.itemsize), geometry.possible(view.output)
        if (
            swapped is None
            or swapped.strides != (*strides[:-2], strides[-1], strides[-2])
            or swapped.offset
            or len(view.outputs) > 1
        ):
            continue
        if view.output.shape != (*made.shape[:-2], made.shape[-1], made.shape[-2]):
            continue
        swaps = [_swapped(v) for v in reversed(node.inputs)]
        turned = Node(node.op, [swap.output for swap in swaps], node.params, node.line)
        changes[view.output] = turned.make((view.output.shape, made.dtype))[0]
        before[node] = [*swaps, turned]
    graph.nodes = [n for node in graph.nodes for n in (*before.get(node, ()), node)]
    graph.replace(changes)
    remove_dead(graph)


def _swapped(value: Value) -> Node:
    """A view of the value with its last two dimensions swapped."""
    step, params = swapping(len(value.shape))
    node = Node(step, (value,), params, value.node.line)
    node.make(((*value.shape[:-2], value.shape[-1], value.shape[-2]), value.dtype))
    return node


def open_windows(graph: Graph) -> None:
    """Turn copies out of a window of memory into views, where the memory is dense as the copy says."""
    for node in graph.nodes:
        view = node.op.of_dense
        if view is None:
            continue
        (x,) = node.inputs
        size = x.dtype.itemsize
        dense = (x.shape, tuple(s // size for s in contiguous_strides(x.shape, size)), 0)
        source = x.node.op
        lies_dense = not isinstance(source, Captured) or source.tensor.array.flags.c_contiguous
        if node.params["layout"] == dense and lies_dense:
            node.op = view


def order_views(graph: Graph, geometry: Geometry) -> None:
    """Copy what a view cannot be taken of as it lies in a plan."""
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.append(node)
        if not is_view(node.outputs[0]):
            continue
        (x,) = node.inputs
        dense = geometry(x).strides == contiguous_strides(x.shape, x.dtype.itemsize)
        around = node.op.pure is not None and not dense  # it looks at the memory around, which is dense
        if around or any(geometry.possible(v) is None for v in node.outputs):
            copy = Node(MOVE, (x,), line=node.line)
            node.inputs = copy.make((x.shape, x.dtype))
            nodes.insert(-1, copy)
    graph.nodes = nodes
    graph.renumber()


def _copied(graph: Graph, value: Value) -> Value:
    """The value once more; of a complex one its parts, which native code can move."""
    line = value.node.line
    if value.dtype.kind != "c":
        return graph.add(MOVE, (value,), line=line).make((value.shape, value.dtype))[0]
    kind = np.dtype(value.dtype.char.lower())
    (view, params), *slices = parting(len(value.shape))
    pair = graph.add(view, (value,), params, line).make(((*value.shape, 2), kind))
    planes = [graph.add(op, pair, given, line).make((value.shape, kind))[0] for op, given in slices]
    op, params = joining()
    return graph.add(op, planes, params, line).make((value.shape, value.dtype))[0]


def separate_results(graph: Graph, geometry: Geometry) -> None:
    """Give every output and every final value of a state a memory of its own: dense, no views, no sources, none twice.

    Outputs lie in the order that the graph asks for.
    """
    taken = set()

    def own(value: Value, order: tuple[int, ...] | None = None) -> Value:
        view = geometry(value)
        wanted = ordered_strides(value.shape, value.dtype.itemsize, order or range(len(value.shape)))
        given = isinstance(view.root.node.op, Source) or view.root.node.op.lent
        if is_view(value) or given or value in taken or view.strides != wanted:
            value = _copied(graph, value)
            if order is not None:
                geometry.layouts[value] = order
        taken.add(value)
        return value

    for state in graph.states:
        if state.final is state.value:
            state.final = None
        if state.final is not None:
            state.final = own(state.final)
    graph.outputs = [own(v, graph.orders.get(number)) for number, v in enumerate(graph.outputs)]
