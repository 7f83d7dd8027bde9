"""`torchvision.datasets.utils`: checks and archives of files that are there; nothing is downloaded."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from ..errors import OptionError, UnsupportedError
from ..io.errors import FileFormatError

__all__ = [
    "calculate_md5",
    "check_integrity",
    "check_md5",
    "download_and_extract_archive",
    "download_file_from_google_drive",
    "download_url",
    "extract_archive",
    "list_dir",
    "list_files",
    "verify_str_arg",
]

Place = str | os.PathLike[str]


def calculate_md5(fpath: Place, chunk_size: int = 1024 * 1024) -> str:
    """The MD5 sum of a file."""
    with open(fpath, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def check_md5(fpath: Place, md5: str, **options: Any) -> bool:
    """Whether a file has this MD5 sum."""
    return calculate_md5(fpath) == md5


def check_integrity(fpath: Place, md5: str | None = None) -> bool:
    """Whether a file is there and has this MD5 sum."""
    return os.path.isfile(fpath) and (md5 is None or check_md5(fpath, md5))


def download_url(url: str, root: Place, filename: str | None = None, md5: str | None = None, **options: Any) -> None:
    """Nothing if the file is there already; else refused: programs do not reach the net through Weft."""
    place = Path(root, filename or os.path.basename(url))
    if not check_integrity(place, md5):
        raise UnsupportedError(f"nothing is downloaded; fetch {url} and save it as {place}")


def download_file_from_google_drive(
    file_id: str, root: Place, filename: str | None = None, md5: str | None = None
) -> None:
    """See `download_url`."""
    download_url(file_id, root, filename, md5)


def extract_archive(from_path: Place, to_path: Place | None = None, remove_finished: bool = False) -> str:
    """Unpack a zip or tar file; members stay inside of the folder."""
    import tarfile
    import zipfile

    target = os.fspath(to_path or os.path.dirname(os.fspath(from_path)))
    if zipfile.is_zipfile(from_path):
        with zipfile.ZipFile(from_path) as archive:
            archive.extractall(target)
    elif tarfile.is_tarfile(from_path):
        with tarfile.open(from_path) as archive:
            archive.extractall(target, filter="data")
    else:
        raise FileFormatError(f"extract_archive: {from_path} is neither a zip nor a tar file")
    if remove_finished:
        os.remove(from_path)
    return target


def download_and_extract_archive(
    url: str,
    download_root: Place,
    extract_root: Place | None = None,
    filename: str | None = None,
    md5: str | None = None,
    remove_finished: bool = False,
) -> None:
    """Unpack the archive that is there; see `download_url`."""
    name = filename or os.path.basename(url)
    download_url(url, download_root, name, md5)
    extract_archive(Path(download_root, name), extract_root or download_root, remove_finished)


def list_dir(root: Place, prefix: bool = False) -> list[str]:
    """The folders in a folder."""
    found = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    return [os.path.join(root, name) for name in found] if prefix else found


def list_files(root: Place, suffix: str, prefix: bool = False) -> list[str]:
    """The files in a folder whose names end so."""
    found = sorted(entry.name for entry in os.scandir(root) if entry.is_file() and entry.name.endswith(suffix))
    return [os.path.join(root, name) for name in found] if prefix else found


def verify_str_arg(value: str, arg: str | None = None, valid_values: Any = None, custom_msg: str | None = None) -> str:
    """The value, if it is among those that are valid."""
    if valid_values is not None and value not in valid_values:
        raise OptionError(custom_msg or f"{arg}: expected one of {', '.join(map(str, valid_values))}, got {value!r}")
    return value
