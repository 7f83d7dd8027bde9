"""Whether an object is held by one variable alone, so that its memory may be used again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["ALONE", "references"]

references: Callable[[Any], int] = getattr(sys, "getrefcount", lambda x: 0)


def _alone() -> int:
    """What `references` says of an object that one local variable holds: counted here and not written down, since
    interpreters differ in the references that they take for variables and arguments (Python 3.14 borrows them)."""
    x = object()
    count = references(x)
    return count or -1  # where nothing can be counted, nothing is alone


ALONE = _alone()
