"""Places in Python's memory, and containers as they were: what a trace compares and puts back."""

from __future__ import annotations

import types
from collections import deque
from typing import Any

import numpy as np

from .effects import MISSING

__all__ = ["PLAIN", "Kept", "Place", "is_same"]

PLAIN = (bool, int, float, complex, str, bytes, type(None))
_LARGE = 4096  # containers with more entries are compared as a whole, not entry by entry


class Place:
    """Somewhere in Python's memory: `table[key]` of a dictionary or list, a cell, an attribute in a slot or class."""

    def __init__(self, holder: Any, key: Any, name: str) -> None:
        self.holder, self.key, self.name = holder, key, name

    @property
    def identity(self) -> tuple[int, Any]:
        return id(self.holder), self.key

    def get(self) -> Any:
        holder = self.holder
        try:
            if holder.__class__ is types.CellType:  # the most frequent kind, asked for at every call of a plan
                return holder.cell_contents
            if isinstance(holder, dict):
                return dict.get(holder, self.key, MISSING)
            if isinstance(holder, (list, deque)):
                return holder[self.key] if self.key < len(holder) else MISSING
            return getattr(holder, self.key)
        except (ValueError, AttributeError):
            return MISSING

    def put(self, content: Any) -> None:
        holder = self.holder
        if isinstance(holder, (dict, list, deque)):
            if content is MISSING:
                holder.pop(self.key, None) if isinstance(holder, dict) else None
            else:
                holder[self.key] = content
        elif isinstance(holder, types.CellType):
            if content is MISSING:
                del holder.cell_contents
            else:
                holder.cell_contents = content
        elif content is MISSING:
            delattr(holder, self.key)
        else:
            setattr(holder, self.key, content)


class Kept:
    """The content of a container at some time."""

    def __init__(self, container: Any, name: str, attributes: bool = False) -> None:
        self.container, self.name, self.attributes = container, name, attributes  # attributes: those of an object
        self.content = container.copy()
        large = len(container) > _LARGE and not isinstance(container, (set, bytearray))
        self.whole = large or isinstance(container, (set, bytearray))

    def has_same_form(self) -> bool:
        """Whether it has entries under the same names (for sets: the same entries)."""
        now, before = self.container, self.content
        if len(now) != len(before):
            return False
        if self.whole:
            return _equal(now, before)
        return now.keys() == before.keys() if isinstance(now, dict) else True

    def restore(self) -> None:
        now, before = self.container, self.content
        if isinstance(now, list):
            now[:] = before
        else:
            now.clear()
            now.extend(before) if isinstance(now, (deque, bytearray)) else now.update(before)


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:
        return False


def is_same(before: Any, now: Any) -> bool:
    """The same object, or plain values (and tuples of them) that nothing can tell apart."""
    if before is now:
        return True
    if type(before) is not type(now):
        return False
    if isinstance(before, np.ndarray):
        return before.dtype == now.dtype and before.shape == now.shape and before.tobytes() == now.tobytes()
    if isinstance(before, (tuple, frozenset)):
        return len(before) == len(now) and all(map(is_same, before, now))
    return isinstance(before, PLAIN) and (before == now or (before != before and now != now))
