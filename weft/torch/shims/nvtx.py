"""`torch.cuda.nvtx`: ranges for a profiler of cards; `torch.profiler` has them for the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(msg: str) -> int:
    """Nobody listens."""
    return 0


def range_pop() -> int:
    """Nobody listens."""
    return 0


def range_start(msg: str) -> int:
    """Nobody listens."""
    return 0


def range_end(range_id: int) -> None:
    """Nobody listens."""


def mark(msg: str) -> None:
    """Nobody listens."""


@contextlib.contextmanager
def range(msg: str, *args: Any, **options: Any) -> Iterator[None]:
    """Nothing changes."""
    yield
