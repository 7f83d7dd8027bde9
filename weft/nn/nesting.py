"""Room for deeply nested modules: calls, copies and walks go one level of Python's stack deeper for each part in a part."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["allow", "make_room"]

FRAMES = 10  # calls of Python that one level of nesting takes at most (copy.deepcopy, a traced forward)
AROUND = 400  # and what surrounds them
DEEPEST = 4_000  # levels that the stack of the system holds in any case


def make_room(parent: dict[str, Any], child: dict[str, Any]) -> None:
    """Note how deep a module is (of the attributes of both) when it gets a part; let Python go as deep."""
    depth = child.get("_depth", 0) + 1
    if depth > parent.get("_depth", 0):
        parent["_depth"] = depth
        allow(depth)


def allow(depth: int) -> None:
    """Let Python follow so many modules inside of each other."""
    needed = AROUND + FRAMES * min(depth, DEEPEST)
    if needed > sys.getrecursionlimit():
        sys.setrecursionlimit(needed)
