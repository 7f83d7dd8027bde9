"""Workers: shares, barriers, thread counts, times, rounding, interrupts, forks, ends."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

import weft
from weft.kernels import pool
from weft.kernels.pool import Pool, get_pool
from weft.runtime import native

from .native_samples import Plan, count, handle, meetings, product, run_python, shift, who, words

BARRIER = 1
HAS_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def only(thread):
    return (1 + thread) << 8


def run(runner, table, **options):
    runner.run(table.address, **options)


@pytest.fixture(scope="module", params=[1, 2, 3])
def runner(request):
    made = Pool(request.param)
    yield made
    made.close()


@pytest.fixture
def restored_threads():
    before = weft.get_num_threads()
    yield
    weft.set_num_threads(before)


# ---------------------------------------------------------------- plans


@pytest.mark.parametrize("small", [False, True])
def test_every_thread_runs_every_step(runner, small):
    out = np.zeros((4, 2), np.int64)
    args, fn = words(out), handle(who)
    run(runner, Plan(*[(fn, args, 0)] * 5), small=small)
    n = runner.threads
    np.testing.assert_array_equal(out[:n], [[5 * (t + 1), 5 * n] for t in range(n)])
    assert not out[n:].any()


def test_a_step_of_one_thread_runs_once_as_thread_0_of_1(runner):
    out = np.zeros((3, 2), np.int64)
    arguments = [words(out[t]) for t in range(3)]
    fn = handle(who)
    run(runner, Plan(*[(fn, arguments[t], only(t)) for t in range(3)]))
    np.testing.assert_array_equal(out, [[1, 1]] * 3)


def test_steps_see_what_the_neighbours_wrote_before_the_barrier(runner):
    """x[t] ← x[t + 1] + 1 for 300 steps: x = 300 + the start, turned by 300 places."""
    n = runner.threads
    start = 10 * np.arange(n)
    a, b = np.zeros(8, np.int64), np.zeros(8, np.int64)
    forth, back, fn = words(b, a), words(a, b), handle(shift)
    table = Plan(*[(fn, forth, BARRIER), (fn, back, BARRIER)] * 150)
    for _ in range(20):
        a[:n] = start
        run(runner, table)
        np.testing.assert_array_equal(a[:n], np.roll(start, -300) + 300)


def test_barriers_inside_a_function(runner):
    x = np.zeros(1, np.int64)
    args, fn = words(x), handle(meetings)
    run(runner, Plan((fn, args, 0), (fn, args, BARRIER)))
    assert x[0] == 2000


def test_barriers_inside_a_step_of_one_thread_pass(runner):
    x, y = np.zeros(1, np.int64), np.zeros(1, np.int64)
    fn = handle(meetings)
    run(runner, Plan((fn, words(x), only(1)), (fn, words(y), 0)))
    assert x[0] == y[0] == 1000


@pytest.mark.parametrize("threads", [4, 5, 8, 16])
def test_many_threads_meet(threads):
    """x[t] ← x[t + 1] + 1 for 40 steps, by counts of all or by rounds."""
    made = Pool(threads)
    start = 10 * np.arange(threads)
    a, b = start.copy(), np.zeros(threads, np.int64)
    forth, back, fn = words(b, a), words(a, b), handle(shift)
    for _ in range(2):
        run(made, Plan(*[(fn, forth, BARRIER), (fn, back, BARRIER)] * 10))
    np.testing.assert_array_equal(a, np.roll(start, -40) + 40)
    made.close()


@pytest.mark.parametrize("first", [0, 1, 4])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
def test_a_step_of_some_threads_is_theirs_alone(first, count):
    """They are threads 0, 1, … of so many, wherever the first one is; never more than there are."""
    made, out = Pool(5), np.zeros((10, 2), np.int64)
    run(made, Plan((handle(who), words(out), native.step_flags(first, count) | BARRIER)))
    made.close()
    some = min(count, 5)
    np.testing.assert_array_equal(out[:some], [[t + 1, some] for t in range(some)])
    assert not out[some:].any()


def test_flags_of_steps():
    assert native.step_flags(None) == 0 and native.step_flags(3) == 4 << 8
    assert native.for_one_thread(np.array([1 << 8 | 1, 5 << 8]))
    assert not native.for_one_thread(np.array([1 << 8, 0]))
    assert not native.for_one_thread(np.array([native.step_flags(2, 3)]))


def test_an_empty_plan(runner):
    table, times = Plan(), np.full(1, -1, np.int64)
    run(runner, table)
    runner.run_timed(table.address, times.ctypes.data)
    assert times[0] == -1


def test_more_threads_than_cores():
    made = Pool((os.cpu_count() or 1) + 2)
    x = np.zeros(made.threads, np.int64)
    y = np.zeros(made.threads, np.int64)
    fn = handle(shift)
    run(made, Plan(*[(fn, words(y, x), BARRIER), (fn, words(x, y), BARRIER)] * 5))
    made.close()
    np.testing.assert_array_equal(x, 10)


def test_times_of_steps(runner):
    """Counting to a million takes longer than to a thousand, and all steps together not longer than the call."""
    x = np.zeros(1, np.int64)
    short, long, fn = words(x, 1000), words(x, 1_000_000), handle(count)
    table = Plan((fn, short, BARRIER), (fn, long, BARRIER), (fn, short, 0))
    times = np.full(3, -1, np.int64)
    start = time.perf_counter_ns()
    runner.run_timed(table.address, times.ctypes.data)
    wall = time.perf_counter_ns() - start
    assert (times >= 0).all()
    assert times[1] > 20 * times[2] and times[1] > 100_000
    assert times.sum() <= 1.1 * wall
    run(runner, table)  # not timed: the array is left alone
    assert x[0] == 2 * 1_002_000


# ---------------------------------------------------------------- rounding


def test_denormals_are_kept(runner):
    tiny = np.array([1e-30, 1e-10], np.float32)
    out = np.full(4, -1, np.float32)
    run(runner, Plan((handle(product), words(out, tiny), 0)))
    np.testing.assert_array_equal(out[: runner.threads], tiny[0] * tiny[1])
    assert tiny[0] * tiny[1] == np.float32(1e-40) > 0


# ---------------------------------------------------------------- threads


def test_the_number_of_threads_follows_the_setting(restored_threads):
    for n in (1, 2, 3, 2):
        weft.set_num_threads(n)
        found = get_pool()
        assert found.threads == n
        assert get_pool() is found and get_pool(n) is found
    assert get_pool(1).threads == 1


def test_one_thread_needs_no_worker():
    before = threading.active_count()
    run(Pool(1), Plan())
    assert threading.active_count() == before


def test_workers_end_with_their_pool():
    before = threading.active_count()
    for _ in range(50):
        made = Pool(3)
        run(made, Plan())
        assert threading.active_count() >= before + 2
        del made
    gc.collect()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert threading.active_count() == before


def test_many_counts_do_not_pile_up(restored_threads):
    before = threading.active_count()
    for n in range(2, 12):
        run(get_pool(n), Plan())
    gc.collect()
    assert len(pool._recent) <= pool._MOST_RECENT
    for n in list(pool._recent):
        pool._recent.pop(n).close()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert threading.active_count() <= before


def test_a_closed_pool_starts_again(runner):
    runner.close()
    out = np.zeros((3, 2), np.int64)
    run(runner, Plan((handle(who), words(out), 0)))
    assert out[:, 1].sum() == runner.threads**2


def test_a_system_that_gives_no_more_threads(monkeypatch):
    before, real = threading.active_count(), threading.Thread.start

    def start(thread):
        if thread.name == "weft-2":
            raise RuntimeError("can't start new thread")
        real(thread)

    made = Pool(3)
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        run(made, Plan())
    monkeypatch.undo()
    run(made, Plan())
    made.close()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert threading.active_count() == before


def test_idle_workers_sleep():
    made = Pool(2)
    run(made, Plan())
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.1)
    assert time.process_time() - before < 0.02
    out = np.zeros((2, 2), np.int64)
    run(made, Plan((handle(who), words(out), 0)))  # and wake
    np.testing.assert_array_equal(out, [[1, 2], [2, 2]])
    made.close()


@pytest.mark.parametrize("small", [False, True])
def test_plans_of_several_python_threads_run_one_after_the_other(runner, small):
    """Adding through memory without atomics loses counts if two plans overlap."""
    x = np.zeros(1, np.int64)
    table = Plan((handle(count), words(x, 100), 0))

    def work():
        for _ in range(200):
            run(runner, table, small=small)

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert x[0] == 4 * 200 * 100


def test_other_python_threads_go_on_while_a_plan_runs(runner):
    x = np.zeros(1, np.int64)
    table = Plan((handle(count), words(x, 50_000_000), 0))
    caller = threading.Thread(target=run, args=(runner, table))
    caller.start()
    turns = 0
    while caller.is_alive():
        turns += 1
        time.sleep(0.001)
    caller.join()
    assert turns > 3
    assert x[0] == 50_000_000


def test_the_way_to_sleep_that_every_system_has(monkeypatch):
    monkeypatch.setattr(native, "waiting", native.napping)
    pool._entries.cache_clear()
    try:
        made = Pool(2)
        out = np.zeros((2, 2), np.int64)
        table = Plan((handle(who), words(out), BARRIER))
        run(made, table)
        time.sleep(0.02)
        run(made, table)
        made.close()
        np.testing.assert_array_equal(out, [[2, 4], [4, 4]])
    finally:
        pool._entries.cache_clear()


def test_a_plan_without_steps_costs_little():
    """About 1 µs on a quiet machine; the bound leaves room for a busy one."""
    made, table = Pool(1), Plan()
    address, best = table.address, float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(100):
            made.run(address)
        best = min(best, time.perf_counter() - start)
    assert best / 100 < 5e-6


# ---------------------------------------------------------------- interrupts, forks, ends


def test_an_interrupt_comes_through_between_plans(runner):
    x = np.zeros(1, np.int64)
    table = Plan((handle(count), words(x, 1_000_000), BARRIER))
    timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            run(runner, table)
    timer.join()
    assert x[0] % 1_000_000 == 0  # no plan was cut short
    before = int(x[0])
    run(runner, table)
    assert x[0] == before + 1_000_000


@HAS_FORK
def test_a_forked_child_makes_its_own_workers_and_the_parent_keeps_its(runner):
    out = np.zeros((3, 2), np.int64)
    table = Plan((handle(who), words(out), BARRIER))
    run(runner, table)
    for _ in range(3):
        child = os.fork()
        if child == 0:
            out[:] = 0
            run(runner, table)
            run(runner, table, small=True)
            os._exit(0 if out[:, 1].sum() == 2 * runner.threads**2 else 1)
        assert os.waitpid(child, 0)[1] == 0
        out[:] = 0
        run(runner, table)
        assert out[:, 1].sum() == runner.threads**2


@HAS_FORK
def test_a_child_forked_while_a_plan_runs_is_free_to_run_its_own(runner):
    x, y = np.zeros(1, np.int64), np.zeros(1, np.int64)
    long, short = (Plan((handle(count), words(a, n), 0)) for a, n in ((x, 30_000_000), (y, 10)))
    caller = threading.Thread(target=run, args=(runner, long))
    caller.start()
    time.sleep(0.005)
    child = os.fork()
    if child == 0:
        run(runner, short)
        os._exit(0 if y[0] == 10 else 1)
    caller.join()
    assert os.waitpid(child, 0)[1] == 0
    assert x[0] == 30_000_000


ENDS = {
    "workers asleep": "time.sleep(0.05)",
    "workers spinning": "",
    "a daemon thread running plans": """
def forever():
    while True:
        pool.run(table.address)
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.02)
""",
    "modules torn down early": "import sys; sys.modules.clear()",
    "a forked child": """
child = os.fork()
pool.run(table.address)
if child:
    assert os.waitpid(child, 0)[1] == 0
""",
}


@pytest.mark.parametrize("end", [name for name in ENDS if hasattr(os, "fork") or "fork" not in name])
def test_programs_end_cleanly(end, tmp_path):
    source = """
import threading, time
from weft.kernels.pool import Pool
out = np.zeros((2, 2), np.int64)
args = words(out)
table = Plan((handle(who), args, 1))
pool = Pool(2)
pool.run(table.address)
assert out.sum() == 7
"""
    ended = run_python(source + ENDS[end], WEFT_CACHE_DIR=str(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, "")
