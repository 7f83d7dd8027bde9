"""Counted tensors: arange, linspace, logspace, eye."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...dtypes import COMPLEX, FLOAT, INTEGER
from ...dtypes import dtype as dtype_type
from ...errors import ArgumentError, DtypeError, ShapeError
from ...tensor import Tensor
from ..core.operands import is_number, python_int
from .create import constructor, kind_of

__all__ = ["arange", "linspace"]

MISSING: Any = object()


def number(value: Any, name: str) -> Any:
    """A Python number from a number or a 0-d tensor."""
    if isinstance(value, (Tensor, np.generic)):
        if isinstance(value, Tensor) and value.ndim:
            raise ShapeError(
                f"{name}: only supports 0-dimensional start and end tensors, got one with {value.ndim} dimension(s)"
            )
        value = value.item()
    if not is_number(value):
        raise ArgumentError(f"{name}: expected a number, got {type(value).__name__} {value!r:.40}")
    return int(value) if isinstance(value, bool) else value


@constructor
def arange(start: Any = MISSING, end: Any = MISSING, step: Any = 1, *, dtype: Any) -> np.ndarray:
    """start, start + step, … below end: ⌈(end − start) / step⌉ elements; `arange(end)` starts at 0."""
    if start is MISSING and end is MISSING:
        raise ArgumentError("arange: give at least the end, as in arange(5)")
    if end is MISSING:
        start, end = 0, start
    elif start is MISSING:
        start = 0
    start, end, step = (number(x, "arange") for x in (start, end, step))
    if any(isinstance(x, complex) for x in (start, end, step)):
        raise DtypeError(f"arange: a range of complex numbers has no order, got {start}, {end}, {step}")
    if dtype is None:
        whole = all(isinstance(x, int) for x in (start, end, step))
        dtype = dtypes.int64 if whole else dtypes.get_default_dtype()
    if dtype.category not in (INTEGER, FLOAT):
        raise DtypeError(f"arange: not implemented for {dtype}; make it in another type and convert with .to(...)")
    count = _range_length(start, end, step, dtype)
    if dtype.category == INTEGER:
        return (int(start) + int(step) * np.arange(count, dtype=np.int64)).astype(dtype.np)
    return (start + step * np.arange(count, dtype=np.float64)).astype(dtype.np)


def _range_length(start: Any, end: Any, step: Any, dtype: dtype_type) -> int:
    if not (math.isfinite(start) and math.isfinite(end)):
        raise ShapeError(f"arange: unsupported range: {start} -> {end}; both ends must be finite")
    if step == 0 or (dtype is dtypes.int64 and int(step) == 0):
        raise ShapeError(f"arange: step must be nonzero, got {step} for {dtype}")
    if (end - start > 0) != (step > 0) and end != start:
        raise ShapeError(
            f"arange: upper bound and lower bound inconsistent with step sign: from {start} to {end} by {step}"
        )
    if dtype is dtypes.int64:  # counted after truncation, only in this type, as PyTorch does
        return max(-((int(start) - int(end)) // int(step)), 0)
    if all(isinstance(x, int) for x in (start, end, step)):
        return -((start - end) // step)
    return math.ceil((end - start) / step)


def _ends(start: Any, end: Any, dtype: Any, name: str) -> tuple[Any, Any, dtype_type]:
    start, end = number(start, name), number(end, name)
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    if is_complex and dtype is not None and dtype.category < COMPLEX:
        raise DtypeError(f"{name}: inferred dtype complex can't be safely cast to passed dtype {dtype}")
    if dtype is None:
        dtype = dtypes.default_complex() if is_complex else dtypes.get_default_dtype()
    if dtype is dtypes.bool_:
        raise DtypeError(f"{name}: not implemented for {dtype}; use an integer or float type")
    return start, end, dtype


def _steps(steps: Any, name: str) -> int:
    count = python_int(steps, name)
    if count < 0:
        raise ShapeError(f"{name}: number of steps must be non-negative, got {count}")
    return count


def _spaced(start: Any, end: Any, steps: int, dtype: dtype_type) -> np.ndarray:
    """Evenly spaced numbers, counted from the nearer end, so that both ends are exact."""
    if dtype.category == INTEGER:
        start, end = int(start), int(end)
    if steps == 1:
        return np.array([start])
    gap = (end - start) / (steps - 1) if steps > 1 else 0
    number_of = np.arange(steps)
    return np.where(number_of < steps // 2, start + gap * number_of, end - gap * (steps - 1 - number_of))


@constructor
def linspace(start: Any, end: Any, steps: int, *, dtype: Any) -> np.ndarray:
    """`steps` numbers evenly spaced from start to end, both included."""
    start, end, dtype = _ends(start, end, dtype, "linspace")
    return _spaced(start, end, _steps(steps, "linspace"), dtype).astype(dtype.np)


@constructor
def logspace(start: Any, end: Any, steps: int, base: Any = 10.0, *, dtype: Any) -> np.ndarray:
    """base ** linspace(start, end, steps)."""
    start, end, dtype = _ends(start, end, dtype, "logspace")
    exponents = _spaced(start, end, _steps(steps, "logspace"), dtype)
    with np.errstate(all="ignore"):
        return np.power(number(base, "logspace") + 0.0, exponents).astype(dtype.np)


@constructor
def eye(n: int, m: Any = MISSING, *, dtype: Any) -> np.ndarray:
    """The n × m matrix with 1 on the diagonal and 0 elsewhere; square without m."""
    rows = python_int(n, "eye")
    columns = rows if m is MISSING else python_int(m, "eye")
    if rows < 0 or columns < 0:
        raise ShapeError(f"eye: n and m must be greater or equal to 0, got {rows} and {columns}")
    return np.eye(rows, columns, dtype=kind_of(dtype).np)
