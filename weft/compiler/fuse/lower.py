"""Groups put in order, and each made a step of the plan: a kernel with its operands, or a call of Python."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..graph import bodies
from ..graph.graph import Graph, Value
from .group import Group, in_order
from .groups import Fuser
from .loops import HostCall, Launch, Lowering

__all__ = ["lower"]


def lower(
    graph: Graph, fuser: Fuser, places: Any, build: Callable[[Graph], Any]
) -> tuple[Lowering, dict[Group, set[Group]], list[Launch | HostCall]]:
    """What makes kernels, which groups come before each, and the steps. `build` makes plans of bodies inside."""
    lowering = Lowering(fuser, _stored(graph, fuser), places.homes, functools.partial(bodies.lowered, build=build))
    before = fuser.makers()
    for first, second in places.order:
        before[second].add(first)
    steps: list[Launch | HostCall] = []
    empty: set[Group] = set()  # groups of which nothing is left to do: who waits for them waits for what they wait for
    for group in in_order(fuser.filled, before):
        before[group] = {h for g in before[group] for h in (before[g] if g in empty else (g,))}
        step = lowering(group)
        steps += [] if step is None else [step]
        empty |= {group} if step is None else set()
    return lowering, before, steps


def _stored(graph: Graph, fuser: Fuser) -> set[Value]:
    """Values that must be in memory: read by another group, or results."""
    stored = set(graph.results)
    for group in fuser.groups:
        for node in group.nodes:
            for v in node.inputs:
                root = fuser.geometry(v).root
                if fuser.home.get(root.node) is not group:
                    stored.add(root)
    return stored
