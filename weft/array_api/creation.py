"""Creation functions of the standard."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft

from ..dtypes import COMPLEX, INTEGER, as_dtype
from ..dtypes import dtype as dtype_type
from ..errors import ArgumentError, AttributeAccessError, DeviceError, ExportError, InvalidValueError
from ..tensor import Tensor, wrap
from .array import SCALARS, Array, check_device, need_array, scalar_tensor
from .manipulation import stack
from .types import default_float, default_for, result_type

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def _type(dtype: Any, default: dtype_type | None = None) -> dtype_type:
    return (default or default_float()) if dtype is None else as_dtype(dtype)


def _sizes(shape: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in shape) if isinstance(shape, (tuple, list)) else (int(shape),)


# ------------------------------------------------------------------------------------------ from data


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Array:
    """An array from an array, a tensor, a number, nested sequences of them, or an object with a buffer or DLPack.

    copy: None shares memory where it can, True never does, False fails where it cannot.
    """
    check_device(device)
    kind = None if dtype is None else as_dtype(dtype)
    found = _shared(obj)
    if found is None:
        if copy is False:
            raise InvalidValueError(f"asarray: {type(obj).__name__} has no memory to share; leave copy=False away")
        return Array(_collected(obj, kind))
    if kind is not None and kind is not found.dtype:
        if copy is False:
            raise InvalidValueError(f"asarray: {found.dtype} becomes {kind} only by a copy; leave copy=False away")
        return Array(found.to(kind))
    return Array(found.clone() if copy else found)


def _shared(obj: Any) -> Tensor | None:
    """A tensor over the memory of the object, or None if it has none."""
    if isinstance(obj, Array):
        return obj.tensor
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, (np.ndarray, np.generic)):
        return weft.from_numpy(np.asarray(obj))
    if hasattr(obj, "__dlpack__"):
        return weft.from_dlpack(obj)
    if isinstance(obj, (*SCALARS, list, tuple, str)):
        return None
    try:
        return weft.from_numpy(np.asarray(memoryview(obj)))
    except TypeError:
        return None


def _collected(obj: Any, kind: dtype_type | None) -> Tensor:
    """A new tensor of a number or of nested sequences of numbers and arrays."""
    if isinstance(obj, SCALARS):
        return scalar_tensor(obj, kind or default_for(obj))
    if not isinstance(obj, (list, tuple, range)):
        raise ArgumentError(f"asarray: cannot make an array of {type(obj).__name__}")
    if _holds_arrays(obj):
        joined = stack([part if isinstance(part, Array) else Array(_collected(part, kind)) for part in obj]).tensor
        return joined if kind is None else joined.to(kind)
    if kind is None:
        kind = _inferred(obj)
    with np.errstate(all="ignore"):
        return wrap(np.array(obj, kind.np))


def _holds_arrays(obj: Any) -> bool:
    return any(isinstance(part, Array) or (isinstance(part, (list, tuple)) and _holds_arrays(part)) for part in obj)


def _inferred(obj: Any) -> dtype_type:
    """The type of nested sequences of Python numbers: bool, integer, complex, else float."""
    found = np.array(obj)
    if found.dtype.kind not in "biufc":
        raise ArgumentError(f"asarray: cannot make an array of elements of type {found.dtype}")
    if found.dtype.kind == "b":
        return weft.bool
    if found.dtype.kind in "iu":
        return weft.int64
    return default_float() if found.dtype.kind == "f" else default_float().to_complex()


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array over the memory of an object that speaks DLPack."""
    if not hasattr(x, "__dlpack__"):
        raise AttributeAccessError(f"from_dlpack: {type(x).__name__} has no __dlpack__; use asarray")
    try:
        check_device(device)
        return Array(weft.from_dlpack(x, copy=copy))
    except DeviceError as error:
        raise ExportError(f"from_dlpack: {error}") from error


# --------------------------------------------------------------------------------------- filled arrays


def empty(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Array:
    """An array whose elements are not set."""
    return Array(weft.empty(_sizes(shape), dtype=_type(dtype), device=device))


def zeros(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Array:
    """An array of zeros."""
    return Array(weft.zeros(_sizes(shape), dtype=_type(dtype), device=device))


def ones(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Array:
    """An array of ones."""
    return Array(weft.ones(_sizes(shape), dtype=_type(dtype), device=device))


def full(shape: int | tuple[int, ...], fill_value: complex, *, dtype: Any = None, device: Any = None) -> Array:
    """An array with one value everywhere; its type is by default that of the value."""
    check_device(device)
    value = scalar_tensor(fill_value, _type(dtype, default_for(fill_value)))
    return Array(value.expand(_sizes(shape)).clone())


def empty_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """An array with the sizes (and by default the type) of x whose elements are not set."""
    return empty(x.shape, dtype=_type(dtype, x.dtype), device=device)


def zeros_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Zeros in the sizes (and by default the type) of x."""
    return zeros(x.shape, dtype=_type(dtype, x.dtype), device=device)


def ones_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Ones in the sizes (and by default the type) of x."""
    return ones(x.shape, dtype=_type(dtype, x.dtype), device=device)


def full_like(x: Array, /, fill_value: complex, *, dtype: Any = None, device: Any = None) -> Array:
    """One value in the sizes (and by default the type) of x."""
    return full(x.shape, fill_value, dtype=_type(dtype, x.dtype), device=device)


# ------------------------------------------------------------------------------------ ranges and matrices


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Array:
    """start, start + step, … below stop: ⌈(stop − start) / step⌉ elements, none if the sign of step is wrong."""
    check_device(device)
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise InvalidValueError("arange: step must not be 0")
    whole = all(isinstance(value, int) for value in (start, stop, step))
    kind = _type(dtype, weft.int64 if whole else default_float())
    count = len(range(start, stop, step)) if whole else max(0, int(np.ceil((stop - start) / step)))
    if whole and kind.category == INTEGER:
        return Array(wrap(np.array(range(start, stop, step), kind.np)))  # exact also beyond 2⁵³
    return Array((weft.arange(count, dtype=weft.float64) * step + start).to(kind))


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Array:
    """`num` evenly spaced numbers from start to stop (without stop itself if not `endpoint`)."""
    check_device(device)
    if num < 0:
        raise InvalidValueError(f"linspace: num must not be negative, got {num}")
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    kind = _type(dtype, default_float().to_complex() if is_complex else default_float())
    if is_complex and kind.category < COMPLEX:
        raise ArgumentError(f"linspace: complex ends need a complex type, got {kind}")
    with np.errstate(all="ignore"):
        return Array(wrap(np.linspace(start, stop, num, endpoint=endpoint, dtype=kind.np)))


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Array:
    """Ones on the k-th diagonal (above the main one if k > 0), zeros elsewhere."""
    check_device(device)
    n_cols = n_rows if n_cols is None else n_cols
    k = max(-n_rows, min(n_cols, k))
    places = weft.arange(n_rows).unsqueeze(1) + k == weft.arange(n_cols)
    return Array(places.to(_type(dtype)))


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """The coordinates of a grid, one array for each axis."""
    if indexing not in ("xy", "ij"):
        raise InvalidValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    if not arrays:
        return []
    result_type(*arrays)
    return [Array(grid) for grid in weft.meshgrid(*(need_array("meshgrid", x) for x in arrays), indexing=indexing)]


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The lower triangle of each matrix up to the k-th diagonal, zeros above."""
    return Array(weft.tril(need_array("tril", x), k))


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The upper triangle of each matrix from the k-th diagonal, zeros below."""
    return Array(weft.triu(need_array("triu", x), k))
