"""Protocol buffers' wire format, read and written: numbered fields that are whole numbers, floats, bytes or messages.

A message is a class with a table of its fields. What a stranger wrote is read in bounded time and memory: lengths are
compared with what is there, nesting and the number of messages are limited, and large arrays stay windows of the file.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..io.errors import HeaderError, OversizeError, TruncatedError

__all__ = ["BYTES", "DOUBLE", "FLOAT", "INT", "STRING", "UINT", "Field", "Message", "decode", "encode", "many", "one"]

INT, UINT, FLOAT, DOUBLE, STRING, BYTES = "int", "uint", "float", "double", "string", "bytes"
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
DEEPEST = 64  # messages inside of messages
MOST = 1_000_000  # messages and single numbers in one file: 2³¹ bytes of empty messages would fill any memory
MASK = (1 << 64) - 1
_WIDTHS = {FLOAT: (FIXED32, np.dtype("<f4")), DOUBLE: (FIXED64, np.dtype("<f8"))}


class Field(NamedTuple):
    """One field of a message: its name, what it holds, and whether there may be several."""

    name: str
    kind: Any
    repeated: bool = False


def one(name: str, kind: Any) -> Field:
    return Field(name, kind)


def many(name: str, kind: Any) -> Field:
    return Field(name, kind, True)


class Message:
    """A message with the fields of its table: single ones are None where they are not set, repeated ones lists.

    Repeated numbers that came packed are NumPy arrays.
    """

    fields: ClassVar[dict[int, Field]] = {}

    def __init__(self, **values: Any) -> None:
        singles, repeated = _emptiness(type(self))
        held = self.__dict__
        held.update(singles)
        for name in repeated:
            held[name] = []
        held.update(values)

    def __repr__(self) -> str:
        held = (f"{f.name}={getattr(self, f.name)!r}" for f in self.fields.values() if _is_set(getattr(self, f.name)))
        return f"{type(self).__name__}({', '.join(held)})"


@functools.cache
def _emptiness(cls: type[Message]) -> tuple[dict[str, None], tuple[str, ...]]:
    """What a message of a class has at first: its single fields, all None, and the names of its repeated ones."""
    fields = cls.fields.values()
    return {f.name: None for f in fields if not f.repeated}, tuple(f.name for f in fields if f.repeated)


def _is_set(value: Any) -> bool:
    return value is not None and (not hasattr(value, "__len__") or isinstance(value, (str, bytes)) or len(value) > 0)


# ---------------------------------------------------------------------------------------------- reading


class _Budget:
    """How many messages and numbers may still come out of a file, and its name for messages."""

    def __init__(self, name: str) -> None:
        self.name, self.left = name, MOST

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OversizeError(f"{self.name}: more than {MOST} parts; no model has so many")


def decode(cls: type[Message], data: Any, name: str = "file") -> Any:
    """The message of a class that `data`, bytes or a window of them, holds."""
    return _message(cls, memoryview(data).cast("B"), _Budget(name), 0)


def _message(cls: type[Message], data: memoryview, budget: _Budget, depth: int) -> Message:
    if depth > DEEPEST:
        raise HeaderError(f"{budget.name}: messages nested more than {DEEPEST} deep; refused")
    budget.spend()
    found = cls()
    for number, wire, value in _parts(data, budget):
        field = cls.fields.get(number)
        if field is None:
            continue
        taken = _taken(field, wire, value, budget, depth)
        if not field.repeated:
            setattr(found, field.name, taken)
        elif isinstance(taken, np.ndarray):
            _extend(found, field.name, taken)
        else:
            _append(found, field.name, taken)
    return found


def _extend(found: Message, name: str, numbers: np.ndarray) -> None:
    """Packed numbers; a second lot of them is put behind the first."""
    held = getattr(found, name)
    setattr(found, name, np.concatenate([held, numbers]) if len(held) else numbers)


def _append(found: Message, name: str, value: Any) -> None:
    held = getattr(found, name)
    if isinstance(held, np.ndarray):
        held = held.tolist()
        setattr(found, name, held)
    held.append(value)


def _parts(data: memoryview, budget: _Budget) -> Iterator[tuple[int, int, Any]]:
    """(number, wire type, a whole number or a window of the bytes) of every field."""
    place, end = 0, len(data)
    while place < end:
        key, place = _varint(data, place, budget)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, place = _varint(data, place, budget)
        else:
            length, place = _length(wire, data, place, budget)
            if length > end - place:
                raise TruncatedError(
                    f"{budget.name}: field {number} announces {length} bytes, only {end - place} are left"
                )
            value, place = data[place : place + length], place + length
        yield number, wire, value


def _length(wire: int, data: memoryview, place: int, budget: _Budget) -> tuple[int, int]:
    if wire == LENGTH:
        return _varint(data, place, budget)
    if wire in (FIXED32, FIXED64):
        return (4 if wire == FIXED32 else 8), place
    raise HeaderError(f"{budget.name}: expected a protocol-buffer file (ONNX), found a field of wire type {wire}")


def _varint(data: memoryview, place: int, budget: _Budget) -> tuple[int, int]:
    value = shift = 0
    end = len(data)
    while place < end:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & MASK, place
        shift += 7
        if shift > 63:
            raise HeaderError(f"{budget.name}: a whole number of more than ten bytes; this is no ONNX file")
    raise TruncatedError(f"{budget.name}: the file ends within a number")


def _taken(field: Field, wire: int, value: Any, budget: _Budget, depth: int) -> Any:
    """What a field holds, of the kind that its table says."""
    kind = field.kind
    if isinstance(kind, type):
        _expect(wire == LENGTH, field, budget)
        return _message(kind, value, budget, depth + 1)
    if kind in (STRING, BYTES):
        _expect(wire == LENGTH, field, budget)
        budget.spend()
        return value if kind is BYTES else _text(value, field, budget)
    if wire == LENGTH:
        _expect(field.repeated, field, budget)
        return _packed(kind, value, field, budget)
    budget.spend()
    if kind in _WIDTHS:
        _expect(wire == _WIDTHS[kind][0], field, budget)
        return struct.unpack("<f" if kind is FLOAT else "<d", value)[0]
    _expect(wire == VARINT, field, budget)
    return value - (1 << 64) if kind is INT and value >> 63 else value


def _expect(holds: bool, field: Field, budget: _Budget) -> None:
    if not holds:
        raise HeaderError(f"{budget.name}: field {field.name!r} is not written as ONNX writes it")


def _text(value: memoryview, field: Field, budget: _Budget) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise HeaderError(f"{budget.name}: field {field.name!r} is no text in UTF-8") from None


def _packed(kind: str, value: memoryview, field: Field, budget: _Budget) -> np.ndarray:
    if kind in _WIDTHS:
        width = _WIDTHS[kind][1]
        _expect(len(value) % width.itemsize == 0, field, budget)
        return np.frombuffer(value, width)
    return _varints(np.frombuffer(value, np.uint8), budget).view(np.int64 if kind is INT else np.uint64)


def _varints(data: np.ndarray, budget: _Budget) -> np.ndarray:
    """All whole numbers that lie one after the other, as 64-bit words."""
    ends = np.flatnonzero(data < 0x80)
    if data.size and (not ends.size or ends[-1] != data.size - 1):
        raise TruncatedError(f"{budget.name}: packed numbers end within a number")
    starts = np.concatenate([[0], ends[:-1] + 1]) if ends.size else ends
    lengths = ends - starts + 1
    if lengths.size and lengths.max() > 10:
        raise HeaderError(f"{budget.name}: a whole number of more than ten bytes; this is no ONNX file")
    words = np.zeros(len(ends), np.uint64)
    for step in range(int(lengths.max(initial=0))):
        longer = lengths > step
        words[longer] |= (data[starts[longer] + step].astype(np.uint64) & np.uint64(0x7F)) << np.uint64(7 * step)
    return words


# ---------------------------------------------------------------------------------------------- writing


def encode(message: Message) -> list[bytes | memoryview]:
    """The bytes of a message in pieces, fields in the order of their numbers: equal messages give equal bytes."""
    pieces: list[bytes | memoryview] = []
    _write(message, pieces)
    return pieces


def _write(message: Message, pieces: list[Any]) -> int:
    """Add the bytes of a message; how many they are."""
    total = 0
    for number, field in sorted(message.fields.items()):
        value = getattr(message, field.name)
        if field.repeated:
            total += _write_all(number, field.kind, value, pieces)
        elif value is not None:
            total += _write_one(number, field.kind, value, pieces)
    return total


def _write_all(number: int, kind: Any, values: Sequence[Any], pieces: list[Any]) -> int:
    if len(values) == 0:
        return 0
    if isinstance(kind, type) or kind in (STRING, BYTES):
        return sum(_write_one(number, kind, value, pieces) for value in values)
    if kind in _WIDTHS:
        packed = np.asarray(values, _WIDTHS[kind][1]).tobytes()
    else:
        packed = b"".join(_number(int(value)) for value in values)
    return _write_one(number, BYTES, packed, pieces)


def _write_one(number: int, kind: Any, value: Any, pieces: list[Any]) -> int:
    if kind in _WIDTHS:
        wire, width = _WIDTHS[kind]
        return _put(pieces, _number(number << 3 | wire), np.asarray(value, width).tobytes())
    if kind in (INT, UINT):
        return _put(pieces, _number(number << 3 | VARINT), _number(int(value)))
    inner: list[Any] = []
    if isinstance(kind, type):
        length = _write(value, inner)
    else:
        content = value.encode() if isinstance(value, str) else value
        inner, length = [content], memoryview(content).nbytes
    written = _put(pieces, _number(number << 3 | LENGTH), _number(length))
    pieces.extend(inner)
    return written + length


def _put(pieces: list[Any], *parts: bytes) -> int:
    pieces.extend(parts)
    return sum(map(len, parts))


def _number(value: int) -> bytes:
    """A whole number seven bits at a time, lowest first; negative ones as 64-bit words."""
    value &= MASK
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
