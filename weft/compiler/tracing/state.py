"""What a trace makes of changed Python state: carried from call to call, stored by the plan, or not settled yet.

A number that a step changes (a counter) is carried: the trace starts anew with a `Number` in its place. Tensors and
containers of tensors that are assigned are stored at every call. Where a container gets new entries (an optimiser makes
its state), or a place its first content, this call runs as Python and the next one is traced.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...errors import TraceError
from ...tape.holders import StateHolder
from ...tensor import Tensor
from ...utils.pytree import tree_leaves
from .counted import Number
from .effects import MISSING
from .ledger import Ledger
from .places import Place, is_same
from .surroundings import Surroundings

__all__ = ["TRANSITIONS", "Carried", "HostRandomness", "Unsettled", "Varies", "classified"]

TRANSITIONS = 3  # calls in a row that may change the form of what is kept


class Varies(BaseException):
    """Numbers that the function changes: the trace starts anew with them carried."""

    def __init__(self, places: list[Place]) -> None:
        self.places = places


class Unsettled(Exception):
    """The function makes something that later calls find: this call is not like them."""


class Carried:
    """The places whose numbers are read, and perhaps written, at every call."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, Any], Place] = {}
        self.varied: dict[tuple[int, Any], int] = {}  # how often a number had changed between calls
        self.transitions = 0
        self.put: dict[tuple[int, Any], Any] = {}  # what the trace found at the places

    def add(self, places: list[Place]) -> None:
        self.places |= {place.identity: place for place in places}

    def tables(self) -> Iterator[tuple[Any, Any]]:
        for place in self.places.values():
            yield place.holder, place.key

    def put_numbers(self, ledger: Ledger, around: Surroundings) -> None:
        """Numbers of the ledger in the places of the plain ones."""
        for x in around.seen.values():
            if isinstance(x, StateHolder) and x._has_own_step():
                self._add_options(x)
        self.put = {}
        for place in self.places.values():
            content = place.get()
            if type(content) in (int, float):
                number = ledger.at_place(place)
            elif _is_numbers(content):
                number = tuple(ledger.fetched(lambda k=k, place=place: place.get()[k]) for k in range(len(content)))
            else:
                continue
            _note(around, place, content)
            self.put[place.identity] = number
            place.put(number)

    def _add_options(self, optimizer: StateHolder) -> None:
        """Learning rates and other floats of parameter groups, which schedules change."""
        for number, group in enumerate(optimizer.__dict__["param_groups"]):
            for key, content in group.items():
                if type(content) is float or _is_numbers(content):
                    self.add([Place(group, key, f"param_groups[{number}][{key!r}]")])

    def note_variation(self, table: Any, key: Any, before: Any, now: Any) -> None:
        """A number was found changed between two calls: from the second time on it is carried."""
        if type(before) is type(now) and type(now) in (int, float) and before != now:
            place = Place(table, key, str(key))
            self.varied[place.identity] = self.varied.get(place.identity, 0) + 1
            if self.varied[place.identity] > 1:
                self.add([place])


def _note(around: Surroundings, place: Place, content: Any) -> None:
    around.places.setdefault(place.identity, (place, content))


def _is_numbers(content: Any) -> bool:
    return type(content) is tuple and bool(content) and all(type(c) is float for c in content)


def classified(around: Surroundings, carried: Carried) -> Iterator[tuple[Place, Any]]:
    """(place, content) of what must be stored at every call; raises if the trace cannot be used as it is."""
    disturbed = around.disturbed()
    if disturbed is not None:
        x, name = disturbed
        raise TraceError(
            f"compile: {name}, a {type(x).__name__}, keeps count in Python, which a plan would do only once; call it outside "
            "of the compiled function (scheduler.step() belongs there)"
        )
    varying, new, found = [], None, []
    for place, before, now in around.changes():
        if place.identity in carried.places:
            if now is not carried.put.get(place.identity):
                found.append((place, now))
        elif is_same(before, now):
            continue
        elif type(before) in (int, float) and (type(now) is Number or type(now) in (int, float)):
            varying.append(place)
        else:
            if _form(before) != _form(now):
                new = place.name
            found.append((place, now))
    if varying:
        raise Varies(varying)
    kept = around.reformed()
    name = new if kept is None else kept.name
    if kept is not None or (new is not None and carried.transitions < TRANSITIONS):
        raise Unsettled(name)
    yield from found


def _form(x: Any) -> Any:
    """What later calls can tell apart at a glance: nothing, a tensor, some other kind of object."""
    if isinstance(x, Tensor):
        return Tensor
    if isinstance(x, (tuple, list, dict)):
        return type(x), tuple(_form(leaf) for leaf in tree_leaves(x))
    return MISSING if x is MISSING else type(x)


class HostRandomness:
    """Random numbers of Python and NumPy, which a plan would freeze."""

    def __init__(self, around: Surroundings) -> None:
        own = [
            x
            for x in around.seen.values()
            if isinstance(x, (random.Random, np.random.RandomState, np.random.Generator))
        ]
        self.states: list[tuple[str, Callable[[], Any], Callable[[Any], None]]] = [
            ("Python's random", random.getstate, random.setstate),
            _state_of(np.random.mtrand._rand, "numpy.random"),
        ]
        for x in own:
            self.states.append(_state_of(x))
        self.before = [get() for _, get, _ in self.states]

    def check(self) -> None:
        for (name, get, _), before in zip(self.states, self.before, strict=True):
            if not _same_state(get(), before):
                raise TraceError(
                    f"compile: the function draws from {name}, whose numbers would be the same at every call; draw with "
                    "weft.rand(...), draw outside and pass the number as an argument, or pass fallback='eager' to "
                    "weft.compile"
                )

    def restore(self) -> None:
        for (_, get, put), before in zip(self.states, self.before, strict=True):
            if not _same_state(get(), before):
                put(before)


def _state_of(x: Any, name: str = "a numpy RandomState") -> tuple[str, Callable[[], Any], Callable[[Any], None]]:
    if isinstance(x, random.Random):
        return "a random.Random", x.getstate, x.setstate
    if isinstance(x, np.random.RandomState):
        return name, lambda: x.get_state(legacy=True), x.set_state
    bits = x.bit_generator
    return "a numpy Generator", lambda: bits.state, lambda state: setattr(bits, "state", state)


def _same_state(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same_state(a[k], b[k]) for k in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_same_state, a, b))
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else a == b
