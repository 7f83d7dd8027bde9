"""What `weft tune` has found on this machine, on disk: a name of something that can be computed in several ways, and the way.

One JSON file for each target beside the compiled kernels (`WEFT_CACHE_DIR`). `WEFT_TUNING` says which is read: `0` none, the
path of a file that one and no other, nothing the one of this machine. What cannot be read, or belongs to another target,
counts as absent, and one warning says so. Nothing here can change more than the time that something takes: readers hold
every entry against what they allow.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import tempfile
import warnings
from collections.abc import Mapping
from typing import Any

from . import cache
from .switches import switch

__all__ = ["forget", "found", "keep", "place"]

FORMAT = "weft tuning 1"
_SUFFIX = ".tuning"
_read: dict[tuple[str, str], dict[str, Any]] = {}  # what was read, by path and target
_told: set[str] = set()  # paths that somebody was warned of


def place(target: str) -> pathlib.Path | None:
    """The file for a target; None where nothing is read or kept."""
    given = switch("WEFT_TUNING")
    if given == "0":
        return None
    if given:
        return pathlib.Path(given)
    folder = cache.directory()
    return None if folder is None else folder / (hashlib.blake2b(target.encode(), digest_size=12).hexdigest() + _SUFFIX)


def found(target: str) -> Mapping[str, Any]:
    """What was found for a target, by name; read once."""
    path = place(target)
    if path is None:
        return {}
    known = _read.get((str(path), target))
    if known is None:
        known = _read[str(path), target] = _entries(path, target)
    return known


def keep(target: str, entries: Mapping[str, Any]) -> pathlib.Path | None:
    """Add entries to those of a target; None under a name takes that one out. Where they lie now, None if nowhere."""
    path = place(target)
    if path is None:
        return None
    together = {**_entries(path, target), **entries}
    content = {"format": FORMAT, "target": target, "entries": {k: v for k, v in together.items() if v is not None}}
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(prefix="aside-", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1, sort_keys=True)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise
    _read.clear()
    return path


def forget(target: str) -> int:
    """Remove what was found for a target, and give the number of entries."""
    path, count = place(target), len(found(target))
    _read.clear()
    if path is not None:
        path.unlink(missing_ok=True)
    return count


def _entries(path: pathlib.Path, target: str) -> dict[str, Any]:
    """What a file holds; nothing, with a warning, if it is not what this module writes for this target."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return _without(path, "is not there") if switch("WEFT_TUNING") else {}
    except (OSError, ValueError) as error:
        return _without(path, f"cannot be read ({error})")
    if not isinstance(content, dict) or content.get("format") != FORMAT or not isinstance(content.get("entries"), dict):
        return _without(path, f"is no file of the form {FORMAT!r}")
    if content.get("target") != target:
        return _without(path, f"was measured on another processor ({content.get('target')!r})")
    return content["entries"]


def _without(path: pathlib.Path, why: str) -> dict[str, Any]:
    if str(path) not in _told:
        _told.add(str(path))
        warnings.warn(
            f"weft: tuning in {str(path)!r} {why} and is not used; `weft tune` measures anew, `weft tune --forget` removes "
            "it, WEFT_TUNING names another file",
            RuntimeWarning,
            stacklevel=5,
        )
    return {}
