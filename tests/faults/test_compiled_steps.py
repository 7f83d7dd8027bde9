"""Compiled steps when something goes wrong around them: killed processes, full disks, changed sources, forks, threads,
interrupts, ends. What a step gives is what eager code gives, the same bits in every process.
"""

from __future__ import annotations

import errno
import importlib.util
import inspect
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
import weakref

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft import nn
from weft.compiler.plan import plan
from weft.kernels.llvm import jit, worker
from weft.ops.core.base import PRIMITIVES
from weft.runtime import cache

from .killing import HalfWritten, die

HAS_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
ROOT = pathlib.Path(weft.__file__).parent.parent


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A cache of our own, two threads, and nothing compiled before."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(cache, "_here", cache._Here())
    monkeypatch.setattr(cache, "_LOADED", "tests")  # whoever edits the source meanwhile
    monkeypatch.setattr(cache, "_source_version", lambda: "tests")
    monkeypatch.setattr(jit, "_alive", weakref.WeakValueDictionary())
    before = weft.get_num_threads()
    weft.set_num_threads(2)
    yield tmp_path / "kernels"
    weft.set_num_threads(before)


def training():
    """A model and a training step; always the same ones."""
    weft.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, step


X, Y = weft.from_numpy(np.random.default_rng(0).normal(size=(16, 5)).astype(np.float32)), weft.arange(16) % 3


def outcome(run=weft.compile, steps=3):
    """Losses and parameters after a few steps, as one array."""
    model, step = training()
    step = run(step)
    losses = [step(X, Y).item() for _ in range(steps)]
    return np.concatenate([losses, *(p.detach().numpy().ravel() for p in model.parameters())])


def check(found):
    """It is what eager code gives, and to the bit what was found before."""
    np.testing.assert_allclose(found, outcome(lambda step: step), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found, outcome())


def child(work, wait=True):
    """Run in a forked process, to whose end code it comes down; a child that hangs is ended."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            signal.alarm(60)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return ended(process) if wait else process


def ended(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def forget_code():
    jit._alive = weakref.WeakValueDictionary()


def entries(place):
    return sorted(p.name for p in place.glob("*.object"))


# ---------------------------------------------------------------- killed


MOMENTS = {
    "tracing": lambda: setattr(weft.optim.SGD, "step", die),
    "writing IR": lambda: setattr(jit, "_compile", die),
    "compiling": lambda: setattr(worker.binding().TargetMachine, "emit_object", die),
    "opening": lambda: setattr(cache.tempfile, "mkstemp", die),
    "half written": lambda: setattr(cache, "open", HalfWritten),
    "before renaming": lambda: setattr(os, "replace", die),
    "written": lambda: setattr(cache, "_bound", die),
    "loading": lambda: setattr(jit, "_load", die),
    "binding": lambda: setattr(plan.Plan, "_bind_sources", die),
    "running": lambda: setattr(plan.Plan, "check_indices", die),
}


@HAS_FORK
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_process_killed_at_any_moment_harms_no_other(place, moment):
    def work():
        MOMENTS[moment]()
        outcome()

    assert child(work) == -signal.SIGKILL
    found = outcome()
    names = entries(place)
    forget_code()
    check(found)
    assert entries(place) == names


@HAS_FORK
def test_a_process_killed_at_any_time_harms_no_other(place, monkeypatch):
    """Helpers of the killed ones are ended, too, or end by themselves."""
    monkeypatch.setattr(jit, "_WORTH_A_HELPER", 0)
    for delay in (0.01, 0.04, 0.08, 0.16, 0.3):
        process = child(outcome, wait=False)
        time.sleep(delay)
        os.kill(process, signal.SIGKILL)
        assert ended(process) in (-signal.SIGKILL, 0)
    assert child(lambda: check(outcome())) == 0
    check(outcome())


# ---------------------------------------------------------------- directories that take nothing, other processes


def refuse(code):
    def write(*_, **__):
        raise OSError(code, os.strerror(code))

    return write


@pytest.mark.parametrize(
    ("code", "module", "name"), [(errno.EROFS, cache.tempfile, "mkstemp"), (errno.ENOSPC, cache.os, "replace")]
)
def test_a_directory_that_takes_no_files(place, monkeypatch, code, module, name):
    monkeypatch.setattr(module, name, refuse(code))
    with pytest.warns(RuntimeWarning, match=os.strerror(code)) as caught:
        check(outcome())
    assert len([w for w in caught if w.category is RuntimeWarning]) == 1
    assert not list(place.iterdir())


@HAS_FORK
def test_a_disk_that_is_really_full(place):
    """The system refuses to let a file grow past a few bytes."""
    resource = pytest.importorskip("resource")

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, resource.RLIM_INFINITY))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check(outcome())
        assert ["kernels are not kept" in str(w.message) for w in caught] == [True]

    assert child(work) == 0
    assert not list(place.glob("aside-*"))
    check(outcome())


def test_a_read_only_directory_with_entries_is_used(place, monkeypatch):
    found = outcome()
    forget_code()
    monkeypatch.setattr(cache.tempfile, "mkstemp", refuse(errno.EROFS))
    monkeypatch.setattr(jit, "_emit", refuse(errno.EPERM))  # nothing is left to compile
    np.testing.assert_array_equal(outcome(), found)


@HAS_FORK
def test_two_processes_compile_the_same_step_at_once(place):
    assert [ended(process) for process in [child(outcome, wait=False) for _ in range(2)]] == [0, 0]
    names = entries(place)
    assert names and not list(place.glob("aside-*"))
    check(outcome())
    assert entries(place) == names


# ---------------------------------------------------------------- what code on disk depends on


def copied_cache(folder):
    """The cache module of a copy of Weft's source; what it imports is that of the original."""
    path = folder / "weft" / "runtime" / "cache.py"
    found = importlib.util.spec_from_file_location("weft.runtime.copied_cache", path)
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    try:
        found.loader.exec_module(module)
    finally:
        del sys.modules[found.name]
    return module


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(ROOT / "weft", tmp_path / "copy" / "weft", ignore=shutil.ignore_patterns("*.npz"))
    return tmp_path / "copy"


def test_entries_change_with_the_source(copied):
    name = lambda: copied_cache(copied).entry("key", "target", "LLVM")
    seen = {name()}
    assert name() in seen
    for file in ("kernels/math/library.py", "ops/math/elementwise.py", "runtime/native.py", "random/gaussian.py"):
        path = copied / "weft" / file
        path.write_text(path.read_text() + "\n# changed\n")
        seen.add(name())
    assert len(seen) == 5


def test_operations_say_what_they_do_in_files_that_entries_depend_on():
    for title, op in PRIMITIVES.items():
        for method in ("lower", "native"):
            written = getattr(type(op), method, None)
            if callable(written) and type(op).__module__.startswith("weft."):
                file = pathlib.Path(inspect.getfile(inspect.unwrap(written)))
                assert file.relative_to(ROOT / "weft").parts[0] in cache.SOURCES, (title, method)


def test_code_of_an_older_source_is_not_used(copied):
    """The same function before and after the operation is made to do something else."""
    path = copied / "weft" / "ops" / "math" / "curves.py"
    text = path.read_text()
    at = text.index("def lower", text.index("class Relu"))
    found = text.index("return ", at)
    source = "import weft; print(weft.compile(lambda x: x.relu() + 0.5)(weft.ones(3)).tolist())"
    before = run_python(source, cwd=copied)
    path.write_text(text[:found] + "x = x + x\n        " + text[found:])
    after = run_python(source, cwd=copied)
    assert (before.stdout, after.stdout) == ("[1.5, 1.5, 1.5]\n", "[2.5, 2.5, 2.5]\n"), (before, after)


def run_python(source, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False, cwd=cwd
    )


# ---------------------------------------------------------------- forks, threads, interrupts, ends


@HAS_FORK
def test_a_forked_child_and_its_parent_go_on(place):
    expected = outcome(lambda step: step, 5)[:5]
    run = weft.compile(training()[1])
    found = [run(X, Y).item() for _ in range(2)]

    def work():
        np.testing.assert_allclose(found + [run(X, Y).item() for _ in range(3)], expected, rtol=1e-5)
        check(outcome())

    assert child(work) == 0
    np.testing.assert_allclose(found + [run(X, Y).item() for _ in range(3)], expected, rtol=1e-5)
    assert child(lambda: check(outcome())) == 0


@HAS_FORK
def test_a_child_forked_while_threads_run_is_free(place):
    w = weft.randn(200, 200)
    run, stop = weft.compile(lambda x: (x @ w).tanh() @ w), threading.Event()
    x = weft.randn(300, 200)
    expected = run(x).numpy()

    def work():
        while not stop.is_set():
            run(x)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(6):
            assert child(lambda: np.testing.assert_array_equal(run(x).numpy(), expected)) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def in_threads(work, count=4):
    errors = []

    def guarded(k):
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def plans(run):
    return [bound.plan for found in run.plans.values() for bound in found]


def test_python_threads_share_a_compiled_function():
    w, b = weft.randn(60, 60) / 8, weft.randn(60)
    run = weft.compile(lambda x: weft.tanh(x @ w + b) @ w)
    expected = lambda x: np.tanh(x.numpy().astype(float) @ w.numpy() + b.numpy()) @ w.numpy()

    def work(k):
        x = weft.full((50, 60), k / 10)
        for _ in range(30):
            np.testing.assert_allclose(run(x).numpy(), expected(x), rtol=1e-4, atol=1e-5)

    in_threads(work)
    assert len(plans(run)) == 1


def test_python_threads_ask_for_gradients_of_a_compiled_function():
    w = weft.randn(60, 60)
    run = weft.compile(lambda x: (x @ w).square().sum())

    def work(k):
        for n in range(30):
            x = weft.full((40, 60), k + n / 30).requires_grad_()
            run(x).backward()
            a, m = x.detach().numpy().astype(float), w.numpy().astype(float)
            np.testing.assert_allclose(x.grad.numpy(), 2 * a @ m @ m.T, rtol=1e-4, atol=1e-2)

    in_threads(work)


def test_the_number_of_threads_may_change_between_calls():
    found = []
    for counts in ([1], [2], [1, 2, 3]):
        model, step = training()
        run = weft.compile(step)
        for k in range(6):
            weft.set_num_threads(counts[k % len(counts)])
            run(X, Y)
        assert sorted(p.threads for p in plans(run)) == counts
        found.append(np.concatenate([p.detach().numpy().ravel() for p in model.parameters()]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[0], found[2], rtol=1e-5, atol=1e-6)


PROGRAM = """
import signal, sys, threading, time
import weft, weft.nn.functional as F
from weft import nn
weft.set_num_threads(2)
model = nn.Sequential(nn.Linear(50, 80), nn.ReLU(), nn.Linear(80, 10))
optimizer = weft.optim.Adam(model.parameters())
x, y = weft.randn(64, 50), weft.arange(64) % 10
@weft.compile
def step():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()
step()
"""
ENDS = {
    "at once": "",
    "in the middle": "sys.exit(0)",
    "a thread still running": """
def forever():
    while True:
        step()
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)
""",
    "interrupted": """
threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
count = 1
try:
    while True:
        step()
        count += 1
except KeyboardInterrupt:
    pass
counts = {s["step"].item() for s in optimizer.state.values()}
assert len(counts) == 1 and counts <= {float(count), count + 1.0}, (counts, count)
assert step().isfinite()
""",
}


@pytest.fixture
def warm(tmp_path_factory, monkeypatch):
    """What one of these programs compiles, the next one finds."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "programs"))


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("end", ENDS)
def test_programs_end_cleanly(end):
    ended = run_python(PROGRAM + ENDS[end])
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.usefixtures("warm")
def test_an_interrupt_ends_a_program():
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM + "print('go', flush=True)\nwhile True: step()"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        assert process.stdout.readline() == b"go\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT and said.endswith(b"KeyboardInterrupt\n")
