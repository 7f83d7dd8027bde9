"""Regular expressions that come from files: those that could match in exponential time are refused.

Time explodes where a repeated group can match one text in many ways: (a+)+, (a|aa)*. A group that is repeated without
limit may hold another such repetition only behind or before a letter that the inner one cannot match, as in
[a-z]+(?:-[a-z]+)*, and only alternatives that begin with different letters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ...io.errors import FileFormatError

__all__ = ["check_pattern", "check_patterns"]

LONGEST = 10_000
MANY = 20  # repetitions from which a counted one is as bad as one without limit
ATOM = re.compile(
    r"\\p\{[^}]*\}|\\P\{[^}]*\}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|.", re.S
)
REPEAT = re.compile(r"(?:[*+?]|\{(\d*)(,?)(\d*)\})([?+]?)")
OPENING = re.compile(r"\((\?(?:[:=!>|]|<[=!]|P?<\w+>|[a-zA-Z-]+:))?")
FLAGS = re.compile(r"\(\?[a-zA-Z-]+\)")


@dataclass
class _Group:
    """What is known of a group that is being read."""

    opening: str = ""
    atoms: list[tuple[str, bool, bool]] = field(default_factory=list)  # text, can be absent, repeated without limit
    starts: list[str] = field(default_factory=list)  # first atoms of the alternatives that are done
    inner: list[str] = field(default_factory=list)  # what is repeated without limit in groups within


def check_pattern(pattern: str, where: str) -> str:
    """The pattern, or a FileFormatError."""
    if len(pattern) > LONGEST:
        raise FileFormatError(f"{where}: a regular expression of {len(pattern)} characters; refused")
    groups, at = [_Group()], 0
    while at < len(pattern):
        if flags := FLAGS.match(pattern, at):
            at = flags.end()
            continue
        char = pattern[at]
        if char == "(":
            opening = OPENING.match(pattern, at)
            groups.append(_Group(opening[0]))
            at = opening.end()
        elif char == ")" and len(groups) > 1:
            at = _close(groups, pattern, at + 1, where)
        elif char == "|":
            groups[-1].starts.append(_first(groups[-1]))
            groups[-1].inner += [text for text, _, many in groups[-1].atoms if many]
            groups[-1].atoms = []
            at += 1
        else:
            atom = ATOM.match(pattern, at)
            absent, many, at = _repetition(pattern, atom.end())
            groups[-1].atoms.append((atom[0], absent, many))
    return pattern


def _repetition(pattern: str, at: int) -> tuple[bool, bool, int]:
    """Whether what stands before can be absent, whether it is repeated without limit (and can give back), and where
    the quantifier ends."""
    found = REPEAT.match(pattern, at)
    if not found:
        return False, False, at
    low, comma, high, suffix = found.groups()
    sign = pattern[at]
    many = sign in "*+" or (
        sign == "{" and (int(high or 0) > MANY or (comma == "," and not high) or int(low or 0) > MANY)
    )
    return sign in "*?" or low in ("", "0"), many and suffix != "+", found.end()


def _close(groups: list[_Group], pattern: str, at: int, where: str) -> int:
    group, (absent, many, end) = groups.pop(), _repetition(pattern, at)
    repeated = group.inner + [text for text, _, often in group.atoms if often]
    if many and not group.opening.startswith("(?>") and _is_ambiguous(group, repeated):
        raise FileFormatError(
            f"{where}: the regular expression {pattern[:60]!r} repeats a group that can match in many ways, so that it "
            "could take exponential time; refused. Write it without a repetition inside of a repetition"
        )
    outer = groups[-1]
    outer.inner += repeated + ([""] if many else [])
    outer.atoms.append(("", absent, False))
    return end


def _is_ambiguous(group: _Group, repeated: list[str]) -> bool:
    starts = [_letters(atom) for atom in (*group.starts, _first(group))]
    if len(starts) > 1 and (not all(starts) or len(frozenset().union(*starts)) < sum(map(len, starts))):
        return True
    if not repeated:
        return False
    fences = [] if group.starts else [_letters(_first(group)), _letters(_last(group))]
    return not any(fence and not any(_matches(text, c) for text in repeated for c in fence) for fence in fences)


def _first(group: _Group) -> str:
    return group.atoms[0][0] if group.atoms and not group.atoms[0][1] and not group.atoms[0][2] else ""


def _last(group: _Group) -> str:
    return group.atoms[-1][0] if group.atoms and not group.atoms[-1][1] and not group.atoms[-1][2] else ""


def _letters(atom: str) -> frozenset[str]:
    """The few letters that an atom matches; none: it matches many, or nothing is known of it."""
    if len(atom) == 1:
        return frozenset() if atom in ".^$" else frozenset(atom)
    if len(atom) == 2 and atom[0] == "\\":
        plain = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}.get(atom[1], "" if atom[1].isalnum() else atom[1])
        return frozenset(plain)
    return frozenset(atom[1:-1]) if re.fullmatch(r"\[[^\]\[\\^-]+\]", atom) else frozenset()


def _matches(atom: str, letter: str) -> bool:
    """Whether an atom may match a letter; what `re` does not know (\\p{L}) is taken to match letters and digits."""
    try:
        return not atom or re.fullmatch(atom, letter) is not None
    except re.error:
        return letter.isalnum() or "^" in atom


def check_patterns(fields: Any, where: str) -> None:
    """Check every pattern in the description of a tokeniser: {"Regex": "…"}, at any depth."""
    pending = [fields]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if isinstance(value.get("Regex"), str):
                check_pattern(value["Regex"], where)
            pending.extend(part for part in value.values() if isinstance(part, (dict, list)))
        elif isinstance(value, list):
            pending.extend(part for part in value if isinstance(part, (dict, list)))
