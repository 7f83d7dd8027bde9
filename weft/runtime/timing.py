"""Who is told how long each kernel took: nobody, unless a profiler listens."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["listeners", "tell"]

# Each is called with a name, the kind of work, its begin and its length, in nanoseconds of time.perf_counter_ns.
listeners: list[Callable[[str, str, int, int], None]] = []


def tell(name: str, kind: str, begin: int, length: int) -> None:
    """Something has run."""
    for listener in list(listeners):
        listener(name, kind, begin, length)
