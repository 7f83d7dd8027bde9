"""Which code is Weft's own and which a user's: told by where the package really lies, not by names in a path."""

from __future__ import annotations

import functools
import os
import sys

__all__ = ["PACKAGE", "is_ours", "level_outside"]

PACKAGE = os.path.join(os.path.realpath(os.path.join(os.path.dirname(__file__), os.pardir)), "")


@functools.cache
def is_ours(filename: str) -> bool:
    """Whether a file of source code belongs to the package; links are followed, `<stdin>` and its like are a user's."""
    return not filename.startswith("<") and os.path.realpath(filename).startswith(PACKAGE)


def level_outside() -> int:
    """The `stacklevel` with which a warning of who calls this points at a user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    return level
