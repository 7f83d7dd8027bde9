"""A traced function as a program: the graph, what comes back, what is left behind, and when it holds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..tensor import Tensor
from ..utils.pytree import LEAF, TreeSpec, tree_flatten
from .graph.graph import Graph
from .outside import Backward
from .tracing.breaks import First
from .tracing.effects import Guard
from .tracing.ledger import Ledger
from .tracing.places import Kept, Place, is_same
from .tracing.state import Carried
from .tracing.streams import Stream

__all__ = ["ARGUMENT", "COPY", "NUMBER", "OBJECT", "OUTPUT", "TREE", "Program", "Result"]

OUTPUT, COPY, ARGUMENT, OBJECT, NUMBER, TREE = "output", "copy", "argument", "object", "number", "tree"
# (OUTPUT, number), (COPY, number), (ARGUMENT, position), (OBJECT, the object itself), (NUMBER, its entry in the ledger) or
# (TREE, (containers, results))
Result = tuple[str, Any]


@dataclass
class Program:
    """One traced function, and the surroundings in which it holds."""

    graph: Graph
    results: list[Result]
    spec: TreeSpec
    stores: list[tuple[dict[Any, Any] | int, Any, Result]]  # (table or argument whose attributes it is, key, content)
    written: list[tuple[int, int]]  # (position, number): arguments that an output is copied to
    count: int  # how many outputs are for others than the backward pass
    backward: Backward | None
    saved: list[int]  # outputs that the backward pass needs
    reads: list[tuple[dict[Any, Any], Any, Any]]  # (table, key, content): what Python looked at
    contents: list[tuple[dict[Any, Any], list[Any]]]  # dictionaries that must hold the same objects
    looked_at: list[tuple[int, Any]]  # (position, gradient): arguments whose gradient was looked at
    captured: list[tuple[Tensor, np.ndarray]]
    changed: list[Tensor]  # captured tensors whose memory the program writes to
    guards: list[Guard]
    settled: list[Tensor] = field(default_factory=list)  # captured tensors whose values are taken for given
    watched: list[tuple[Tensor, np.ndarray, bool]] = field(
        default_factory=list
    )  # the captured; do they take gradients?
    ledger: Ledger | None = None  # numbers that Python computes at each call
    first: First | None = None  # what runs before Python's decisions
    effects: list[tuple[Callable, list[Result], TreeSpec]] = field(default_factory=list)  # calls with their arguments
    asked: list[int] = field(default_factory=list)  # entries of what the first part gives
    items: list[tuple[int, int]] = field(default_factory=list)  # (entry, output): numbers that the plan gives
    places: list[tuple[Place, Any]] = field(default_factory=list)  # what must lie in cells, lists and slots
    forms: list[tuple[Any, int]] = field(default_factory=list)  # (container, its length)
    wholes: list[Kept] = field(default_factory=list)  # containers that are compared as a whole
    keeps: bool = False  # whether there are such containers, or numbers
    streams: list[Stream] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)  # objects whose identity the signature relies on

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        """Whether everything outside is just as it was."""
        if self.keeps and not self.numbers_hold():
            return False
        for place, content in self.places:
            if place.get() is not content:
                return False
        for table, key, content in self.reads:
            if table.get(key) is not content:
                return False
        for table, content in self.contents:
            if len(table) != len(content) or not all(map(operator.is_, table.values(), content)):
                return False
        for guard in self.guards:
            if guard.quick() != guard.last and not guard.holds():
                return False
        for position, grad in self.looked_at:
            if tensors[position]._grad is not grad:
                return False
        for x, array, needs in self.watched:
            if x.array is not array or x._needs_grad is not needs:
                return False
        return True

    def numbers_hold(self) -> bool:
        """Whether Python would decide as before by the numbers of this call, and containers have the same entries."""
        for container, length in self.forms:
            if len(container) != length:
                return False
        for kept in self.wholes:
            if not kept.has_same_form():
                return False
        return self.ledger is None or self.ledger.holds()

    def follows(self, tensors: Sequence[Tensor]) -> bool:
        """Let the graph use what is there now, if it is like what was traced."""
        if not self.numbers_hold() or not all(guard.holds() for guard in self.guards):
            return False
        places = [(place, place.get()) for place, _ in self.places]
        reads = [(table, key, table.get(key)) for table, key, _ in self.reads]
        looked_at = [(position, tensors[position]._grad) for position, _ in self.looked_at]
        contents = [(table, list(table.values())) for table, _ in self.contents]
        instead: dict[int, Any] = {}
        pairs = [
            (old[-1], now[-1])
            for old, now in zip(
                [*self.reads, *self.looked_at, *self.places], [*reads, *looked_at, *places], strict=True
            )
        ]
        for (_, before), (_, now) in zip(self.contents, contents, strict=True):
            if len(before) != len(now):
                return False
            pairs += zip(before, now, strict=True)
        pinned = self._pinned()
        for before, now in pairs:
            for one, other in _pairs(before, now):
                if not _alike(one, other) or (one is not other and id(one) in pinned):
                    return False
                instead[id(one)] = other
        captured = [(x, instead.get(id(x), x), array) for x, array in self.captured]
        if not all(same_form(now.array, array) for _, now, array in captured):
            return False
        if [now._needs_grad for _, now, _ in captured] != [needs for *_, needs in self.watched] or not self._move(
            captured
        ):
            return False
        self.reads, self.looked_at, self.contents, self.places = reads, looked_at, contents, places
        self.changed = [instead.get(id(x), x) for x in self.changed]
        return True

    def _pinned(self) -> set[int]:
        """Tensors (their identities) that are more to the program than memory: it hands them out, sets their attributes,
        gives them gradients or takes their values for given."""
        handed = {id(what) for kind, what in (*self.results, *(r for _, _, r in self.stores)) if kind is OBJECT}
        tables = {id(table) for table, _, _ in self.stores}
        settled = {id(x) for x in self.settled}
        return handed | settled | {id(x) for x, _ in self.captured if x._needs_grad or id(x.__dict__) in tables}

    def _move(self, captured: Sequence[tuple[Tensor, Tensor, np.ndarray]]) -> bool:
        """Use other tensors in the place of captured ones; False: one of them shares memory with others."""
        states = {id(state.tensor): state for state in self.graph.states}
        moved = [(old, now) for old, now, array in captured if now.array is not array]
        if any(id(old) not in states for old, _ in moved):
            return False
        for old, now in moved:
            states[id(old)].tensor = states[id(old)].value.node.op.tensor = now
        self.captured = [(now, now.array) for _, now, _ in captured]
        self.watch()
        return True

    def decisions(self) -> list[str]:
        """The lines at which Python decides by values of the graph."""
        return [] if self.ledger is None else list(dict.fromkeys(self.ledger.lines.values()))

    def notes(self, carried: Carried) -> list[str]:
        """What Python does at each call beside the plan, in words."""
        cuts = [
            f"Python decides by values at {line}: what they need runs first, then the rest" for line in self.decisions()
        ]
        names = sorted({place.name for place in carried.places.values()})
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        return cuts + ([f"numbers read, and stored, at every call: {shown}"] if names else [])

    def note_variations(self, carried: Carried) -> None:
        """Numbers that have changed since the trace."""
        for table, key, content in self.reads:
            carried.note_variation(table, key, content, table.get(key))
        for place, content in self.places:
            carried.note_variation(place.holder, place.key, content, place.get())

    def watch(self) -> None:
        """Hold to what captured tensors are now."""
        self.watched = [(x, array, x._needs_grad) for x, array in self.captured]


def same_form(a: np.ndarray, b: np.ndarray) -> bool:
    return a is b or (a.shape == b.shape and a.dtype == b.dtype and a.strides == b.strides)


def _alike(before: Any, now: Any) -> bool:
    """Whether a trace that met one would have been the same with the other."""
    if before is now:
        return True
    if isinstance(before, Tensor) and isinstance(now, Tensor):
        return same_form(before.array, now.array) and before._needs_grad == now._needs_grad
    return is_same(before, now)


def _pairs(before: Any, now: Any) -> Sequence[tuple[Any, Any]]:
    """What is to be compared one by one: the leaves of like containers."""
    if before is now or type(before) is not type(now) or not isinstance(before, (tuple, list, dict)):
        return [(before, now)]
    first, second = tree_flatten(before), tree_flatten(now)
    return list(zip(first[0], second[0], strict=True)) if first[1] == second[1] != LEAF else [(before, now)]
