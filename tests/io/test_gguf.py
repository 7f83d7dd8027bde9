"""GGUF files: blocks encoded here one value at a time come back exactly; damaged files raise at once."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.io import HeaderError, LayoutError, MagicError, TruncatedError, load_gguf

# ------------------------------------------------------------------------- an encoder of its own, value by value


def half(value: float) -> tuple[bytes, np.float32]:
    """Two bytes, and the number that they are."""
    raw = struct.pack("<e", value)
    return raw, np.float32(struct.unpack("<e", raw)[0])


def block_of_32(kind: str, random: np.random.Generator) -> tuple[bytes, list[np.float32]]:
    """A block with random integers: its bytes as ggml lays them out, and d · q + m for each value."""
    (d_raw, d), (m_raw, m) = half(random.normal()), half(random.normal())
    bits, signed, offset = {
        "Q4_0": (4, 8, False),
        "Q4_1": (4, 0, True),
        "Q5_0": (5, 16, False),
        "Q5_1": (5, 0, True),
        "Q8_0": (8, 128, False),
    }[kind]
    quanta = [int(q) for q in random.integers(0, 2**bits, 32)]
    values = [np.float32(d * np.float32(q - signed)) + (m if offset else np.float32(0)) for q in quanta]
    if bits == 8:
        return d_raw + bytes((q - 128) % 256 for q in quanta), values
    low = bytes((quanta[j] & 15) | (quanta[j + 16] & 15) << 4 for j in range(16))
    high = struct.pack("<I", sum((q >> 4) << j for j, q in enumerate(quanta))) if bits == 5 else b""
    return d_raw + (m_raw if offset else b"") + high + low, values


def six_bit_scales(scales: list[int], offsets: list[int]) -> bytes:
    """Twelve bytes: the upper two bits of the last four of each lie above the first four."""
    raw = [0] * 12
    for j in range(4):
        raw[j], raw[j + 4] = scales[j], offsets[j]
    for j in range(4, 8):
        raw[j + 4] = (scales[j] & 15) | (offsets[j] & 15) << 4
        raw[j - 4] |= (scales[j] >> 4) << 6
        raw[j] |= (offsets[j] >> 4) << 6
    return bytes(raw)


def block_of_256(kind: str, random: np.random.Generator) -> tuple[bytes, list[np.float32]]:
    (d_raw, d), (m_raw, m) = half(random.normal()), half(random.normal())
    if kind == "Q6_K":
        quanta, scales = random.integers(0, 64, 256).tolist(), random.integers(-128, 128, 16).tolist()
        low, high = [0] * 128, [0] * 64
        for i, q in enumerate(quanta):
            part, run, place = i // 128, i % 128 // 32, i % 32
            low[64 * part + 32 * (run % 2) + place] |= (q & 15) << 4 * (run // 2)
            high[32 * part + place] |= (q >> 4) << 2 * run
        values = [np.float32(d * np.float32(scales[i // 16])) * np.float32(q - 32) for i, q in enumerate(quanta)]
        return bytes(low) + bytes(high) + struct.pack("16b", *scales) + d_raw, values
    bits = 5 if kind == "Q5_K" else 4
    quanta = random.integers(0, 2**bits, 256).tolist()
    scales, offsets = random.integers(0, 64, 8).tolist(), random.integers(0, 64, 8).tolist()
    low, high, values = [0] * 128, [0] * 32, []
    for i, q in enumerate(quanta):
        part, place = i // 32, i % 32
        low[32 * (part // 2) + place] |= (q & 15) << 4 * (part % 2)
        high[place] |= (q >> 4) << part
        scale, offset = np.float32(d * np.float32(scales[part])), np.float32(m * np.float32(offsets[part]))
        values.append(np.float32(scale * np.float32(q)) - offset)
    raw = d_raw + m_raw + six_bit_scales(scales, offsets) + (bytes(high) if bits == 5 else b"") + bytes(low)
    return raw, values


NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q4_K": 12, "Q5_K": 13}
NUMBERS |= {"Q6_K": 14, "I32": 26, "BF16": 30}


def quantised(kind: str, shape: tuple[int, ...], seed: int = 0) -> tuple[bytes, np.ndarray]:
    random, size = np.random.default_rng(seed), 256 if kind.endswith("_K") else 32
    make = block_of_256 if size == 256 else block_of_32
    blocks = [make(kind, random) for _ in range(int(np.prod(shape)) // size)]
    values = np.array([value for _, part in blocks for value in part], np.float32)
    return b"".join(raw for raw, _ in blocks), values.reshape(shape)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def fact(name: str, value: Any) -> bytes:
    return text(name) + typed(value)


def typed(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    entries = [typed(entry) for entry in value]
    return struct.pack("<I", 9) + entries[0][:4] + struct.pack("<Q", len(value)) + b"".join(e[4:] for e in entries)


def gguf(facts: dict[str, Any], tensors: dict[str, tuple[str, tuple[int, ...], bytes]], version: int = 3) -> bytes:
    """The bytes of a file; tensors: kind, sizes in PyTorch's order, bytes."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(facts))
    head += b"".join(fact(name, value) for name, value in facts.items())
    body, align = b"", facts.get("general.alignment", 32)
    for name, (kind, shape, raw) in tensors.items():
        body += bytes(-len(body) % align)
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape[::-1])
        head += struct.pack("<IQ", NUMBERS[kind], len(body))
        body += raw
    return head + bytes(-len(head) % align) + body


# ------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"])
def test_dequantised_values_are_exact(kind: str, tmp_path: Path) -> None:
    raw, values = quantised(kind, (3, 512))
    other = np.arange(6, dtype=np.float32).reshape(2, 3)
    (tmp_path / "x.gguf").write_bytes(gguf({}, {"w": (kind, (3, 512), raw), "b": ("F32", (2, 3), other.tobytes())}))
    _, found = load_gguf(tmp_path / "x.gguf")
    assert found["w"].dtype is weft.float32
    np.testing.assert_array_equal(found["w"].numpy(), values)
    np.testing.assert_array_equal(found["b"].numpy(), other)


def test_a_worked_block_of_q4_0() -> None:
    """d = 2, nibbles 0 … 15 below and 15 … 0 above: −16, −14 … 14, then 14, 12 … −16."""
    import io

    raw = struct.pack("<e", 2.0) + bytes(j | (15 - j) << 4 for j in range(16))
    found = load_gguf(io.BytesIO(gguf({}, {"w": ("Q4_0", (32,), raw)}))).tensors["w"]
    np.testing.assert_array_equal(found.numpy(), [*range(-16, 16, 2), *range(14, -18, -2)])


def test_facts_plain_tensors_and_alignment(tmp_path: Path) -> None:
    facts = {"general.architecture": "llama", "general.alignment": 64, "a.bool": True, "a.float": 0.5}
    facts |= {"a.names": ["x", "é", ""], "a.numbers": [1, 2, 3], "a.nested": [["p", "q"], ["r"]]}
    halves, whole = np.array([1.5, -2], np.float16), np.arange(4, dtype=np.int32)
    brain = np.array([0x3FC0, 0xC000], np.uint16)  # 1.5 and −2 in bfloat16
    tensors = {"h": ("F16", (2,), halves.tobytes()), "i": ("I32", (2, 2), whole.tobytes())}
    tensors |= {"b": ("BF16", (2,), brain.tobytes()), "none": ("F32", (0, 3), b"")}
    (tmp_path / "x.gguf").write_bytes(gguf(facts, tensors, version=2))
    metadata, found = load_gguf(tmp_path / "x.gguf")
    assert metadata == facts
    assert found["h"].dtype is weft.float16 and found["h"].tolist() == [1.5, -2]
    assert found["i"].tolist() == [[0, 1], [2, 3]] and found["none"].shape == (0, 3)
    assert found["b"].dtype is weft.bfloat16 and found["b"].float().tolist() == [1.5, -2]


# ------------------------------------------------------------------------------------------- hostile files


def sound() -> bytes:
    raw, _ = quantised("Q4_0", (2, 32))
    return gguf({"general.name": "x"}, {"w": ("Q4_0", (2, 32), raw)})


def header(tensors: int = 0, facts: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, facts)


def info(shape: tuple[int, ...], kind: int = 0, offset: int = 0, name: str = "w") -> bytes:
    sizes = b"".join(struct.pack("<Q", size) for size in shape)
    return text(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, offset)


def nested(depth: int) -> bytes:
    """A list in a list in a list …"""
    return header(facts=1) + text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * depth + bytes(64)


HOSTILE: dict[str, tuple[Callable[[], bytes], type[Exception], str]] = {
    "empty": (lambda: b"", MagicError, "begins with"),
    "another kind": (lambda: b"PK\x03\x04" + bytes(64), MagicError, "begins with"),
    "another version": (lambda: header(version=1), HeaderError, "version 2 or 3"),
    "big-endian": (lambda: b"GGUF" + struct.pack(">IQQ", 3, 0, 0), HeaderError, "little-endian"),
    "a milliard tensors": (lambda: header(tensors=10**9), TruncatedError, "tensors"),
    "2⁶⁴ − 1 facts": (lambda: header(facts=2**64 - 1), TruncatedError, "facts"),
    "an endless name": (lambda: header(facts=1) + struct.pack("<Q", 2**63) + bytes(64), TruncatedError, "more bytes"),
    "an endless list": (
        lambda: header(facts=1) + text("a") + struct.pack("<IIQ", 9, 4, 2**61) + bytes(64),
        TruncatedError,
        "numbers",
    ),
    "an endless list of strings": (
        lambda: header(facts=1) + text("a") + struct.pack("<IIQ", 9, 8, 2**61) + bytes(64),
        TruncatedError,
        "entries",
    ),
    "nested 100,000 deep": (lambda: nested(100_000), HeaderError, "deep"),
    "an unknown type": (lambda: header(facts=1) + text("a") + struct.pack("<I", 77) + bytes(8), HeaderError, "type 77"),
    "a fact twice": (lambda: header(facts=2) + fact("a", 1) * 2, HeaderError, "twice"),
    "a tensor twice": (lambda: header(tensors=2) + info((1,)) * 2 + bytes(64), HeaderError, "twice"),
    "huge sizes": (lambda: header(tensors=1) + info((2**40, 2**40)) + bytes(64), TruncatedError, "leaves the file"),
    "sizes whose product wraps": (
        lambda: header(tensors=1) + info((2**32, 2**32)) + bytes(64),
        TruncatedError,
        "leaves the file",
    ),
    "many dimensions": (lambda: header(tensors=1) + info((1,) * 9) + bytes(64), HeaderError, "at most 4 sizes"),
    "an offset beyond the end": (
        lambda: header(tensors=1) + info((4,), offset=2**63) + bytes(64),
        TruncatedError,
        "leaves the file",
    ),
    "bytes that two share": (
        lambda: header(tensors=2) + info((4,)) + info((4,), offset=8, name="v") + bytes(128),
        LayoutError,
        "shares bytes",
    ),
    "an unknown kind": (lambda: header(tensors=1) + info((4,), kind=99) + bytes(64), HeaderError, "kind 99"),
    "half a block": (lambda: header(tensors=1) + info((33,), kind=2) + bytes(64), LayoutError, "whole blocks"),
    "no alignment": (lambda: gguf({"general.alignment": 1}, {})[:-4] + bytes(4), HeaderError, "alignment"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_at_once(name: str, tmp_path: Path) -> None:
    make, kind, words = HOSTILE[name]
    (tmp_path / "x.gguf").write_bytes(make())
    tracemalloc.start()
    begin = time.process_time()
    with pytest.raises(kind, match=words):
        load_gguf(tmp_path / "x.gguf")
    assert time.process_time() - begin < 1.0
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = sound()
    for length in range(len(whole)):
        (tmp_path / "x.gguf").write_bytes(whole[:length])
        with pytest.raises(weft.io.FileFormatError):
            load_gguf(tmp_path / "x.gguf")


def test_random_damage_never_ends_in_an_error_of_python(tmp_path: Path) -> None:
    whole, random = sound(), np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for place in random.integers(0, len(whole), 3):
            damaged[place] = random.integers(0, 256)
        (tmp_path / "x.gguf").write_bytes(damaged)
        try:
            load_gguf(tmp_path / "x.gguf")
        except weft.io.FileFormatError:
            pass
