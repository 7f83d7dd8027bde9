"""What a trace does to objects that were there before: noted as it happens, undone at the end.

What must happen at every call (a gradient left in `.grad`, a state assigned to a module) is then done by the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["MISSING", "Guard", "Journal"]

MISSING: Any = object()


class Guard:
    """Something that Python decided by: the trace holds while `look()` gives the same.

    `quick`, where it is given, is cheaper: while it does not change, nothing has.
    """

    def __init__(self, look: Callable[[], Any], quick: Callable[[], Any] | None = None) -> None:
        self.look, self.quick = look, quick or look
        self.found, self.last = look(), self.quick()

    def holds(self) -> bool:
        last = self.quick()
        if last == self.last:
            return True
        if self.look() != self.found:
            return False
        self.last = last
        return True


class Journal:
    """The first known content of every place that a trace has looked at or changed."""

    def __init__(self) -> None:
        self.reads: dict[tuple[int, Any], tuple[dict[Any, Any], Any, Any]] = {}
        self.places: dict[tuple[int, str], tuple[dict[str, Any], str, Any]] = {}  # attributes of tensors
        self.tables: dict[int, tuple[dict[Any, Any], dict[Any, Any]]] = {}  # whole dictionaries and their copies
        self.counts: dict[int, tuple[list[int], int]] = {}
        self.contents: dict[int, dict[Any, Any]] = {}  # dictionaries that were looked at as a whole
        self.guards: list[Guard] = []
        self.settled: dict[int, Any] = {}  # tensors whose values the trace took for given, by identity
        self.undo: list[Callable[[], None]] = []  # run if the trace fails

    def note_read(self, table: dict[Any, Any], key: Any) -> None:
        """table[key] is looked at: Python may decide by it."""
        place = id(table), key
        if place in self.reads or place in self.places:
            return
        found = table.get(key)
        if id(table) in self.tables and self.tables[id(table)][1].get(key) is not found:
            return  # it was assigned during the trace
        if isinstance(found, dict):
            self.contents[id(found)] = found
        self.reads[place] = table, key, found

    def note(self, held: dict[str, Any], key: str) -> None:
        """held[key] is about to change."""
        self.places.setdefault((id(held), key), (held, key, held.get(key, MISSING)))

    def note_table(self, table: dict[Any, Any]) -> None:
        """Anything in a dictionary is about to change."""
        self.tables.setdefault(id(table), (table, dict(table)))

    def note_count(self, counter: list[int]) -> None:
        self.counts.setdefault(id(counter), (counter, counter[0]))

    def changes(self) -> Iterator[tuple[dict[Any, Any], Any, Any, Any]]:
        """(table, key, content before, content now) of every place that may have changed."""
        for held, key, before in self.places.values():
            yield held, key, before, held.get(key, MISSING)
        for table, before in self.tables.values():
            for key in {**before, **table}:
                was, now = before.get(key, MISSING), table.get(key, MISSING)
                if was is not now and (id(table), key) not in self.places:
                    yield table, key, was, now

    def restore(self, wanted: Callable[[Any, Any], bool]) -> None:
        """Put back what was there wherever `wanted(key, content now)` says so."""
        for table, key, before, now in list(self.changes()):
            if before is not now and wanted(key, now):
                put(table, key, before)
        for counter, count in self.counts.values():
            counter[0] = count

    def fail(self) -> None:
        """Everything as it was before the trace."""
        self.restore(lambda key, now: True)
        for action in reversed(self.undo):
            action()


def put(table: dict[Any, Any], key: Any, content: Any) -> None:
    if content is MISSING:
        table.pop(key, None)
    else:
        table[key] = content
