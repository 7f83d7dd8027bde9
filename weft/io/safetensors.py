"""Tensors by name in one file, in the safetensors format: a JSON header, then the bytes.

    8 bytes    length N of the header, little-endian
    N bytes    {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, "__metadata__": {…}}
    the rest   the elements, row by row, little-endian, without gaps or overlaps

Everything is checked before the first tensor is made. Tensors are copies, since a mapped file that somebody truncates
ends the process; with `mmap=True` they are windows on the file, read when they are used. The format is written here and not by the `safetensors` package because the package neither flushes
and renames nor maps files for NumPy; the tests read and write with both.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from ..device import usable as check_device
from ..dtypes import dtype
from ..errors import ArgumentError, DtypeError, InvalidValueError
from ..nn.parameter import is_lazy
from ..tensor import Tensor, wrap
from .atomic import Source, map_file, new_array, read_into, reading, writing
from .bounded import brief
from .errors import ByteOrderError, HeaderError, LayoutError, MagicError, TruncatedError

__all__ = ["load_file", "load_metadata", "save_file"]

CODES = {
    dtype.by_name[name]: code
    for name, code in {
        "bool": "BOOL",
        "uint8": "U8",
        "int8": "I8",
        "uint16": "U16",
        "int16": "I16",
        "float16": "F16",
        "bfloat16": "BF16",
        "uint32": "U32",
        "int32": "I32",
        "float32": "F32",
        "uint64": "U64",
        "int64": "I64",
        "float64": "F64",
        "complex64": "C64",
    }.items()
}
KINDS = {code: kind for kind, code in CODES.items()}
LONGEST_HEADER = 100_000_000  # bytes, as the reference implementation has it
ALIGNMENT = 8
MOST_DIMENSIONS = 64  # NumPy's


def save_file(tensors: Mapping[str, Tensor], path: Source, metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors by name; the file appears complete or not at all.

    `metadata` are strings by name, for notes of your own. Tensors that share memory are written one by one;
    `weft.save` keeps them shared.

    >>> weft.io.save_file(model.state_dict(), "model.safetensors", {"epoch": "3"})
    """
    arrays = {name: _checked_array(name, value) for name, value in tensors.items()}
    with writing(path) as file:
        write_arrays(file, arrays, _checked_metadata(metadata))


def load_file(path: Source, device: Any = "cpu", *, mmap: bool = False) -> dict[str, Tensor]:
    """The tensors of a file by name.

    mmap: map the file instead of reading it. Nothing is read before it is used, and writes stay in memory; but the file
    must be left alone meanwhile: what is copied over it shows in the tensors, and truncating it ends the process.
    Raises `TruncatedError`, `MagicError`, `HeaderError`, `LayoutError` or `DtypeError`, and then loads nothing.
    """
    check_device(device)
    arrays, _ = read_arrays(path, mmap)
    return {name: wrap(array) for name, array in arrays.items()}


def load_metadata(path: Source) -> dict[str, str]:
    """The strings that `save_file` was given as metadata."""
    with reading(path) as (file, size, name):
        return _described(file, size, name)[1]


# ------------------------------------------------------------------------------------------- writing


def _checked_array(name: Any, value: Any) -> np.ndarray:
    if not isinstance(name, str):
        raise ArgumentError(f"save_file: names must be strings, got {name!r} of type {type(name).__name__}")
    if name == "__metadata__":
        raise InvalidValueError("save_file: the name '__metadata__' belongs to the format; rename the tensor")
    if not isinstance(value, Tensor) or is_lazy(value):
        raise ArgumentError(f"save_file: {name!r} is a {type(value).__name__}, not a tensor; weft.save takes any tree")
    if value.dtype not in CODES:
        raise DtypeError(
            f"save_file: {name!r} is {value.dtype}, which the safetensors format does not have; save "
            "weft.view_as_real(x), or use weft.save"
        )
    return value.array


def _checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    for key, text in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise ArgumentError(f"save_file: metadata must be strings by name, got {key!r}: {text!r}; use json.dumps")
    return dict(metadata or {})


def write_arrays(file: IO[bytes], arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write header and bytes; large elements come first so that every tensor lies aligned."""
    if sys.byteorder != "little":
        raise ByteOrderError("save_file: writing safetensors needs a little-endian machine")
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        begin, end = end, end + arrays[name].nbytes
        code = CODES[dtype.by_numpy[arrays[name].dtype]]
        header[name] = {"dtype": code, "shape": list(arrays[name].shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        file.write(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)


# ------------------------------------------------------------------------------------------- reading


Entry = tuple[dtype, tuple[int, ...], int, int]  # type, shape, begin and end in the data


def read_arrays(source: Source, mapped: bool = False) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of a file (copies, or windows on it) and its metadata, all checked."""
    with reading(source) as (file, size, name):
        entries, metadata, start = _described(file, size, name)
        if not mapped:
            return {key: _copied(file, entry, start, name) for key, entry in entries.items()}, metadata
        memory = map_file(file, size, name)
        return {key: _window(memory, entry, start) for key, entry in entries.items()}, metadata


def _described(file: IO[bytes], size: int, name: str) -> tuple[dict[str, Entry], dict[str, str], int]:
    """What the header says: the tensors in the order of their bytes, the metadata, and where the data begin."""
    header, start = _read_header(file, size, name)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise HeaderError(f"{name}: __metadata__ must map names to strings, got {brief(metadata)}")
    entries = {key: _read_entry(key, entry, name) for key, entry in header.items()}
    _check_offsets(entries, size - start, name)
    return entries, metadata, start


def _read_header(file: IO[bytes], size: int, name: str) -> tuple[dict[str, Any], int]:
    """The header as a dictionary, and where the data begin."""
    head = file.read(9)
    if len(head) < 9:
        raise TruncatedError(f"{name}: a safetensors file has at least 10 bytes, this one {size}")
    if head[8:9] != b"{":
        advice = "; a PyTorch file is read with load_torch" if head[:1] in (b"P", b"\x80") else ""
        raise MagicError(f"{name}: not a safetensors file: the header should begin with '{{' at byte 8{advice}")
    length = int.from_bytes(head[:8], "little")
    if length > LONGEST_HEADER:
        raise HeaderError(f"{name}: the header claims {length} bytes; at most {LONGEST_HEADER} are allowed")
    if 8 + length > size:
        raise TruncatedError(f"{name}: the header claims {length} bytes, the file has {size - 8} after it begins")
    try:
        header = json.loads(b"{" + file.read(length - 1), object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise HeaderError(f"{name}: the header is not valid JSON: {error}") from None
    return header, 8 + length


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidValueError(f"the name {brief(key)} appears twice")
        found[key] = value
    return found


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _read_entry(key: str, entry: Any, name: str) -> Entry:
    """Type, shape, begin and end of one tensor."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise HeaderError(
            f"{name}: tensor {brief(key)} needs exactly dtype, shape and data_offsets, got {brief(entry)}"
        )
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS or not all(map(_is_count, shape)):
        raise HeaderError(f"{name}: tensor {brief(key)}: the shape must be a list of sizes, got {brief(shape)}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise HeaderError(f"{name}: tensor {brief(key)}: data_offsets must be two positions, got {brief(offsets)}")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in KINDS:
        raise DtypeError(f"{name}: tensor {brief(key)} has type {brief(entry['dtype'])}; Weft has {', '.join(KINDS)}")
    kind, (begin, end) = KINDS[entry["dtype"]], offsets
    if end - begin != math.prod(shape) * kind.itemsize:
        raise LayoutError(
            f"{name}: tensor {brief(key)} of shape {tuple(shape)} and type {kind} needs {math.prod(shape) * kind.itemsize} "
            f"bytes, its data_offsets {offsets} hold {end - begin}"
        )
    return kind, tuple(shape), begin, end


def _check_offsets(entries: Mapping[str, Entry], size: int, name: str) -> None:
    """The tensors must fill the data without overlap or gap, as the format demands."""
    position, before = 0, None
    for key, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin < position:
            raise LayoutError(f"{name}: tensors {brief(before)} and {brief(key)} overlap at byte {begin} of the data")
        if begin > position:
            raise LayoutError(f"{name}: bytes {position} to {begin} before tensor {brief(key)} belong to no tensor")
        position, before = end, key
    if position > size:
        raise TruncatedError(f"{name}: the tensors need {position} bytes of data, the file has {size}")
    if position < size:
        raise LayoutError(f"{name}: {size - position} bytes after the last tensor belong to no tensor")


def _copied(file: IO[bytes], entry: Entry, start: int, name: str) -> np.ndarray:
    kind, shape, begin, _ = entry
    return read_into(file, new_array(shape, kind.np, name), start + begin, name)


def _window(memory: Any, entry: Entry, start: int) -> np.ndarray:
    """An array over its bytes in memory; a copy where they do not lie aligned for the type."""
    kind, shape, begin, _ = entry
    if math.prod(shape) == 0:
        return np.empty(shape, kind.np)
    array = np.ndarray(shape, kind.np, memory, start + begin)
    return array if array.flags.aligned else array.copy()
