"""Python numbers that change from call to call: counters, schedules, what `.item()` gave.

In a trace each is a `Number`: it computes as the number would, and remembers how. What was computed is done again at
every call, in Python's own arithmetic. Where Python decides by it (`if step > 5`, `range(n)`, `f"{loss}"`), the plan
holds as long as the decision stays the same. A number becomes a plain one in no other way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import ConditionError
from ...tensor import Tensor
from .arrays import user_line
from .counted import TENSOR_FORMS, Number
from .places import Place, is_same

__all__ = ["Ledger"]

UNKNOWN: Any = object()  # the value of something that only a run can tell


class Changed(Exception):
    """A place no longer holds a number of the kind that was traced."""


class Entry:
    """A step of the computation: `function` of the values of `operands`. `late`: it needs results of the graph."""

    __slots__ = ("function", "kind", "late", "operands", "tensor")

    def __init__(self, function: Callable, operands: tuple[int, ...], kind: type, late: bool) -> None:
        self.function, self.operands, self.kind, self.late = function, operands, kind, late
        self.tensor: Tensor | None = None


class Ledger:
    """All numbers of one trace, in the order in which they were made."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.entries: list[Entry] = []
        self.values: list[Any] = []  # during the trace: what is known; later: those of the present call
        self.decisions: dict[int, Any] = {}  # entry: the value that Python decided by
        self.items: dict[int, Any] = {}  # entry: the graph's value that it is
        self.lines: dict[int, str] = {}  # decisions that need results of the graph: where
        self.wanted: set[int] = set()  # entries that the graph, or somebody after the call, needs
        self.open = True

    # ------------------------------------------------------------------------------ making numbers
    def at_place(self, place: Place) -> Number:
        """The number that lies at a place at every call."""
        kind = type(place.get())

        def fetch() -> Any:
            found = place.get()
            if type(found) is not kind:
                raise Changed(place.name)
            return found

        return self._add(Entry(fetch, (), kind, False), place.get())

    def fetched(self, fetch: Callable[[], Any]) -> Number:
        """A number that a function gives at every call."""
        return self._add(Entry(fetch, (), type(fetch()), False), fetch())

    def item(self, x: Tensor, value: Any, kind: type) -> Number:
        """The one element of a tensor."""
        number = self._add(Entry(_no_function, (), kind, True), UNKNOWN)
        self.items[number._index] = value
        self.entries[number._index].tensor = self.tracer.number_of(x)
        return number

    def array(self, value: Any) -> np.ndarray:
        """All elements of a tensor, by which Python decides."""
        number = self._add(Entry(_no_function, (), np.ndarray, True), self.tracer.probe(value).copy())
        self.items[number._index] = value
        found = self.decide(number)
        found.flags.writeable = False
        return found

    def apply(self, function: Callable, arguments: Sequence[Any]) -> Any:
        """function(*arguments), some of which are numbers."""
        operands = tuple(self._index_of(x) for x in arguments)
        known = [self.values[k] for k in operands]
        late = any(self.entries[k].late for k in operands)
        if any(v is UNKNOWN for v in known):
            return self._add(Entry(function, operands, self._kind(function, operands), late), UNKNOWN)
        value = function(*known)
        if not isinstance(value, (int, float, complex, np.generic)):
            return self.decide(self._add(Entry(function, operands, type(value), late), value))
        return self._add(Entry(function, operands, type(value), late), value)

    def _kind(self, function: Callable, operands: Sequence[int]) -> type:
        whole = all(issubclass(self.entries[k].kind, int) for k in operands)
        return int if whole and function in _WHOLE else float

    def _index_of(self, x: Any) -> int:
        if type(x) is Number:
            return x._index
        return self._add(Entry(_no_function, (), type(x), False), x)._index

    def _add(self, entry: Entry, value: Any) -> Number:
        self.entries.append(entry)
        self.values.append(value)
        return Number(self, len(self.entries) - 1)

    # ------------------------------------------------------------------------------ using numbers
    def decide(self, number: Number) -> Any:
        """The plain value: the plan holds while it is the same."""
        index = number._index
        value = self._present(index)
        self.decisions[index] = value
        if self.entries[index].late:
            self.lines[index] = user_line()
        return value

    def _present(self, index: int) -> Any:
        if self.values[index] is UNKNOWN:
            entry = self.entries[index]
            if index in self.items:
                self.values[index] = self.tracer.probe(self.items[index]).item()
            else:
                self.values[index] = entry.function(*[self._present(k) for k in entry.operands])
        return self.values[index]

    def tensor(self, number: Number) -> Tensor:
        """The number as an operand of the graph: a 0-d tensor that counts as a Python number."""
        index = number._index
        entry = self.entries[index]
        if entry.tensor is None:
            entry.tensor = self._computed(entry) if entry.late else self._given(index, entry)
        return entry.tensor

    def _given(self, index: int, entry: Entry) -> Tensor:
        self.wanted.add(index)
        return self.tracer.live(lambda: self.values[index], int if issubclass(entry.kind, int) else float)

    def _computed(self, entry: Entry) -> Tensor:
        """In the graph: it depends on results that are there only when the plan runs."""
        function = TENSOR_FORMS.get(entry.function)
        if function is None:
            return self._given(*self._decided(entry))
        operands = [self.tensor(Number(self, k)) for k in entry.operands]
        if entry.kind is not int:
            operands = [self.tracer.as_number(x) for x in operands]
        return self.tracer.marked(function(*operands))

    def _decided(self, entry: Entry) -> tuple[int, Entry]:
        index = next(k for k, e in enumerate(self.entries) if e is entry)
        self.decide(Number(self, index))
        return index, entry

    # ------------------------------------------------------------------------------ at every call
    def close(self) -> None:
        """The trace is over: keep what is needed at calls."""
        needed, pending = set(), [*self.decisions, *self.wanted]
        while pending:
            k = pending.pop()
            if k not in needed:
                needed.add(k)
                pending.extend(self.entries[k].operands)
        computed = [k for k in sorted(needed) if self.entries[k].function is not _no_function]
        steps = lambda keys: [(k, self.entries[k].function, self.entries[k].operands) for k in keys]
        self.before = steps(k for k in computed if not self.entries[k].late)
        self.after = steps(k for k in computed if self.entries[k].late)
        self.early = [(k, v) for k, v in self.decisions.items() if not self.entries[k].late]
        self.late = [(k, v) for k, v in self.decisions.items() if self.entries[k].late]
        self.items = {k: v for k, v in self.items.items() if k in needed}
        self.open, self.tracer = False, None

    def holds(self) -> bool:
        """Compute the numbers of this call; whether Python would decide as before."""
        values = self.values
        try:
            for k, function, operands in self.before:
                values[k] = function(*[values[o] for o in operands])
        except Exception:  # another branch may well divide by zero here
            return False
        return all(is_same(v, values[k]) for k, v in self.early)

    def continues(self, items: dict[int, Any]) -> bool:
        """The same for numbers that need results of the graph."""
        values = self.values
        for k, found in items.items():
            values[k] = found
        try:
            for k, function, operands in self.after:
                if all(values[o] is not UNKNOWN for o in operands):
                    values[k] = function(*[values[o] for o in operands])
        except Exception:
            return False
        return all(is_same(v, values[k]) for k, v in self.late)

    def forget(self) -> None:
        """Values of the last call that come from the graph."""
        for k in self.items:
            self.values[k] = UNKNOWN
        for k, _, _ in self.after:
            self.values[k] = UNKNOWN


def _no_function(*_: Any) -> Any:
    raise ConditionError("not computed")


_WHOLE = frozenset({
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg, operator.pos,
    operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor, operator.invert, abs, pow, operator.pow,
})  # fmt: skip
