"""Object code on disk: what is found again, what is done about damage, and directories that take nothing."""

from __future__ import annotations

import errno
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import weft
from weft.kernels.llvm import jit
from weft.runtime import cache

from ..faults.killing import HalfWritten, die
from .native_samples import call, handle, run_python, scale

pytestmark = pytest.mark.usefixtures("place")
ENTRY = "{:040x}".format
SOURCE_VERSION = cache._source_version  # the fixture replaces it


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.delenv("WEFT_CACHE_SIZE", raising=False)
    monkeypatch.setattr(cache, "_here", cache._Here())
    monkeypatch.setattr(cache, "_LOADED", "tests")  # whoever edits the source meanwhile
    monkeypatch.setattr(cache, "_source_version", lambda: "tests")
    return tmp_path / "kernels"


PINNED = """
from weft.runtime import cache
cache._LOADED, cache._source_version = "tests", lambda: "tests"
"""


def entries(place):
    return sorted(place.glob("*.object"))


def asked_for_ir(key, offset=1.0):
    """Build a kernel, try it, drop it: was its IR asked for?"""
    asked = []

    def text():
        asked.append(1)
        return scale(jit.symbol(key), 4, 2.0, offset)

    x = np.ones(4, np.float32)
    call(jit.build({key: text})[key], x)
    np.testing.assert_array_equal(x, 2 + offset)
    return bool(asked)


# ---------------------------------------------------------------- found again


def test_a_kernel_is_compiled_once(place):
    assert asked_for_ir("once")
    assert not asked_for_ir("once")
    assert len(entries(place)) == 1
    info = cache.info()
    assert (info.directory, info.entries, info.hits, info.misses) == (str(place), 1, 1, 1)
    assert info.bytes == entries(place)[0].stat().st_size
    assert info.limit == 512 << 20 and info.writable


def test_another_process_finds_it(place):
    source = (
        PINNED
        + """
x = np.ones(4, np.float32)
call(handle(scale, 4), x)
assert x[0] == 3.5
print(cache.info().hits, cache.info().misses)
"""
    )
    found = [run_python(source, WEFT_CACHE_DIR=str(place)) for _ in range(2)]
    assert [r.stdout.split() for r in found] == [["0", "1"], ["1", "0"]], found
    assert [r.stderr for r in found] == ["", ""]


def test_what_an_entry_depends_on():
    name = cache.entry("key", "target", "LLVM 22")
    assert name == cache.entry("key", "target", "LLVM 22")
    others = [("kez", "target", "LLVM 22"), ("key", "other", "LLVM 22"), ("key", "target", "LLVM 23")]
    assert len({name, *(cache.entry(*o) for o in others)}) == 4


def test_targets_have_entries_of_their_own(place):
    for name in ("host", "x86-64-v2") if jit.Target.named("host").arch == "x86_64" else ("host",):
        before = len(entries(place))
        assert handle(scale, 4, target=jit.Target.named(name)).address
        assert len(entries(place)) == before + 1


def test_a_change_of_source_changes_the_entries(monkeypatch, place):
    assert asked_for_ir("versioned")
    monkeypatch.setattr(cache, "_LOADED", "another version")
    monkeypatch.setattr(cache, "_source_version", lambda: "another version")
    assert asked_for_ir("versioned")


def test_code_in_rooms_within_rooms_counts_as_source(tmp_path):
    """A file that appears, grows, moves or goes, at any depth, makes another version; what is not Python does not."""
    nested = tmp_path / cache.SOURCES[0] / "math" / "tables"
    nested.mkdir(parents=True)
    versions = [SOURCE_VERSION(tmp_path)]
    (nested / "polynomial.py").write_text("a = 1\n")
    versions.append(SOURCE_VERSION(tmp_path))
    (nested / "polynomial.py").write_text("a = 1.5\n")
    versions.append(SOURCE_VERSION(tmp_path))
    (nested / "polynomial.py").rename(nested.parent / "polynomial.py")
    versions.append(SOURCE_VERSION(tmp_path))
    assert len(set(versions)) == 4
    (nested / "notes.txt").write_text("no code")
    assert SOURCE_VERSION(tmp_path) == versions[-1]
    (nested.parent / "polynomial.py").unlink()
    assert SOURCE_VERSION(tmp_path) == versions[0]


def test_every_file_that_writes_code_counts_as_source():
    """Whatever imports the builder of LLVM text, or says how an operation is lowered, lies in a folder that counts."""
    package = pathlib.Path(cache.__file__).parents[1]
    assert [part for part in cache.SOURCES if not (package / part).is_dir()] == []
    writes = re.compile(r"^\s*from \.[\w.]*llvm\.(builder|values) import|^ +def (lower|emit)\(self, f\b", re.MULTILINE)
    writers = [path.relative_to(package) for path in package.rglob("*.py") if writes.search(path.read_text("utf-8"))]
    assert len(writers) > 50
    assert [str(path) for path in writers if path.parts[0] not in cache.SOURCES] == []


def test_nothing_is_kept_when_the_source_changed_after_loading(monkeypatch, place):
    monkeypatch.setattr(cache, "_source_version", lambda: "newer")
    assert asked_for_ir("changed meanwhile")
    assert not place.exists()


def test_loading_takes_less_than_a_millisecond_a_kernel(place):
    """About 0.1 ms on a quiet machine."""
    kernels = {f"quick {i}": (lambda i=i: scale(jit.symbol(f"quick {i}"), 16, i + 0.5)) for i in range(30)}
    jit.build(kernels)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        jit.build({key: None for key in kernels})
        best = min(best, time.perf_counter() - start)
    assert best / len(kernels) < 1e-3


def test_clear_removes_everything_and_kernels_in_use_go_on(place):
    kept = handle(scale, 4, 3.0)
    (place / "aside-left").write_bytes(b"half")
    (place / "notes.txt").write_text("not ours")
    assert cache.clear() == 1
    assert sorted(p.name for p in place.iterdir()) == ["notes.txt", "written"]
    x = np.ones(4, np.float32)
    call(kept, x)
    assert x[0] == 4
    assert cache.info().entries == 0
    assert cache.clear() == 0


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[: len(b) // 2],
        lambda b: b"",
        lambda b: b[:20],
        lambda b: b[:-1] + bytes([b[-1] ^ 1]),
        lambda b: bytes([b[0] ^ 1]) + b[1:],
        lambda b: b + b"\0",
        lambda b: os.urandom(len(b)),
    ],
    ids=["half", "empty", "no code", "last bit", "first bit", "too long", "noise"],
)
def test_a_damaged_entry_is_made_again(place, damage):
    assert asked_for_ir("damaged")
    (path,) = entries(place)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert asked_for_ir("damaged")
    assert path.read_bytes() == whole
    assert not asked_for_ir("damaged")


def test_an_entry_that_is_a_directory(place):
    assert asked_for_ir("odd")
    (path,) = entries(place)
    path.unlink()
    path.mkdir()
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert asked_for_ir("odd")


# ---------------------------------------------------------------- killed


MOMENTS = {
    "writing IR": lambda: setattr(jit, "_compile", die),
    "compiling": lambda: setattr(jit.worker.binding().TargetMachine, "emit_object", die),
    "opening": lambda: setattr(cache.tempfile, "mkstemp", die),
    "half written": lambda: setattr(cache, "open", HalfWritten),
    "before renaming": lambda: setattr(os, "replace", die),
    "after renaming": lambda: setattr(cache, "_bound", die),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_process_killed_at_any_moment_harms_nobody(place, moment):
    child = os.fork()
    if child == 0:
        MOMENTS[moment]()
        try:
            handle(scale, 4)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert len(entries(place)) == (moment == "after renaming")
    x = np.ones(4, np.float32)
    call(handle(scale, 4), x)
    assert x[0] == 3.5
    assert len(entries(place)) == 1


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_helpers_end_with_a_killed_process(place):
    source = """
import sys, time
import weft
from weft.kernels.llvm import jit
weft.set_num_threads(2)
jit._WORTH_A_HELPER = 0
jit.emit_object = lambda ir, target: time.sleep(60)
real = jit._Helper.__init__
def init(self, *a):
    real(self, *a)
    print(self.process.pid, flush=True)
jit._Helper.__init__ = init
jit.build({str(i): lambda i=i: scale(jit.symbol(str(i)), 16) for i in range(50)})
"""
    environment = {**os.environ, "WEFT_CACHE_DIR": str(place)}
    program = "from tests.compiler.native_samples import *\n" + source
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as process:
        helper = int(process.stdout.readline())
        process.kill()
    deadline = time.monotonic() + 10
    while os.path.isdir(f"/proc/{helper}") and time.monotonic() < deadline:
        with open(f"/proc/{helper}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "Z":  # nobody may be there to collect it
                break
        time.sleep(0.01)
    else:
        assert not os.path.isdir(f"/proc/{helper}")


# ---------------------------------------------------------------- directories that take nothing


def warned(work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(w.message) for w in caught]


def refuse(code):
    def write(*_, **__):
        raise OSError(code, os.strerror(code))

    return write


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_directory_that_takes_no_files_costs_one_warning(place, monkeypatch, code):
    monkeypatch.setattr(cache.tempfile, "mkstemp", refuse(code))
    messages = warned(lambda: [asked_for_ir(f"refused {i}") for i in range(3)])
    assert len(messages) == 1
    assert os.strerror(code) in messages[0] and "WEFT_CACHE_DIR" in messages[0]
    assert not cache.info().writable


def test_a_disk_that_fills_up_while_writing_leaves_no_pieces(place, monkeypatch):
    monkeypatch.setattr(cache.os, "replace", refuse(errno.ENOSPC))
    assert len(warned(lambda: asked_for_ir("full"))) == 1
    assert list(place.iterdir()) == []


def test_entries_of_a_read_only_directory_are_used(place, monkeypatch):
    assert asked_for_ir("read only")
    monkeypatch.setattr(cache.tempfile, "mkstemp", refuse(errno.EROFS))
    os.utime(entries(place)[0], (0, 0))
    monkeypatch.setattr(cache.os, "utime", refuse(errno.EROFS))
    assert warned(lambda: asked_for_ir("read only")) == []
    assert not asked_for_ir("read only")


def test_a_path_that_cannot_be_a_directory(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    assert len(warned(lambda: [asked_for_ir(f"no directory {i}") for i in range(2)])) == 1
    assert cache.info().entries == 0


def test_no_cache(place, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_SIZE", "0")
    assert warned(lambda: [asked_for_ir("none"), asked_for_ir("none")]) == []
    assert asked_for_ir("none")
    assert cache.info().directory is None
    assert not place.exists()


def test_where_it_lies(monkeypatch, tmp_path):
    monkeypatch.delenv("WEFT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory() == tmp_path / "weft" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    if os.name == "posix":
        assert cache.directory() == tmp_path / ".cache" / "weft" / "kernels"


# ---------------------------------------------------------------- size, processes


def test_the_size_is_bounded_and_the_least_recently_used_go(place, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_SIZE", "1")
    for i in range(40):
        cache.store_many({ENTRY(i): bytes(100_000)})
        now = time.time()
        os.utime(place / (ENTRY(i) + ".object"), (now - 10_000 + i, now - 10_000 + i))
        assert cache.load_many({"used": ENTRY(0)})  # which makes it the most recent one
        assert cache.info().bytes <= 2**20
    names = [int(p.stem, 16) for p in entries(place)]
    assert 0 in names and 39 in names
    assert names[1:] == list(range(40 - len(names) + 1, 40))
    assert len(names) >= 8


def test_pieces_of_killed_processes_are_swept_away(place, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_SIZE", "1")
    place.mkdir()
    old, young = place / "aside-old", place / "aside-young"
    old.write_bytes(b"1")
    young.write_bytes(b"2")
    os.utime(old, (0, 0))
    cache.store_many({ENTRY(1): bytes(100_000)})
    assert not old.exists() and young.exists()


@pytest.mark.parametrize(("given", "bytes_"), [("1", 1 << 20), ("0.5", 1 << 19), ("-3", 0), ("much", 512 << 20)])
def test_the_limit(monkeypatch, given, bytes_):
    monkeypatch.setenv("WEFT_CACHE_SIZE", given)
    assert cache.limit() == bytes_


def test_threads_write_and_read_side_by_side(place, monkeypatch):
    """Writers, sweepers and readers of the same few entries: whatever is read is whole."""
    monkeypatch.setenv("WEFT_CACHE_SIZE", "0.3")
    contents = {ENTRY(i): bytes([i]) * 30_000 for i in range(8)}
    bad = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(40):
            name = ENTRY(int(rng.integers(8)))
            cache.store_many({name: contents[name]})
            bad.extend(k for k, code in cache.load_many({n: n for n in contents}).items() if code != contents[k])

    workers = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    messages = warned(lambda: [[w.start() for w in workers], [w.join() for w in workers]])
    assert not bad and not messages


def test_two_processes_compile_the_same_thing(place):
    source = (
        PINNED
        + """
from tests.compiler.native_samples import *
found = jit.build({f"both {i}": (lambda i=i: scale(jit.symbol(f"both {i}"), 4, i + 0.5)) for i in range(20)})
for i, one in enumerate(found.values()):
    x = np.ones(4, np.float32)
    call(one, x)
    assert x[0] == i + 1.5
"""
    )
    environment = {**os.environ, "WEFT_CACHE_DIR": str(place)}
    both = [subprocess.Popen([sys.executable, "-c", source], env=environment, stderr=subprocess.PIPE) for _ in range(2)]
    assert [process.communicate()[1] for process in both] == [b"", b""]
    assert [process.returncode for process in both] == [0, 0]
    assert len(entries(place)) == 20
    assert not list(place.glob("aside-*"))


def test_the_number_of_threads_does_not_matter(place):
    before = weft.get_num_threads()
    try:
        weft.set_num_threads(1)
        assert asked_for_ir("threads")
        weft.set_num_threads(2)
        assert not asked_for_ir("threads")
    finally:
        weft.set_num_threads(before)
