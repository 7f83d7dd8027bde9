"""A loaded graph for use alone: weights as constants, and everything that follows from them computed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..nn import ModuleDict
from ..tape.modes import no_grad
from ..tensor import Tensor
from .module import Graph, OnnxModule, Operator

__all__ = ["freeze"]

RANDOM = {
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
    "Dropout",
}


def freeze(model: OnnxModule) -> OnnxModule:
    """The same module without parameters; nodes that read constants alone are gone."""
    for name, (home, leaf) in model.held.items():
        model.constants[name] = np.asarray(getattr(home, leaf).detach().array)
        del (home._parameters if leaf in home._parameters else home._buffers)[leaf]
    model.held = {}
    _fold(model)
    return model.eval()


def _fold(graph: Graph) -> None:
    left: list[tuple[str, Operator]] = []
    with no_grad():
        for title, node in graph.nodes.items():
            if not _computed(graph, node):
                left.append((title, node))
    graph.nodes, graph.order = ModuleDict(dict(left)), [node for _, node in left]
    read = {name for node in graph.order for name in node.inputs} | set(graph.output_names)
    inside = any(node.bodies for node in graph.order)
    graph.constants = {name: value for name, value in graph.constants.items() if inside or name in read}


def _computed(graph: Graph, node: Operator) -> bool:
    """Whether a node was computed: all that it reads is constant, and nothing is drawn or nested in it."""
    if node.bodies or node.op_type in RANDOM or not all(not n or n in graph.constants for n in node.inputs):
        return False
    found: Sequence[Any] = node(*(graph.constants[n] if n else None for n in node.inputs))
    arrays = [x.array if isinstance(x, Tensor) else x for x in found]
    if not all(isinstance(a, np.ndarray) for a in arrays):
        return False
    graph.constants.update((n, a) for n, a in zip(node.outputs, arrays, strict=False) if n)
    return True
