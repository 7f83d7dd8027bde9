"""PyTorch's checkpoints read without PyTorch, and tensors shared with PyTorch without a copy.

A `.pt` file is a zip archive (since PyTorch 1.6): `data.pkl` describes the tree, `data/0`, `data/1`… hold the bytes of
the storages, uncompressed. Before that it was a row of pickles followed by the storages. Both are read by the machine
in `unpickle.py`, which can make tensors and plain containers and nothing else.
"""

from __future__ import annotations

import io
import sys
import zipfile
from collections import OrderedDict
from typing import Any

from ..dlpack import imported
from ..errors import ArgumentError
from ..runtime.extras import MissingExtraError
from ..tensor import Tensor, wrap
from .atomic import Source, contents
from .bounded import brief
from .errors import (
    ArchiveError,
    ByteOrderError,
    HeaderError,
    LayoutError,
    MagicError,
    MissingStorageError,
    OversizeError,
    TruncatedError,
    UnsafeNameError,
    UnsafePickleError,
)
from .rebuild import TABLE, StorageBytes, StorageClass, check_result
from .unpickle import Global, Machine

__all__ = ["from_torch", "load_torch", "to_torch"]

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001


def load_torch(path: Source, *, mmap: bool = False) -> Any:
    """The tree of tensors and plain containers in a `.pt` or `.pth` file.

    Made for state dicts and the checkpoints around them: dict, OrderedDict, list, tuple, set, numbers, strings, Size,
    dtypes, tensors and Parameters of every type Weft has; shared storages, strides and offsets are kept. A file that
    asks for any other class or function raises `UnsafePickleError`; what is wrong with a damaged one is said by the
    other errors of `weft.io.errors`. Either way nothing has been loaded or run. mmap: tensors are windows on the file
    instead of copies; the file must then be left alone, see `weft.io.load_file`.

    >>> model.load_state_dict(weft.io.load_torch("resnet18.pth"))
    """
    memory, name = contents(path, mmap)
    head = bytes(memory[:4])
    if head == b"PK\x03\x04":
        return _load_zip(memory, name)
    if head[:1] == b"\x80":
        return _load_legacy(memory, name)
    if not head:
        raise TruncatedError(f"{name}: the file is empty")
    raise MagicError(f"{name}: neither a zip archive nor a pickle, so not a PyTorch checkpoint; it begins with {head}")


# ------------------------------------------------------------------------------------------- zip archives


def _load_zip(memory: Any, name: str) -> Any:
    entries = _entries(memory, name)
    if "constants.pkl" in entries:
        raise UnsafePickleError(f"{name}: a TorchScript archive, which holds programs; save the state_dict() instead")
    if "data.pkl" not in entries:
        raise ArchiveError(f"{name}: a zip archive without data.pkl is not a PyTorch checkpoint")
    order = bytes(entries.get("byteorder", b"little"))
    if order != b"little":
        raise ByteOrderError(f"{name}: the byte order is {order!r}; only little-endian files can be read")

    storages: dict[str, StorageBytes] = {}

    def storage(identifier: Any) -> StorageBytes:
        kind, key, count = _storage_id(identifier, name)
        if f"data/{key}" not in entries:
            raise MissingStorageError(f"{name}: a tensor needs storage {key!r}, the archive has no data/{key}")
        if key not in storages:
            storages[key] = StorageBytes(entries[f"data/{key}"])
        return storages[key].typed(kind, count, f"{name}: storage {key!r}")

    pickled = io.BytesIO(entries["data.pkl"])
    return check_result(Machine(pickled, TABLE, storage, name).run(), name)


def _entries(memory: Any, name: str) -> dict[str, memoryview]:
    """The bytes of every file in the archive by its name below the top folder, without copying them."""
    try:
        listed = zipfile.ZipFile(io.BufferedReader(_Raw(memory))).infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, EOFError) as error:
        raise TruncatedError(f"{name}: the archive's directory is missing or damaged: {error}") from None
    for entry in listed:
        _check_entry(entry, name)
    if sum(entry.file_size for entry in listed) > len(memory):
        raise OversizeError(
            f"{name}: the entries claim {sum(entry.file_size for entry in listed)} bytes, the file has {len(memory)}"
        )
    return {entry.filename.partition("/")[2]: _entry_bytes(memory, entry, name) for entry in listed}


def _check_entry(entry: zipfile.ZipInfo, name: str) -> None:
    parts = entry.filename.replace("\\", "/").split("/")
    if ".." in parts or parts[0] == "" or ":" in parts[0] or "\0" in entry.orig_filename:
        raise UnsafeNameError(f"{name}: the name {entry.filename!r} points outside of the archive")
    if entry.compress_type != zipfile.ZIP_STORED:
        raise OversizeError(
            f"{name}: {entry.filename!r} is compressed ({entry.compress_size} bytes that claim to become "
            f"{entry.file_size}); PyTorch stores its entries as they are, so this could be a decompression bomb"
        )
    if entry.compress_size != entry.file_size or entry.flag_bits & 1:
        raise ArchiveError(f"{name}: {entry.filename!r} is encrypted or claims two different sizes")


def _entry_bytes(memory: Any, entry: zipfile.ZipInfo, name: str) -> memoryview:
    """The bytes of one entry: 30 bytes of local header, its name and padding, then the contents."""
    start = entry.header_offset
    local = bytes(memory[start : start + 30])
    if local[:4] != b"PK\x03\x04":
        raise ArchiveError(f"{name}: no entry begins where the directory places {entry.filename!r}")
    start += 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    if start + entry.file_size > len(memory):
        raise TruncatedError(
            f"{name}: {entry.filename!r} reaches {start + entry.file_size - len(memory)} bytes too far"
        )
    return memoryview(memory)[start : start + entry.file_size]


class _Raw(io.RawIOBase):
    """Memory as a file, without copying it."""

    def __init__(self, memory: Any) -> None:
        self.memory, self.position = memoryview(memory), 0

    def readable(self) -> bool:
        return True

    seekable = readable

    def readinto(self, buffer: Any) -> int:
        found = self.memory[self.position : self.position + len(buffer)]
        buffer[: len(found)] = found
        self.position += len(found)
        return len(found)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.position = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.position}.get(whence, len(self.memory)))
        return self.position


def _storage_id(identifier: Any, name: str) -> tuple[StorageClass, str, int]:
    """Element type, key and number of elements from ("storage", class, key, place, count)."""
    if not isinstance(identifier, tuple) or len(identifier) not in (5, 6) or identifier[0] != "storage":
        raise HeaderError(f"{name}: a reference to a storage should be a tuple of 5, got {brief(identifier)}")
    _, kind, key, _, count, *view = identifier
    if not isinstance(kind, Global) or not isinstance(kind.make, StorageClass):
        raise HeaderError(f"{name}: storage {brief(key)} is of an unknown class")
    if not isinstance(key, str) or type(count) is not int or count < 0 or (view and view[0] is not None):
        raise HeaderError(f"{name}: storage {brief(key)} has a malformed key or count ({brief(count)})")
    return kind.make, key, count


# ------------------------------------------------------------------------------------------- before PyTorch 1.6


def _load_legacy(memory: Any, name: str) -> Any:
    """Five pickles (magic, protocol, machine, tree, keys of storages), then count and bytes of every storage."""
    file = io.BufferedReader(_Raw(memory))
    if _plain(file, name) != LEGACY_MAGIC:
        raise MagicError(f"{name}: a pickle, but not one that PyTorch's save wrote")
    if _plain(file, name) != LEGACY_PROTOCOL:
        raise MagicError(f"{name}: an unknown version of PyTorch's format from before 1.6")
    machine = _plain(file, name)
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise ByteOrderError(f"{name}: not written on a little-endian machine ({brief(machine)}); it cannot be read")
    declared: dict[str, tuple[StorageBytes, int]] = {}
    claimed = 0

    def storage(identifier: Any) -> StorageBytes:
        nonlocal claimed
        kind, key, count = _storage_id(identifier, name)
        size = count * kind.itemsize
        if key not in declared:
            claimed += size
            if claimed > len(memory):
                raise OversizeError(f"{name}: storage {key!r} claims {brief(size)} bytes, more than the file has")
            declared[key] = StorageBytes(bytearray(size)), kind.itemsize
        return declared[key][0].typed(kind, count, f"{name}: storage {key!r}")

    tree = check_result(Machine(file, TABLE, storage, name).run(), name)
    _fill(declared, _plain(file, name), memory, file.tell(), name)
    return tree


def _plain(file: Any, name: str) -> Any:
    """One pickle of plain values only."""

    def refuse(_: Any) -> None:
        raise HeaderError(f"{name}: a storage where none belongs")

    return Machine(file, {}, refuse, name).run()


def _fill(declared: dict[str, tuple[StorageBytes, int]], keys: Any, memory: Any, position: int, name: str) -> None:
    """Copy the bytes of each storage from the end of the file to its tensors."""
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise HeaderError(f"{name}: the keys of the storages should be a list of strings, got {brief(keys)}")
    missing = set(declared) - set(keys)
    if missing:
        raise MissingStorageError(f"{name}: storages {sorted(missing)[:8]} are used by tensors and not in the file")
    for key in keys:
        if key not in declared:
            raise HeaderError(f"{name}: storage {key!r} is in the file and used by no tensor")
        target, itemsize = declared[key]
        count = int.from_bytes(bytes(memory[position : position + 8]), "little", signed=True)
        position += 8
        if position + len(target.memory) > len(memory):
            raise TruncatedError(f"{name}: the file ends inside storage {key!r}")
        if count * itemsize != len(target.memory):
            raise LayoutError(
                f"{name}: storage {key!r} has {count} elements, its tensors say {len(target.memory)} bytes"
            )
        target.memory[:] = memory[position : position + len(target.memory)]
        position += len(target.memory)


# ------------------------------------------------------------------------------------------- shared memory


def to_torch(tree: Any) -> Any:
    """PyTorch tensors over the same memory, for one tensor or a tree of dict, list and tuple.

    The graph does not cross: the results do not require gradients. PyTorch must have been imported by the caller;
    Weft never imports it.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "from_dlpack"):
        raise MissingExtraError("to_torch: PyTorch is not imported; write `import torch` before calling to_torch")
    return _mapped(lambda t: torch.from_dlpack(_forward(t)), Tensor, tree, "to_torch")


def from_torch(tree: Any) -> Any:
    """Tensors over the memory of PyTorch tensors on the CPU, for one tensor or a tree of dict, list and tuple."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise MissingExtraError("from_torch: PyTorch is not imported, so there can be no PyTorch tensor to convert")
    return _mapped(lambda t: wrap(imported(t.detach().resolve_conj().resolve_neg())), torch.Tensor, tree, "from_torch")


def _forward(tensor: Tensor) -> Tensor:
    """The tensor outside the graph; PyTorch has no negative strides, so such a view is copied."""
    return tensor.detach()._copy() if min(tensor.array.strides, default=0) < 0 else tensor.detach()


def _mapped(convert: Any, kind: type, tree: Any, name: str) -> Any:
    if isinstance(tree, kind):
        return convert(tree)
    if isinstance(tree, dict):
        out = (OrderedDict if isinstance(tree, OrderedDict) else dict)()
        out.update((key, _mapped(convert, kind, value, name)) for key, value in tree.items())
        return out
    if type(tree) in (list, tuple):
        return type(tree)(_mapped(convert, kind, value, name) for value in tree)
    if tree is None or isinstance(tree, (bool, int, float, complex, str)):
        return tree
    raise ArgumentError(f"{name}: expected tensors, numbers or dict, list, tuple of them, got {type(tree).__name__}")
