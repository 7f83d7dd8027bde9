"""Archives unpack into their folder and nowhere else, whole or not at all; packed files say when they are damaged."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile

import pytest

from weft.data import sources
from weft.data.sources import files
from weft.io.errors import ArchiveError, FileFormatError, OversizeError, TruncatedError, UnsafeNameError

FILES = {"a/one.txt": b"1" * 70_000, "a/b/two.bin": bytes(range(256)) * 300, "three": b""}


def tar(path, entries=FILES, mode="w:gz", **special):
    with tarfile.open(path, mode) as archive:
        for name, raw in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
        for name, (kind, target) in special.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
    return path


def packed_zip(path, entries=FILES, kind=0):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in entries.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (kind << 28) | (0o644 << 16)
            archive.writestr(info, raw, zipfile.ZIP_DEFLATED)
    return path


MAKERS = {
    "tar.gz": tar,
    "tar": lambda p, e=FILES: tar(p, e, "w"),
    "tar.xz": lambda p, e=FILES: tar(p, e, "w:xz"),
    "zip": packed_zip,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_files_arrive(tmp_path, kind):
    archive = MAKERS[kind](tmp_path / f"x.{kind}")
    paths = sources.unpack(archive, tmp_path / "out")
    assert {path.relative_to(tmp_path / "out").as_posix(): path.read_bytes() for path in paths} == FILES
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"a", "three"}
    assert files.members(archive) == FILES
    assert files.members(archive, ".txt") == {"a/one.txt": FILES["a/one.txt"]}


def test_folders_of_the_archive_and_a_second_time(tmp_path):
    archive = tar(tmp_path / "x.tgz")
    sources.unpack(archive, tmp_path / "out")
    (tmp_path / "out" / "three").write_text("changed")
    sources.unpack(archive, tmp_path / "out")
    assert (tmp_path / "out" / "three").read_bytes() == b""


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "..", "a\\..\\..\\evil", "C:/evil", "a/.."])
@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_names_that_lead_outside(tmp_path, kind, name):
    archive = MAKERS[kind](tmp_path / f"x.{kind}", {"good": b"1", name: b"2"})
    with pytest.raises(UnsafeNameError, match="leads outside"):
        sources.unpack(archive, tmp_path / "deep" / "out")
    assert {path.name for path in tmp_path.rglob("*")} <= {f"x.{kind}", "deep", "out"}


@pytest.mark.parametrize(
    ("kind", "target"),
    [(tarfile.SYMTYPE, "/etc/passwd"), (tarfile.LNKTYPE, "a/one.txt"), (tarfile.CHRTYPE, ""), (tarfile.FIFOTYPE, "")],
)
def test_links_and_devices(tmp_path, kind, target):
    archive = tar(tmp_path / "x.tar.gz", link=(kind, target))
    with pytest.raises(UnsafeNameError, match="'link' is a link or a device"):
        sources.unpack(archive, tmp_path / "out")
    with pytest.raises(UnsafeNameError):
        files.members(archive)
    assert not (tmp_path / "out").exists()


def test_link_in_a_zip(tmp_path):
    with pytest.raises(UnsafeNameError, match="link"):
        sources.unpack(packed_zip(tmp_path / "x.zip", {"link": b"/etc/passwd"}, kind=0xA), tmp_path / "out")
    assert sources.unpack(packed_zip(tmp_path / "y.zip", {"plain": b"1"}, kind=8), tmp_path / "out")


@pytest.mark.parametrize("kind", ["tar.gz", "zip", "tar.xz"])
@pytest.mark.parametrize("kept", [0, 1, 20, 200, 0.5, 0.9])
def test_cut_short(tmp_path, kind, kept):
    archive = MAKERS[kind](tmp_path / f"x.{kind}", {f"f{i}": os.urandom(3000) for i in range(5)})
    raw = archive.read_bytes()
    archive.write_bytes(raw[: kept if isinstance(kept, int) else int(kept * len(raw))])
    with pytest.raises(FileFormatError, match=r"fetch (it|the archive) again"):
        sources.unpack(archive, tmp_path / "out")
    assert list((tmp_path / "out").iterdir() if (tmp_path / "out").exists() else []) == []


def test_flipped_bytes(tmp_path):
    for position in range(30, 6000, 400):
        archive = tar(tmp_path / "x.tar.gz", {"f": os.urandom(6000)})
        raw = bytearray(archive.read_bytes())
        raw[position] ^= 0xFF
        archive.write_bytes(raw)
        with pytest.raises(FileFormatError):
            sources.unpack(archive, tmp_path / "out")


def test_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PLAIN_SIZE", 1 << 20)
    archive = packed_zip(tmp_path / "x.zip", {"zeros": bytes(1 << 22)})
    with pytest.raises(OversizeError, match="would take 4194304 bytes"):
        sources.unpack(archive, tmp_path / "out")


# ------------------------------------------------------------------------------------------ single files
def test_content_and_text(tmp_path):
    path = tmp_path / "x.txt"
    for raw in (b"", b"\xef\xbb\xbfgr\xc3\xbc\xc3\x9fe\n", b"\x1f"):
        path.write_bytes(raw)
        assert files.content(path) == raw
    path.write_bytes(gzip.compress("grüße\n".encode()))
    assert files.text(path) == "grüße\n"
    path.write_bytes(b"\xef\xbb\xbfa")
    assert files.text(path) == "a"
    path.write_bytes(b"fine\nwrong \xe4\n")
    with pytest.raises(FileFormatError, match=r"line 2: byte 0xe4 is not utf-8.*latin-1"):
        files.text(path)
    assert files.text(path, "latin-1") == "fine\nwrong ä\n"


@pytest.mark.parametrize("kept", [2, 9, 15, 0.5, -1, -8])
def test_gzip_cut_short(tmp_path, kept):
    raw = gzip.compress(os.urandom(5000))
    (tmp_path / "x.gz").write_bytes(raw[: int(kept * len(raw)) if isinstance(kept, float) else kept])
    with pytest.raises(TruncatedError, match="ends too early"):
        files.content(tmp_path / "x.gz")


def test_gzip_damaged(tmp_path):
    raw = bytearray(gzip.compress(os.urandom(5000)))
    raw[-6] ^= 1  # the checksum
    (tmp_path / "x.gz").write_bytes(raw)
    with pytest.raises(ArchiveError, match="is damaged"):
        files.content(tmp_path / "x.gz")
