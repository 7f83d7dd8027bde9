"""The start of a run: its folder, the checkpoint to continue from, and what the disk says to it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from ...errors import OptionError
from ..checkpoint import Tree, load_checkpoint, newest_checkpoint
from ..runs import RunFolder

__all__ = ["disk_error", "find_checkpoint", "open_folder"]

Folder = str | os.PathLike[str] | RunFolder | bool | None
ADVICE = {
    errno.ENOSPC: "the disk is full: free some space, or choose another run_folder",
    errno.EDQUOT: "the quota is used up: free some space, or choose another run_folder",
    errno.EACCES: "this folder cannot be written to: choose another run_folder",
    errno.EPERM: "this folder cannot be written to: choose another run_folder",
    errno.EROFS: "the file system is read-only: choose another run_folder",
}


def open_folder(given: Folder, name: str) -> RunFolder:
    """The folder that was given, or a new one under `runs/` with this name."""
    if isinstance(given, RunFolder):
        return given.open()
    return RunFolder.create(name=name) if given is None or given is True else RunFolder(given).open()


def find_checkpoint(resume: bool | str | os.PathLike[str] | None, folder: Folder) -> tuple[Path, Tree] | None:
    """The checkpoint that `fit(resume=…)` means, (file, tree); None: start anew."""
    if resume is False or resume is None:
        return None
    if resume is True:
        if folder is None or isinstance(folder, bool):
            raise OptionError("fit: resume=True needs Trainer(run_folder=…) to know which run; or give a path")
        path = folder.path if isinstance(folder, RunFolder) else Path(folder)
        return newest_checkpoint(path / "checkpoints")
    path = Path(resume)
    if not path.is_dir():
        return path, load_checkpoint(path)
    found = newest_checkpoint(path / "checkpoints" if (path / "checkpoints").is_dir() else path)
    if found is None:
        raise OptionError(f"fit: resume={str(path)!r}: there is no checkpoint in this folder")
    return found


def disk_error(error: OSError, path: Any) -> OSError:
    """The same error, with what to do about it."""
    advice = ADVICE.get(error.errno or 0, "the run folder cannot be written")
    return type(error)(error.errno, f"{path}: {advice} ({error.strerror or error})")
