"""What an ONNX file holds, without building it: opsets, inputs, outputs, operators, parameters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..io.atomic import Source
from .load import read_model
from .schema import NodeProto, TypeProto, attribute_value
from .tensors import ELEMENT_TYPES

__all__ = ["summary"]


def summary(source: Source | bytes) -> dict[str, Any]:
    """A dictionary of what a file says about itself.

    >>> import weft
    >>> found = weft.onnx.summary(weft.onnx.export(weft.nn.Linear(4, 3), (weft.ones(2, 4),)))
    >>> found["operators"], found["parameters"]
    ({'Gemm': 1}, 15)
    """
    model, _ = read_model(source)
    graph = model.graph
    assert graph is not None
    weights = {t.name for t in graph.initializer}
    floats = [t for t in graph.initializer if t.data_type in (1, 10, 11, 16)]
    operators: Counter[str] = Counter()
    _count(graph.node, operators)
    return {
        "producer": model.producer_name or "",
        "ir_version": int(model.ir_version or 0),
        "opsets": {(entry.domain or "ai.onnx"): int(entry.version or 0) for entry in model.opset_import},
        "inputs": {v.name: _described(v.type) for v in graph.input if v.name not in weights},
        "outputs": {v.name: _described(v.type) for v in graph.output},
        "operators": dict(operators.most_common()),
        "functions": [function.name for function in model.functions],
        "initializers": len(graph.initializer),
        "parameters": sum(math.prod(map(int, t.dims)) for t in floats),
    }


def _count(nodes: Sequence[NodeProto], found: Counter[str]) -> None:
    """Operators by name, those inside of graphs of nodes as well; what nests without end is refused when it is read."""
    pending = [*nodes]
    while pending:
        node = pending.pop()
        found[f"{node.domain}.{node.op_type}" if node.domain else node.op_type] += 1
        for attribute in node.attribute:
            value = attribute_value(attribute)
            if attribute.type == 5 and value is not None:
                pending += value.node


def _described(kind: TypeProto | None) -> str:
    """float32[batch, 3, 224, 224]."""
    inner = None if kind is None else kind.tensor_type
    if inner is None:
        return "sequence" if kind is not None and kind.sequence_type is not None else "unknown"
    element = ELEMENT_TYPES.get(inner.elem_type or 0)
    name = "string" if element == ELEMENT_TYPES[8] else element.name if element is not None else "unknown"
    if inner.shape is None:
        return name
    sizes = (d.dim_param or ("?" if d.dim_value is None else str(d.dim_value)) for d in inner.shape.dim)
    return f"{name}[{', '.join(sizes)}]"
