"""`torch.save` and `torch.load` for programs that put more than tensors into a file.

What Weft's own files can hold (trees of tensors, numbers and text) goes into one. Anything else, a whole model for
instance, is pickled, as PyTorch does. Such a file runs code of its maker when it is read, so it is read only with
`weights_only=False`, or if every class in it was named by `torch.serialization.add_safe_globals`.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import weft

from ...errors import ArgumentError, OptionError
from ...io import load_torch
from ...io.errors import MagicError, UnsafePickleError
from ..theirs import is_archive, load_trusted

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

DEFAULT_PROTOCOL = 2
MAGIC = b"weft pickle 1\n"
OURS = ("weft.", "collections.", "numpy.", "ml_dtypes.")  # without these no tensor could be made
_safe: list[Any] = []


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = DEFAULT_PROTOCOL, **options: Any) -> None:
    """Write anything that Python can pickle; trees of tensors become one of Weft's files, which are never code."""
    try:
        weft.save(obj, f)
        return
    except ArgumentError:
        content = MAGIC + pickle.dumps(obj, protocol=4)
    if hasattr(f, "write"):
        f.write(content)
        return
    with open(f, "wb") as file:
        file.write(content)


def load(
    f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None, **options: Any
) -> Any:
    """Read what `save` wrote, or one of PyTorch's files; a pickled object only with `weights_only=False`."""
    content = f.read() if hasattr(f, "read") else _read(f)
    if content.startswith(MAGIC):
        return _unpickled(content[len(MAGIC) :], weights_only is not False)
    if (weights_only is False or _safe) and is_archive(content):
        return load_trusted(content, None if weights_only is False else _allowed)
    if zipfile.is_zipfile(io.BytesIO(content)) or content[:1] == b"\x80":
        return load_torch(io.BytesIO(content))
    try:
        return weft.load(io.BytesIO(content))
    except MagicError as error:
        raise MagicError(f"load: {getattr(f, 'name', f)!s} is neither one of Weft's files nor PyTorch's") from error


def _read(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _allowed(module: str, name: str) -> Any:
    """The class of this name if it was named as safe."""
    allowed = {(kind.__module__, kind.__qualname__): kind for kind in _safe if not isinstance(kind, tuple)}
    allowed |= {tuple(kind[1].rpartition(".")[::2]): kind[0] for kind in _safe if isinstance(kind, tuple)}
    return allowed.get((module, name))


class _Unpickler(pickle.Unpickler):
    """Takes classes of Weft's own and those that were named as safe."""

    def find_class(self, module: str, name: str) -> Any:
        found = _allowed(module, name)
        if found is not None:
            return found
        if (module + ".").startswith(OURS) and "." not in name:
            return super().find_class(module, name)
        raise UnsafePickleError(
            f"load: the file names {module}.{name}; reading it would run its code. Trust it with weights_only=False, or "
            f"name the class with torch.serialization.add_safe_globals([{name}])"
        )


def _unpickled(content: bytes, careful: bool) -> Any:
    return _Unpickler(io.BytesIO(content)).load() if careful else pickle.loads(content)


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Classes that `load` may make although it is careful: each itself, or (class, 'module.name')."""
    if not isinstance(safe_globals, (list, tuple)):
        raise OptionError(f"add_safe_globals: expected a list of classes, got {type(safe_globals).__name__}")
    _safe.extend(safe_globals)


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was given."""
    return list(_safe)


def clear_safe_globals() -> None:
    """Forget them."""
    _safe.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """`add_safe_globals` for the length of a block."""
    before = list(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe[:] = before
