"""Arrays handed to other libraries and taken from them without a copy, by DLPack.

NumPy does it for every element type but bfloat16; for that one the type code in the capsule is exchanged with that of
uint16, so that it too crosses the border without a copy.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from .errors import ArgumentError, DeviceError, ShapeError

__all__ = ["exported", "imported", "is_capsule"]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
CPU_DEVICE = 1  # DLPack's number


def exported(array: np.ndarray, **options: Any) -> Any:
    """A DLPack capsule of an array; bfloat16 goes out as uint16 whose type code is then corrected."""
    if array.dtype != BFLOAT16:
        return array.__dlpack__(**options)
    capsule = array.view(np.uint16).__dlpack__(**options)
    _description(capsule).code = CODE_BFLOAT
    return capsule


def imported(source: Any) -> np.ndarray:
    """An array over the memory of any object that speaks DLPack, or of a capsule."""
    capsule = source if is_capsule(source) else _requested_capsule(source)
    description = _description(capsule)
    is_bfloat16 = description.code == CODE_BFLOAT and description.bits == 16
    if is_bfloat16:
        description.code = CODE_UNSIGNED
    array = np.from_dlpack(_Exporter(capsule))
    return array.view(BFLOAT16) if is_bfloat16 else array


def is_capsule(value: Any) -> bool:
    """Whether the value is itself what `__dlpack__` returns."""
    return type(value).__name__ == "PyCapsule"


def _requested_capsule(exporter: Any) -> Any:
    if not hasattr(exporter, "__dlpack__"):
        raise ArgumentError(
            f"from_dlpack: {type(exporter).__name__} has no __dlpack__; use weft.as_tensor or weft.tensor"
        )
    if hasattr(exporter, "__dlpack_device__") and exporter.__dlpack_device__()[0] != CPU_DEVICE:
        raise DeviceError(
            f"from_dlpack: the memory is on DLPack device {exporter.__dlpack_device__()}, not on the CPU; move it first"
        )
    try:
        return exporter.__dlpack__(max_version=(1, 0))
    except TypeError:  # an exporter from before DLPack 1.0
        return exporter.__dlpack__()


# ---------------------------------------------------------------------------- what is in a capsule


class _DLTensor(ctypes.Structure):
    """DLPack's description of an array."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


CODE_UNSIGNED, CODE_BFLOAT = 1, 4
VERSIONED_HEADER = 32  # version, context, deleter and flags precede the tensor since DLPack 1.0

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, (ctypes.py_object,)


def _description(capsule: Any) -> _DLTensor:
    """The array description inside a capsule that nobody has consumed yet."""
    name = _capsule_name(capsule)
    if name not in (b"dltensor", b"dltensor_versioned"):
        raise ShapeError(
            "from_dlpack: received an invalid capsule; DLTensor capsules can be consumed only once, so you might have "
            "already constructed a tensor from it"
        )
    address = _capsule_pointer(capsule, name)
    return _DLTensor.from_address(address + (VERSIONED_HEADER if name.endswith(b"versioned") else 0))


class _Exporter:
    """Offers one capsule to NumPy."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU_DEVICE, 0
