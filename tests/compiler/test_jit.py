"""Kernels from IR to addresses: values, sharing, errors, other processors, helpers, and memory given back."""

from __future__ import annotations

import gc
import os
import pathlib
import re
import struct
import threading

import numpy as np
import pytest

import weft
from weft.errors import OptionError
from weft.kernels.llvm import jit
from weft.kernels.llvm import worker as codegen
from weft.kernels.llvm.target import PROCESSORS
from weft.runtime import cache, native

from .native_samples import call, handle, scale, who

KERNELS = pathlib.Path(jit.__file__).parents[1]
HOST = jit.Target.named("host")
RUNS_HERE = ["host"]
if HOST.arch == "x86_64":
    RUNS_HERE += ["x86-64-v2", "x86-64-v3", "x86-64-v4"][: {16: 1, 32: 2, 64: 3}[HOST.vector_bytes]]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))


@pytest.fixture
def restored_threads():
    before = weft.get_num_threads()
    yield
    weft.set_num_threads(before)


@pytest.mark.parametrize("name", RUNS_HERE)
@pytest.mark.parametrize("vectors", [1, 2])
def test_a_kernel_computes_on_every_target_that_runs_here(name, vectors):
    target = jit.Target.named(name)
    lanes = target.lanes(np.float32) * vectors
    x = np.linspace(-3, 3, lanes, dtype=np.float32)
    expected = x * np.float32(2.5) + np.float32(1)
    call(handle(scale, lanes, target=target), x)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize(
    ("name", "float32", "float64", "bool8", "registers"),
    [
        ("x86-64-v2", 4, 2, 16, 16),
        ("x86-64-v3", 8, 4, 32, 16),
        ("x86-64-v4", 16, 8, 64, 32),
        ("aarch64", 4, 2, 16, 32),
        ("apple-m1", 4, 2, 16, 32),
    ],
)
def test_widths_of_registers(name, float32, float64, bool8, registers):
    target = jit.Target.named(name)
    assert (target.lanes(np.float32), target.lanes("float64"), target.lanes(bool)) == (float32, float64, bool8)
    assert target.registers == registers and target.many_registers == (registers == 32)
    assert (target.lanes_of("f32"), target.lanes_of("f64"), target.lanes_of("u8")) == (float32, float64, bool8)


@pytest.mark.parametrize("name", RUNS_HERE)
def test_memory_is_asked_for_whatever_processor_runs(name):
    """Kernels say how much they need before it is known where they run: for the largest of all kinds of processors."""
    found = jit.Target.named(name)
    assert (found.vector_bytes, found.registers) in PROCESSORS


def test_assumptions_about_processors_stand_in_one_file():
    """Sizes of vectors, caches and lines, and how many registers are many, are numbers of target.py alone."""
    numbers = re.compile(r"registers >= \d|vector_bytes >= \d|^([A-Z]+_)*(CACHED?|NEAR|LINE)(_[A-Z]+)* = \d", re.M)
    found = [path.name for path in KERNELS.rglob("*.py") if numbers.search(path.read_text(encoding="utf-8"))]
    assert found == ["target.py"]


def test_wide_registers_are_used_where_they_exist():
    assert "zmm" in jit.emit_assembly(scale("f", 16), jit.Target.named("x86-64-v4"))
    narrow = jit.emit_assembly(scale("f", 16), jit.Target.named("x86-64-v3"))
    assert "zmm" not in narrow and "ymm" in narrow
    assert "xmm" in jit.emit_assembly(scale("f", 16), jit.Target.named("x86-64-v2"))


def test_the_environment_chooses_the_target(monkeypatch):
    monkeypatch.setenv("WEFT_TARGET", "x86-64-v3")
    assert jit.Target.host().cpu == "x86-64-v3"
    monkeypatch.setenv("WEFT_TARGET", "pentium")
    with pytest.raises(OptionError, match=r"WEFT_TARGET.*'pentium'"):
        jit.Target.host()
    monkeypatch.delenv("WEFT_TARGET")
    assert jit.Target.host() is HOST


@pytest.mark.parametrize(
    ("name", "magic", "machine"),
    [("aarch64", b"\x7fELF", 183), ("arm-neon", b"\x7fELF", 40), ("apple-m1", b"\xcf\xfa\xed\xfe", 0x0100000C)],
)
def test_code_for_other_processors(name, magic, machine):
    """The machine field of the object's header is that of the ELF and Mach-O standards."""
    target = jit.Target.named(name)
    how = native.Waiting(native._ULOCK if name == "apple-m1" else native._FUTEX.format(number=98))
    modules = [scale("f", 4), *(native.runtime_ir(e, "f", target.arch, how) for e in ("launch", "worker", "stop"))]
    for module in modules:
        code = jit.emit_object(module, target)
        assert code.startswith(magic)
        found = struct.unpack_from("<H", code, 18) if magic == b"\x7fELF" else struct.unpack_from("<I", code, 4)
        assert found == (machine,)


def test_code_for_other_processors_is_not_run():
    other = jit.Target.named("aarch64" if HOST.arch == "x86_64" else "x86-64-v2")
    with pytest.raises(OptionError, match="does not run on this machine"):
        handle(scale, 4, target=other)


def test_the_windows_way_to_wait_is_well_formed():
    how = native.Waiting(native._WAIT_ON_ADDRESS)
    assert jit.emit_object(native.runtime_ir("worker", "f", "AMD64", how), HOST)


# ---------------------------------------------------------------- sharing


def test_ir_is_asked_for_once_and_the_code_is_shared():
    asked = []

    def text():
        asked.append(1)
        return who(jit.symbol("shared"))

    first = jit.build({"shared": text})["shared"]
    assert jit.build({"shared": text})["shared"] is first
    assert len(asked) == 1
    del first
    gc.collect()
    assert (HOST.identity, "shared") not in jit._alive


def test_handles_come_in_the_order_of_the_keys():
    def module(key):
        return lambda: who(jit.symbol(key))

    kept = jit.build({"b": module("b")})
    assert list(jit.build({k: module(k) for k in "cba"})) == ["c", "b", "a"]
    assert kept["b"].address


def test_threads_that_want_the_same_kernels_compile_them_once():
    asked, found = [], []

    def text():
        asked.append(1)
        return who(jit.symbol("contended"))

    def work():
        found.append(jit.build({"contended": text})["contended"])

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(asked) == 1
    assert len({id(h) for h in found}) == 1


# ---------------------------------------------------------------- errors


def test_ir_that_does_not_parse_is_shown():
    bad = scale("f", 4).replace("fadd", "fad")
    with pytest.raises(jit.CodeError, match=r"expected instruction opcode[\s\S]*→ +6 \|   %y = fad <4 x float>"):
        jit.emit_object(bad, HOST)


def test_ir_that_is_not_well_formed_is_shown():
    lines = scale("f", 4).splitlines()
    load = next(i for i, line in enumerate(lines) if "%x = load" in line)
    lines[load], lines[load + 1] = lines[load + 1], lines[load]
    with pytest.raises(jit.CodeError, match=r"dominate all uses[\s\S]*→ +\d+ \|   %x = load"):
        jit.emit_object("\n".join(lines), HOST)


def test_calls_to_functions_outside_are_refused():
    bad = "declare i32 @puts(ptr)\ndefine i32 @f(ptr %s) {\n %r = call i32 @puts(ptr %s)\n ret i32 %r\n}"
    with pytest.raises(jit.CodeError, match="puts"):
        jit.emit_object(bad, HOST)


def test_an_error_leaves_nothing_behind():
    with pytest.raises(jit.CodeError):
        jit.build({"good": lambda: who(jit.symbol("good")), "broken": lambda: "define"})
    assert not [key for _, key in jit._alive if key in ("good", "broken")]
    assert jit.build({"good": lambda: who(jit.symbol("good"))})["good"].address


# ---------------------------------------------------------------- helpers


def many(count):
    def module(i):
        return lambda: scale(jit.symbol(f"many {i}"), 16, i + 0.5)

    return {f"many {i}": module(i) for i in range(count)}


@pytest.fixture
def two_processes(monkeypatch, restored_threads):
    weft.set_num_threads(2)
    monkeypatch.setattr(jit, "_WORTH_A_HELPER", 0)


def test_a_helper_gives_the_same_code(two_processes):
    alone = {key: jit.emit_object(text(), HOST) for key, text in many(40).items()}
    assert jit._compile(many(40), HOST) == alone


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit(1)",
        "import os; os.read(0, 8); os.kill(os.getpid(), 9)",
        "import os; os.write(1, b'\\xff' * 64); os.read(0, 9); import time; time.sleep(60)",
        "import os; os.write(1, (b'weft' + bytes(4)) * 64); os.read(0, 1 << 20)",
    ],
    ids=["does not start", "is killed", "talks nonsense", "refuses everything"],
)
def test_a_helper_that_fails_is_done_without(two_processes, monkeypatch, tmp_path, program):
    bad = tmp_path / "bad.py"
    bad.write_text(program)
    monkeypatch.setattr(codegen, "__file__", str(bad))
    alone = {key: jit.emit_object(text(), HOST) for key, text in many(6).items()}
    assert jit._compile(many(6), HOST) == alone


def test_an_error_ends_the_helper(two_processes):
    before = threading.active_count()
    with pytest.raises(jit.CodeError):
        jit._compile(many(4) | {"bad": lambda: "define"}, HOST)
    assert threading.active_count() == before


# ---------------------------------------------------------------- memory, forks


def resident() -> float:
    """MiB of memory in use."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_a_thousand_builds_dropped_leave_nothing(monkeypatch):
    """250 kernels, each compiled once and loaded three times."""
    others = len(jit._alive)  # of tests before this one
    monkeypatch.setattr(cache, "_source_version", lambda: cache._LOADED)  # whoever edits the source meanwhile
    threads = threading.active_count()

    def build(i):
        x = np.zeros(4, np.float32)
        call(handle(scale, 4, 1.0, float(i)), x)
        assert x[0] == i

    for i in range(100):
        build(i)
    gc.collect()
    before, hits = resident(), cache.info().hits
    for i in range(1000):
        build(i % 250)
    gc.collect()
    assert cache.info().hits - hits == 850
    assert resident() - before < 8  # a page of each would be 4, and code takes several
    assert threading.active_count() == threads
    assert len(jit._alive) < others + 50


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_the_memory_of_dropped_code_is_given_back(monkeypatch):
    """Modules with a table of 1 MiB each: 32 of them take 32 MiB, and none when dropped."""
    monkeypatch.setenv("WEFT_CACHE_SIZE", "0")

    def module(key):
        table = f"@t = internal global [1048576 x i8] zeroinitializer\n{who(jit.symbol(key))}"
        return lambda: table.replace("  ret void", "  store volatile i8 1, ptr @t\n  ret void")

    keys = [f"large {i}" for i in range(32)]
    jit.build({keys[0]: module(keys[0])})
    gc.collect()
    before = resident()
    kept = jit.build({key: module(key) for key in keys})
    assert resident() - before > 24
    del kept
    gc.collect()
    assert resident() - before < 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_while_another_thread_compiles_can_compile():
    stop = threading.Event()

    def work():
        i = 0
        while not stop.is_set():
            jit.emit_object(scale("f", 16, i + 0.5), HOST)
            i += 1

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for i in range(5):
            child = os.fork()
            if child == 0:
                found = handle(scale, 4, 3.0, i + 0.25).address
                os._exit(0 if found else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        worker.join()
