"""The computation graph in Graphviz's language, for `dot -Tpdf` and the tools that read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .picture import COLOURS

__all__ = ["graphviz"]

SHAPES = {"leaf": "ellipse", "constant": "ellipse", "operation": "box"}


def graphviz(boxes: Sequence[Any]) -> str:
    """The drawing as a string: a node for each box, an edge for each tensor with its sizes, value and gradient.

    Results have no edge that leaves them, so theirs stand in the node.
    """
    names = {id(box): f"n{number}" for number, box in enumerate(boxes)}
    lines = ["digraph weft {", "  rankdir=TB;", '  node [fontname="sans-serif", fontsize=12, style=filled];']
    lines.append('  edge [fontname="sans-serif", fontsize=10];')
    lines += [_node(names[id(box)], box) for box in boxes]
    for box in boxes:
        arriving = dict.fromkeys((names[id(source)], _flow(source, number)) for source, number in box.inputs)
        lines += [f"  {source} -> {names[id(box)]} [label={_quoted(flow)}];" for source, flow in arriving]
    return "\n".join([*lines, "}"]) + "\n"


def _node(name: str, box: Any) -> str:
    fill, line = COLOURS["result" if box.is_result else box.kind]
    label = [box.label, *(_flow(box, number) for number in box.flows if box.is_result)]
    return (
        f"  {name} [label={_quoted(chr(10).join(filter(None, label)))}, shape={SHAPES[box.kind]}, "
        f'fillcolor="{fill}", color="{line}"];'
    )


def _flow(box: Any, number: int) -> str:
    """The sizes, value and gradient of one output, a line each."""
    flow = box.flows.get(number)
    if flow is None:
        return ""
    sizes = (f"{number}: " if len(box.flows) > 1 else "") + flow.shape
    lines = (sizes, f"= {flow.value}" if flow.value else "", f"δ = {flow.grad}" if flow.grad else "")
    return "\n".join(filter(None, lines))


def _quoted(text: str) -> str:
    """A string of Graphviz: quotes and backslashes mean themselves, lines are kept."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
