"""`torch.multiprocessing`: Python's own, with `spawn`."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

from ...errors import StateError

__all__ = [
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
]

_strategy = {"sharing": "file_descriptor"}


def __getattr__(name: str) -> Any:
    return getattr(multiprocessing, name)


def set_sharing_strategy(new_strategy: str) -> None:
    """Remembered only: tensors travel between processes as copies."""
    _strategy["sharing"] = new_strategy


def get_sharing_strategy() -> str:
    """What `set_sharing_strategy` was told."""
    return _strategy["sharing"]


def get_all_sharing_strategies() -> set[str]:
    """PyTorch's words."""
    return {"file_descriptor", "file_system"}


def spawn(
    fn: Callable, args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False, **options: Any
) -> Any:
    """Run fn(i, *args) for i < nprocs: one here, several each in a process of its own."""
    if nprocs == 1:
        fn(0, *args)
        return None
    context = multiprocessing.get_context("fork")  # Weft answers for torch in these, too
    processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for process in processes:
        process.join()
    failed = [i for i, process in enumerate(processes) if process.exitcode]
    if failed:
        raise StateError(f"spawn: processes {failed} failed; their errors stand above")
    return None
