"""Loops and branches of a traced graph: their bodies as graphs inside of a Scan or an If."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import UnsupportedError
from ..schema import Dimension, GraphProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto
from ..tensors import type_number
from .builder import Builder, writes
from .sizes import Iota, fit
from .unify import Step, Var, unified_graphs


def _inner(
    b: Builder, step: Step, number: int, given: Sequence[str], own: int, lead: Sequence[type] = ()
) -> GraphProto:
    """A body as a graph: its first `own` arguments are its inputs, the others are read from around it.

    `lead` are the types of inputs in front of those, which the operator gives and the body does not read."""
    child = b.child()
    unread, inputs = [child.fresh("item") for _ in lead], [child.fresh("item") for _ in range(own)]
    outputs = _written(child, step, number, [*inputs, *given[own:]])
    names = [child.emit("Identity", [child.names[v]]) for v in outputs]
    made = GraphProto(name=f"body_of_{step.title.lower()}", node=child.finish_nodes(names))
    made.input = [_info(name, np.dtype(kind), ()) for name, kind in zip(unread, lead, strict=True)]
    made.input += [_info(name, v.dtype) for name, v in zip(inputs, step.inputs, strict=False)]
    made.output = [_info(name, v.dtype) for name, v in zip(names, outputs, strict=True)]
    return made


def _written(b: Builder, step: Step, number: int, given: Sequence[str]) -> list[Var]:
    """The nodes of a body whose arguments have the names `given`; its results."""
    steps, outputs = unified_graphs([node.op.bodies[number] for node in step.nodes], b.sampled)
    for inner in steps:
        if inner.title == "Argument":
            b.names[inner.output] = given[inner.content]
        elif inner.title == "Captured":
            raise UnsupportedError(f"onnx.export: {step.line}: a loop that reads a tensor from outside by itself")
        else:
            inner.scope = step.scope
            b.write(inner)
    return outputs


def _info(name: str, kind: np.dtype, shape: Sequence[int] | None = None) -> ValueInfoProto:
    sizes = None if shape is None else TensorShapeProto(dim=[Dimension(dim_value=n) for n in shape])
    inner = TensorTypeProto(elem_type=type_number(kind), shape=sizes)
    return ValueInfoProto(name=name, type=TypeProto(tensor_type=inner))


@writes("Loop")
def loop(b: Builder, step: Step, *names: str) -> list[str]:
    """`weft.scan`: states carried along, rows of the scanned inputs, results stacked."""
    op, rows = step.op, max(step.op.scanned, 1)
    if op.summed:
        raise UnsupportedError(
            f"onnx.export: {step.line}: a loop that goes back through another one; export what is forward"
        )
    own = op.carried + op.scanned
    body, given = _inner(b, step, 0, names, own), list(names[:own])
    if not op.scanned:  # Scan goes along something: numbers that nobody reads
        given.append(_rounds(b, step))
        body.input.append(_info(b.fresh("item"), np.dtype(np.int64), ()))
    stacked = len(step.outputs) - op.carried
    back = int(op.reverse)
    return _listed(
        b.emit(
            "Scan",
            given,
            outputs=len(step.outputs),
            body=body,
            num_scan_inputs=rows,
            scan_input_directions=[back] * rows,
            scan_output_directions=[back] * stacked if stacked else None,
        )
    )


def _rounds(b: Builder, step: Step) -> str:
    """0, 1, … for every round of a loop."""
    count = fit([node.op.length for node in step.nodes], b.sampled)
    if count is None:
        raise UnsupportedError(
            f"onnx.export: {step.line}: the number of rounds does not follow from the sizes of inputs"
        )
    return b.iota(Iota(0, count, 1, (count,)), np.dtype(np.int64))


@writes("While")
def while_loop(b: Builder, step: Step, *names: str) -> list[str]:
    """`weft.while_loop`: a Loop without a limit. Its condition is asked before the first round and, by the body, after each.

    ONNX's body is (round, condition, carried…) → (condition, carried…); Weft's ends with the condition."""
    carried = step.op.carried
    (goes_on,) = _written(b, step, 0, names)
    body = _inner(b, step, 1, names, carried, (np.int64, np.bool_))
    body.output = [body.output[-1], *body.output[:-1]]
    first = b.emit("Reshape", [b.names[goes_on], b.ints([])])
    return _listed(b.emit("Loop", ["", first, *names[:carried]], outputs=carried, body=body))


@writes("Branch")
def branch(b: Builder, step: Step, *names: str) -> list[str]:
    """`weft.cond`: both ways are graphs, one of them runs."""
    if len(step.outputs) != step.op.common:
        raise UnsupportedError(f"onnx.export: {step.line}: branches that keep different values")
    ways = [_inner(b, step, number, names, 0) for number in (0, 1)]
    truth = b.cast(names[0], _first(step).dtype, np.dtype(bool))
    return _listed(b.emit("If", [truth], outputs=len(step.outputs), then_branch=ways[0], else_branch=ways[1]))


def _first(step: Step) -> Var:
    return step.inputs[0]


def _listed(made: str | list[str]) -> list[str]:
    return [made] if isinstance(made, str) else made
