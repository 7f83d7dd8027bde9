"""Locks that survive forks: in a forked child they are open, and what they guard is whole.

A fork copies one thread and all memory. What another thread was in the middle of stays so in the child for ever: a lock
held, LLVM half-way through a kernel, a module half imported. A fork therefore waits until no other thread is.
"""

from __future__ import annotations

import _frozen_importlib
import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

__all__ = ["fork_safe_lock", "held_by_me", "unforked"]

PATIENCE = 30.0  # seconds that a fork waits at most: a traced function may itself wait for the thread that forks
PACKAGES = sys.stdlib_module_names | {"weft", "llvmlite", "numpy", "scipy"}  # a user's module may run for ever

_gate = threading.RLock()  # taken to enter an unforked section, and by a fork from the time it waits to its end
_inside: dict[int, int] = {}  # thread → how many unforked sections it is in
_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_whole: weakref.WeakSet[Any] = weakref.WeakSet()
_taken: list[list[Any]] = []  # what forks that are under way hold


def fork_safe_lock(whole: bool = False) -> Any:
    """A lock that its own thread may take again (a signal handler computes), and that is open in a forked child.

    whole: no fork while another thread holds it. Such a thread must not ask for further locks.
    """
    lock = threading.RLock()
    (_whole if whole else _locks).add(lock)
    return lock


def held_by_me(lock: Any) -> bool:
    """Whether this thread is inside: whoever finds so was called by a signal handler in the middle of it."""
    return lock._is_owned()


@contextlib.contextmanager
def unforked() -> Iterator[None]:
    """A section in which no other thread forks: what is built in it is whole in every child."""
    me = threading.get_ident()
    before = _inside.get(me, 0)
    try:
        with _gate if before == 0 else contextlib.nullcontext():
            _inside[me] = before + 1
        yield
    finally:
        if before:
            _inside[me] = before
        else:
            _inside.pop(me, None)


# ---------------------------------------------------------------- forks


def _before_fork() -> None:
    deadline = time.monotonic() + PATIENCE
    _gate.acquire()  # from here on nobody enters, and those who are inside leave
    while _is_busy() and time.monotonic() < deadline:
        time.sleep(0.001)
    taken = [_gate]
    _taken.append(taken)
    for lock in (*_whole, *_llvm_locks()):
        if lock.acquire(timeout=max(0.1, deadline - time.monotonic())):
            taken.append(lock)


def _is_busy() -> bool:
    """Whether another thread is in the middle of something."""
    return bool(_inside.keys() - {threading.get_ident()}) or _is_importing()


def _is_importing() -> bool:
    """Whether another thread imports something that we may need: a module's lock would stay shut in the child."""
    me, locks = threading.get_ident(), getattr(_frozen_importlib, "_module_locks", {})
    ours = [found() for name, found in list(locks.items()) if name.partition(".")[0] in PACKAGES]
    return any(getattr(lock, "owner", None) not in (None, me) for lock in ours)


def _llvm_locks() -> list[Any]:
    """llvmlite's own lock, which it takes also where nobody asked it to work: when the collector ends an engine."""
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    lock = getattr(getattr(library, "_lock", None), "_lock", None)
    return [] if lock is None else [lock]


def _after_in_parent() -> None:
    for lock in reversed(_taken.pop()):
        lock.release()


def _after_in_child() -> None:
    me = threading.get_ident()
    for other in _inside.keys() - {me}:
        del _inside[other]
    _after_in_parent()
    for lock in (*_locks, *_whole, *_llvm_locks()):
        if not held_by_me(lock):  # this thread goes on, and will let go of what it holds
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
