"""Operations with kernels of their own, as the fuser sees them: an index space, and a kernel made around a body.

An operation returns one of these from its method `native(node)`; None means there is no native form for this node.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from .body import Access, Body
from .graph import Draw, Node, Slot, Value
from .kernel import Kernel
from .llvm import type_of

Strides = tuple[int, ...]


class Anchor:
    """`make(strides, body)` builds the kernel: argument words are the operands, then what the body names.

    `strides` has for each operand its strides in elements. The body's one given value is the result at an index of
    `space`. Without `fusible`, nothing joins the kernel and the body only stores.
    """

    fusible = True
    flat = False  # whether every operand has to be contiguous

    def __init__(
        self,
        node: Node,
        operands: Sequence[Value],
        space: Sequence[int],
        make: Callable[[Sequence[Strides], Body], Kernel],
        kind: str | None = None,
    ) -> None:
        self.node, self.operands, self.space, self.make = node, tuple(operands), tuple(space), make
        self.kind = kind or type_of(node.output.dtype)


class Whole:
    """A kernel for an operation with several results, or whose results nothing can join.

    `make(strides, results)` gets the strides of the operands and of the results; the argument words are the operands,
    then the results. `dense`: every operand and result is copied to be contiguous first where it is not.
    """

    fusible = False

    def __init__(
        self,
        node: Node,
        operands: Sequence[Value],
        make: Callable[[Sequence[Strides], Sequence[Strides]], Kernel],
        dense: bool = False,
    ) -> None:
        self.node, self.operands, self.make, self.dense = node, tuple(operands), make, dense
        self.space: tuple[int, ...] = ()


def product(node: Node, x: Value, y: Value) -> Anchor | None:
    """(…, n, k) @ (…, k, m) with broadcast leading dimensions."""
    from .matmul import Product

    kind = type_of(node.output.dtype)
    if kind not in ("f32", "f64") or node.output.size == 0 or x.dtype != y.dtype:
        return None
    batch = node.output.shape[:-2]
    m, n, k = node.output.shape[-2], node.output.shape[-1], x.shape[-1]

    def spread(value: Value, strides: Strides) -> Strides:
        missing = len(batch) - (len(value.shape) - 2)
        lead = [0] * missing + [
            0 if size == 1 else stride for size, stride in zip(value.shape[:-2], strides[:-2], strict=True)
        ]
        return (*lead, *strides[-2:])

    def make(strides: Sequence[Strides], body: Body) -> Kernel:
        return getattr(Product, "planned", Product)(kind, batch, m, n, k, spread(x, strides[0]), spread(y, strides[1]), body)

    return Anchor(node, (x, y), (*batch, m, n), make)


def draw(node: Node) -> Anchor | None:
    """Random numbers whose parameters are numbers, or probabilities one for each element."""
    from .philox import RandomFill

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

    def make(strides: Sequence[Strides], body: Body) -> Kernel:
        access = None
        if probability:
            access, parameters_ = Access(1, type_of(node.inputs[1].dtype), (1,)), ()
        else:
            parameters_ = parameters
        return RandomFill(out.size, op.sampler, kind, body, 0, parameters_, access)

    anchor = Anchor(node, node.inputs, (out.size,), make, kind)
    anchor.flat = probability
    return anchor


def find_anchors(nodes: Sequence[Node]) -> dict[Node, Any]:
    """The nodes that have kernels of their own."""
    found = {}
    for node in nodes:
        native = draw if isinstance(node.op, Draw) else getattr(node.op, "native", None)
        anchor = native(node) if native is not None else None
        if anchor is not None:
            found[node] = anchor
    return found
