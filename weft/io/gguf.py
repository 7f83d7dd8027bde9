"""GGUF files, as llama.cpp writes them: facts about a model by name, then its tensors, most of them quantised.

    "GGUF", version (2 or 3), number of tensors, number of facts
    facts      name, type, value: numbers, strings, lists
    tensors    name, sizes (the last dimension first), kind, where its bytes begin
    padding, then the bytes

A quantised row is cut into blocks of 32 (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0) or 256 values (Q4_K, Q5_K, Q6_K), each with its own
scale: x = d · q [+ m]. Reading gives float32, with the one rounding that the formula has. Everything is checked against the
size of the file before memory is taken: what a file announces cannot cost more than a few times its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import dtype
from ..tensor import Tensor, wrap
from .atomic import Source, map_file, reading
from .bounded import brief
from .errors import HeaderError, LayoutError, MagicError, TruncatedError

__all__ = ["GGUF", "load_gguf"]

MOST_DIMENSIONS = 4  # ggml's
DEEPEST = 8  # lists in lists
NUMBERS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "|b1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
STRING, LIST = 8, 9


class GGUF(NamedTuple):
    """What a file holds: facts by name (numbers, strings, lists of them), tensors by name in float32 or their own type."""

    metadata: dict[str, Any]
    tensors: dict[str, Tensor]


def load_gguf(source: Source) -> GGUF:
    """Facts and tensors of a GGUF file; quantised tensors come as float32.

    Sizes are in PyTorch's order, (out, in) for a matrix. Raises `MagicError`, `TruncatedError`, `HeaderError` or
    `LayoutError`, and then has loaded nothing.

    >>> facts, tensors = weft.io.load_gguf("model.gguf")
    >>> facts["general.architecture"], tensors["token_embd.weight"].shape
    """
    with reading(source) as (file, size, path):
        reader = _Reader(path, np.frombuffer(map_file(file, size, path), np.uint8))
    header = reader.data[:4].tobytes()
    if header != b"GGUF":
        raise MagicError(f"{path}: expected a file that begins with b'GGUF', found {header!r}")
    version = reader.number("<u4", 4)
    if version not in (2, 3):
        raise HeaderError(f"{path}: expected version 2 or 3 (little-endian), found {version}")
    count, facts = reader.number("<u8", 8), reader.number("<u8", 8)
    reader.promise(count, 24, "tensors")
    reader.promise(facts, 13, "facts")
    metadata: dict[str, Any] = {}
    for _ in range(facts):
        name = reader.string()
        if name in metadata:
            raise HeaderError(f"{path}: the fact {brief(name)} comes twice")
        metadata[name] = reader.value(reader.number("<u4", 4))
    places = [_Place.read(reader) for _ in range(count)]
    begin = _begin(path, metadata, reader.at)
    _check(path, places, len(reader.data) - begin)
    return GGUF(metadata, {place.name: wrap(place.array(reader.data[begin:])) for place in places})


class _Reader:
    """The bytes of a file, one value after another; never beyond its end."""

    def __init__(self, path: str, data: np.ndarray) -> None:
        self.path, self.data, self.at = path, data, 4

    def take(self, size: int) -> np.ndarray:
        left = len(self.data) - self.at
        if size > left:
            raise TruncatedError(f"{self.path}: expected {brief(size)} more bytes at {self.at}, found {left}")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, kind: str, size: int) -> Any:
        return self.take(size).view(kind)[0].item()

    def promise(self, count: int, least: int, what: str) -> None:
        """Refuse a number of things that cannot fit what is left of the file, each having so many bytes at least."""
        if count * least > len(self.data) - self.at:
            raise TruncatedError(
                f"{self.path}: announces {brief(count)} {what}, more than its {len(self.data)} bytes can hold"
            )

    def string(self) -> str:
        text = self.take(self.number("<u8", 8)).tobytes()
        try:
            return text.decode()
        except UnicodeDecodeError:
            return text.decode(errors="replace")  # pieces of characters are tokens too

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in NUMBERS:
            return self.number(NUMBERS[kind], np.dtype(NUMBERS[kind]).itemsize)
        if kind == STRING:
            return self.string()
        if kind != LIST:
            raise HeaderError(f"{self.path}: unknown type {kind} of a fact at byte {self.at}")
        if depth == DEEPEST:
            raise HeaderError(f"{self.path}: lists more than {DEEPEST} deep; refused")
        inner, count = self.number("<u4", 4), self.number("<u8", 8)
        if inner in NUMBERS:
            size = np.dtype(NUMBERS[inner]).itemsize
            self.promise(count, size, "numbers")
            return self.take(count * size).view(NUMBERS[inner]).tolist()
        self.promise(count, 8 if inner == STRING else 12, "entries")
        return [self.value(inner, depth + 1) for _ in range(count)]


class _Place(NamedTuple):
    """A tensor of the file: its sizes in our order, its kind, where its bytes begin."""

    name: str
    shape: tuple[int, ...]
    kind: _Kind
    offset: int

    @classmethod
    def read(cls, reader: _Reader) -> _Place:
        name, dimensions = reader.string(), reader.number("<u4", 4)
        if dimensions > MOST_DIMENSIONS:
            raise HeaderError(
                f"{reader.path}: {brief(name)}: expected at most {MOST_DIMENSIONS} sizes, got {dimensions}"
            )
        shape = tuple(reader.number("<u8", 8) for _ in range(dimensions))[::-1]
        number, offset = reader.number("<u4", 4), reader.number("<u8", 8)
        if number not in KINDS:
            raise HeaderError(f"{reader.path}: {brief(name)}: kind {number} is not supported; those are {SUPPORTED}")
        kind = KINDS[number]
        if (shape[-1] if shape else 1) % kind.block:
            raise LayoutError(
                f"{reader.path}: {brief(name)}: rows of {brief(shape[-1])} are no whole blocks of {kind.block} ({kind.name})"
            )
        return cls(name, shape, kind, offset)

    @property
    def size(self) -> int:
        """In bytes."""
        return math.prod(self.shape) // self.kind.block * self.kind.size

    def array(self, data: np.ndarray) -> np.ndarray:
        raw = data[self.offset : self.offset + self.size]
        return self.kind.values(raw.reshape(-1, self.kind.size)).reshape(self.shape)


def _begin(path: str, metadata: dict[str, Any], at: int) -> int:
    """Where the bytes of tensors begin."""
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 1 <= alignment <= 1 << 20:
        raise HeaderError(f"{path}: general.alignment must be a small positive number, found {brief(alignment)}")
    return -(-at // alignment) * alignment


def _check(path: str, places: list[_Place], length: int) -> None:
    """Names differ, no tensor leaves the file, none shares bytes with another."""
    names, end = set(), 0
    for place in sorted(places, key=lambda place: place.offset):
        if place.name in names:
            raise HeaderError(f"{path}: the tensor {brief(place.name)} comes twice")
        names.add(place.name)
        if place.offset + place.size > max(length, 0):
            raise TruncatedError(
                f"{path}: {brief(place.name)} of {brief(place.size)} bytes at {brief(place.offset)} leaves the file, "
                f"which has {max(length, 0)} bytes of tensors"
            )
        if place.size and place.offset < end:
            raise LayoutError(f"{path}: {brief(place.name)} shares bytes with another tensor")
        end = max(end, place.offset + place.size)


# ------------------------------------------------------------------------------------------- kinds of tensors


class _Kind(NamedTuple):
    """How values lie: so many in a block of so many bytes; values: blocks (N, bytes) → (N, block)."""

    name: str
    block: int
    size: int
    values: Callable[[np.ndarray], np.ndarray]


def _plain(kind: str, as_kind: dtype | None = None) -> Callable[[np.ndarray], np.ndarray]:
    """Values as they lie, in memory of their own."""
    return lambda raw: raw.view(kind).copy() if as_kind is None else raw.view(kind).copy().view(as_kind.np)


def _half(raw: np.ndarray) -> np.ndarray:
    """Numbers of 16 bits, as float32. Shape: (N, 2 k) → (N, k)"""
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def _nibbles(raw: np.ndarray) -> np.ndarray:
    """The lower halves of all bytes, then the upper ones. Shape: (N, k) → (N, 2 k)"""
    return np.concatenate([raw & 15, raw >> 4], 1)


def _q4_0(raw: np.ndarray) -> np.ndarray:
    return _half(raw[:, :2]) * (_nibbles(raw[:, 2:]).astype(np.float32) - 8)


def _q4_1(raw: np.ndarray) -> np.ndarray:
    return _half(raw[:, :2]) * _nibbles(raw[:, 4:]).astype(np.float32) + _half(raw[:, 2:4])


def _fifth(raw: np.ndarray) -> np.ndarray:
    """Bit i of four bytes, times 16. Shape: (N, 4) → (N, 32)"""
    return np.unpackbits(np.ascontiguousarray(raw), axis=1, bitorder="little") << 4


def _q5_0(raw: np.ndarray) -> np.ndarray:
    return _half(raw[:, :2]) * ((_nibbles(raw[:, 6:]) | _fifth(raw[:, 2:6])).astype(np.float32) - 16)


def _q5_1(raw: np.ndarray) -> np.ndarray:
    quanta = (_nibbles(raw[:, 8:]) | _fifth(raw[:, 4:8])).astype(np.float32)
    return _half(raw[:, :2]) * quanta + _half(raw[:, 2:4])


def _q8_0(raw: np.ndarray) -> np.ndarray:
    return _half(raw[:, :2]) * np.ascontiguousarray(raw[:, 2:]).view("i1").astype(np.float32)


def _scales(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eight scales and eight offsets of six bits each. Shape: (N, 12) → (N, 8) twice"""
    first, second, third = raw[:, :4], raw[:, 4:8], raw[:, 8:]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6) << 4], 1)
    offsets = np.concatenate([second & 63, (third >> 4) | (second >> 6) << 4], 1)
    return scales.astype(np.float32), offsets.astype(np.float32)


def _stretched(raw: np.ndarray, quanta: np.ndarray) -> np.ndarray:
    """d s_i q − m o_i over the eight parts i of a block. Shape: header (N, 16), (N, 8, 32) → (N, 256)"""
    scales, offsets = _scales(raw[:, 4:16])
    scales, offsets = _half(raw[:, :2]) * scales, _half(raw[:, 2:4]) * offsets  # (N, 8) each
    return (scales[..., None] * quanta.astype(np.float32) - offsets[..., None]).reshape(len(raw), 256)


def _parts(raw: np.ndarray) -> np.ndarray:
    """Each run of 32 bytes holds two parts: the lower halves, then the upper ones. Shape: (N, 128) → (N, 8, 32)"""
    runs = raw.reshape(len(raw), 4, 32)
    return np.stack([runs & 15, runs >> 4], 2).reshape(len(raw), 8, 32)


def _q4_k(raw: np.ndarray) -> np.ndarray:
    return _stretched(raw[:, :16], _parts(raw[:, 16:]))


def _q5_k(raw: np.ndarray) -> np.ndarray:
    bits = (raw[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]) & 1  # bit i belongs to part i, (N, 8, 32)
    return _stretched(raw[:, :16], _parts(raw[:, 48:]) | bits << 4)


def _q6_k(raw: np.ndarray) -> np.ndarray:
    """Of each half of a block: four runs of 32 values, their lower 4 bits in 64 bytes, their upper 2 bits in 32."""
    low = raw[:, :128].reshape(-1, 2, 64)
    low = np.stack([low & 15, low >> 4], 2).reshape(-1, 2, 4, 32)
    high = raw[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    quanta = (low | high << 4).astype(np.float32) - 32  # (N, 2, 4, 32)
    scales = _half(raw[:, 208:]) * np.ascontiguousarray(raw[:, 192:208]).view("i1").astype(np.float32)  # (N, 16)
    return (scales[..., None] * quanta.reshape(-1, 16, 16)).reshape(len(raw), 256)


KINDS: dict[int, _Kind] = {
    0: _Kind("F32", 1, 4, _plain("<f4")),
    1: _Kind("F16", 1, 2, _plain("<f2")),
    2: _Kind("Q4_0", 32, 18, _q4_0),
    3: _Kind("Q4_1", 32, 20, _q4_1),
    6: _Kind("Q5_0", 32, 22, _q5_0),
    7: _Kind("Q5_1", 32, 24, _q5_1),
    8: _Kind("Q8_0", 32, 34, _q8_0),
    12: _Kind("Q4_K", 256, 144, _q4_k),
    13: _Kind("Q5_K", 256, 176, _q5_k),
    14: _Kind("Q6_K", 256, 210, _q6_k),
    24: _Kind("I8", 1, 1, _plain("<i1")),
    25: _Kind("I16", 1, 2, _plain("<i2")),
    26: _Kind("I32", 1, 4, _plain("<i4")),
    27: _Kind("I64", 1, 8, _plain("<i8")),
    28: _Kind("F64", 1, 8, _plain("<f8")),
    30: _Kind("BF16", 1, 2, _plain("<u2", dtype.by_name["bfloat16"])),
}
SUPPORTED = ", ".join(kind.name for kind in KINDS.values())
