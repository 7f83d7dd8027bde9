"""TensorBoard's event files: scalars as protocol-buffer messages in the TFRecord framing, written by hand.

A record is its length (8 bytes), the masked CRC-32C of these, the data, and the masked CRC-32C of the data, all
little-endian. Masked: ((c >> 15) | (c << 17)) + 0xa282ead8 modulo 2³². The data is a message `Event`:

    1: wall_time (double)   2: step (int64)   3: file_version (string)   5: summary   7: session_log
    Summary  { 1: Value { 1: tag (string)   2: simple_value (float) } }
    SessionLog { 1: status (START = 1) }
"""

from __future__ import annotations

import itertools
import math
import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from ..errors import InvalidValueError

__all__ = ["EventWriter", "crc32c", "records"]

POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
_numbers = itertools.count()


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """The cyclic redundancy check with Castagnoli's polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    """One record of a TFRecord file."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def records(content: bytes) -> list[bytes]:
    """The data of all whole records; a torn one at the end is left out, a wrong checksum is an error."""
    out, at = [], 0
    while at + 12 <= len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        data = content[at + 12 : at + 12 + length]
        if at + 16 + length > len(content):
            break
        checks = content[at + 8 : at + 12], content[at + 12 + length : at + 16 + length]
        if checks != (_masked(content[at : at + 8]), _masked(data)):
            raise InvalidValueError(f"records: wrong checksum in the record at byte {at}")
        out.append(data)
        at += 16 + length
    return out


def _varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _integer(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _event(step: int, content: bytes) -> bytes:
    return _varint(1 << 3 | 1) + struct.pack("<d", time.time()) + _integer(2, step) + content


def _scalar(tag: str, value: float) -> bytes:
    try:
        number = struct.pack("<f", value)
    except OverflowError:  # beyond float32
        number = struct.pack("<f", math.copysign(math.inf, value))
    return _bytes(1, _bytes(1, tag.encode()) + _varint(2 << 3 | 5) + number)


class EventWriter:
    """A new event file in `folder`. What older files hold from `step` on is forgotten by TensorBoard."""

    def __init__(self, folder: str | os.PathLike[str], step: int = 0) -> None:
        name = f"events.out.tfevents.{time.time():.6f}.{os.getpid()}.{next(_numbers)}"
        self.path = Path(folder) / name
        self.file = open(self.path, "ab")
        self._write(_event(0, _bytes(3, b"brain.Event:2")))
        if step:
            self._write(_event(step, _bytes(7, _integer(1, 1))))

    def add_scalars(self, values: Mapping[str, float], step: int) -> None:
        """One event with a value for every name."""
        summary = b"".join(_scalar(name, float(value)) for name, value in values.items())
        if summary:
            self._write(_event(step, _bytes(5, summary)))

    def _write(self, data: bytes) -> None:
        self.file.write(record(data))
        self.file.flush()

    def close(self) -> None:
        self.file.close()
