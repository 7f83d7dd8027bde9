"""Children forked while other threads of the parent compile, import and draw: none hangs, all compute."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

import weft
from weft.runtime import locks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

PROGRAM = """
import faulthandler, os, sys, threading
import weft
stop, made = threading.Event(), 0

def compiling():
    global made
    while not stop.is_set():
        made += 1
        c = 1.0 + made / 7
        weft.compile(lambda x: (x * c).tanh().sum() + c)(weft.ones(3, 4))  # a kernel that nobody has
        (weft.randn(70_000) + c).exp()

def in_child(k):
    faulthandler.dump_traceback_later(15, exit=True)  # a child that hangs says where
    found = weft.compile(lambda x: (x * (k + 0.5)).exp().sum())(weft.zeros(2, 5)).item()
    assert found == 10 and weft.zeros(70_000 + k).exp().sum() == 70_000 + k
    weft.manual_seed(k)
    assert weft.rand(3).shape == (3,)

threads = [threading.Thread(target=compiling, daemon=True) for _ in range(int(sys.argv[2]))]
for thread in threads:
    thread.start()
ended = []
for k in range(int(sys.argv[1])):  # the first forks come while the compiler is still being imported
    process = os.fork()
    if process == 0:
        status = 1
        try:
            in_child(k)
            status = 0
        finally:
            os._exit(status)
    ended.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
stop.set()
for thread in threads:
    thread.join()
assert weft.compile(lambda x: x + 1)(weft.ones(2)).sum() == 4
print(ended.count(0), made > 0)
"""


def forked(count, threads, seconds):
    environment = os.environ | {"WEFT_CACHE_SIZE": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, str(count), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=seconds, check=False)
    assert done.stdout == f"{count} True\n", (done.stdout, done.stderr)


def test_forks_beside_compiling_threads():
    forked(4, 1, 110)


@pytest.mark.slow
def test_a_hundred_forks_beside_compiling_threads():
    forked(100, 2, 600)


@pytest.fixture
def busy():
    """A thread that does what it is told while it lasts."""
    begun, done = threading.Event(), threading.Event()

    def start(section):
        def work():
            with section:
                begun.set()
                done.wait(20)

        threading.Thread(target=work, daemon=True).start()
        begun.wait(20)
        return done

    yield start
    done.set()


def fork():
    process = os.fork()
    if process == 0:
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@pytest.mark.parametrize("section", ["building", "drawing"])
def test_a_fork_waits_for_what_must_be_whole(section, busy):
    lock = locks.fork_safe_lock(whole=True)
    done = busy(locks.unforked() if section == "building" else lock)
    threading.Timer(0.2, done.set).start()
    start = time.monotonic()
    assert fork() == 0
    assert time.monotonic() - start > 0.15


def test_a_fork_waits_no_longer_than_it_must(busy, monkeypatch):
    """The traced function of the other thread may itself wait for the one that forks."""
    monkeypatch.setattr(locks, "PATIENCE", 0.1)
    busy(locks.unforked())
    assert fork() == 0


def test_a_thread_that_builds_may_fork():
    with locks.unforked(), locks.fork_safe_lock(), locks.fork_safe_lock(whole=True):
        start = time.monotonic()
        assert fork() == 0
        assert time.monotonic() - start < 5


def test_a_lock_that_another_thread_held_is_open_in_the_child(busy):
    lock = locks.fork_safe_lock()
    busy(lock)
    process = os.fork()
    if process == 0:
        os._exit(0 if lock.acquire(timeout=1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def test_a_traced_function_may_fork():
    """The child leaves the trace (Python seeds its random numbers anew, which a trace refuses), lets go of the locks that
    it holds, and compiles."""

    def f(x):
        process = os.fork()
        assert process == 0 or os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
        return x + 1

    parent = os.getpid()
    try:
        found = weft.compile(f)(weft.ones(3)).tolist()
    finally:
        if os.getpid() != parent:
            os._exit(0 if weft.compile(lambda x: x + 2)(weft.ones(3)).tolist() == [3, 3, 3] else 1)
    assert found == [2, 2, 2]
