"""Pictures of the computation graph: which operations made a tensor, as a listing, as SVG or for Graphviz.

`draw_graph` reads the tape into a small model (boxes for leaves and operations, arrows for the tensors
between them) and hands it to one of three writers: `listing` here, `svg` in `picture.py`, `graphviz` in its file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import AutogradError, InvalidValueError
from ..tape import tape
from ..tape.modes import mode, switches
from ..tape.node import Node
from ..tape.tape import collect, edge_of
from ..tensor import Tensor
from ..utils.describe import shape_text, value_text
from .batched import physical
from .graphviz import graphviz
from .picture import svg

__all__ = ["draw_graph"]

LEAF, CONSTANT, OPERATION = "leaf", "constant", "operation"


@dataclass
class Flow:
    """What is known of one tensor: its sizes, and as text its value and its gradient."""

    shape: str = ""
    value: str = ""
    grad: str = ""


@dataclass
class Box:
    """A leaf, a constant or an operation; `inputs` are (box, number of its output)."""

    kind: str
    label: str
    inputs: list[tuple[Box, int]] = field(default_factory=list)
    flows: dict[int, Flow] = field(default_factory=dict)
    is_result: bool = False


def draw_graph(
    tensor: Any,
    format: str = "text",
    params: Any = None,
    values: bool = False,
    grads: bool = False,
) -> str:
    """The graph behind a tensor (or several): operations, sizes on the arrows, values, gradients.

    `format`: 'text', one line an operation in the order of computation; 'svg', from top to bottom;
    or 'dot', to be laid out by Graphviz. `params` names leaves: a dict of names and tensors, pairs, or a module. `grads` shows
    the gradient of the sum of the result with respect to each tensor. `values` shows values: those
    that the tape happens to keep; pass a function instead of a tensor, `draw_graph(lambda: loss(x))`,
    and all of them are noted while it runs. The graph is left as it was.

    >>> import weft
    >>> w = weft.tensor([1.0, 2.0], requires_grad=True)
    >>> print(draw_graph((w * 3).sum(), params={"w": w}))
    w             (2,)    leaf
    %1 = mul(w)   (2,)
    %2 = sum(%1)  scalar  result
    """
    if format not in WRITERS:
        raise InvalidValueError(f"draw_graph: format must be one of {', '.join(map(repr, WRITERS))}, got {format!r}")
    noted: dict[int, Any] = {}
    if callable(tensor) and not isinstance(tensor, Tensor):
        tensor, noted = _noted(tensor)
    results = [physical(x) for x in (tensor if isinstance(tensor, (tuple, list)) else (tensor,))]
    for x in results:
        if not x.requires_grad:
            raise AutogradError(
                f"draw_graph: a tensor of shape {tuple(x.shape)} has no graph: it does not require grad; set "
                "requires_grad=True on what it is made of, before making it"
            )
    boxes = _boxes(results, _names(params), noted, values, grads)
    return WRITERS[format](boxes)


def _names(params: Any) -> dict[int, str]:
    """Names by identity of the tensor's place on the tape."""
    if params is None:
        return {}
    if hasattr(params, "named_parameters"):
        params = params.named_parameters()
    pairs = params.items() if hasattr(params, "items") else params
    return {id(edge_of(x)): name for name, x in pairs}


def _noted(function: Callable) -> tuple[Any, dict[int, Any]]:
    """Run a function and keep the value of every recorded result, by id of its node."""
    found: dict[int, Any] = {}
    keep: list[Any] = []

    def note(node: Node, out: Any) -> None:
        keep.append(node)  # an id is good only as long as its node lives
        found[id(node)] = [o.array.copy() for o in out] if isinstance(out, tuple) else out.array.copy()

    before, switches.noting = switches.noting, note
    switches.renew()
    try:
        result = function()
    finally:
        switches.noting = before
        switches.renew()
    found[0] = keep
    return result, found


# ---------------------------------------------------------------------------------- reading the tape


def _boxes(
    results: Sequence[Tensor], names: dict[int, str], noted: dict[int, Any], values: bool, grads: bool
) -> list[Box]:
    """Everything the results were made of, in the order of computation."""
    roots = [edge_of(x) for x in results]
    nodes = [n for n in collect(roots) if n.index is None]
    arrived = _arriving(roots, results, collect(roots))
    known = {id(edge_of(x)): x.array for x in results}
    boxes: dict[int, Box] = {}

    def source(edge: Any) -> tuple[Box, int]:
        if isinstance(edge, Node):
            maker = edge.edges[0] if edge.index is not None else edge
            return boxes[id(maker)], edge.index or 0
        if id(edge) not in boxes:
            boxes[id(edge)] = _leaf(edge, names, arrived, values, grads)
        return boxes[id(edge)], 0

    for edge in roots:
        if not isinstance(edge, Node):
            source(edge)
    for node in nodes:
        saved = node.saved if isinstance(node.saved, (list, tuple)) else ()
        inputs = []
        for number, edge in enumerate(node.edges):
            if edge is not None:
                inputs.append(source(edge))
            elif number < len(saved) and isinstance(saved[number], Tensor):
                inputs.append((_constant(boxes, saved[number], values), 0))
        box = Box(OPERATION, names.get(id(node)) or getattr(node.op, "name", None) or node.op.title, inputs)
        boxes[id(node)] = box
        for index, key in _outputs(node, collect(roots)):
            box.flows[index] = _flow(key, arrived, known | _values_of(node, index, key, noted), values, grads)
    for edge in roots:
        source(edge)[0].is_result = True
    return list(boxes.values())


def _outputs(node: Node, nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """(number, id on the tape) of each output that is used."""
    if node.outputs is None:
        return [(0, id(node))]
    return [(part.index, id(part)) for part in nodes if part.index is not None and part.edges[0] is node]


def _values_of(node: Node, index: int, key: int, noted: dict[int, Any]) -> dict[int, Any]:
    """The value of an output, if it was noted or the node keeps it."""
    if id(node) in noted:
        whole = noted[id(node)]
        return {key: whole[index] if isinstance(whole, list) else whole}
    if node.output_counter is not None and node.output is not None:
        return {key: node.output[index] if isinstance(node.output, tuple) else node.output}
    return {}


def _flow(key: int, arrived: dict[int, Any], known: dict[int, Any], values: bool, grads: bool) -> Flow:
    flow = Flow()
    g, value = arrived.get(key), known.get(key)
    if value is not None:
        flow.shape = shape_text(value.shape)
        flow.value = value_text(value) if values else ""
    elif g is not None:
        flow.shape = shape_text(tuple(g.shape))
    if grads and g is not None:
        flow.grad = value_text(g.array)
    return flow


def _leaf(x: Tensor, names: dict[int, str], arrived: dict[int, Any], values: bool, grads: bool) -> Box:
    label = names.get(id(x), "leaf")
    return Box(LEAF, label, [], {0: _flow(id(x), arrived, {id(x): x.array}, values, grads)})


def _constant(boxes: dict[int, Box], x: Tensor, values: bool) -> Box:
    """A tensor without gradient that an operation keeps."""
    key = id(x.array)
    if key not in boxes:
        flow = Flow(shape_text(tuple(x.shape)), value_text(x.array) if values else "")
        boxes[key] = Box(CONSTANT, "constant", [], {0: flow})
    return boxes[key]


def _arriving(roots: Sequence[Any], results: Sequence[Tensor], nodes: Sequence[Node]) -> dict[int, Any]:
    """The gradient that reaches each node and leaf in a backward pass of Σ results, hooks resting."""
    if any(node.freed for node in nodes):
        return {}
    found: dict[int, Any] = {}
    places = [*nodes, *tape.leaves(roots).values()]
    before = [(p, p.pre_hooks, p.hooks, p.retained) if isinstance(p, Node) else (p, p._hooks) for p in places]

    def catch(key: int) -> dict[int, Callable]:
        return {0: lambda g: found.__setitem__(key, g) if isinstance(g, Tensor) else None}

    try:
        for p in places:
            if isinstance(p, Node):
                p.pre_hooks, p.hooks, p.retained, p.marked = catch(id(p)), None, None, True
            else:
                p._hooks = catch(id(p))
        ends = [p for p in places if not isinstance(p, Node)]
        seeds = [x._filled(1) for x in results]
        was, mode.saved_hooks = mode.saved_hooks, None
        tape.sweep(roots, seeds, ends, retain_graph=True, accumulate=False)
        mode.saved_hooks = was
    finally:
        for p, *rest in before:
            if isinstance(p, Node):
                p.pre_hooks, p.hooks, p.retained = rest
            else:
                p._hooks = rest[0]
    return found


# ---------------------------------------------------------------------------------------- as text


def listing(boxes: Sequence[Box]) -> str:
    """One line a box: what it computes from what, the sizes, values and gradients, in columns."""
    names: dict[int, str] = {}
    taken: dict[str, int] = {}
    rows = []
    count = 0
    for box in boxes:
        if box.kind == OPERATION:
            count += 1
            names[id(box)] = f"%{count}"
            made = f" = {box.label}({', '.join(_used(names, b, i) for b, i in box.inputs)})"
        else:
            taken[box.label] = taken.get(box.label, 0) + 1
            number = taken[box.label]
            named = box.label not in (LEAF, CONSTANT)
            names[id(box)] = box.label if named else f"{box.label}{number}"
            made = ""
        note = "result" if box.is_result else "" if box.kind == OPERATION else box.kind
        for index, flow in box.flows.items():
            rows.append((_used(names, box, index) + made, flow.shape, flow.value, flow.grad, note))
    return _columns(rows)


def _used(names: dict[int, str], box: Box, index: int) -> str:
    return names[id(box)] if len(box.flows) < 2 else f"{names[id(box)]}.{index}"


def _columns(rows: Sequence[tuple[str, ...]]) -> str:
    labels = ("", "", "= ", "grad ", "")
    cells = [[(label + cell) if cell else "" for label, cell in zip(labels, row, strict=True)] for row in rows]
    widths = [len(max((row[k] for row in cells), key=len)) for k in range(len(labels))]
    used = [k for k, width in enumerate(widths) if width]
    return "\n".join("  ".join(row[k].ljust(widths[k]) for k in used).rstrip() for row in cells)


WRITERS: dict[str, Callable[[Sequence[Box]], str]] = {"text": listing, "svg": svg, "dot": graphviz}
