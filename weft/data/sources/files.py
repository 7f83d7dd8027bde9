"""Reading whole files, packed by gzip or not, and archives of which nothing can escape its folder."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from ...io.atomic import open_regular
from ...io.errors import ArchiveError, OversizeError, TruncatedError, UnsafeNameError

__all__ = ["content", "gunzipped", "is_gzip", "members", "text", "unpack"]

Name = str | os.PathLike[str]
PLAIN_SIZE, LARGEST_RATIO = 1 << 30, 200  # below 1 GiB anything goes; above, an archive may not grow more than this
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile, tarfile.TarError)


def is_gzip(path: Name) -> bool:
    """Whether a file begins as gzip files do."""
    with open_regular(path) as file:
        return file.read(2) == b"\x1f\x8b"


def content(path: Name) -> bytes:
    """The bytes of a file, unpacked if gzip has packed it."""
    if is_gzip(path):
        return gunzipped(path)
    with open_regular(path) as file:
        return file.read()


def gunzipped(path: Name) -> bytes:
    """What a gzip file holds; OversizeError if that grows as only a bomb does."""
    try:
        with open_regular(path) as packed, gzip.GzipFile(fileobj=packed) as file:
            limit = _limit(os.fstat(packed.fileno()).st_size)
            found = file.read(limit + 1)
    except EOFError as error:
        raise TruncatedError(f"{path}: the gzip file ends too early; fetch it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ArchiveError(f"{path}: the gzip file is damaged ({error}); fetch it again") from error
    if len(found) > limit:
        raise OversizeError(f"{path}: unpacked it would take more than {limit} bytes; refused")
    return found


def _limit(size: int) -> int:
    """How many bytes may come out of so many packed ones."""
    return max(PLAIN_SIZE, LARGEST_RATIO * size)


def text(path: Name, encoding: str = "utf-8") -> str:
    """The characters of a file, packed or not, without a byte order mark."""
    raw = content(path)
    try:
        return raw.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ArchiveError(
            f"{path}, line {line}: byte {raw[error.start]:#04x} is not {encoding}; pass encoding= (perhaps 'latin-1')"
        ) from None


# ------------------------------------------------------------------------------------------ archives
@dataclass(frozen=True)
class Member:
    """An entry of an archive: its name, its size, whether it is a plain file, and a way to open it."""

    name: str
    size: int
    regular: bool
    open: Callable[[], IO[bytes]]


def members(archive: Name, suffix: str = "") -> dict[str, bytes]:
    """The files of a tar or zip archive whose names end with `suffix`, in memory."""
    found = {}
    with _opened(Path(archive)) as listed:
        for member in listed:
            if member.name.endswith(suffix):
                target = io.BytesIO()
                _copy(archive, member, target)
                found[member.name] = target.getvalue()
    return found


def unpack(archive: Name, folder: Name) -> list[Path]:
    """Unpack a tar or zip archive into a folder and return the paths of its files.

    Names that lead outside of the folder, links and device files are refused before anything is written. The files
    appear in the folder when the whole archive has been read.
    """
    folder = Path(folder)
    with _opened(Path(archive)) as listed, _waiting_room(folder) as waiting:
        for member in listed:
            path = waiting / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as target:
                _copy(archive, member, target)
        return [_moved(waiting / member.name, folder / member.name) for member in listed]


@contextlib.contextmanager
def _waiting_room(folder: Path) -> Iterator[Path]:
    """A folder inside `folder` that is gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    waiting = tempfile.mkdtemp(prefix=".unpack-", dir=folder)
    try:
        yield Path(waiting)
    finally:
        shutil.rmtree(waiting, ignore_errors=True)


def _moved(path: Path, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, place)
    return place


def _copy(archive: Name, member: Member, target: IO[bytes]) -> None:
    try:
        with member.open() as source:
            shutil.copyfileobj(source, target)
    except DAMAGE as error:
        raise TruncatedError(f"{archive}: {member.name} cannot be read ({error}); fetch the archive again") from error
    if target.tell() != member.size:
        raise TruncatedError(f"{archive}: {member.name} has {target.tell()} bytes instead of {member.size}")


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[list[Member]]:
    """The files of an archive, all of them checked; folders are left out, for they follow from the names."""
    try:
        open_regular(archive).close()
        packed = zipfile.ZipFile(archive) if zipfile.is_zipfile(archive) else tarfile.open(archive)
        with packed:
            listed = _zip_members(packed) if isinstance(packed, zipfile.ZipFile) else _tar_members(packed)
            _check(archive, listed)
            yield listed
    except DAMAGE as error:
        raise ArchiveError(f"{archive}: is no whole tar or zip archive ({error}); fetch it again") from error


def _check(archive: Path, listed: list[Member]) -> None:
    limit = _limit(archive.stat().st_size)
    if (total := sum(member.size for member in listed)) > limit:
        raise OversizeError(f"{archive}: its files would take {total} bytes, more than {limit}; refused")
    for member in listed:
        path = PurePosixPath(member.name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or not path.parts or ":" in path.parts[0]:
            raise UnsafeNameError(f"{archive}: the name {member.name!r} leads outside of the folder; refused")
        if not member.regular:
            raise UnsafeNameError(f"{archive}: {member.name!r} is a link or a device, not a file; refused")


def _tar_members(tar: tarfile.TarFile) -> list[Member]:
    limit, entries = _limit(os.stat(tar.name).st_size), []
    for entry in tar:
        if entry.offset_data + entry.size > limit:
            raise OversizeError(f"{tar.name}: unpacked it would take more than {limit} bytes; refused")
        entries += [entry] if not entry.isdir() else []
    while tar.fileobj.read(1 << 20):  # to the end of the packed stream, where its checksum is
        if tar.fileobj.tell() > limit:
            raise OversizeError(f"{tar.name}: unpacked it would take more than {limit} bytes; refused")
    return [Member(e.name, e.size, e.isreg(), lambda e=e: tar.extractfile(e)) for e in entries]


def _zip_members(packed: zipfile.ZipFile) -> list[Member]:
    """Zip files keep the Unix type of a file in the top four bits: 8 is a regular file, 0 unknown."""
    entries = (entry for entry in packed.infolist() if not entry.is_dir())
    return [
        Member(e.filename, e.file_size, e.external_attr >> 28 in (0, 8), lambda e=e: packed.open(e)) for e in entries
    ]
