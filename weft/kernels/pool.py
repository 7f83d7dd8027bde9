"""The workers that run native plans: threads that stay, all running the same plan, each its share of every step.

A worker is a Python thread that stays inside native code, without the interpreter's lock. It spins for the next plan
for about a millisecond, then sleeps. `runtime/native.py` states the form of a plan and has the native side.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable

import numpy as np

from ..runtime import native, threads
from ..runtime.locks import fork_safe_lock
from .llvm import jit

__all__ = ["Pool", "get_pool"]

_Address = ctypes.c_void_p


class _Entries:
    """The native side of every pool; never freed, since workers may be inside."""

    def __init__(self) -> None:
        target, self.waiting = jit.Target.host(), native.waiting()
        keys = {name: f"runtime {name} {self.waiting.ir}" for name in ("launch", "worker", "stop", "ticks")}
        self._handles = jit.build(
            {
                key: functools.partial(native.runtime_ir, name, jit.symbol(key), target.arch, self.waiting)
                for name, key in keys.items()
            }
        )
        at = {name: self._handles[key].address for name, key in keys.items()}
        self.launch = ctypes.CFUNCTYPE(None, _Address, _Address, _Address)(at["launch"])
        self.launch_with_interpreter = ctypes.PYFUNCTYPE(None, _Address, _Address, _Address)(at["launch"])
        self.worker = ctypes.CFUNCTYPE(None, _Address, ctypes.c_int64)(at["worker"])
        self.stop = ctypes.CFUNCTYPE(None, _Address)(at["stop"])
        self.ticks = ctypes.PYFUNCTYPE(ctypes.c_int64)(at["ticks"])


@functools.cache
def _nanoseconds_per_tick() -> float:
    """Measured over a few milliseconds; 0 where the processor has no counter."""
    count = _entries().ticks
    ticks, start = count(), time.perf_counter_ns()
    time.sleep(0.005)
    passed = count() - ticks
    return (time.perf_counter_ns() - start) / passed if passed else 0.0


@functools.cache
def _entries() -> _Entries:
    entries = _Entries()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(entries))
    return entries


class _Context:
    """The memory that the threads of a pool share, and its workers."""

    def __init__(self, count: int, entries: _Entries) -> None:
        self.memory = np.zeros(native.CONTEXT_BYTES + native.LINE * (count + 1), np.uint8)
        self.address = -(-self.memory.ctypes.data // native.LINE) * native.LINE
        words = (ctypes.c_int64 * 32).from_address(self.address)
        words[24:29] = (
            count,
            native.SPINS_BEFORE_SLEEP,
            native.yield_address(),
            entries.waiting.wait,
            entries.waiting.wake,
        )
        self.workers = [
            threading.Thread(target=self._work, args=(entries.worker, t), name=f"weft-{t}", daemon=True)
            for t in range(1, count)
        ]
        try:
            for worker in self.workers:
                worker.start()
        except BaseException:  # the system gives no more threads, or somebody pressed Ctrl-C
            entries.stop(self.address)
            raise

    def _work(self, worker: Callable[[int, int], None], t: int) -> None:
        worker(self.address, t)


_all: weakref.WeakSet[Pool] = weakref.WeakSet()
_NO_STEPS = (ctypes.c_int64 * 1)(0)


class Pool:
    """`threads` threads, the caller's own among them, that run plans together."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._lock = fork_safe_lock()
        self._context: _Context | None = None
        _all.add(self)

    def run(self, plan: int, small: bool = False) -> None:
        """Run the plan at this address on all threads; one plan at a time.

        Other Python threads go on meanwhile, unless the plan is said to be `small`: then the interpreter's lock is kept,
        which is quicker.
        """
        with self._lock:
            context = self._context or self._start()
            (self._launch_with_interpreter if small else self._launch)(context.address, plan, None)

    def run_timed(self, plan: int, times: int) -> None:
        """As `run`; writes for every step the nanoseconds that passed on thread 0 to the int64 array at `times`."""
        with self._lock:
            self._launch((self._context or self._start()).address, plan, times)
        count = ctypes.c_int64.from_address(plan).value
        elapsed = np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(times))
        elapsed[:] = elapsed * _nanoseconds_per_tick()

    def _start(self) -> _Context:
        entries = _entries()
        self._launch, self._launch_with_interpreter = entries.launch, entries.launch_with_interpreter
        context = _Context(self.threads, entries)
        # A worker needs the interpreter's lock to get into native code: let every one in before a small plan can come.
        self._launch(context.address, ctypes.addressof(_NO_STEPS), None)
        end = weakref.finalize(self, entries.stop, context.address)
        end.atexit = False
        self._end, self._context = end, context  # only now: an interrupt before leaves a pool that starts over
        return context

    def close(self) -> None:
        """End the workers and wait for them; the next run starts new ones."""
        with self._lock:
            if self._context is not None:
                self._end.detach()
                _entries().stop(self._context.address)
                for worker in self._context.workers:
                    worker.join()
                self._context = None

    def _forget(self) -> None:
        """After a fork the workers are gone: start over with the next run."""
        if self._context is not None:
            self._end.detach()
            self._context = None


_pools: weakref.WeakValueDictionary[int, Pool] = weakref.WeakValueDictionary()
_recent: dict[int, Pool] = {}
_MOST_RECENT = 4
_pools_lock = fork_safe_lock()


def get_pool(count: int | None = None) -> Pool:
    """The pool with so many threads; by default as many as `weft.set_num_threads` says.

    The last few that were asked for are kept; others end when nobody holds them.
    """
    wanted = count or threads.get_num_threads()
    return _recent.get(wanted) or _find_pool(wanted)


def _find_pool(count: int) -> Pool:
    with _pools_lock:
        pool = _recent[count] = _pools.get(count) or Pool(count)
        _pools[count] = pool
        while len(_recent) > _MOST_RECENT:
            del _recent[next(iter(_recent))]
        return pool


def _after_fork() -> None:
    for pool in list(_all):
        pool._forget()


def _close_all() -> None:
    for pool in list(_all):
        pool.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_all)
