"""WAV files: whole numbers of 8, 16, 24 and 32 bits, floating numbers of 32 and 64.

    "RIFF" size "WAVE", then parts: name, size, bytes (one more if the size is odd)
    "fmt "   kind (1 whole numbers, 3 floating, 0xFFFE more to come), channels, rate, …, bits of a value
    "data"   the values, channel by channel for each moment
What a file announces is compared with its size before memory is taken.
"""

from __future__ import annotations

import struct
from typing import IO, NamedTuple

import numpy as np

from ..errors import DtypeError, OptionError, ShapeError
from ..io.atomic import Source, reading, writing
from ..io.bounded import brief
from ..io.errors import HeaderError, MagicError, TruncatedError
from ..tensor import Tensor, wrap

__all__ = ["AudioMetaData", "info", "load", "save"]

KINDS = {(1, 8): "u1", (1, 16): "<i2", (1, 24): "", (1, 32): "<i4", (3, 32): "<f4", (3, 64): "<f8"}
CODES = {1: "PCM_S", 3: "PCM_F"}


class AudioMetaData(NamedTuple):
    """What a file says of its sound."""

    sample_rate: int
    num_frames: int
    num_channels: int
    bits_per_sample: int
    encoding: str


class _Form(NamedTuple):
    kind: int
    channels: int
    rate: int
    bits: int
    begin: int  # of the values, in bytes
    frames: int


def info(uri: Source) -> AudioMetaData:
    """Rate, length, channels and encoding of a WAV file."""
    with reading(uri) as (file, size, name):
        form = _described(file, size, name)
    code = "PCM_U" if form.bits == 8 else CODES[form.kind]
    return AudioMetaData(form.rate, form.frames, form.channels, form.bits, code)


def load(
    uri: Source, frame_offset: int = 0, num_frames: int = -1, normalize: bool = True, channels_first: bool = True
) -> tuple[Tensor, int]:
    """The sound of a WAV file, float32 in [−1, 1], and its rate. Shape: (channels, time)

    frame_offset, num_frames: a part of it. normalize=False: whole numbers as they are. channels_first=False: (time,
    channels). Raises `MagicError`, `HeaderError` or `TruncatedError`.
    """
    if frame_offset < 0 or num_frames == 0 or num_frames < -1:
        raise OptionError(
            f"load: expected frame_offset ≥ 0 and num_frames above 0 or −1, got {frame_offset}, {num_frames}"
        )
    with reading(uri) as (file, size, name):
        form = _described(file, size, name)
        first = min(frame_offset, form.frames)
        count = form.frames - first if num_frames == -1 else min(num_frames, form.frames - first)
        width = form.channels * form.bits // 8
        file.seek(form.begin + first * width)
        raw = np.frombuffer(file.read(count * width), np.uint8)
    values = _values(raw, form, normalize).reshape(-1, form.channels)
    return wrap(np.ascontiguousarray(values.T if channels_first else values)), form.rate


def _values(raw: np.ndarray, form: _Form, normalize: bool) -> np.ndarray:
    if form.bits == 24:
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = raw.reshape(-1, 3)
        values = wide.view("<i4")[:, 0]  # the lowest byte is 0: 24 bits as the upper ones of 32
        bits = 32
    else:
        values, bits = raw.view(KINDS[form.kind, form.bits]), form.bits
    if form.kind == 3:
        return values.astype(np.float32)
    if not normalize:
        return values.copy()
    if bits == 8:
        return (values.astype(np.float32) - 128) / np.float32(128)
    return values.astype(np.float32) / np.float32(2 ** (bits - 1))


def _described(file: IO[bytes], size: int, name: str) -> _Form:
    head = file.read(12)
    if len(head) < 12 or head[:4] != b"RIFF" or head[8:] != b"WAVE":
        raise MagicError(f"{name}: expected a WAV file (RIFF … WAVE), found {head!r}")
    at, form = 12, None
    while at + 8 <= size:
        file.seek(at)
        part, length = struct.unpack("<4sI", file.read(8))
        if part == b"fmt ":
            form = _form(file.read(min(length, 40)), name)
        elif part == b"data":
            if form is None:
                raise HeaderError(f"{name}: the values come before their description")
            there = size - at - 8
            length = there if length in (0xFFFFFFFF, 0) and there else length  # written as a stream
            if length > there:
                raise TruncatedError(f"{name}: announces {length} bytes of values, has {there}")
            return _Form(*form, at + 8, length // (form[1] * form[3] // 8))
        at += 8 + length + length % 2
    raise TruncatedError(f"{name}: no values in the file")


def _form(raw: bytes, name: str) -> tuple[int, int, int, int]:
    if len(raw) < 16:
        raise TruncatedError(f"{name}: a description of {len(raw)} bytes, expected 16 or more")
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", raw[:16])
    if kind == 0xFFFE and len(raw) >= 26:
        kind = struct.unpack("<H", raw[24:26])[0]
    if (kind, bits) not in KINDS:
        raise HeaderError(
            f"{name}: expected whole numbers of 8 to 32 bits or floating ones, found kind {kind} of {bits} bits"
        )
    if not channels or not rate:
        raise HeaderError(f"{name}: {brief(channels)} channels at a rate of {brief(rate)}")
    return kind, channels, rate, bits


def save(
    uri: Source,
    src: Tensor,
    sample_rate: int,
    channels_first: bool = True,
    format: str | None = None,
    encoding: str | None = None,
    bits_per_sample: int | None = None,
) -> None:
    """Write a sound (channels, time) as WAV: floating values in [−1, 1] as 32-bit floats, or with encoding "PCM_S" as whole
    numbers of bits_per_sample (16 unless given); tensors of int16 and int32 as they are.
    """
    if format not in (None, "wav"):
        raise OptionError(f"save: expected format 'wav', the only one here, got {format!r}")
    if src.ndim != 2 or not 1 <= src.shape[0 if channels_first else 1] < 2**16:
        raise ShapeError(f"save: expected (channels, time), got {tuple(src.shape)}")
    values = src.detach().numpy()
    values = values.T if channels_first else values
    values, kind = _encoded(values, encoding, bits_per_sample)
    channels, width = values.shape[1], values.dtype.itemsize
    body = np.ascontiguousarray(values).tobytes()
    if len(body) >= 2**32 - 64:
        raise OptionError(f"save: {len(body)} bytes of values; a WAV file holds less than 4 GB")
    row = channels * width
    form = struct.pack("<HHIIHH", kind, channels, int(sample_rate), int(sample_rate) * row, row, 8 * width)
    head = b"WAVE" + struct.pack("<4sI", b"fmt ", len(form)) + form + struct.pack("<4sI", b"data", len(body))
    with writing(uri) as file:
        file.write(struct.pack("<4sI", b"RIFF", len(head) + len(body) + len(body) % 2) + head)
        file.write(body + bytes(len(body) % 2))


def _encoded(values: np.ndarray, encoding: str | None, bits: int | None) -> tuple[np.ndarray, int]:
    if encoding not in (None, "PCM_S", "PCM_F") or bits not in (None, 16, 32):
        raise OptionError(f"save: expected encoding 'PCM_S' or 'PCM_F' of 16 or 32 bits, got {encoding!r} and {bits}")
    if values.dtype in (np.int16, np.int32):
        return values, 1
    if values.dtype.kind != "f":
        raise DtypeError(f"save: expected floating values, int16 or int32, got {values.dtype}")
    whole = encoding == "PCM_S" or (encoding is None and bits == 16)
    if not whole:
        return values.astype(np.float32), 3
    bits = bits or 16
    most = 2 ** (bits - 1)
    return np.clip(np.rint(values.astype(np.float64) * most), -most, most - 1).astype(f"<i{bits // 8}"), 1
