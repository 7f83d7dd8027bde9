"""Operations with kernels of their own, as the fuser sees them: an index space, and a kernel made around a body.

An operation returns one of these from its method `native(node)`; None means there is no native form for this node.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ...kernels.body import Access, Body
from ...kernels.kernel import Kernel
from ...kernels.llvm.values import type_of
from ...ops.core.pointwise import Elementwise
from ...runtime.threads import get_num_threads
from ..graph.geometry import Geometry, is_view, ordered_strides
from ..graph.graph import Draw, Graph, Node, Slot, Source, Value
from ..passes.simplify import MOVE, Move

Strides = tuple[int, ...]


class Anchor:
    """`make(strides, body, word)` builds the kernel: argument words are the operands, then what the body names, then the
    shared workspace and the private scratch memory in the words from `word` on.

    `strides` has for each operand its strides in elements. The body's one given value is the result at an index of
    `space`. Without `fusible`, nothing joins the kernel and the body only stores.
    """

    fusible = True
    dense: tuple[Value, ...] = ()  # operands that have to be contiguous
    images: tuple[Value, ...] = ()  # operands and results (n, c, *positions) whose channels have to be densest

    def __init__(
        self,
        node: Node,
        operands: Sequence[Value],
        space: Sequence[int],
        make: Callable[[Sequence[Strides], Body, int], Kernel],
        kind: str | None = None,
    ) -> None:
        self.node, self.operands, self.space, self.make = node, tuple(operands), tuple(space), make
        self.kind = kind or type_of(node.output.dtype)


class Whole:
    """A kernel for an operation with several results, or whose results nothing can join.

    `make(strides, results)` gets the strides of the operands and of the results; the argument words are the operands,
    then the results, then workspace and scratch memory. `dense`: operands that are not contiguous are copied first.
    """

    fusible = False

    images: tuple[Value, ...] = ()
    taken_over: Value | None = None  # an operand in whose own memory the result may be made, if it lies there alike

    def __init__(
        self,
        node: Node,
        operands: Sequence[Value],
        make: Callable[[Sequence[Strides], Sequence[Strides]], Kernel],
        dense: bool = False,
    ) -> None:
        self.node, self.operands, self.make = node, tuple(operands), make
        self.dense = self.operands if dense else ()
        self.space: tuple[int, ...] = ()


def product(node: Node, x: Value, y: Value) -> Anchor | None:
    """(…, n, k) @ (…, k, m) with broadcast leading dimensions."""
    from ...kernels.matmul.product import Product

    kind = type_of(node.output.dtype)
    if kind not in ("f32", "f64") or node.output.size == 0 or x.size == 0 or x.dtype != y.dtype:
        return None
    batch = node.output.shape[:-2]
    m, n, k = node.output.shape[-2], node.output.shape[-1], x.shape[-1]

    def spread(value: Value, strides: Strides) -> Strides:
        missing = len(batch) - (len(value.shape) - 2)
        lead = [0] * missing + [
            0 if size == 1 else stride for size, stride in zip(value.shape[:-2], strides[:-2], strict=True)
        ]
        return (*lead, *strides[-2:])

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        return getattr(Product, "planned", Product)(
            kind, batch, m, n, k, spread(x, strides[0]), spread(y, strides[1]), body
        )

    return Anchor(node, (x, y), (*batch, m, n), make)


# ------------------------------------------------------------------------------------- convolutions

LAST = (0, 2, 3, 1)  # images with the channels densest
VOLUMES = (0, 2, 3, 4, 1)  # and volumes


def windows_of(node: Node, x: Value, y: Value, w: Value, params: dict[str, Any]) -> Any:
    """The shape of a convolution between images x and y with kernels w; None where there is no native form."""
    from ...kernels.windows.conv import ConvShape

    if len(x.shape) not in (3, 4) or type_of(x.dtype) not in ("f32", "f64") or not (x.size and y.size and w.size):
        return None
    one = (1,) if len(x.shape) == 3 else ()
    pad = (0,) if len(x.shape) == 3 else ()
    return ConvShape(
        batch=x.shape[0],
        inputs=x.shape[1],
        outputs=y.shape[1],
        image=(*one, *x.shape[2:]),
        counts=(*one, *y.shape[2:]),
        kernel=(*one, *w.shape[2:]),
        stride=(*one, *params["stride"]),
        padding=(*pad, *params["padding"]),
        dilation=(*one, *params["dilation"]),
        groups=params["groups"],
    )


def _image(arg: int, kind: str, strides: Strides) -> Access:
    """An image (n, c, *positions) as an access in the order (n, h, w, c)."""
    n, c, *rest = strides
    high, wide = rest if len(rest) == 2 else (0, *rest)
    return Access(arg, kind, (n, high, wide, c))


def _filter(arg: int, kind: str, strides: Strides) -> Access:
    o, i, *rest = strides
    high, wide = rest if len(rest) == 2 else (0, *rest)
    return Access(arg, kind, (o, i, high, wide))


def _images_body(body: Body) -> Body:
    """A body over (n, c, *positions) as one over (n, h, w, c)."""
    turn = lambda a: _image(a.arg, a.kind, a.strides)
    return Body(
        body.given,
        body.constants,
        tuple(map(turn, body.loads)),
        body.steps,
        tuple((turn(a), n) for a, n in body.stores),
    )


def convolve(node: Node, x: Value, w: Value, adjoint: bool = False) -> Anchor | None:
    """The convolution of images with kernels, or its adjoint, which spreads images over larger ones."""
    from ...kernels.windows.winograd import choose_forward, choose_input_grad

    shape = windows_of(node, *((node.output, x) if adjoint else (x, node.output)), w, node.params)
    if shape is None or x is w:  # one value cannot lie both as an image and as kernels
        return None
    kind = type_of(x.dtype)

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        image, weight = _image(0, kind, strides[0]), _filter(1, kind, strides[1])
        choose = choose_input_grad if adjoint else choose_forward
        return choose(shape, image, weight, _images_body(body), word, word + 1, get_num_threads())

    anchor = Anchor(node, (x, w), node.output.shape, make)
    anchor.images = (node.output, *(() if shape.few and not adjoint else (x,)))
    anchor.dense = (w,)
    return anchor


def convolve_kernel(node: Node, x: Value, y: Value) -> Anchor | None:
    """The kernels that a convolution of x must have had, weighted by y: the gradient of the weights."""
    from ...kernels.windows.winograd import choose_weight_grad

    shape = windows_of(node, x, y, node.output, node.params)
    if shape is None:
        return None
    kind = type_of(x.dtype)

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        return choose_weight_grad(shape, _image(0, kind, strides[0]), _image(1, kind, strides[1]), body, word, word + 1)

    inner = node.output.size // node.output.shape[0]
    anchor = Anchor(node, (x, y), (node.output.shape[0], inner), make)
    anchor.images = (y,) if shape.few else (x, y)
    return anchor


def _pool_shape(images: Value, params: dict[str, Any]) -> Any:
    from ...kernels.windows.pooling import PoolShape

    if len(images.shape) not in (3, 4) or type_of(images.dtype) not in ("f32", "f64"):
        return None
    one, zero = ((1,), (0,)) if len(images.shape) == 3 else ((), ())
    return PoolShape(
        batch=images.shape[0],
        channels=images.shape[1],
        image=(*one, *images.shape[2:]),
        counts=(*one, *params["counts"]),
        size=(*one, *params["size"]),
        stride=(*one, *params["stride"]),
        padding=(*zero, *params["padding"]),
        dilation=(*one, *params["dilation"]),
    )


def max_pool(node: Node) -> Whole | None:
    """The largest of each window and its number there."""
    from ...kernels.windows.pooling import LargestInWindows

    (x,), (largest, winner) = node.inputs, node.outputs
    shape = _pool_shape(x, node.params)
    if shape is None:
        return None
    kind = type_of(x.dtype)

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        value = Body(loads=(_image(0, kind, strides[0]),))
        stores = ((_image(1, kind, results[0]), 0), (_image(2, "u8", results[1]), 2))
        return LargestInWindows(shape, value, Body(given=(kind, "i64", "u8"), stores=stores))

    anchor = Whole(node, (x,), make)
    anchor.images = (x, largest, winner)
    return anchor


def max_pool_slope(node: Node) -> Whole | None:
    """Gradients brought back to the elements that were largest."""
    from ...kernels.windows.pooling import AddAtLargest

    g, winner = node.inputs
    shape = _pool_shape(node.output, node.params)
    if shape is None:
        return None
    kind = type_of(g.dtype)

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        value = Body(loads=(_image(0, kind, strides[0]),))
        body = Body(given=(kind,), stores=((_image(2, kind, results[0]), 0),))
        return AddAtLargest(shape, value, _image(1, "u8", strides[1]), body, "number")

    anchor = Whole(node, (g, winner), make)
    anchor.images = (g, winner, node.output)
    return anchor


def choose_layouts(graph: Graph, anchors: dict[Node, Any]) -> dict[Value, tuple[int, ...]]:
    """Images that convolutions read or make lie with their channels densest, and so do those computed from them."""
    layouts: dict[Value, tuple[int, ...]] = {}
    for node, anchor in anchors.items():
        for v in anchor.images:
            if v.node is node or not (isinstance(v.node.op, Source) or is_view(v)):
                layouts[v] = channels_last(v)
    _spread_layouts(graph, anchors, layouts)
    return layouts


def order_operands(graph: Graph, anchors: dict[Node, Any], geometry: Geometry) -> None:
    """Copy operands of kernels that do not lie as these need them: sources and views. One copy serves all."""
    nodes: list[Node] = []
    copies: dict[tuple[Value, Strides], Value] = {}
    for node in graph.nodes:
        anchor = anchors.get(node)
        wanted = [] if anchor is None else [(v, None) for v in anchor.dense]
        wanted += [] if anchor is None else [(v, channels_last(v)) for v in anchor.images if v.node is not node]
        for v, order in wanted:
            strides = ordered_strides(v.shape, v.dtype.itemsize, order or range(len(v.shape)))
            if geometry(v).strides == strides:
                continue
            if (v, strides) not in copies:
                nodes.append(Node(MOVE, (v,), line=node.line))
                copies[v, strides] = nodes[-1].make((v.shape, v.dtype))[0]
                if order is not None:
                    geometry.layouts[copies[v, strides]] = order
            _replace_operand(node, anchor, v, copies[v, strides])
        nodes.append(node)
    graph.nodes = nodes
    graph.renumber()


def _replace_operand(node: Node, anchor: Any, value: Value, copy: Value) -> None:
    node.inputs = tuple(copy if v is value else v for v in node.inputs)
    anchor.operands = tuple(copy if v is value else v for v in anchor.operands)


def _spread_layouts(graph: Graph, anchors: dict[Node, Any], layouts: dict[Value, tuple[int, ...]]) -> None:
    """Give the operands and results of elementwise operations on images the layout of these."""
    changed = True
    while changed:
        changed = False
        for node in (*graph.nodes, *reversed(graph.nodes)):
            if not isinstance(node.op, (Elementwise, Move)):
                continue
            out = node.output
            same = [v for v in (out, *node.inputs) if v.shape == out.shape and len(v.shape) in (3, 4, 5)]
            order = next((layouts[v] for v in same if v in layouts), None)
            if order is None and any(_shows_volumes(v, anchors, layouts) for v in same):
                order = VOLUMES
            if order is None:
                continue
            for v in same:
                if v not in layouts and not isinstance(v.node.op, (Source, Draw)) and not is_view(v):
                    layouts[v] = order
                    changed = True


def channels_last(value: Value) -> tuple[int, ...]:
    return LAST if len(value.shape) == 4 else (0, 2, 1)


def _shows_volumes(value: Value, anchors: dict[Node, Any], layouts: dict[Value, tuple[int, ...]]) -> bool:
    """Whether a view shows what a kernel made as volumes (n, c, d, h, w) with the channels densest."""
    if len(value.shape) != 5 or not is_view(value):
        return False
    view = Geometry(layouts).possible(value)
    if view is None:
        return False
    steps = [view.strides[d] for d in VOLUMES if value.shape[d] > 1]
    return view.root.node in anchors and steps == sorted(steps, reverse=True) and value.shape[1] > 1


# ------------------------------------------------------------------------------------------ random numbers


def draw(node: Node) -> Anchor | None:
    """Random numbers whose parameters are numbers, or probabilities one for each element."""
    from ...kernels.memory.philox import RandomFill

    op, out = node.op, node.output
    if out.size == 0 or any(isinstance(a, Slot) for a in (*op.arguments[1:], *op.options.values())):
        return None
    given = inspect.signature(getattr(op.generator, op.sampler)).bind(*op.arguments, **op.options)
    given.apply_defaults()
    options, kind, probability = given.arguments, type_of(out.dtype), False
    if op.sampler in ("uniform", "normal"):
        if kind not in ("f32", "f64"):
            return None
        names = ("low", "high") if op.sampler == "uniform" else ("mean", "std")
        parameters = tuple(options[name] for name in names)
    elif op.sampler == "bernoulli":
        parameters, kind = (options["p"],), "i1"
        probability = isinstance(options["p"], Slot)
        if probability and (node.inputs[1].shape != out.shape or type_of(node.inputs[1].dtype) not in ("f32", "f64")):
            return None
    elif op.sampler == "integers":
        parameters = (options["low"], options["high"])
        kind = "i64" if options["low"] < 0 else "u64"
    else:
        return None
    if not probability and not all(isinstance(p, (int, float)) for p in parameters):
        return None

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        access = None
        if probability:
            access, parameters_ = Access(1, type_of(node.inputs[1].dtype), (1,)), ()
        else:
            parameters_ = parameters
        return RandomFill(out.size, op.sampler, kind, body, 0, parameters_, access)

    anchor = Anchor(node, node.inputs, (out.size,), make, kind)
    anchor.dense = node.inputs[1:2] if probability else ()
    return anchor


def find_anchors(graph: Graph) -> dict[Node, Any]:
    """The nodes that have kernels of their own; constants that these kernels read join the graph."""
    found = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        native = draw if isinstance(node.op, Draw) else getattr(node.op, "native", None)
        anchor = native(node) if native is not None else None
        if anchor is not None:
            found[node] = anchor
            nodes += [v.node for v in anchor.operands if v not in node.inputs]
        nodes.append(node)
    graph.nodes = nodes
    return found
