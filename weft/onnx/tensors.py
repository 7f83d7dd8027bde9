"""Arrays in ONNX files: element types by number, bytes in the file or beside it, checked before anything is made."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ..io.atomic import open_regular
from ..io.bounded import brief
from ..io.errors import HeaderError, LayoutError, OversizeError, TruncatedError, UnsafeNameError
from .schema import StringStringEntryProto, TensorProto

__all__ = ["ELEMENT_TYPES", "NUMBERS", "External", "from_proto", "to_proto", "type_number"]

STRING = np.dtype(object)
ELEMENT_TYPES: dict[int, np.dtype] = {
    number: np.dtype(kind)
    for number, kind in {
        1: np.float32,
        2: np.uint8,
        3: np.int8,
        4: np.uint16,
        5: np.int16,
        6: np.int32,
        7: np.int64,
        8: object,
        9: np.bool_,
        10: np.float16,
        11: np.float64,
        12: np.uint32,
        13: np.uint64,
        14: np.complex64,
        15: np.complex128,
        16: ml_dtypes.bfloat16,
        17: ml_dtypes.float8_e4m3fn,
        18: ml_dtypes.float8_e4m3fnuz,
        19: ml_dtypes.float8_e5m2,
        20: ml_dtypes.float8_e5m2fnuz,
        21: ml_dtypes.uint4,
        22: ml_dtypes.int4,
        23: ml_dtypes.float4_e2m1fn,
        24: ml_dtypes.float8_e8m0fnu,
        25: ml_dtypes.uint2,
        26: ml_dtypes.int2,
    }.items()
}
NUMBERS = {kind: number for number, kind in ELEMENT_TYPES.items()}
_PACKED = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}  # bits of those that share bytes
MOST_EXTERNAL = 1 << 40


def type_number(kind: np.dtype) -> int:
    """ONNX's number of an element type."""
    return NUMBERS[np.dtype(kind)]


class External:
    """The folder that files with weights lie in, beside the model: names in the model cannot lead out of it."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self.folder, self.name = folder, name

    def read(self, tensor: TensorProto, needed: int) -> np.ndarray:
        """The bytes of a tensor that lie in another file."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        place = self._place(entries.get("location", ""))
        offset = _whole(entries.get("offset", "0"), self.name)
        length = _whole(entries.get("length", str(needed)), self.name)
        if length != needed:
            raise LayoutError(f"{self.name}: {tensor.name!r} needs {needed} bytes, its external data has {length}")
        with open_regular(place) as file:
            size = os.fstat(file.fileno()).st_size
            if offset + length > size:
                raise TruncatedError(f"{place}: {tensor.name!r} lies at {offset}…{offset + length}, of {size} bytes")
            file.seek(offset)
            return np.frombuffer(file.read(length), np.uint8)

    def _place(self, location: str) -> Path:
        if self.folder is None:
            raise HeaderError(
                f"{self.name}: weights lie in {brief(location)}, beside the model; load it by its path, not as bytes"
            )
        folder = self.folder.resolve()
        place = (folder / location).resolve() if location and "\0" not in location else folder
        if place == folder or folder not in place.parents:
            raise UnsafeNameError(f"{self.name}: external data at {brief(location)}, which is outside of the folder")
        if not place.exists():
            raise HeaderError(f"{self.name}: expected weights in {brief(location)} beside it; there is no such file")
        return place


def _whole(text: str, name: str) -> int:
    """An offset or a length; both are written as text."""
    if not text.isascii() or not text.isdigit() or len(text) > 15 or int(text) > MOST_EXTERNAL:
        raise HeaderError(f"{name}: expected a number of bytes of external data, found {brief(text)}")
    return int(text)


# ---------------------------------------------------------------------------------------------- reading


def from_proto(tensor: TensorProto, external: External) -> np.ndarray:
    """The array of a tensor in a file; strings as an array of objects."""
    number, shape, name = tensor.data_type or 0, tuple(map(int, tensor.dims)), external.name
    kind = ELEMENT_TYPES.get(number)
    if kind is None:
        raise HeaderError(f"{name}: {tensor.name!r} has element type {number}, which ONNX does not define")
    if any(size < 0 for size in shape) or len(shape) > 64:
        raise LayoutError(f"{name}: {tensor.name!r} has sizes {brief(shape)}")
    count = math.prod(shape)
    if number == 8:
        return _strings(tensor, shape, count, name)
    bits = _PACKED.get(number, 8 * kind.itemsize)
    needed = (count * bits + 7) // 8
    if tensor.data_location == 1:
        found = _from_bytes(external.read(tensor, needed), number, kind, count)
    elif tensor.raw_data is not None:
        raw = np.frombuffer(tensor.raw_data, np.uint8)
        _check_count(raw.size, needed, tensor, "bytes", name)
        found = _from_bytes(raw, number, kind, count)
    else:
        found = _from_lists(tensor, number, kind, count, name)
    return found.reshape(shape)


def _check_count(found: int, needed: int, tensor: TensorProto, what: str, name: str) -> None:
    if found == needed:
        return
    error = OversizeError if needed > 1 << 40 else LayoutError
    raise error(f"{name}: {tensor.name!r} of sizes {brief(tuple(tensor.dims))} needs {needed} {what}, found {found}")


def _strings(tensor: TensorProto, shape: tuple[int, ...], count: int, name: str) -> np.ndarray:
    _check_count(len(tensor.string_data), count, tensor, "strings", name)
    texts = [str(text, "utf-8", "surrogateescape") for text in tensor.string_data]
    return np.array([*texts, None], object)[:-1].reshape(shape)


def _from_bytes(raw: np.ndarray, number: int, kind: np.dtype, count: int) -> np.ndarray:
    """A copy: parameters are written to, and the file is let go."""
    bits = _PACKED.get(number)
    if bits is None:
        return raw.view(kind.newbyteorder("<") if kind.kind in "iufc" else kind).astype(kind)
    parts = np.stack([raw >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)], 1).reshape(-1)[:count]
    return _narrow(parts, kind, bits)


def _narrow(words: np.ndarray, kind: np.dtype, bits: int) -> np.ndarray:
    """Elements of a few bits from their patterns."""
    if kind in (ELEMENT_TYPES[22], ELEMENT_TYPES[26]):
        signed = words.astype(np.int8)
        return np.where(signed >= 1 << (bits - 1), signed - (1 << bits), signed).astype(kind)
    return words.astype(np.uint8).view(kind) if kind == ELEMENT_TYPES[23] else words.astype(kind)


_LISTS = {1: "float_data", 14: "float_data", 7: "int64_data", 11: "double_data", 15: "double_data"}
_LISTS |= {12: "uint64_data", 13: "uint64_data"}


def _from_lists(tensor: TensorProto, number: int, kind: np.dtype, count: int, name: str) -> np.ndarray:
    """The array of numbers that stand one by one; narrow and 16-bit floats by their bit patterns."""
    values = np.asarray(getattr(tensor, _LISTS.get(number, "int32_data")))
    if number in _PACKED:
        raw = values.astype(np.uint8)
        _check_count(raw.size, (count * _PACKED[number] + 7) // 8, tensor, "bytes", name)
        return _from_bytes(raw, number, kind, count)
    parts = 2 if kind.kind == "c" else 1
    _check_count(values.size, count * parts, tensor, "numbers", name)
    if parts == 2:
        return np.ascontiguousarray(values).astype(kind.type(0).real.dtype).view(kind)
    if kind.itemsize == 2 and kind.kind in "fV":
        return values.astype(np.uint16).view(kind)
    return values.astype(np.uint8).view(kind) if kind.kind == "V" or "float8" in kind.name else values.astype(kind)


# ---------------------------------------------------------------------------------------------- writing


def to_proto(array: np.ndarray, name: str | None = None) -> TensorProto:
    """The message that holds an array, its bytes as they lie in memory."""
    number = type_number(array.dtype)
    made = TensorProto(dims=list(array.shape), data_type=number, name=name)
    if number == 8:
        made.string_data = [str(text).encode("utf-8", "surrogateescape") for text in array.reshape(-1)]
    elif number in _PACKED:
        made.raw_data = _packed(array, _PACKED[number])
    else:
        made.raw_data = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)).toreadonly()
    return made


def _packed(array: np.ndarray, bits: int) -> bytes:
    words = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    per_byte = 8 // bits
    words = np.concatenate([words, np.zeros(-words.size % per_byte, np.uint8)]).reshape(-1, per_byte)
    return np.bitwise_or.reduce(words << np.arange(0, 8, bits, dtype=np.uint8), 1, dtype=np.uint8).tobytes()


def external_entries(location: str, offset: int, length: int) -> list[StringStringEntryProto]:
    """Where in which file the bytes of a tensor lie."""
    values: dict[str, Any] = {"location": location, "offset": offset, "length": length}
    return [StringStringEntryProto(key=key, value=str(value)) for key, value in values.items()]
