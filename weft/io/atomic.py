"""Files that are either the old ones or the new ones, never something between; and files read, or seen as memory."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from .errors import MagicError, OversizeError, TruncatedError

__all__ = [
    "Path",
    "Source",
    "contents",
    "map_file",
    "new_array",
    "open_regular",
    "read_into",
    "reading",
    "replacing",
    "writing",
]

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


@contextlib.contextmanager
def reading(source: Source) -> Iterator[tuple[IO[bytes], int, str]]:
    """A file to read from, its size, and its name for messages."""
    if hasattr(source, "read"):
        content = source.read()
        yield io.BytesIO(content), len(content), str(getattr(source, "name", "file"))
        return
    with open_regular(source) as file:
        yield file, os.fstat(file.fileno()).st_size, os.fspath(source)


def open_regular(path: Path) -> IO[bytes]:
    """Open a file with bytes; anything else at this place (a pipe would make us wait for ever) is refused."""
    file = open(path, "rb", opener=_open_at_once)
    kind = os.fstat(file.fileno()).st_mode
    if not stat.S_ISREG(kind):
        file.close()
        what = next((what for test, what in _IRREGULAR if test(kind)), "no regular file")
        raise MagicError(
            f"{os.fspath(path)}: expected a file, found {what}; read it yourself and give io.BytesIO(bytes)"
        )
    return file


_IRREGULAR = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def _open_at_once(path: str, flags: int) -> int:
    """Opening a pipe waits for its other end unless it is told not to; files do not care."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def map_file(file: IO[bytes], size: int, name: str) -> Any:
    """The bytes of a file as memory: read when they are used, and writes to them never reach the file."""
    if size == 0 or isinstance(file, io.BytesIO):
        return bytearray(file.read())
    try:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise OversizeError(f"{name}: {size} bytes cannot be mapped: {error}") from None


def read_into(file: IO[bytes], array: np.ndarray, start: int, name: str) -> np.ndarray:
    """Fill an array with the bytes of a file from `start` on."""
    file.seek(start)
    if file.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:
        raise TruncatedError(f"{name}: the file became shorter while it was read")
    return array


def new_array(shape: tuple[int, ...], kind: Any, name: str) -> np.ndarray:
    """Memory for what a file holds, or an error that says that there is not so much."""
    try:
        return np.empty(shape, kind)
    except MemoryError as error:
        raise OversizeError(f"{name}: {error}; mmap=True reads only what is used") from None


def contents(source: Source, mapped: bool = False) -> tuple[Any, str]:
    """The bytes of a file as writable memory, and its name for messages; a copy unless `mapped`."""
    with reading(source) as (file, size, name):
        if mapped or size == 0:
            return map_file(file, size, name), name
        return memoryview(read_into(file, new_array((size,), np.uint8, name), 0, name)), name
