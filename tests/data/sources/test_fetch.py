"""Finding and downloading, against a server on this machine that breaks off, lacks ranges, lies, or is not there."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.server
import os
import threading
import warnings
from pathlib import Path

import pytest

from weft.data import sources
from weft.data.sources import fetch
from weft.data.sources.catalogue import FILES, Source

BODY = bytes(range(256)) * 4000  # about 1 MB
SHA, MD5 = hashlib.sha256(BODY).hexdigest(), hashlib.md5(BODY).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.body`; `server.breaks` are the lengths after which it breaks off, one for each request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.requests.append(wanted)
        if server.failures:
            return self.answer(server.failures.pop(0), b"")
        start = int(wanted[6:-1]) if wanted and server.ranges else 0
        if start >= len(server.body):
            return self.answer(416, b"", {"Content-Range": f"bytes */{len(server.body)}"})
        headers = {"Content-Range": f"bytes {start}-{len(server.body) - 1}/{len(server.body)}"} if start else {}
        self.answer(206 if start else 200, server.body[start:], headers)

    def answer(self, code, body, headers=None):
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), "Connection": "close", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        keep = self.server.breaks.pop(0) if self.server.breaks else len(body)
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body[:keep])
        self.close_connection = True

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def server():
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.body, made.ranges, made.breaks, made.failures, made.requests = BODY, True, [], [], []
    made.url = f"http://127.0.0.1:{made.server_port}/file.bin"
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def leftovers(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ------------------------------------------------------------------------------------------ downloads
@pytest.mark.parametrize("digest", [SHA, SHA.upper(), MD5, ""])
def test_whole(server, tmp_path, digest):
    told = []
    path = sources.download(server.url, tmp_path / "a" / "file.bin", digest=digest, progress=lambda *n: told.append(n))
    assert path.read_bytes() == BODY and leftovers(path.parent) == {"file.bin"}
    assert told[0] == (0, len(BODY)) and told[-1] == (len(BODY), len(BODY))
    assert [n for n, _ in told] == sorted(n for n, _ in told)
    sources.download(server.url, path, digest=digest)
    assert len(server.requests) == 1  # it is there


@pytest.mark.parametrize("breaks", [[1], [1000], [len(BODY) - 1], [400_000, 300_000]])
def test_broken_connection_is_taken_up_where_it_broke(server, tmp_path, breaks):
    server.breaks = list(breaks)
    path = sources.download(server.url, tmp_path / "file.bin", digest=SHA)
    assert path.read_bytes() == BODY
    places = [None, *(f"bytes={sum(breaks[:i])}-" for i in range(1, len(breaks) + 1))]
    assert server.requests == places


def test_interrupted_keeps_its_part_and_resumes(server, tmp_path):
    server.breaks = [300_000, 100_000, 50_000]
    with pytest.raises(sources.DownloadError, match="450000 bytes are kept"):
        sources.download(server.url, tmp_path / "file.bin", digest=SHA)
    assert leftovers(tmp_path) == {"file.bin.part"} and (tmp_path / "file.bin.part").read_bytes() == BODY[:450_000]
    server.requests.clear()
    assert sources.download(server.url, tmp_path / "file.bin", digest=SHA).read_bytes() == BODY
    assert server.requests == ["bytes=450000-"] and leftovers(tmp_path) == {"file.bin"}


def test_error_in_the_middle_keeps_the_part(server, tmp_path):
    def stop(got, total):
        if got > 300_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sources.download(server.url, tmp_path / "file.bin", digest=SHA, progress=stop)
    kept = (tmp_path / "file.bin.part").read_bytes()
    assert len(kept) > 300_000 and BODY.startswith(kept) and not (tmp_path / "file.bin").exists()
    assert sources.download(server.url, tmp_path / "file.bin", digest=SHA).read_bytes() == BODY


def test_server_without_ranges_starts_anew(server, tmp_path):
    server.ranges = False
    (tmp_path / "file.bin.part").write_bytes(b"x" * 1000)
    assert sources.download(server.url, tmp_path / "file.bin", digest=SHA).read_bytes() == BODY
    assert server.requests == ["bytes=1000-"]


@pytest.mark.parametrize("part", [BODY, BODY + b"more", b"y" * 1000, b"y" * len(BODY)])
def test_part_that_is_whole_too_long_or_of_another_file(server, tmp_path, part):
    (tmp_path / "file.bin.part").write_bytes(part)
    assert sources.download(server.url, tmp_path / "file.bin", digest=SHA).read_bytes() == BODY
    assert leftovers(tmp_path) == {"file.bin"}


@pytest.mark.parametrize("digest", [SHA[::-1], MD5[::-1]])
def test_wrong_digest_removes_the_file(server, tmp_path, digest):
    with pytest.raises(sources.DigestError, match=f"instead of {digest}; it was removed"):
        sources.download(server.url, tmp_path / "file.bin", digest=digest)
    assert leftovers(tmp_path) == set()


def test_server_errors(server, tmp_path):
    server.failures = [503, 500]
    assert sources.download(server.url, tmp_path / "file.bin", digest=SHA).read_bytes() == BODY
    server.failures = [404]
    with pytest.raises(sources.DownloadError, match="answered 404"):
        sources.download(server.url, tmp_path / "other.bin")
    server.failures = [503] * 3
    with pytest.raises(sources.DownloadError, match="answered 503"):
        sources.download(server.url, tmp_path / "other.bin")
    assert leftovers(tmp_path) == {"file.bin"}


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/a", "data.csv", ""])
def test_other_addresses_are_refused(tmp_path, url):
    with pytest.raises(sources.DownloadError, match="http"):
        sources.download(url, tmp_path / "x")
    assert leftovers(tmp_path) == set()


def test_read_only_and_occupied_folders(server, tmp_path):
    (tmp_path / "occupied").write_text("a file")
    with pytest.raises(OSError):
        sources.download(server.url, tmp_path / "occupied" / "file.bin")
    assert (tmp_path / "occupied").read_text() == "a file"


def test_full_disk(server, tmp_path):
    """A limit on the size of files stands for it: the part that fits is kept, and nothing is tried again."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
    try:
        with pytest.raises(sources.DownloadError, match=r"file\.bin\.part cannot be written"):
            sources.download(server.url, tmp_path / "file.bin", digest=SHA)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(server.requests) == 1 and leftovers(tmp_path) == {"file.bin.part"}
    assert sources.download(server.url, tmp_path / "file.bin", digest=SHA).read_bytes() == BODY


def test_two_at_once_fetch_once(server, tmp_path):
    """The lock belongs to the opened file, so that it holds between threads as between processes."""
    fetched = []
    work = lambda: fetched.append(sources.download(server.url, tmp_path / "file.bin", digest=SHA).read_bytes())
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert fetched == [BODY] * 4 and leftovers(tmp_path) == {"file.bin"} and len(server.requests) == 1


def test_bar_on_a_terminal(server, tmp_path, capsys):
    sources.download(server.url, tmp_path / "file.bin", progress=True)
    assert "file.bin" in capsys.readouterr().err
    sources.download(server.url, tmp_path / "again.bin")  # not a terminal: silence
    assert capsys.readouterr() == ("", "")


# ------------------------------------------------------------------------------------------ finding
def source(server=None, **changes) -> Source:
    return Source(**{"path": "set/file.bin", "digest": SHA, "url": server.url if server else "", **changes})


def test_search_order(tmp_path, monkeypatch):
    root, data = tmp_path / "root", tmp_path / "data"
    monkeypatch.setenv("WEFT_DATA", str(data))
    cache = sources.cache_folder()
    assert cache == Path(os.environ["XDG_CACHE_HOME"]) / "weft" / "data"
    for folder in (cache, data, root):
        (folder / "set").mkdir(parents=True)
    for folder in (cache, data):  # the last one made is first in the order
        (folder / "set" / "file.bin").write_bytes(BODY)
        assert fetch.find(source()) == folder / "set" / "file.bin"
    with pytest.raises(sources.SourceError, match=rf"not found \(searched {root}\)"):
        fetch.find(source(), root)  # what lies elsewhere is not what was asked for
    assert fetch.find(source(url="http://127.0.0.1:9/"), root, download=True) == data / "set" / "file.bin"
    (root / "set" / "file.bin").write_bytes(BODY)
    assert fetch.find(source(), root) == root / "set" / "file.bin"


@pytest.mark.parametrize("place", ["file.bin", "raw/file.bin", "set/file.bin", "set/file.bin.gz", "Set/raw/file.bin"])
def test_layouts(tmp_path, place):
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(BODY) if place.endswith(".gz") else BODY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fetch.find(source(folders=("Set/raw",)), tmp_path) == path


def test_download_goes_to_root_or_cache(server, tmp_path):
    assert fetch.find(source(server), tmp_path, download=True) == tmp_path / "set" / "file.bin"
    assert fetch.find(source(server), download=True) == sources.cache_folder() / "set" / "file.bin"
    assert len(server.requests) == 2
    fetch.find(source(server), tmp_path, download=True)
    assert len(server.requests) == 2


def test_messages_say_what_belongs_where(tmp_path):
    with pytest.raises(sources.SourceError) as caught:
        fetch.find("mnist/train-images-idx3-ubyte.gz", tmp_path)
    for word in (
        str(tmp_path / "mnist/train-images-idx3-ubyte.gz"),
        "download=True",
        "https://",
        "SHA256 440fcabf73cc",
    ):
        assert word in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"no address is known.*put the file from home at .*set/file.bin \(SHA"):
        fetch.find(source(home="home"), tmp_path, download=True)


def test_offline(tmp_path):
    """Nothing listens at port 9 of this machine."""
    with pytest.raises(sources.DownloadError) as caught:
        fetch.find(source(url="http://127.0.0.1:9/file.bin"), tmp_path, download=True)
    for word in ("refused", str(tmp_path / "set" / "file.bin"), SHA, "http://127.0.0.1:9/file.bin"):
        assert word in str(caught.value)
    assert leftovers(tmp_path / "set") == set()


def test_another_file_is_refused_unless_trusted(tmp_path, monkeypatch):
    monkeypatch.delenv("WEFT_TRUST_DATA")
    (tmp_path / "file.bin").write_bytes(BODY[:-1])
    said = r"file.bin is not the canonical set/file.bin: its SHA256 is not"
    with pytest.raises(sources.DigestError, match=f"{said}.*Fetch it again"):
        fetch.find(source(), tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == BODY[:-1]
    with sources.trusted(), pytest.warns(sources.SourceWarning, match=said):
        assert fetch.find(source(), tmp_path).name == "file.bin"
    with sources.trusted(False), pytest.raises(sources.DigestError):
        fetch.find(source(), tmp_path)


def test_files_that_are_found_are_noted(server, tmp_path):
    with sources.noting() as files:
        fetch.find(source(server), tmp_path, download=True)
        fetch.find(source(server), tmp_path)
    assert files == [tmp_path / "set" / "file.bin"]
    fetch.find(source(server), tmp_path)
    assert len(files) == 1


@pytest.mark.parametrize("level", [1, 9])
def test_packed_again_is_still_canonical(tmp_path, level):
    """The digest of what is inside counts where the file itself differs."""
    row = source(path="set/file.gz", digest=SHA[::-1], content=SHA)
    (tmp_path / "file.gz").write_bytes(gzip.compress(BODY, level))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fetch.find(row, tmp_path).name == "file.gz"


def test_rows_of_the_catalogue():
    assert len(FILES) > 80
    for path, row in FILES.items():
        assert path == row.path and len(row.digest) in (32, 64) and len(row.content) in (0, 64)
        assert set(row.digest + row.content) <= set("0123456789abcdef")
        assert row.url.startswith(("https://", "http://")) or not row.url
        assert row.content == "" or path.endswith(".gz")


def test_catalogue_agrees_with_the_real_files(real):
    """Every file of the catalogue that is there has its digest, as the manifest beside them says."""
    found = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", sources.SourceWarning)
        for path, row in FILES.items():
            if any((real / row.folder / name).is_file() for name in (row.name, f"{row.name}.gz")):
                found += fetch.find(path, real).is_file()
    assert found >= 80
    digests = (real / "MANIFEST.tsv").read_text()
    assert all(row.digest in digests for row in FILES.values() if "cifar-" not in row.path and "kmnist" not in row.path)
