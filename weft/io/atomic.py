"""Files that are either the old ones or the new ones, never something between; and files seen as memory."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Iterator
from typing import IO, Any

Path = str | os.PathLike[str]
Source = Path | IO[bytes]


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the block ends without an error.

    It is written under a temporary name in the same folder, flushed to the disk (fsync) and renamed; then the folder
    is flushed, so that the new name survives a power failure. After any error the old file is untouched and the
    temporary one is gone.
    """
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".part", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), _mode(path)) if hasattr(os, "fchmod") else None
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _flush_folder(folder)


def _mode(path: str) -> int:
    """The permissions of the file that is replaced, or those that a new file would get."""
    with contextlib.suppress(OSError):
        return os.stat(path).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _flush_folder(folder: str) -> None:
    """Make a rename durable, where the system can (Windows cannot open folders)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def writing(target: Source) -> Iterator[Any]:
    """A file to write to: the given one, or one that will replace the path."""
    if hasattr(target, "write"):
        yield target
        return
    with replacing(target) as file:
        yield file


def contents(source: Source) -> tuple[Any, str]:
    """The bytes of a file as writable memory, and its name for messages.

    A path is mapped copy-on-write: nothing is read before it is used, and writes to the memory never reach the file.
    """
    if hasattr(source, "read"):
        return bytearray(source.read()), str(getattr(source, "name", "file"))
    name = os.fspath(source)
    with open(name, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return bytearray(), name
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), name
