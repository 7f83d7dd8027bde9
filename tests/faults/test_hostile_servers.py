"""Servers that answer nonsense, or so slowly that nobody can wait: a download ends soon, with an error of Weft's."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
import time

import pytest

from weft.data.sources.errors import DownloadError
from weft.data.sources.fetch import download
from weft.errors import OptionError


@pytest.fixture
def serve():
    """Starts a server on this machine that lets a function speak on each connection; gives its address."""
    sockets, stop = [], threading.Event()

    def start(speak):
        listening = socket.create_server(("127.0.0.1", 0))
        listening.settimeout(0.1)
        sockets.append(listening)

        def run():
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(1 << 16)
                        speak(connection, stop)

        threading.Thread(target=run, daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/file.bin"

    yield start
    stop.set()
    for listening in sockets:
        listening.close()


def test_a_server_that_always_answers_416(tmp_path):
    asked = []

    class Refuse(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.headers.get("Range"))
            self.send_response(416)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            (tmp_path / "a.part").write_bytes(b"half")
            with pytest.raises(DownloadError, match="answered 416"):
                download(f"http://127.0.0.1:{server.server_port}/a", tmp_path / "a")
        finally:
            server.shutdown()
    assert asked == ["bytes=4-", None]


def drip(head, count=10_000):
    """Speaks a part of an answer at once, the rest byte by byte."""

    def speak(connection, stop):
        connection.sendall(head)
        for _ in range(count):
            if stop.wait(0.05):
                return
            connection.sendall(b"x")

    return speak


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX-Long: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
    ids=["first line", "header", "body", "body without a length"],
)
def test_a_server_that_drips(head, serve, tmp_path):
    """Every byte comes in time, all of them never."""
    start = time.monotonic()
    with pytest.raises(DownloadError, match="cannot be read"):
        download(serve(drip(head)), tmp_path / "a", attempts=2, timeout=2.0, patience=0.3)
    assert time.monotonic() - start < 10
    assert not (tmp_path / "a").exists()


def test_a_slow_server_that_is_quick_enough(serve, tmp_path):
    def speak(connection, stop):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
        for _ in range(10):
            stop.wait(0.05)
            connection.sendall(b"y" * 1000)

    assert download(serve(speak), tmp_path / "a", patience=0.2).read_bytes() == b"y" * 10_000


@pytest.mark.parametrize("digest", ["abc", "f" * 63, "f" * 65, "g" * 64, "é" * 32, "f" * 10_000])
def test_digests_of_odd_length(digest, tmp_path):
    with pytest.raises(OptionError, match=r"expected 64 \(SHA-256\) or 32 \(MD5\) hexadecimal digits") as caught:
        download("http://127.0.0.1:9/a", tmp_path / "a", digest=digest)
    assert len(str(caught.value)) < 300 and not list(tmp_path.iterdir())
