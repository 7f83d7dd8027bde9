"""How many threads the linear-algebra library under NumPy may use."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib

import numpy as np

from ..errors import WeftError

_SETTERS = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads")
_requested: int | None = None


@functools.cache
def _blas_setters() -> list[ctypes._CFuncPtr]:
    """The functions of every OpenBLAS that came with NumPy; none on systems with another library."""
    package = pathlib.Path(np.__file__).parent
    folders = [package.parent / "numpy.libs", package / ".dylibs"]
    found = []
    for path in (p for folder in folders if folder.is_dir() for p in folder.iterdir() if "openblas" in p.name):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        found += [getattr(library, name) for name in _SETTERS if hasattr(library, name)]
    return found


def set_num_threads(count: int) -> None:
    """Let matrix products use `count` threads."""
    global _requested
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise WeftError(f"set_num_threads: expected a positive integer, got {count!r}")
    _requested = count
    for setter in _blas_setters():
        setter(ctypes.c_int(count))


def get_num_threads() -> int:
    """The number of threads asked for, or as many as this process may run on."""
    if _requested is not None:
        return _requested
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
