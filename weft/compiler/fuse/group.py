"""A group of nodes that becomes one kernel, its index space, and groups put in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.geometry import pieces_of
from ..graph.graph import Node, Value
from ..graph.verify import FormError

__all__ = ["Group", "in_order"]


class Group:
    """Nodes that become one kernel; `space` is its index space, `masks` say along which sizes each value varies."""

    def __init__(self, number: int, kind: str, space: Sequence[int] = ()) -> None:
        self.number, self.kind, self.space = number, kind, tuple(space)
        self.nodes: list[Node] = []
        self.masks: dict[Value, tuple[bool, ...]] = {}
        self.rows: tuple[bool, ...] | None = None  # the sizes that row reductions sum over
        self.row_sums: set[Value] = set()  # results of reductions over rows: usable in the group
        self.late: set[Value] = set()  # results that are complete only after the whole sweep
        self.anchor: Any = None
        self.before = 0  # the groups this one depends on, as bits
        self.followers: set[Group] = set()  # those that read what this one makes
        self.inputs: set[Value] = set()

    def __str__(self) -> str:
        return f"  {self.kind} {self.number} {list(self.space)}: {', '.join(n.op.name for n in self.nodes)}"

    def cut(self, factors: tuple[int, ...]) -> None:
        """Cut the space finer."""
        if factors == self.space:
            return
        parts = pieces_of(self.space, factors)

        def spread(mask: tuple[bool, ...]) -> tuple[bool, ...]:
            return tuple(m for m, piece in zip(mask, parts, strict=True) for _ in piece)

        self.masks = {v: spread(m) for v, m in self.masks.items()}
        self.rows = None if self.rows is None else spread(self.rows)
        self.space = factors


def in_order(groups: list[Group], before: dict[Group, set[Group]]) -> list[Group]:
    """Groups in an order in which what each needs comes first, as near to the given one as possible."""
    done: list[Group] = []
    state: dict[Group, int] = {}
    for start in groups:
        pending = [start]
        while pending:
            group = pending[-1]
            if state.get(group) == 2:
                pending.pop()
                continue
            state[group] = 1
            missing = [g for g in before[group] if state.get(g) != 2]
            if any(state.get(g) == 1 for g in missing):
                raise FormError(f"compiler: group {group.number} waits for itself; please report the compiled function")
            if missing:
                pending.extend(sorted(missing, key=lambda g: -g.number))
                continue
            state[group] = 2
            done.append(pending.pop())
    return done
