"""Object code on disk, so that a program that ran before need not wait for its kernels again.

One file an entry: a magic word, a checksum, the code. Files appear whole (written aside, then renamed), so processes
need no locks; what is damaged counts as absent and is written again. `WEFT_CACHE_DIR` says where the files lie
(otherwise `weft/kernels` in the user's cache directory), `WEFT_CACHE_SIZE` how many MiB they may take (512; 0 for no
cache). The entries that were not used for the longest time go first.

What is loaded runs, so it must be the user's own: entries count only if they belong to this user and nobody else can
write to them or to their directory. Otherwise kernels are compiled anew, and one warning says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping

from .switches import switch

__all__ = ["CacheInfo", "clear", "entry", "info", "load_many", "store_many"]

_MAGIC = b"weft-object-1\n"
_SUFFIX = ".object"
_DIGEST = 16
_LEDGER = "written"  # one byte for every page written since the last sweep
_PAGE = 4096
_HOUR = 3600.0
SOURCES = ("kernels", "compiler", "ops", "random", "runtime")  # folders of the package whose code writes kernels


@dataclasses.dataclass(frozen=True)
class CacheInfo:
    """Where the cache lies, what it holds, and what this process asked of it."""

    directory: str | None
    entries: int
    bytes: int
    limit: int
    hits: int
    misses: int
    writable: bool


@dataclasses.dataclass
class _Here:
    """What this process knows about the cache."""

    hits: int = 0
    misses: int = 0
    refused: set[str] = dataclasses.field(
        default_factory=set
    )  # directories that took no file, or that others can write
    warned: bool = False  # of entries that are not trusted


_here = _Here()


def directory() -> pathlib.Path | None:
    """Where entries lie; None without a cache."""
    if limit() == 0:
        return None
    if given := switch("WEFT_CACHE_DIR"):
        return pathlib.Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/.cache")
    return None if base.startswith("~") else pathlib.Path(base, "weft", "kernels")


def limit() -> int:
    """The number of bytes that the entries may take together."""
    try:
        return max(0, int(float(switch("WEFT_CACHE_SIZE")) * 2**20))
    except (ValueError, OverflowError):
        return 512 << 20


def _source_version(package: pathlib.Path = pathlib.Path(__file__).parent.parent) -> str:
    """Changes when code does that kernels are written by: names, sizes and times of the files stand for the text."""
    seen = hashlib.blake2b(str(package).encode(), digest_size=16)
    for part in SOURCES:
        seen.update(repr(sorted(_source_files(package / part))).encode())
    return seen.hexdigest()


def _source_files(folder: str | os.PathLike) -> Iterator[tuple[str, int, int]]:
    """Path, size and time of every Python file in a folder and in the folders within it."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as files:
        for file in files:
            if file.name.endswith(".py"):
                status = file.stat()
                yield file.path, status.st_size, status.st_mtime_ns
            elif file.is_dir():
                yield from _source_files(file.path)


_LOADED = _source_version()


def entry(key: str, target: str, toolchain: str) -> str:
    """The name of the entry for a kernel, a target and a version of LLVM, for the source of Weft that was loaded."""
    text = "\0".join((key, target, toolchain, _LOADED))
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def load_many(entries: Mapping[str, str]) -> dict[str, bytes]:
    """Object code by key, for those keys whose entry is there and whole."""
    place = directory()
    if place is None or not _is_ours(place):
        return {}
    found = {key: code for key, name in entries.items() if (code := _load(os.path.join(place, name + _SUFFIX)))}
    _here.hits += len(found)
    _here.misses += len(entries) - len(found)
    return found


def _load(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if doubt := _doubt(status):
                return _distrust(f"{path!r} {doubt}")
            content, used = file.read(), status.st_mtime
    except OSError:
        return None
    head = len(_MAGIC) + _DIGEST
    code = content[head:]
    if content[:head] != _MAGIC + _checksum(code):
        return None
    if time.time() - used > _HOUR:
        with contextlib.suppress(OSError):
            os.utime(path)
    return code


def _is_ours(place: pathlib.Path) -> bool:
    """Whether only this user can have put something there; a directory that is not there yet will be."""
    try:
        doubt = _doubt(os.stat(place))
    except OSError:
        return True
    if doubt:
        _here.refused.add(str(place))
        _distrust(f"the directory {str(place)!r} {doubt}")
    return not doubt


def _doubt(status: os.stat_result) -> str:
    """Why a file or directory could hold what somebody else wrote; empty: it cannot."""
    if not hasattr(os, "geteuid"):  # Windows keeps directories of users apart in another way
        return ""
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}, not to {os.geteuid()}"
    return "can be written by others" if status.st_mode & 0o022 else ""


def _distrust(what: str) -> None:
    if not _here.warned:
        _here.warned = True
        warnings.warn(
            f"weft: {what}, so that kernels in it are not loaded but compiled anew; remove it, take the right to write "
            "away from others (chmod go-w), or set WEFT_CACHE_DIR to a directory of your own",
            RuntimeWarning,
            stacklevel=4,
        )


def _checksum(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=_DIGEST).digest()


def store_many(objects: Mapping[str, bytes]) -> None:
    """Keep object code under the names of its entries; a directory that takes no files costs one warning.

    Nothing is kept once the source on disk has changed: it can no longer be known which of the two made the code.
    """
    place = directory()
    if place is None or not objects or str(place) in _here.refused or _source_version() != _LOADED:
        return
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, code in objects.items():
            _write(place, name + _SUFFIX, _MAGIC + _checksum(code) + code)
        _bound(place, sum(map(len, objects.values())))
    except OSError as error:
        _here.refused.add(str(place))
        warnings.warn(
            f"weft: kernels are not kept in {str(place)!r} ({error.strerror or error}) and will be compiled again by "
            f"the next process; set WEFT_CACHE_DIR to a directory that can be written, or WEFT_CACHE_SIZE=0",
            RuntimeWarning,
            stacklevel=2,
        )


def _write(place: pathlib.Path, name: str, content: bytes) -> None:
    handle, aside = tempfile.mkstemp(prefix="aside-", dir=place)
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.replace(aside, place / name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise


def _bound(place: pathlib.Path, written: int) -> None:
    """Note what was written; when that is a sixteenth of the limit, remove the oldest entries."""
    with open(place / _LEDGER, "ab") as ledger:
        ledger.write(b"." * (1 + written // _PAGE))
        noted = ledger.tell()
    if noted * _PAGE > limit() // 16:
        _sweep(place, limit() - limit() // 16)


def _sweep(place: pathlib.Path, room: int) -> None:
    """Remove the entries least recently used until the rest fits in `room` bytes, and files that nobody finished."""
    with contextlib.suppress(OSError):
        os.truncate(place / _LEDGER, 0)
    now, total = time.time(), 0
    for used, size, path in sorted(_files(place), reverse=True):
        total += size
        if total > room or (not path.endswith(_SUFFIX) and now - used > _HOUR):
            with contextlib.suppress(OSError):
                os.unlink(path)


def _files(place: pathlib.Path) -> Iterator[tuple[float, int, str]]:
    """Time of last use, size and path of the entries and of files that are being written."""
    try:
        with os.scandir(place) as files:
            for file in files:
                if file.name.endswith(_SUFFIX) or file.name.startswith("aside-"):
                    with contextlib.suppress(OSError):
                        status = file.stat()
                        yield status.st_mtime, status.st_size, file.path
    except OSError:
        return


def info() -> CacheInfo:
    """What the cache holds, and how often this process found what it looked for."""
    place = directory()
    sizes = [size for _, size, path in _files(place) if path.endswith(_SUFFIX)] if place else []
    writable = place is not None and str(place) not in _here.refused
    return CacheInfo(str(place) if place else None, len(sizes), sum(sizes), limit(), _here.hits, _here.misses, writable)


def clear() -> int:
    """Remove every entry and give their number; kernels in use are not touched."""
    place = directory()
    removed = 0
    for _, _, path in _files(place) if place else ():
        with contextlib.suppress(OSError):
            os.unlink(path)
            removed += path.endswith(_SUFFIX)
    return removed
