"""Finding the files of a set: in a given folder, or else in $WEFT_DATA and the cache, and at last a verified download.

A download continues a `.part` file that an earlier one left, is compared with the published digest, and takes its
name only then: a file under its own name is always whole.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.client
import os
import re
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from ...errors import OptionError
from ...runtime.switches import switch
from .catalogue import FILES, Source
from .errors import DigestError, DownloadError, SourceError
from .files import gunzipped, is_gzip
from .trust import note, refuse

__all__ = ["cache_folder", "download", "find", "folders"]

CHUNK = 1 << 18
SLOWEST = 1024  # bytes a second
Folder = str | os.PathLike[str] | None
Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known


# ------------------------------------------------------------------------------------------ finding
def cache_folder() -> Path:
    """Where downloads go: $XDG_CACHE_HOME/weft/data, by default ~/.cache/weft/data."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft" / "data"


def folders(root: Folder = None) -> list[Path]:
    """The folders that are searched, in order: `root` alone if it is given, else $WEFT_DATA and the cache."""
    if root:
        return [Path(root).expanduser()]
    given = switch("WEFT_DATA")
    return [*([Path(given).expanduser()] if given else []), cache_folder()]


def find(source: Source | str, root: Folder = None, download: bool = False) -> Path:
    """The path of a canonical file, after a download if `download` allows one.

    Each folder may hold the layout of the catalogue ("mnist/train-images-idx3-ubyte.gz") or the file itself, packed
    by gzip or not. With `root`, no other folder is looked into unless `download` allows to fetch the file anyway. A file
    that differs from the canonical one is refused, unless `trusted()`.
    """
    source = FILES[source] if isinstance(source, str) else source
    for path in (*places(source, root), *(places(source) if root and download else ())):
        if path.is_file():
            compare(path, source)
            return path
    if not download:
        raise SourceError(
            _advice(
                source,
                root,
                "not found",
                "pass download=True (weft train: leave out --data), or " if source.url else "",
            )
        )
    if not source.url:
        raise SourceError(_advice(source, root, "not found, and no address is known to download it from"))
    path = _fetch(source, folders(root)[0] if root else cache_folder())
    note(path)
    return path


def places(source: Source, root: Folder = None) -> Iterator[Path]:
    """Every path that is tried for a file."""
    name = source.name
    for folder in folders(root):
        for inside in (source.folder, "", "raw", *source.folders):
            for spelling in (name, name[:-3] if name.endswith(".gz") else f"{name}.gz"):
                yield folder / inside / spelling


def _advice(source: Source, root: Folder, fault: str, remedy: str = "") -> str:
    searched = ", ".join(map(str, folders(root)))
    digest = f" ({_algorithm(source.digest).upper()} {source.digest})" if source.digest else ""
    origin = f" from {source.url or source.home}" if source.url or source.home else ""
    place = folders(root)[0] / source.path
    return f"{source.path}: {fault} (searched {searched}); {remedy}put the file{origin} at {place}{digest}"


def _fetch(source: Source, folder: Path) -> Path:
    target = folder / source.path
    try:
        return download(source.url, target, digest=source.digest)
    except DigestError:
        raise
    except OSError as error:
        reason = str(error) if isinstance(error, DownloadError) else f"{type(error).__name__}: {error}"
        raise DownloadError(_advice(source, folder, f"the download failed: {reason}")) from error


# ------------------------------------------------------------------------------------------ digests
def _algorithm(digest: str) -> str:
    found = {32: "md5", 64: "sha256"}.get(len(digest))
    if found is None or not re.fullmatch("[0-9a-fA-F]+", digest):
        raise OptionError(f"digest: expected 64 (SHA-256) or 32 (MD5) hexadecimal digits, got {digest[:80]!r}")
    return found


def file_digest(path: Path, algorithm: str) -> str:
    """The digest of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def compare(path: Path, source: Source | None) -> None:
    """Note a file that was found; if it is known to be another one than the canonical, refuse it or warn."""
    note(path)
    status = path.stat()
    if source is not None and not _is_canonical(path, source, status.st_size, status.st_mtime_ns):
        refuse(path, source.path, _algorithm(source.digest).upper(), source.digest)


@functools.lru_cache(maxsize=512)
def _is_canonical(path: Path, source: Source, size: int, changed: int) -> bool:
    """Whether a file, or what is packed in it, has a known digest; True where that cannot be told."""
    known = {digest for digest in (source.digest, source.content) if digest}
    packed = is_gzip(path)
    comparable = source.content or packed or not source.name.endswith(".gz")
    if not known or not comparable or any(file_digest(path, _algorithm(d)) == d for d in known):
        return True
    if not packed:
        return False
    if not source.content and source.name.endswith("gz"):
        return False
    content = gunzipped(path)
    return any(hashlib.new(_algorithm(d), content).hexdigest() == d for d in known)


# ------------------------------------------------------------------------------------------ download
def download(
    url: str,
    target: str | os.PathLike[str],
    *,
    digest: str = "",
    progress: Progress | bool | None = None,
    attempts: int = 3,
    timeout: float = 30.0,
    patience: float = 60.0,
) -> Path:
    """Fetch `url` to the path `target`, unless it is there, and return the path.

    digest: SHA-256 (64 digits) or MD5 (32) that the file must have
    progress: a function of (bytes so far, bytes in all or None); True, False, or None for a bar on a terminal
    timeout: seconds without a byte; patience: seconds for the server to answer, and in which it must then send a kilobyte
    for each: one that drips is left, after as many attempts as for one that breaks off

    Example:
        >>> download("https://example.org/data.csv", "data/data.csv", digest="9f86d0…")  # doctest: +SKIP
    """
    target = Path(target)
    if digest:
        _algorithm(digest)
    if not url.startswith(("http://", "https://")):
        raise DownloadError(f"download: an http:// or https:// address is needed, got {url!r}")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with _alone(part), _shown(progress, target.name) as report:
        if target.exists():  # another process has fetched it meanwhile
            return target
        continued = part.stat().st_size > 0
        receive = functools.partial(_receive_all, url, part, report, attempts, (timeout, patience))
        receive()
        if continued and not _right(part, digest):  # the part was of another file: once more from the start
            os.truncate(part, 0)
            receive()
        _finish(part, target, digest, url)
    return target


def _right(path: Path, digest: str) -> bool:
    return not digest or file_digest(path, _algorithm(digest)) == digest.lower()


def _finish(part: Path, target: Path, digest: str, url: str) -> None:
    if not _right(part, digest):
        got = file_digest(part, _algorithm(digest))
        part.unlink()
        raise DigestError(
            f"{target.name}: {url} gave a file with {_algorithm(digest).upper()} {got} instead of {digest}; it was "
            "removed. Try again later, or fetch the file by other means"
        )
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    os.replace(part, target)


def _receive_all(url: str, part: Path, report: Progress, attempts: int, times: tuple[float, float]) -> None:
    """Receive until the file is whole; a broken connection is taken up again where it broke."""
    for attempt in range(1, attempts + 1):
        try:
            return _receive(url, part, report, *times)
        except DownloadError:
            raise
        except urllib.error.HTTPError as error:
            if error.code < 500 or attempt == attempts:
                raise DownloadError(f"{url} answered {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            if attempt == attempts:
                reason = getattr(error, "reason", error) or type(error).__name__
                raise DownloadError(f"{url} cannot be read ({reason}); {part.stat().st_size} bytes are kept") from error


def _receive(url: str, part: Path, report: Progress, timeout: float, patience: float) -> None:
    """Append to `part` what it still lacks, or start anew if the server cannot continue."""
    have = part.stat().st_size
    headers = {"Accept-Encoding": "identity", "User-Agent": "weft"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response = _opener(patience).open(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:  # without a range there is nothing to refuse
            raise
        if error.headers.get("Content-Range", "").rpartition("/")[2] == str(have):
            return None
        os.truncate(part, 0)
        return _receive(url, part, report, timeout, patience)
    with response, open(part, "r+b") as file:
        start = have if _continues(response, have) else 0
        file.truncate(start)
        file.seek(start)
        _copy(response, file, start, report, patience)


def _continues(response: Any, have: int) -> bool:
    return response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")


def _opener(patience: float) -> urllib.request.OpenerDirector:
    """Opens addresses whose servers answer in time: `timeout` alone counts from byte to byte of the answer's head."""

    class Hurried:
        def getresponse(self) -> Any:
            late = threading.Event()
            timer = threading.Timer(patience, _hang_up, [self.sock, late])
            timer.daemon = True
            timer.start()
            try:
                response = super().getresponse()
            finally:
                timer.cancel()
            if late.is_set():  # a head that was cut short would look whole
                raise ConnectionError(f"the server did not answer within {patience:.0f} s")
            return response

    plain = type("Plain", (Hurried, http.client.HTTPConnection), {})
    secure = type("Secure", (Hurried, http.client.HTTPSConnection), {})

    class Plainly(urllib.request.HTTPHandler):
        def http_open(self, request: Any) -> Any:
            return self.do_open(plain, request)

    class Securely(urllib.request.HTTPSHandler):
        def https_open(self, request: Any) -> Any:
            return self.do_open(secure, request)

    return urllib.request.build_opener(Plainly, Securely)


def _hang_up(connection: socket.socket, late: threading.Event) -> None:
    late.set()
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _copy(response: Any, file: IO[bytes], start: int, report: Progress, patience: float) -> None:
    length = response.headers.get("Content-Length")
    total = start + int(length) if length is not None and length.isdigit() else None
    got = before = start
    looked = time.monotonic()
    report(got, total)
    while chunk := response.read1(CHUNK):
        _write(file, chunk)
        got += len(chunk)
        report(got, total)
        if (passed := time.monotonic() - looked) > patience:
            if got - before < SLOWEST * passed:
                raise ConnectionError(f"the server sent {got - before} bytes in {passed:.0f} s")
            looked, before = time.monotonic(), got
    if total is not None and got < total:
        raise ConnectionError(f"the connection ended after {got} of {total} bytes")


def _write(file: IO[bytes], chunk: bytes) -> None:
    """A full disk is no broken connection: trying again would not help."""
    try:
        file.write(chunk)
        file.flush()
    except OSError as error:
        raise DownloadError(f"{file.name} cannot be written ({error.strerror})") from error


@contextlib.contextmanager
def _alone(part: Path) -> Iterator[None]:
    """Hold the part file, made if need be, so that two processes do not write to it at once."""
    with open(part, "ab") as file:
        with contextlib.suppress(ImportError):  # Windows has no fcntl; the digest still tells
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(file.fileno()), part.stat()) and part.stat().st_size == 0:
                    part.unlink()


@contextlib.contextmanager
def _shown(progress: Progress | bool | None, name: str) -> Iterator[Progress]:
    """A function to report to: the caller's, a bar on a terminal, or one that does nothing."""
    if callable(progress):
        yield progress
    elif progress is True or (progress is None and sys.stderr.isatty()):
        yield from _bar(name)
    else:
        yield lambda got, total: None


def _bar(name: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bars:
        task = bars.add_task(name, total=None)
        yield lambda got, total: bars.update(task, completed=got, total=total)
