"""Borders with other libraries: memory shared with NumPy, DLPack and Python buffers, and questions about tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dlpack, dtypes
from ...device import usable
from ...dtypes import dtype as dtype_type
from ...errors import ArgumentError, DtypeError, InvalidValueError, ShapeError
from ...sparse import SparseTensor
from ...tape.modes import mode
from ...tensor import Tensor, wrap
from ..core.operands import is_number
from ..core.primitive import operation
from .create import array_from, made

__all__ = ["as_tensor"]

# --------------------------------------------------------------------------------------- NumPy


@operation(method=False, differentiable=False)
def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor over the memory of a NumPy array: each sees the other's writes.

    A read-only array gives a tensor that refuses in-place writes (PyTorch would let them through).
    """
    if not isinstance(ndarray, np.ndarray):
        raise ArgumentError(f"from_numpy: expected np.ndarray (got {type(ndarray).__name__}); use weft.tensor")
    return _from_outside(wrap(shareable(ndarray, "from_numpy")))


def _from_outside(x: Tensor) -> Tensor:
    """A tensor over memory that others may write to: a compiled function reads it anew at every call."""
    if mode.interpreter is not None:
        mode.interpreter.from_outside(x)
    return x


def shareable(array: np.ndarray, name: str) -> np.ndarray:
    """A view of an array whose memory a tensor can take over, or an error that says why not."""
    if not array.dtype.isnative and array.dtype.newbyteorder("=") in dtype_type.by_numpy:
        raise InvalidValueError(
            f"{name}: the array has byte order different from the native byte order; convert it with "
            "array.astype(array.dtype.newbyteorder('='))"
        )
    if array.dtype not in dtype_type.by_numpy:
        raise DtypeError(
            f"{name}: can't convert np.ndarray of type {array.dtype}; the supported types are: "
            f"{', '.join(d.name for d in dtypes.ALL)}"
        )
    if any(s % array.itemsize for s in array.strides) or not array.flags.aligned:
        raise InvalidValueError(
            f"{name}: strides {array.strides} (in bytes) are not a multiple of the element size {array.itemsize}; "
            "pass array.copy()"
        )
    return array.view(np.ndarray)


@operation(method=False)
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """The data as a tensor, sharing memory (and graph) with tensors and NumPy arrays of that type."""
    if device is not None:
        usable(device)
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(data, Tensor):
        return data if kind is None else data.to(kind)
    made = wrap(array_from(data, kind, "as_tensor"))
    return _from_outside(made) if isinstance(data, np.ndarray) else made


@operation(method=False)
def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor from a tensor, an array, a DLPack object, a buffer, a number or a sequence.

    copy: None shares memory where it can, True never does, False fails where it cannot.
    """
    if device is not None:
        usable(device)
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    out = _shared(obj, kind)
    if out is None:
        if copy is False:
            raise InvalidValueError(
                f"asarray: can't alias {type(obj).__name__} into a tensor; leave copy=False away, or pass an array"
            )
        out, copy = wrap(array_from(obj, kind, "asarray")), False
    if kind is not None and kind is not out.dtype:
        if copy is False:
            raise InvalidValueError(
                f"asarray: can't alias tensor with dtype {out.dtype} into dtype {kind}; allow a copy"
            )
        out = out.to(kind)
    elif copy:
        out = out.clone()
    return out.requires_grad_() if requires_grad and not out.requires_grad else out


def _shared(obj: Any, kind: dtype_type | None) -> Tensor | None:
    """A tensor over the memory of `obj`, or None if it has none to share."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return wrap(shareable(obj, "asarray")) if obj.dtype.isnative else None
    if hasattr(obj, "__dlpack__") or dlpack.is_capsule(obj):
        return from_dlpack(obj)
    if isinstance(obj, (bytes, bytearray, memoryview)):
        return frombuffer(obj, dtype=kind or dtypes.get_default_dtype())
    return None


@operation(method=False)
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A 1-d tensor over the memory of a buffer (bytes, bytearray, memoryview, mmap…), from `offset` on."""
    try:
        size = memoryview(buffer).nbytes
    except TypeError:
        raise InvalidValueError(
            f"frombuffer: {type(buffer).__name__} does not implement Python buffer protocol"
        ) from None
    kind = dtypes.as_dtype(dtype)
    if size == 0 or count == 0:
        raise InvalidValueError(f"frombuffer: both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise InvalidValueError(
            f"frombuffer: offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} "
            "bytes) minus 1"
        )
    if count < 0:
        if (size - offset) % kind.itemsize:
            raise InvalidValueError(
                f"frombuffer: buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple "
                f"of element size ({kind.itemsize})"
            )
        count = (size - offset) // kind.itemsize
    if offset + count * kind.itemsize > size:
        raise InvalidValueError(
            f"frombuffer: requested buffer length ({count} * {kind.itemsize} bytes) after offset ({offset} bytes) "
            f"must not be greater than actual buffer length ({size} bytes)"
        )
    return made(np.frombuffer(buffer, kind.np, count, offset), requires_grad)


# -------------------------------------------------------------------------------------- DLPack


@operation(method=False, differentiable=False)
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of any object that speaks DLPack (or of a capsule), without copying.

    Memory that its owner marks as read-only gives a tensor that refuses in-place writes.
    """
    if device is not None:
        usable(device)
    array = dlpack.imported(ext_tensor)
    return wrap(array.copy() if copy else array)


@operation(method=False, differentiable=False)
def to_dlpack(input: Tensor) -> Any:
    """A DLPack capsule of the tensor's memory, for libraries that take capsules."""
    return input.__dlpack__()


# ------------------------------------------------------------------------------ questions about tensors


def _tensor_only(input: Any, name: str) -> Tensor:
    if not isinstance(input, Tensor):
        raise ArgumentError(f"{name}: argument 'input' must be a Tensor, got {type(input).__name__}")
    return input


@operation(method=False, differentiable=False)
def is_tensor(obj: Any) -> bool:
    """Whether the object is a tensor, dense or sparse."""
    return isinstance(obj, (Tensor, SparseTensor))


@operation(method=False, differentiable=False)
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating-point numbers."""
    return _tensor_only(input, "is_floating_point").is_floating_point()


@operation(method=False, differentiable=False)
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return _tensor_only(input, "is_complex").is_complex()


@operation(method=False, differentiable=False)
def is_signed(input: Tensor) -> bool:
    """Whether the elements can be negative."""
    return _tensor_only(input, "is_signed").is_signed()


@operation(method=False, differentiable=False)
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in `inference_mode`."""
    return _tensor_only(input, "is_inference").is_inference()


@operation(method=False, differentiable=False)
def is_conj(input: Tensor) -> bool:
    """Whether conjugation is still pending: never here, it is computed at once."""
    return _tensor_only(input, "is_conj").is_conj()


@operation(method=False, differentiable=False)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same sizes."""
    return _tensor_only(input, "is_same_size").is_same_size(other)


@operation(differentiable=False, quick=True)
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero; an error when there is not just one."""
    if input.numel() != 1:
        count = "no values" if input.numel() == 0 else "more than one value"
        raise ShapeError(f"is_nonzero: Boolean value of a tensor with {count} is ambiguous, shape {tuple(input.shape)}")
    return bool(input)


@operation(method=False, differentiable=False)
def result_type(tensor1: Any, tensor2: Any) -> dtype_type:
    """The element type of an arithmetic operation on the two (tensors or numbers)."""
    for x in (tensor1, tensor2):
        if not isinstance(x, Tensor) and not is_number(x):
            raise ArgumentError(f"result_type: expected tensors or numbers, got {type(x).__name__}")
    return dtypes.result_dtype((tensor1, tensor2))
