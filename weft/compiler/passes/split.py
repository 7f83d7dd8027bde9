"""Products taken out of loops: what need not wait for the loop is done for all its iterations at once.

A matrix product that does not depend on carried values is computed before the loop, from the stacks of scanned rows; one
that no carried value needs is computed after it, from stacks of its factors. Where the loop only wants the sum of such
products, Σ_t A_t B_t, that is one product with a longer inner dimension. Views of operands that products read are taken
outside, so that they are laid out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...autograd.batched import vmap
from ...ops.core.pointwise import Elementwise
from ...ops.core.primitive import Contraction, Reduction
from ...ops.core.primitive import View as ViewStep
from ...ops.core.tracing import adding, repeating
from ...tensor import Tensor, wrap
from ..graph.bodies import Loop, copied, prune
from ..graph.geometry import Geometry, contiguous_strides, is_view
from ..graph.graph import Argument, Constant, Graph, Node, Source, Value
from ..tracing.scope import Part
from .expand import expand, spliced, traced

__all__ = ["add_up", "split"]

MOST_BYTES = 1 << 28  # of all stacks that one loop needs more than before
BATCHED = (Elementwise, Reduction, ViewStep, Contraction)  # kinds of operations that take a batch as a whole


def split(graph: Graph) -> None:
    """Take products out of all loops of a graph."""
    for node in [n for n in graph.nodes if isinstance(n.op, Loop) and n.op.length > 1]:
        for way in (_before, _after, _operands):
            node = way(graph, node)
    prune(graph)


def add_up(graph: Graph) -> None:
    """Let the sums that loops still make be carried values."""
    for node in [n for n in graph.nodes if isinstance(n.op, Loop) and n.op.summed]:
        loop = _Split(node)
        first = len(loop.body.outputs) - node.op.summed
        step, params = adding()
        totals, starts = [], []
        for v in loop.body.outputs[first:]:
            total = loop.argument(v.shape, v.dtype)
            sum_ = loop.body.add(step, (total, v), params, v.node.line).make((v.shape, v.dtype))[0]
            totals.append((total, sum_))
            zero = Node(Constant(np.zeros((), v.dtype)), ())
            repeat, shape = repeating(v.shape)
            starts.append(Node(repeat, zero.make(((), v.dtype)), shape, node.line))
            starts[-1].make((v.shape, v.dtype))
            graph.nodes[graph.nodes.index(node) : graph.nodes.index(node)] = [zero, starts[-1]]
        count = node.op.carried
        made = loop.node(
            [
                *zip(loop.carried, node.inputs[:count], strict=True),
                *((t, s.output) for (t, _), s in zip(totals, starts, strict=True)),
            ],
            list(loop.stacks.items()),
            [*loop.body.outputs[:count], *(s for _, s in totals)],
            loop.body.outputs[count:first],
        )
        outs = [*made.outputs[:count], *made.outputs[count + len(totals) :], *made.outputs[count : count + len(totals)]]
        _put(graph, node, [made], dict(zip(node.outputs, outs, strict=True)))


class _Split:
    """The body of a loop, to be changed: its arguments by what they are, with the values that they stand for outside."""

    def __init__(self, node: Node) -> None:
        self.old, self.op = node, node.op
        self.body = copied(node.op.bodies[0])
        expand(self.body)
        found = {n.op.position: n.output for n in self.body.nodes if isinstance(n.op, Argument)}
        first, last = self.op.carried, self.op.carried + self.op.scanned
        for position in range(first):
            if position not in found:
                v = node.inputs[position]
                found[position] = self.argument(v.shape, v.dtype)
        self.carried = [found[k] for k in range(first)]
        self.stacks = {found[k]: node.inputs[k] for k in range(first, last) if k in found}
        self.operands = {found[k]: node.inputs[k] for k in range(last, len(node.inputs)) if k in found}

    def argument(self, shape: Sequence[int], kind: np.dtype) -> Value:
        self.body.nodes.insert(0, Node(Argument(-1), ()))
        return self.body.nodes[0].make((shape, kind))[0]

    def node(
        self,
        carried: Sequence[tuple[Value, Value]],
        scanned: Sequence[tuple[Value, Value]],
        results: Sequence[Value],
        stacked: Sequence[Value],
        summed: Sequence[Value] = (),
    ) -> Node:
        """The loop with these arguments, each with its value outside, and these results."""
        arguments = [*carried, *scanned, *self.operands.items()]
        for position, (inner, _) in enumerate(arguments):
            inner.node.op = Argument(position)
        self.body.outputs = [*results, *stacked, *summed]
        self.body.renumber()
        op = self.op
        loop = Loop(self.body, len(carried), len(scanned), op.length, op.reverse, len(summed))
        made = Node(loop, [outer for _, outer in arguments], {}, self.old.line)
        made.make(*loop.kinds())
        return made

    def stack_bytes(self, values: Iterable[Value]) -> int:
        return self.op.length * sum(v.nbytes for v in values)


def _put(graph: Graph, old: Node, nodes: Sequence[Node], changes: dict[Value, Value]) -> None:
    at = graph.nodes.index(old)
    graph.nodes[at : at + 1] = nodes
    graph.replace(changes)
    graph.renumber()


def _reaching(nodes: Sequence[Node], start: Iterable[Value]) -> set[int]:
    """The nodes that depend on some values."""
    values, found = set(start), set()
    for node in nodes:
        if any(v in values for v in node.inputs):
            found.add(id(node))
            values.update(node.outputs)
    return found


def _needed(values: Iterable[Value]) -> set[int]:
    """The nodes, without sources, that some values depend on."""
    found, pending = set(), [v.node for v in values]
    while pending:
        node = pending.pop()
        if id(node) not in found and not isinstance(node.op, Source):
            found.add(id(node))
            pending.extend(v.node for v in node.inputs)
    return found


def _is_product(node: Node) -> bool:
    return isinstance(node.op, Contraction) and node.output.dtype.kind == "f"


def _takes_batches(nodes: Iterable[Node]) -> bool:
    return all(isinstance(n.op, BATCHED) and all(v.size for v in n.outputs) for n in nodes)


# ------------------------------------------------------------------------------- the same for all iterations


class _Batch:
    """A graph run for all iterations: the first arguments are stacks, the others are shared.

    `sums` are results of which only the sum over the iterations is wanted.
    """

    name = "batch"

    def __init__(self, graph: Graph, stacks: int, results: Sequence[Value], sums: Sequence[Value]) -> None:
        self.graph, self.stacks, self.results, self.sums = graph, stacks, results, sums

    def parts(self, *tensors: Tensor) -> list[Tensor]:
        products = [_product_below(v) for v in self.sums]
        wanted = list(self.results)
        for v, root in zip(self.sums, products, strict=True):
            wanted += [v] if root is None else root.node.inputs
        dims = tuple(0 if k < self.stacks else None for k in range(len(tensors)))
        found = iter(vmap(lambda *xs: replayed(self.graph, xs, wanted), dims)(*tensors))
        made = [next(found) for _ in self.results]
        for v, root in zip(self.sums, products, strict=True):
            total = next(found).sum(0) if root is None else root.node.op.summed(next(found), next(found))
            made.append(total if root is None else _viewed(v, root, total))
        return made


def replayed(graph: Graph, tensors: Sequence[Tensor], wanted: Sequence[Value]) -> list[Tensor]:
    """Values of a graph of primitives, computed again on other tensors."""
    known: dict[Value, Tensor] = {}
    for node in graph.nodes:
        if isinstance(node.op, Argument):
            known[node.output] = tensors[node.op.position]
        elif isinstance(node.op, Constant):
            known[node.output] = wrap(node.op.array)
        else:
            made = node.op(*(known[v] for v in node.inputs), **node.params)
            known.update(zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True))
    return [known[v] for v in wanted]


def _product_below(v: Value) -> Value | None:
    """The product of two matrices that a value is a view of."""
    while is_view(v):
        v = v.node.inputs[0]
    matrices = _is_product(v.node) and v.node.op.summed is not None and all(len(x.shape) == 2 for x in v.node.inputs)
    return v if matrices else None


def _viewed(v: Value, root: Value, x: Tensor) -> Tensor:
    """The view `v` of `root`, taken of x: the sum of views is the view of the sum."""
    if v is root:
        return x
    made = v.node.op(_viewed(v.node.inputs[0], root, x), **v.node.params)
    return made[v.index] if isinstance(made, tuple) else made


def _batched(part: Part, stacks: Sequence[Value], others: Sequence[Value], results: Any, sums: Any) -> Any:
    """Nodes that compute results of a part for all iterations, and their values; None where that cannot be done."""
    graph = part.graph([*part.saved.values(), *part.operands.values()], [*results, *sums])
    node = Node(_Batch(graph, len(stacks), results, sums), [*stacks, *others])
    found = traced(node)
    if found is None or len(found[0].nodes) > 16 + 8 * len(graph.nodes):
        return None
    nodes: list[Node] = []
    return nodes, spliced(node, *found, nodes)


def _before(graph: Graph, node: Node) -> Node:
    """Products that depend on scanned rows alone."""
    loop = _Split(node)
    body = loop.body
    moving = _reaching(body.nodes, loop.carried)
    scanning = _reaching(body.nodes, loop.stacks)
    products = [n for n in body.nodes if _is_product(n) and id(n) in scanning and id(n) not in moving]
    inside = _needed(n.output for n in products)
    nodes = [n for n in body.nodes if id(n) in inside]
    if not products or not _takes_batches(nodes):
        return node
    outside = [n for n in body.nodes if id(n) not in inside]
    read = {v for n in outside for v in n.inputs} | set(body.outputs)
    results = [v for n in nodes for v in n.outputs if v in read]
    if loop.stack_bytes(results) > MOST_BYTES:
        return node
    part = Part(nodes, lambda v: v in loop.stacks)
    stacks, others = [loop.stacks[v] for v in part.saved], [loop.operands[v] for v in part.operands]
    found = _batched(part, stacks, others, results, ())
    if found is None:
        return node
    nodes, values = found
    body.nodes = outside
    given = {v: loop.argument(v.shape, v.dtype) for v in results}
    body.replace(given)
    scanned = [*loop.stacks.items(), *zip(given.values(), values, strict=True)]
    count, summed = node.op.carried, node.op.summed
    outs = body.outputs
    last = len(outs) - summed
    made = loop.node(
        list(zip(loop.carried, node.inputs[:count], strict=True)), scanned, outs[:count], outs[count:last], outs[last:]
    )
    _put(graph, node, [*nodes, made], dict(zip(node.outputs, made.outputs, strict=True)))
    return made


def _after(graph: Graph, node: Node) -> Node:
    """Products that no carried value depends on."""
    loop = _Split(node)
    body, count, summed = loop.body, node.op.carried, node.op.summed
    last = len(body.outputs) - summed
    needed = _needed(body.outputs[:count])
    products = [n for n in body.nodes if _is_product(n) and id(n) not in needed]
    inside = {id(n) for n in products} | _reaching(body.nodes, (n.output for n in products))
    nodes = [n for n in body.nodes if id(n) in inside]
    if not products or not _takes_batches(nodes):
        return node
    numbers = [k for k, v in enumerate(body.outputs) if id(v.node) in inside]
    results = [body.outputs[k] for k in numbers if k < last]
    sums = [body.outputs[k] for k in numbers if k >= last]
    part = Part(nodes, lambda v: v not in loop.operands)
    more = [v for v in part.saved if v not in loop.stacks]
    if loop.stack_bytes(more) > MOST_BYTES:
        return node
    kept = [k for k in range(len(body.outputs)) if k not in numbers]
    stacked = [k for k in kept if count <= k < last]
    body.nodes = [n for n in body.nodes if id(n) not in inside]
    carried = list(zip(loop.carried, node.inputs[:count], strict=True))
    outs = list(body.outputs)
    totals = [outs[k] for k in kept if k >= last]
    made = loop.node(carried, list(loop.stacks.items()), outs[:count], [*(outs[k] for k in stacked), *more], totals)
    fresh = dict(zip(more, made.outputs[count + len(stacked) :], strict=False))
    stacks = [loop.stacks[v] if v in loop.stacks else fresh[v] for v in part.saved]
    found = _batched(part, stacks, [loop.operands[v] for v in part.operands], results, sums)
    if found is None:
        return node
    nodes, values = found
    changes = dict(zip([node.outputs[k] for k in numbers], values, strict=True))
    places = [*range(count), *stacked, *(None for _ in more), *(k for k in kept if k >= last)]
    changes |= {node.outputs[k]: v for k, v in zip(places, made.outputs, strict=True) if k is not None}
    _put(graph, node, [made, *nodes], changes)
    return made


def _operands(graph: Graph, node: Node) -> Node:
    """Views of operands that products read, where they are not dense."""
    loop = _Split(node)
    body, geometry = loop.body, Geometry()
    hoisted: dict[Value, Value] = {}
    nodes: list[Node] = []
    for product in body.nodes:
        for v in product.inputs if _is_product(product) else ():
            root, chain = v, []
            while is_view(root):
                chain.append(root)
                root = root.node.inputs[0]
            dense = contiguous_strides(v.shape, v.dtype.itemsize)
            if not chain or v in hoisted or root not in loop.operands:
                continue
            view = geometry.possible(v)
            if view is not None and view.strides == dense:
                continue
            outer = loop.operands[root]
            for seen in reversed(chain):
                nodes.append(Node(seen.node.op, (outer,), seen.node.params, seen.node.line))
                outer = nodes[-1].make(*((x.shape, x.dtype) for x in seen.node.outputs))[seen.index]
            hoisted[v] = outer
    if not hoisted:
        return node
    given = {v: loop.argument(v.shape, v.dtype) for v in hoisted}
    body.replace(given)
    loop.operands |= {given[v]: outer for v, outer in hoisted.items()}
    count, outs = node.op.carried, body.outputs
    last = len(outs) - node.op.summed
    made = loop.node(
        list(zip(loop.carried, node.inputs[:count], strict=True)),
        list(loop.stacks.items()),
        outs[:count],
        outs[count:last],
        outs[last:],
    )
    _put(graph, node, [*nodes, made], dict(zip(node.outputs, made.outputs, strict=True)))
    return made
