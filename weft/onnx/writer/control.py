"""Loops and branches of a traced graph: their bodies as graphs inside of a Scan or an If."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import UnsupportedError
from ..schema import GraphProto, TensorTypeProto, TypeProto, ValueInfoProto
from ..tensors import type_number
from .builder import Builder, writes
from .unify import Step, Var, unified_graphs


def _inner(b: Builder, step: Step, number: int, given: Sequence[str], own: int) -> GraphProto:
    """A body as a graph: its first `own` arguments are its inputs, the others are read from around it."""
    graphs = [node.op.bodies[number] for node in step.nodes]
    steps, outputs = unified_graphs(graphs, b.sampled)
    child = b.child()
    inputs = [child.fresh("item") for _ in range(own)]
    kinds: dict[int, np.dtype] = {}
    for inner in steps:
        if inner.title == "Argument":
            child.names[inner.output] = [*inputs, *given[own:]][inner.content]
            kinds[inner.content] = inner.output.dtype
        elif inner.title == "Captured":
            raise UnsupportedError(f"onnx.export: {step.line}: a loop that reads a tensor from outside by itself")
        else:
            inner.scope = step.scope
            child.write(inner)
    names = [child.emit("Identity", [child.names[v]]) for v in outputs]
    made = GraphProto(name=f"body_of_{step.title.lower()}", node=child.finish_nodes(names))
    made.input = [_info(name, kinds.get(k, np.dtype(np.float32))) for k, name in enumerate(inputs)]
    made.output = [_info(name, v.dtype) for name, v in zip(names, outputs, strict=True)]
    return made


def _info(name: str, kind: np.dtype) -> ValueInfoProto:
    return ValueInfoProto(name=name, type=TypeProto(tensor_type=TensorTypeProto(elem_type=type_number(kind))))


@writes("Loop")
def loop(b: Builder, step: Step, *names: str) -> list[str]:
    """`weft.scan`: states carried along, rows of the scanned inputs, results stacked."""
    op = step.op
    if op.summed or not op.scanned:
        raise UnsupportedError(f"onnx.export: {step.line}: a loop over nothing but a count; scan over a tensor instead")
    own = op.carried + op.scanned
    body = _inner(b, step, 0, names, own)
    stacked = len(step.outputs) - op.carried
    back = int(op.reverse)
    return _listed(
        b.emit(
            "Scan",
            names[:own],
            outputs=len(step.outputs),
            body=body,
            num_scan_inputs=op.scanned,
            scan_input_directions=[back] * op.scanned,
            scan_output_directions=[back] * stacked if stacked else None,
        )
    )


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
