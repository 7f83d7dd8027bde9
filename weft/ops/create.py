"""New tensors: from data, filled, counted, or like another."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..device import device as device_type
from ..dtype import dtype as dtype_type
from ..errors import DtypeError, ShapeError
from ..tensor import Tensor, wrap
from .primitive import operation


def array_from(data: Any, dtype: dtype_type | None) -> np.ndarray:
    """A NumPy array from numbers, nested sequences, arrays or tensors, in Weft's default types."""
    if isinstance(data, Tensor):
        array = data.array
    elif isinstance(data, (np.ndarray, np.generic)):
        array = np.asarray(data)
    else:
        array = _array_from_python(data)
        if dtype is None:
            if array.dtype == np.float64:
                array = array.astype(dtypes.get_default_dtype().np)
            elif array.dtype == np.complex128:
                array = array.astype(dtypes.default_complex().np)
            elif array.dtype.kind in "iu":
                array = array.astype(np.int64)
    if dtype is None:
        kind = dtypes.from_numpy_dtype(array.dtype).np
    else:
        kind = dtype.np
    return array if array.dtype == kind else array.astype(kind)


def _array_from_python(data: Any) -> np.ndarray:
    def unwrap(x: Any) -> Any:
        if isinstance(x, Tensor):
            return x.numpy(force=True)
        return [unwrap(v) for v in x] if isinstance(x, (list, tuple, range)) else x

    try:
        array = np.array(unwrap(data))
    except ValueError:
        raise ShapeError(
            f"tensor: expected a sequence of equal lengths at every depth, got {data!r:.60}; pad the shorter rows"
        ) from None
    except OverflowError:
        raise DtypeError("tensor: an integer is too large for int64") from None
    if array.size == 0 and array.dtype == np.float64:
        return array
    if array.dtype.kind in "OUSV" and array.dtype not in dtype_type.by_numpy:
        raise TypeError(f"tensor: cannot make a tensor from {type(data).__name__} {data!r:.60}; give numbers")
    return array


@operation(method=False)
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new leaf tensor with a copy of the data."""
    if device is not None:
        device_type(device)
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    out = wrap(np.array(array_from(data, kind), order="C"))
    return out.requires_grad_() if requires_grad else out


def legacy_tensor(*args: Any, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
    """`Tensor()`, `Tensor(2, 3)` (uninitialised sizes) or `Tensor(data)`, always in the default type."""
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if not args:
        return wrap(np.empty((0,), kind.np))
    if all(isinstance(a, int) for a in args):
        return wrap(np.zeros(args, kind.np))
    (data,) = args
    if isinstance(data, Tensor):
        return data.detach()
    return tensor(data, dtype=kind)


def shape_from(size: tuple[Any, ...], name: str) -> tuple[int, ...]:
    """Sizes given as integers or as one sequence; negative ones are refused."""
    from .view import sizes_from

    shape = sizes_from(size, name)
    if any(s < 0 for s in shape):
        raise ShapeError(f"{name}: trying to create tensor with negative dimension in {list(shape)}")
    return shape


def made(array: np.ndarray, requires_grad: bool, device: Any = None) -> Tensor:
    """A new leaf with the options every constructor takes."""
    if device is not None:
        device_type(device)
    out = wrap(array)
    return out.requires_grad_() if requires_grad else out


def kind_of(dtype: Any) -> dtype_type:
    return dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)


@operation(method=False, out=True)
def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any) -> Tensor:
    """A tensor filled with 0."""
    size = options.pop("size", size)
    return made(np.zeros(shape_from(tuple(size), "zeros"), kind_of(dtype).np), requires_grad, device)


@operation(method=False, out=True)
def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any) -> Tensor:
    """A tensor filled with 1."""
    size = options.pop("size", size)
    return made(np.ones(shape_from(tuple(size), "ones"), kind_of(dtype).np), requires_grad, device)
