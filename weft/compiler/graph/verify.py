"""Checks of the form after every pass: an error here is an error of the compiler, found before it computes nonsense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import WeftError
from ...ops.core.primitive import View
from .graph import Graph, Node, Source

__all__ = ["FormError", "check_graph", "check_groups", "check_slots"]


class FormError(WeftError, AssertionError):
    """A pass left something that the next one cannot take: an error of Weft, please report it."""


def _wrong(name: str, message: str) -> FormError:
    return FormError(f"compiler pass '{name}': {message}; please report this with the function that was compiled")


def check_graph(graph: Graph, name: str) -> None:
    """Every input is made before it is read, by the node that says so; results are made at all."""
    made = set()
    for node in graph.nodes:
        if not made.issuperset(node.inputs):
            missing = next(v for v in node.inputs if v not in made)
            raise _wrong(name, f"{node!r} reads {missing!r} before it is made")
        if not node.outputs:
            raise _wrong(name, f"{node.op.name} has no outputs")
        for index, v in enumerate(node.outputs):
            if v.node is not node or v.index != index:
                raise _wrong(name, f"{v!r} does not know its node")
        made.update(node.outputs)
    for v in graph.results:
        if v not in made:
            raise _wrong(name, f"the result {v!r} is not made")
    for state in graph.states:
        if state.final is not None:
            if not (state.final.shape == state.value.shape and state.final.dtype == state.value.dtype):
                raise _wrong(name, f"{state.final!r} does not fit the state {state.value!r}")


def check_groups(fuser: Any, groups: Sequence[Any]) -> None:
    """Every node is in one group, spaces fit the values, and groups do not wait for themselves."""
    seen: set[Node] = set()
    for group in groups:
        if group.before >> group.number & 1:
            raise _wrong("fuse", f"group {group.number} waits for itself")
        for node in group.nodes:
            if node in seen:
                raise _wrong("fuse", f"{node!r} is in two groups")
            seen.add(node)
        for value, mask in group.masks.items():
            count = 1
            for size, varies in zip(group.space, mask, strict=True):
                count *= size if varies else 1
            if not (count == value.size):
                raise _wrong("fuse", f"{value!r} does not fill its part of the space {group.space}")
    for node in fuser.graph.nodes:
        if not isinstance(node.op, (Source, View)):
            if not (node in seen or node in fuser.repeated):
                raise _wrong("fuse", f"{node!r} is in no group")


def check_slots(slots: Sequence[Any], before: dict[Any, set[Any]]) -> None:
    """Every step comes after those it needs, in a later phase unless one thread runs both."""
    phase = {}
    running = {slot.step.group for slot in slots}
    for slot in slots:
        for group in before.get(slot.step.group, set()) & running:
            if group not in phase:
                raise _wrong("schedule", f"group {slot.step.group.number} runs before group {group.number}")
            earlier, alone = phase[group]
            together = alone is not None and alone == slot.alone
            if not (earlier < slot.phase or together):
                raise _wrong("schedule", "two steps of one phase depend on each other")
        phase[slot.step.group] = (slot.phase, slot.alone)
