"""What a program asked for and did not find, with the line that asked first."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from ..runtime.frames import is_ours
from ..runtime.missing import known_gap

__all__ = ["Wanted", "missing", "note", "report"]


@dataclass
class Wanted:
    """A name of PyTorch's that is not there, and the lines (file, number) that asked for it."""

    name: str
    places: list[tuple[str, int]]

    @property
    def reason(self) -> str:
        """Why, and what to use, where Weft knows it."""
        return explanation(self.name)

    def __str__(self) -> str:
        file, line = self.places[0]
        more = f" and {len(self.places) - 1} more" if len(self.places) > 1 else ""
        return f"{self.name}  ({file}:{line}{more})" + (f": {self.reason}" if self.reason else "")


_wanted: dict[str, Wanted] = {}
_remarks: dict[str, str] = {}


def note(name: str) -> None:
    """Remember that `name` was asked for in vain, and by which line of a program."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _between(frame.f_code.co_filename):
        frame = frame.f_back
    place = frame.f_code.co_filename, frame.f_lineno
    places = _wanted.setdefault(name, Wanted(name, [])).places
    if place not in places:
        places.append(place)


def remark(name: str, text: str) -> None:
    """Say at the end, once, that something is there and does less than its name."""
    _remarks[name] = text


def _between(file: str) -> bool:
    """Whether a file is Weft's, or of Python's machinery of imports."""
    return file.startswith("<frozen") or is_ours(file)


def missing() -> list[Wanted]:
    """The names that programs have asked for since `install` and not found, in the order of asking."""
    return list(_wanted.values())


def forget() -> None:
    """Begin a new list."""
    _wanted.clear()
    _remarks.clear()


def report() -> str:
    """What was missing, a line for each name; empty if nothing was."""
    remarks = [f"{name}: {text}" for name, text in _remarks.items()]
    lines = ["asked for and not there:", *(f"  {wanted}" for wanted in missing())] if _wanted else []
    return "\n".join([*remarks, *lines])


def explanation(name: str) -> str:
    """Why Weft lacks what PyTorch calls `torch.jit.freeze` (say), and what to use; or nothing."""
    space, _, last = name.partition(".")
    if space != "torch" or not last:
        return ""
    parts = last.split(".")
    for end in range(len(parts), 0, -1):
        owner, _, tail = ".".join(parts[:end]).rpartition(".")
        gap = known_gap(f"weft.{owner}" if owner else "weft", tail)
        if gap is not None:
            return f"{gap.reason}; instead: {gap.advice}"
    return ""
