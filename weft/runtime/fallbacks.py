"""What was to be compiled and could not be, so that slower code computes it: counted, kept, and told once.

Only eager code falls back like this, where nobody asked for a compiler; `weft.compile` raises, or does as it was told.
"""

from __future__ import annotations

import collections
import dataclasses
import warnings

from .frames import level_outside

__all__ = ["Fallback", "FallbackInfo", "info", "note"]

MOST_KEPT = 16


@dataclasses.dataclass(frozen=True)
class Fallback:
    """An operation (or the step of an optimiser) by name, and the error that compiling it raised."""

    what: str
    error: Exception


@dataclasses.dataclass(frozen=True)
class FallbackInfo:
    """How often compiling failed in this process, and the last failures, the latest at the end."""

    count: int
    last: tuple[Fallback, ...]


@dataclasses.dataclass
class _Here:
    """What this process has met."""

    count: int = 0
    last: collections.deque[Fallback] = dataclasses.field(default_factory=lambda: collections.deque(maxlen=MOST_KEPT))
    warned: bool = False


_here = _Here()


def note(what: str, error: Exception, *, quietly: bool = False) -> None:
    """Keep a failure; the first one is a warning as well, unless it is an expected one (`quietly`)."""
    _here.count += 1
    # without its traceback, which would keep the arrays of the call alive
    _here.last.append(Fallback(what, error.with_traceback(None)))
    if not quietly and not _here.warned:
        _here.warned = True
        warnings.warn(
            f"weft: {what} could not be compiled ({type(error).__name__}: {error}), so NumPy computes it, which takes "
            "longer. Please report this; weft.compiler.fallback_info() tells of all such cases, "
            "WEFT_EAGER_NATIVE=0 leaves eager code to NumPy",
            RuntimeWarning,
            stacklevel=level_outside(),
        )


def info() -> FallbackInfo:
    """How often eager code fell back on slower code in this process, and why."""
    return FallbackInfo(_here.count, tuple(_here.last))
