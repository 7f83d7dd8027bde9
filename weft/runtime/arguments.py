"""Docstrings of classes that share arguments: what a base class says of one is said once, and shown everywhere.

An argument is explained by a line `name: …` or `one, other: …` of the docstring, its further lines indented.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["explain_arguments"]

ENTRY = re.compile(r"(\w+(?:, \w+)*): \S")
Entry = tuple[list[str], list[str]]  # the names, the lines


def explain_arguments(classes: Iterable[type], common: Mapping[str, str] | None = None) -> None:
    """Add to each docstring what only base classes, or `common`, say of its arguments, in the constructor's order."""
    told = "\n".join(f"{names}: {text}" for names, text in (common or {}).items())
    written: dict[type, str] = {}  # as in the source: a base class is read before it gets more itself
    for cls in classes:
        arguments = arguments_of(cls)
        own = written.setdefault(cls, cls.__dict__.get("__doc__") or "")
        missing = [name for name in arguments if not explains(own, name)]
        above = [written.get(base) or base.__dict__.get("__doc__") or "" for base in cls.__mro__[1:-1]]
        added = _first_told(missing, [*above, told])
        if added:
            cls.__doc__ = _with(own, added, arguments)


def arguments_of(cls: type) -> list[str]:
    """The named arguments of its constructor."""
    made = cls.__init__
    while hasattr(made, "__wrapped__"):
        made = made.__wrapped__
    code = getattr(made, "__code__", None)
    if code is None:  # Python's own
        return []
    return list(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])


def explains(docstring: str, name: str) -> bool:
    """Whether a docstring has an entry for an argument, or mentions it in backquotes."""
    return name in _entries(docstring) or f"`{name}`" in docstring


@functools.cache
def _entries(docstring: str) -> dict[str, Entry]:
    """The entry of every name that has one; lines that are indented further belong to the one above."""
    found: dict[str, Entry] = {}
    open_entry, depth = None, 0
    for line in docstring.splitlines():
        text = line.lstrip()
        if open_entry is not None and text and len(line) - len(text) > depth:
            open_entry[1].append("  " + text)
            continue
        match = ENTRY.match(text) if ": " in text else None
        open_entry, depth = (match[1].split(", "), [text]) if match else None, len(line) - len(text)
        if open_entry is not None:
            found |= dict.fromkeys(open_entry[0], open_entry)
    return found


def _first_told(missing: Sequence[str], docstrings: Iterable[str]) -> dict[str, list[str]]:
    """The lines on each missing name from the first docstring that has some, without other names, by the first name."""
    found: dict[str, list[str]] = {}
    told: set[str] = set()
    for docstring in docstrings:
        entries = _entries(docstring)
        for name in missing:
            if name in entries and name not in told:
                names, lines = entries[name]
                wanted = [other for other in names if other in missing and other not in told]
                found[wanted[0]] = [", ".join(wanted) + lines[0][len(", ".join(names)) :], *lines[1:]]
                told.update(wanted)
    return found


def _with(docstring: str, added: dict[str, list[str]], arguments: Sequence[str]) -> str:
    """The docstring with further entries, all of them in order before its example."""
    entries = {names[0]: lines for name, (names, lines) in _entries(docstring).items() if name in arguments}
    own = {line.strip() for lines in entries.values() for line in lines}
    rest = [line for line in docstring.rstrip().splitlines() if line.strip() not in own]
    example = next((k for k, line in enumerate(rest) if line.lstrip().startswith(">>>")), len(rest))
    ordered = sorted((entries | added).items(), key=lambda entry: arguments.index(entry[0]))
    parts = ["\n".join(rest[:example]).rstrip(), "\n".join("    " + line for _, lines in ordered for line in lines)]
    return "\n\n".join([*parts, *(["\n".join(rest[example:])] if rest[example:] else [])]) + "\n    "
