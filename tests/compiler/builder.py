"""Functions of the builder run on arrays, many in one kernel, and errors counted in units in the last place."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.kernels.llvm import jit
from weft.kernels.llvm.builder import Function
from weft.kernels.llvm.values import type_of

_numbers = itertools.count()


@dataclass
class Case:
    """`function(f, *values)` on arrays of one length; the result has the type `dtype`."""

    function: Callable
    arrays: Sequence[np.ndarray]
    dtype: Any


def run(cases: Sequence[Case], target: jit.Target | None = None, lanes: int | None = None) -> list[np.ndarray]:
    """The results of all cases, computed by one kernel with one loop for each."""
    target = target or jit.Target.host()
    lanes = lanes or target.vector_bytes // 4
    key = f"case {next(_numbers)}"
    f = Function(jit.symbol(key), target)
    words, kept, results = [], [], []
    for case in cases:
        count = len(case.arrays[0])
        padded = -(-count // lanes) * lanes
        inputs = [np.ascontiguousarray(np.resize(a, padded)) for a in case.arrays]
        out = np.zeros(padded, case.dtype)
        first = len(words)
        with f.loop(0, padded, lanes) as loop:
            values = [f.load(f.arg(first + i), loop.i, type_of(a.dtype), lanes) for i, a in enumerate(inputs)]
            y = f.cast(case.function(f, *values), type_of(out.dtype))
            f.store(f.splat(y, lanes), f.arg(first + len(inputs)), loop.i)
        words += [a.ctypes.data for a in (*inputs, out)]
        kept += [*inputs, out]
        results.append(out[:count])
    handle = jit.build({key: f.text}, target)[key]
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(handle.address)
    entry((ctypes.c_int64 * len(words))(*words), None, 0, 1)
    return results


def ulps(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """|found − truth| in units in the last place of the truth rounded to the type of `found`; ∞ where one is NaN or ∞."""
    info = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        rounded = np.asarray(truth).astype(found.dtype)
        size = np.clip(np.abs(np.nan_to_num(rounded)), info.tiny, info.max)
        error = np.abs(found.astype(np.longdouble) - truth) / np.spacing(size).astype(np.longdouble)
        same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
        regular = np.isfinite(found) & np.isfinite(rounded)
        return np.where(regular, error, np.where(same, 0, np.inf)).astype(np.float64)
