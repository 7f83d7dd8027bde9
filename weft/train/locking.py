"""One writer for a run folder: a lock that the system takes back when its process ends, however it ends."""

from __future__ import annotations

import errno
import json
import os
import platform
import time
import warnings
from pathlib import Path
from typing import Any

from ..errors import WeftError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["FolderLock", "RunLockedError"]

NAME = ".lock"
_UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS)
_held: dict[str, int] = {}  # folder → the process that holds it; this one's locks do not exclude each other


class RunLockedError(WeftError, RuntimeError):
    """Another training is writing to this run folder."""


class FolderLock:
    """Holds a folder between `take` and `release`. A process that was killed holds nothing: no stale locks.

    The lock is a record lock of POSIX: forked children (workers of a loader) do not inherit it. Who holds it stands in
    the file, for the message that another one gets.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder.resolve(), None

    def take(self) -> None:
        """RunLockedError: somebody else has it."""
        if _held.get(str(self.folder)) == os.getpid():
            raise RunLockedError(f"{self.folder}: this process already trains in this folder; {_ADVICE}")
        if fcntl is None:
            return
        while True:
            file = open(self.folder / NAME, "a+b", buffering=0)
            if not self._locked(file):
                file.close()
                return
            if _is_at(file, self.folder / NAME):  # not removed by one who had it before
                break
            file.close()
        file.truncate(0)
        file.write(json.dumps(_myself()).encode())
        self.file, _held[str(self.folder)] = file, os.getpid()

    def _locked(self, file: Any) -> bool:
        """Whether the lock is ours now; False: this file system has none, and a warning says so."""
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                file.seek(0)
                text = _described(file.read())
                file.close()
                raise RunLockedError(f"{self.folder}: {text} in this folder; {_ADVICE}") from None
            warnings.warn(f"{self.folder}: no locks here ({error}); start no second training in it", stacklevel=5)
            return False
        return True

    def release(self) -> None:
        if self.file is None:
            return
        _held.pop(str(self.folder), None)
        if _is_at(self.file, self.folder / NAME):
            (self.folder / NAME).unlink(missing_ok=True)
        self.file.close()
        self.file = None


_ADVICE = "wait for its end, or choose another run_folder"


def _is_at(file: Any, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:
        return False


def _myself() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": platform.node(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}


def _described(content: bytes) -> str:
    try:
        told = json.loads(content)
        return f"process {told['pid']:d} on {told['host']} has been training since {told['since']}"
    except (ValueError, TypeError, KeyError):
        return "another process is training"
