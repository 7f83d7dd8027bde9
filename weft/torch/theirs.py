"""PyTorch's files with more than tensors in them: `torch.load(f, weights_only=False)`, and classes that were named as safe.

`weft.io.load_torch` makes tensors and plain containers and nothing else. What a program trusts is read here by Python's own
pickle: names of PyTorch's that stand for tensors are those of `weft.io`, all others are imported as Python does.
"""

from __future__ import annotations

import collections
import io
import pickle
import zipfile
from collections.abc import Callable
from typing import Any

import weft

from ..io.errors import MissingStorageError, UnsafePickleError
from ..io.rebuild import TABLE, StorageBytes, StorageClass
from ..io.torch import _entries

__all__ = ["is_archive", "load_trusted"]

PLAIN = {"torch.device": weft.device, "collections.OrderedDict": collections.OrderedDict}
PLAIN["torch.Tensor"] = weft.Tensor
Allowed = Callable[[str, str], Any]  # the class of a module and a name, or None where it must not be made


def is_archive(content: bytes) -> bool:
    """Whether these are the bytes of a file that PyTorch has written since 1.6 (without programs of TorchScript)."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return False
    names = [name.partition("/")[2] for name in zipfile.ZipFile(io.BytesIO(content)).namelist()]
    return "data.pkl" in names and "constants.pkl" not in names


class _Unpickler(pickle.Unpickler):
    def __init__(self, entries: dict[str, Any], allowed: Allowed | None) -> None:
        super().__init__(io.BytesIO(entries["data.pkl"]))
        self.entries, self.allowed = entries, allowed
        self.storages: dict[str, StorageBytes] = {}

    def persistent_load(self, pid: Any) -> StorageBytes:
        _, kind, key, _, count = pid[:5]
        if f"data/{key}" not in self.entries:
            raise MissingStorageError(f"load: a tensor needs storage {key!r}, which the archive does not have")
        if key not in self.storages:
            self.storages[key] = StorageBytes(self.entries[f"data/{key}"])
        return self.storages[key].typed(kind, count, f"load: storage {key!r}")

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full in PLAIN:
            return PLAIN[full]
        if full == "torch._tensor._rebuild_from_type_v2":
            return _of_type
        if module.startswith("torch") and (TABLE.get(full) is not None or isinstance(TABLE.get(full), StorageClass)):
            return TABLE[full]
        if self.allowed is None:
            return super().find_class(module, name)
        found = self.allowed(module, name)
        if found is None:
            raise UnsafePickleError(
                f"load: the file names {full}; reading it would run its code. Trust it with weights_only=False, or name "
                f"the class with torch.serialization.add_safe_globals([{name}])"
            )
        return found


def _of_type(function: Any, cls: type, arguments: tuple[Any, ...], state: Any) -> Any:
    """A tensor of a subclass, with the attributes that users hung on it."""
    made = function(*arguments)
    made = made if cls is weft.Tensor else made.as_subclass(cls)
    if isinstance(state, dict):
        made.__dict__.update(state)
    return made


def load_trusted(content: bytes, allowed: Allowed | None = None) -> Any:
    """The object in an archive of PyTorch's; `allowed`: the classes that it may name, without it all there are."""
    return _Unpickler(_entries(memoryview(content), "load"), allowed).load()
