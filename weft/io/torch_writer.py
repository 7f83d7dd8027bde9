"""State dicts as PyTorch's `torch.save` writes them: a zip archive with a pickle and the bytes of every tensor."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping

import numpy as np

from ..errors import ArgumentError
from ..tensor import Tensor
from .atomic import Path, replacing

__all__ = ["save_torch"]

_STORAGES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int8": "CharStorage",
    "int16": "ShortStorage",
    "int32": "IntStorage",
    "int64": "LongStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}


def save_torch(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write named tensors so that `torch.load(path)` gives them as an OrderedDict; tensors of one memory are written once.

    >>> import weft
    >>> weft.io.save_torch({"weight": weft.ones(2)}, "/tmp/weights.pt")  # doctest: +SKIP
    """
    arrays: dict[str, np.ndarray] = {}
    keys: dict[int, str] = {}
    body = [b"\x80\x02", _global("collections", "OrderedDict"), b")R("]
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.dtype.name not in _STORAGES:
            raise ArgumentError(f"save_torch: {name!r} is no tensor of a type that PyTorch's files have")
        key = keys.setdefault(id(tensor.array), str(len(keys)))
        arrays.setdefault(key, np.ascontiguousarray(tensor.detach().array))
        body += [_text(name), *_tensor(tensor, key)]
    body.append(b"u.")
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _put(archive, "archive/data.pkl", b"".join(body))
        _put(archive, "archive/byteorder", b"little")
        for key, array in arrays.items():
            _put(archive, f"archive/data/{key}", array.tobytes())
        _put(archive, "archive/version", b"3\n")


def _put(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """An entry that is the same whenever it is written."""
    archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)


def _tensor(tensor: Tensor, key: str) -> list[bytes]:
    """_rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks), the storage by its key."""
    shape = tuple(tensor.shape)
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    kind = _global("torch", _STORAGES[tensor.dtype.name])
    storage = [b"(", _text("storage"), kind, _text(key), _text("cpu"), _number(tensor.numel()), b"tQ"]
    hooks = [_global("collections", "OrderedDict"), b")R"]
    sizes = [_numbers(shape), _numbers(tuple(reversed(strides)))]
    return [_global("torch._utils", "_rebuild_tensor_v2"), b"(", *storage, _number(0), *sizes, b"\x89", *hooks, b"tR"]


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _text(value: str) -> bytes:
    content = value.encode()
    return b"X" + struct.pack("<I", len(content)) + content


def _number(value: int) -> bytes:
    if 0 <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    content = value.to_bytes(9, "little", signed=True)
    return b"\x8a" + bytes([len(content)]) + content


def _numbers(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(_number, values)) + b"t"
