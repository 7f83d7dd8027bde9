"""Threads: how many the linear-algebra library under NumPy may use, and pieces of one operation side by side."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..errors import WeftError
from .locks import fork_safe_lock
from .processor import available_cores

__all__ = ["ONE_BLAS_THREAD", "get_num_threads", "in_parallel", "set_num_threads"]

_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads")
_requested: int | None = None


@functools.cache
def _blas_functions(what: str, name: str = "numpy") -> list[ctypes._CFuncPtr]:
    """The functions that get or set the threads of every OpenBLAS that came with NumPy (or SciPy); none of another library."""
    package = pathlib.Path(sys.modules[name].__file__).parent
    folders = [package.parent / f"{name}.libs", package / ".dylibs"]
    found = []
    for path in (p for folder in folders if folder.is_dir() for p in folder.iterdir() if "openblas" in p.name):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        found += [getattr(library, name.format(what)) for name in _NAMES if hasattr(library, name.format(what))]
    return found


def set_num_threads(count: int) -> None:
    """Let matrix products, pieces of one operation and native plans use `count` threads."""
    global _requested
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise WeftError(f"set_num_threads: expected a positive integer, got {count!r}")
    _requested = count
    for setter in _blas_functions("set"):
        setter(count)


class _OneBlasThread:
    """`with ONE_BLAS_THREAD:` OpenBLAS on one thread, whichever thread of Python asks for it; also SciPy's, once it is there."""

    def __init__(self) -> None:
        self._lock, self._inside = fork_safe_lock(), 0
        self._held: dict[str, list[int]] = {}  # threads before, of the libraries of a package

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            for name in ("numpy", "scipy") if "scipy.linalg" in sys.modules else ("numpy",):
                if name not in self._held:
                    self._held[name] = [get() for get in _blas_functions("get", name)]
                    self._set(name, [1] * len(self._held[name]))

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for name, before in self._held.items():
                    self._set(name, before)
                self._held.clear()

    def _set(self, name: str, counts: Sequence[int]) -> None:
        for setter, before, count in zip(_blas_functions("set", name), self._held[name], counts, strict=True):
            if before > 1:
                setter(count)


ONE_BLAS_THREAD = _OneBlasThread()


def get_num_threads() -> int:
    """The number of threads asked for, or as many as this process may run on."""
    return _requested or _default_threads()


@functools.cache
def _default_threads() -> int:
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    return available_cores()


# ---------------------------------------------------------------- pieces of one operation, side by side

_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_here = threading.local()


def _quiet() -> None:
    np.seterr(all="ignore")


def _drop_pool() -> None:
    """After a fork the threads are gone: the child makes its own."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_pool)


def in_parallel(work: Callable[[Any], None], parts: Sequence[Any]) -> None:
    """work(part) for every part, on as many threads as `set_num_threads` allows.

    NumPy lets go of the interpreter while it computes. Each part must write to memory of its own; the parts are the
    same whatever the number of threads, so the results are too.
    """
    threads = min(get_num_threads(), len(parts))
    if threads < 2 or getattr(_here, "busy", False):  # busy: a signal handler computes in the middle of an operation
        _run_all(work, parts)
        return
    _here.busy = True  # the executor's locks cannot be taken twice
    try:
        _share(work, parts, threads)
    finally:
        _here.busy = False


def _share(work: Callable[[Any], None], parts: Sequence[Any], threads: int) -> None:
    global _pool, _pool_size
    if _pool is None or _pool_size != threads:
        _pool, _pool_size = ThreadPoolExecutor(threads, "weft", initializer=_quiet), threads
    shares = [parts[i::threads] for i in range(threads)]
    waiting = [_pool.submit(_run_all, work, share) for share in shares[1:]]
    _run_all(work, shares[0])
    for future in waiting:
        future.result()


def _run_all(work: Callable[[Any], None], parts: Sequence[Any]) -> None:
    for part in parts:
        work(part)
