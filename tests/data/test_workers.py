"""Workers: the same batches as without them, every way in which one can fail, and nothing left behind."""

from __future__ import annotations

import faulthandler
import gc
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import ml_dtypes
import numpy as np
import pytest
import torch.utils.data as theirs

import weft
import weft.utils.data as ours
from tests.tables import slow_but
from weft.data.workers import WorkerError

from .loading import Squares, plain

LARGE = 60_000  # bytes of an array that goes through shared memory


def rows(loader):
    return [batch[0].tolist() for batch in loader]


def children() -> list[int]:
    """Processes that are children of this one, zombies too."""
    tasks = pathlib.Path("/proc/self/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def shared_memory() -> int:
    """Mappings of slots in this process."""
    return pathlib.Path("/proc/self/maps").read_text().count("weft-batch")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def nothing_is_left():
    gc.collect()
    before = set(children()), shared_memory(), descriptors()
    yield
    gc.collect()
    after = set(children()) - before[0], shared_memory(), descriptors()
    assert after[0] == set() and after[1] <= before[1] and after[2] <= before[2]


def sample(i):
    return i, np.full(LARGE // 4, i, np.float32), {"noise": weft.rand(3), "drawn": random.random() if worker() else 0}


def worker():
    return ours.get_worker_info() is not None


# ------------------------------------------------------------------------------------------- equality


@pytest.mark.parametrize("options", [{}, dict(shuffle=True), dict(batch_size=None), dict(drop_last=True)])
def test_the_same_batches_with_any_number_of_workers(options):
    def run(workers):
        loader = ours.DataLoader(
            Squares(11, lambda i: (i, np.full(9000, i), weft.rand(2))),
            **{"batch_size": 2, "seed": 5, **options},
            num_workers=workers,
        )
        return [plain(batch) for batch in loader]

    alone = run(0)
    assert run(1) == alone and run(2) == alone and run(3) == alone


@pytest.mark.parametrize("workers", [1, 2])
def test_tensor_sets_and_transforms_in_workers(workers):
    data = ours.TensorDataset(weft.rand(50, 300), weft.arange(50))
    noisy = lambda batch, generator: (batch[0] + weft.from_numpy(generator.uniform((1, 300))), batch[1])
    a, b = (ours.DataLoader(data, 8, True, num_workers=n, seed=1, batch_transform=noisy) for n in (0, workers))
    for (x, i), (y, j) in zip(a, b, strict=True):
        assert (x == y).all() and (i == j).all() and isinstance(y, weft.Tensor)


@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_and_states(persistent):
    make = lambda n: ours.DataLoader(
        Squares(20), 3, True, num_workers=n, seed=2, persistent_workers=persistent and n > 0
    )
    a, b = make(0), make(2)
    assert [rows(b) for _ in range(3)] == [rows(a) for _ in range(3)]
    iterator = iter(b)
    next(iterator), next(iterator)
    state = b.state_dict()
    assert state == {"seed": 2, "epoch": 3, "batches_given": 2}  # given, not merely prefetched
    a.load_state_dict(state)
    rest = rows(a)
    assert rows(iterator) == rest
    b.load_state_dict(state)
    assert rows(b) == rest


def test_persistent_workers_stay_and_others_go():
    loader = ours.DataLoader(Squares(8, lambda i: os.getpid()), 2, num_workers=2, persistent_workers=True)
    pids = [{p for batch in loader for p in batch.tolist()} for _ in range(2)]
    assert pids[0] == pids[1] and pids[0] <= set(children())
    loader = ours.DataLoader(Squares(8, lambda i: os.getpid()), 2, num_workers=2)
    pids = [{p for batch in loader for p in batch.tolist()} for _ in range(2)]
    assert not pids[0] & pids[1]


def test_an_iteration_that_was_overtaken_says_so():
    loader = ours.DataLoader(Squares(30), 2, num_workers=1, persistent_workers=True)
    first = iter(loader)
    next(first)
    assert len(rows(loader)) == 15  # what was under way for the first is thrown away
    with pytest.raises(WorkerError, match="another iteration"):
        list(first)


def test_random_numbers_of_python_and_numpy_repeat():
    draw = lambda i: (random.random(), np.random.rand(), weft.rand(1).item())  # noqa: NPY002
    runs = [
        [plain(b) for b in ours.DataLoader(Squares(8, draw), 2, num_workers=n, seed=seed)]
        for n, seed in ((1, 0), (2, 0), (2, 1))
    ]
    assert runs[0] == runs[1] != runs[2]
    assert len({value for batch in runs[0] for _, column in batch for value in column}) == 24


def test_order_of_arrival():
    slow_first = Squares(6, lambda i: (time.sleep(0.3 * (i == 0)), i)[1])
    loader = ours.DataLoader(slow_first, 1, num_workers=2, in_order=False)
    found = [batch.item() for batch in loader]
    assert sorted(found) == list(range(6)) and found[0] != 0
    assert [batch.item() for batch in ours.DataLoader(slow_first, 1, num_workers=2)] == list(range(6))


# ------------------------------------------------------------------------------------------- streams


class Split(ours.IterableDataset):
    """Each worker gives its numbers of 0 … n − 1; the first worker fewer than the others."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = ours.get_worker_info() or theirs.get_worker_info()
        return iter(range(info.id, self.n if info.id else self.n // 2, info.num_workers))


class TheirSplit(Split, theirs.IterableDataset):
    pass


@pytest.mark.filterwarnings("ignore:This DataLoader will create 3")
@pytest.mark.parametrize("workers", slow_but((3,), [1, 2, 3]))
@pytest.mark.parametrize("options", [dict(batch_size=2), dict(batch_size=2, drop_last=True), dict(batch_size=None)])
def test_streams_come_in_the_order_of_pytorch(workers, options):
    a = ours.DataLoader(Split(17), num_workers=workers, **options)
    b = theirs.DataLoader(TheirSplit(17), num_workers=workers, **options)
    assert plain(list(a)) == plain(list(b))


@pytest.mark.parametrize("given", [0, 1, 4, 7])
def test_streams_continue_in_their_workers(given):
    make = lambda: ours.DataLoader(Split(25), 2, num_workers=3, seed=0)
    a, b = make(), make()
    iterator = iter(a)
    [next(iterator) for _ in range(given)]
    state = a.state_dict()
    assert state["batches_given"] == sum(state["by_worker"]) == given
    b.load_state_dict(state)
    assert plain(list(b)) == plain(list(iterator))
    if given:
        with pytest.raises(ValueError, match="read by 3 workers; it cannot go on with 2"):
            ours.DataLoader(Split(25), 2, num_workers=2).load_state_dict(state)


def test_worker_info():
    def describe(i):
        info = ours.get_worker_info()
        return info.id, info.num_workers, info.seed, len(info.dataset)

    infos = list(ours.DataLoader(Squares(4, describe), batch_size=None, num_workers=2))
    assert [info[0] for info in infos] == [0, 1, 0, 1] and {tuple(info[1::2]) for info in infos} == {(2, 4)}
    assert infos[1][2] == infos[0][2] + 1 and ours.get_worker_info() is None


def test_worker_init_fn_is_called_once_in_each():
    seen = []  # a forked worker has its own
    loader = ours.DataLoader(
        Squares(6, lambda i: seen[:]), 1, num_workers=2, worker_init_fn=seen.append, collate_fn=lambda b: b[0]
    )
    assert list(loader) == [[0], [1]] * 3 and seen == []


# ------------------------------------------------------------------------------------------- memory


def test_arrays_come_as_windows_on_shared_memory_and_stay_valid():
    loader = ours.DataLoader(Squares(12, sample), 2, num_workers=2)
    iterator = iter(loader)
    first = next(iterator)
    assert shared_memory() > 0
    rest = list(iterator)  # more batches than there may be slots: the others were copied
    for number, batch in enumerate([first, *rest]):
        assert batch[1].tolist() == [[float(i)] * (LARGE // 4) for i in (2 * number, 2 * number + 1)]
    assert shared_memory() <= 2 * 4
    first[1].zero_()  # memory of its own
    assert rest[0][1][0, 0].item() == 2.0


def test_slots_are_used_again():
    loader = ours.DataLoader(Squares(200, lambda i: np.full(LARGE, i, np.uint8)), 1, num_workers=1)
    most = 0
    for number, batch in enumerate(loader):
        assert batch[0, 0].item() == batch[0, -1].item() == number
        most = max(most, shared_memory())
    assert most <= 5


def test_batches_that_grow_get_larger_slots():
    loader = ours.DataLoader(Squares(6, lambda i: np.full(20_000 * 2**i, i)), 1, num_workers=1)
    for number, batch in enumerate(loader):
        assert batch.shape == (1, 20_000 * 2**number) and (batch == number).all()
        del batch
    assert shared_memory() <= 5


BFLOAT16 = np.arange(40_000).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    "value",
    [
        lambda: weft.tensor(BFLOAT16),
        lambda: BFLOAT16[:7],
        lambda: weft.rand(100, 200).T,
        lambda: weft.tensor(3.5),
        lambda: weft.zeros(0, 4),
        lambda: weft.ones(20_000, dtype=weft.complex64),
        lambda: np.arange(20_000)[::2],
        lambda: weft.ones(9_000, requires_grad=True),
        lambda: {"text": "x" * 100_000, "none": None, "set": {1, 2}},
    ],
    ids=["bfloat16", "bfloat16 array", "transposed", "0-d", "empty", "complex", "strided", "grad", "objects"],
)
def test_any_value_arrives_as_it_was(value):
    weft.manual_seed(0)
    wanted = value()

    def fixed(i):
        weft.manual_seed(0)
        return value()

    (found,) = ours.DataLoader(Squares(1, fixed), batch_size=None, num_workers=1, collate_fn=lambda x: x)
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert found == wanted
    else:
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        assert (getattr(found, "array", found) == getattr(wanted, "array", wanted)).all()
        assert getattr(found, "requires_grad", False) == getattr(wanted, "requires_grad", False)


# ------------------------------------------------------------------------------------------- faults


class Unpicklable(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def raising(error):
    def give(i):
        if i == 5:
            raise error
        return (i,)

    return give


@pytest.mark.parametrize(
    "error, kind",
    [
        (ValueError("five"), ValueError),
        (KeyError("five\nlines"), KeyError),
        (Unpicklable(1, "five"), WorkerError),
        (UnicodeDecodeError("utf8", b"five", 0, 1, "five"), WorkerError),
        (StopIteration("five"), RuntimeError),
        (weft.errors.ShapeError("five"), weft.errors.ShapeError),
    ],
    ids=lambda x: getattr(x, "__name__", type(x).__name__),
)
def test_an_exception_comes_with_its_traceback_and_the_epoch_goes_on(error, kind):
    iterator = iter(ours.DataLoader(Squares(12, raising(error)), 2, num_workers=2))
    assert [next(iterator)[0].tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(kind, match=r"worker process 0\.\nOriginal Traceback(.|\n)*in give(.|\n)*five"):
        next(iterator)
    assert [batch[0].tolist() for batch in iterator] == [[6, 7], [8, 9], [10, 11]]


def test_errors_before_the_first_batch():
    def init(number):
        raise OSError(f"no licence for worker {number}")

    with pytest.raises(OSError, match="no licence for worker 0"):
        list(ours.DataLoader(Squares(4), 1, num_workers=2, worker_init_fn=init))


def test_a_batch_that_cannot_be_sent():
    with pytest.raises(Exception, match=r"worker process 0(.|\n)*pickle"):
        list(ours.DataLoader(Squares(4, lambda i: lambda: i), batch_size=None, num_workers=1))


@pytest.mark.parametrize(
    "end, words",
    [
        (lambda: os._exit(3), "exited unexpectedly with code 3"),
        (
            lambda: os.kill(os.getpid(), signal.SIGKILL),
            r"killed by signal 9 \(SIGKILL\); the system may have run out of",
        ),
        (lambda: [faulthandler.disable(), os.kill(os.getpid(), signal.SIGSEGV)], r"killed by signal 11 \(SIGSEGV\)"),
    ],
)
@pytest.mark.parametrize("persistent", slow_but((True,), [False, True]))
def test_a_worker_that_dies_is_reported_at_once(end, words, persistent):
    def give(i):
        if i == 9:
            end()
        return (i,)

    loader = ours.DataLoader(Squares(40, give), 2, num_workers=2, persistent_workers=persistent)
    start, given = time.monotonic(), []
    with pytest.raises(WorkerError, match=rf"DataLoader worker 0 \(pid \d+\) (was )?{words}"):
        for batch in loader:
            given.append(batch)
    assert len(given) == 4 and time.monotonic() - start < 5
    assert next(iter(loader))[0].tolist() == [0, 1]  # a new iteration has new workers


def test_a_worker_killed_from_outside_while_it_works():
    loader = ours.DataLoader(Squares(4, lambda i: (time.sleep(30), i)), 1, num_workers=1)
    before = set(children())
    iterator = iter(loader)
    (pid,) = set(children()) - before
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="SIGKILL"):
        next(iterator)
    with pytest.raises(WorkerError, match="have ended"):
        next(iterator)


def test_timeout():
    loader = ours.DataLoader(
        Squares(4, lambda i: time.sleep(30 * (i == 1))), 1, num_workers=1, timeout=0.5, collate_fn=len
    )
    iterator = iter(loader)
    assert next(iterator) == 1
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"timed out after 0\.5 seconds"):
        next(iterator)
    assert 0.4 < time.monotonic() - start < 3


def test_breaking_off_ends_the_workers():
    before = children()
    for _ in ours.DataLoader(Squares(1000, sample), 2, num_workers=2):
        assert len(children()) == len(before) + 2
        break
    gc.collect()
    assert children() == before


def test_a_loader_in_a_thread_of_its_own():
    found = []
    thread = threading.Thread(target=lambda: found.extend(rows(ours.DataLoader(Squares(6), 2, num_workers=2))))
    thread.start()
    thread.join(10)
    assert found == [[0, 1], [2, 3], [4, 5]]


def test_workers_compute_while_native_code_has_run_before():
    """Forked workers have locks and native threads of their own."""
    w = weft.rand(200, 200)
    compiled = weft.compile(lambda x: (x @ w).tanh().sum())
    value = compiled(w).item()
    loader = ours.DataLoader(Squares(4, lambda i: compiled(w).item()), 2, num_workers=2)
    assert [batch.tolist() for batch in loader] == [[value] * 2] * 2


def test_more_tasks_and_answers_than_pipes_hold():
    """Orders of 1 MB and answers of 1 MB that are no arrays, each more than a pipe's buffer."""
    loader = ours.DataLoader(
        Squares(400_000, lambda i: i), 100_000, num_workers=1, collate_fn=lambda found: "x" * 10**6, prefetch_factor=4
    )
    assert [len(batch) for batch in loader] == [10**6] * 4


# ------------------------------------------------------------------------------------------- whole programs

PROGRAM = """
import os, signal, sys, time
import numpy as np
import weft
from weft.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, i):
        time.sleep(0.01)
        return np.full(20_000, i, np.float32), os.getpid()

def main(**options):
    for x, pid in DataLoader(Slow(), 2, num_workers=2, **options):
        print(*sorted(set(pid.tolist())), flush=True)
        END

if __name__ == "__main__":
    main(OPTIONS)
"""


def start(tmp_path, end="pass", options=""):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM).replace("END", end).replace("OPTIONS", options))
    return subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids, seconds=4.0):
    deadline = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(alive, pids))


@pytest.mark.parametrize("whole_group", [True, False])
@pytest.mark.parametrize("options", ["", "persistent_workers=True"])
def test_ctrl_c_ends_everything_with_one_traceback(tmp_path, whole_group, options):
    program = start(tmp_path, options=options)
    pids = {int(program.stdout.readline()) for _ in range(4)}
    (os.killpg if whole_group else os.kill)(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=10)
    assert errors.rstrip().endswith("KeyboardInterrupt") and errors.count("Traceback") == 1
    assert program.returncode == -signal.SIGINT and len(pids) == 2 and gone(pids)


@pytest.mark.parametrize(
    "end, code, seconds",
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, 4),  # workers notice that the program is gone
        ("os._exit(5)", 5, 4),
        ("sys.exit(6)", 6, 1),
        ("break", 0, 1),
        ("keep = x; globals().update(keep=x); break", 0, 1),
    ],
)
def test_workers_never_outlive_the_program(tmp_path, end, code, seconds):
    program = start(tmp_path, end)
    pids = [int(pid) for pid in program.stdout.readline().split()]
    program.stdout.read()
    assert program.wait(10) == code and pids and gone(pids, seconds)
    assert program.stderr.read() == ""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start_processes(tmp_path, method):
    program = start(tmp_path, "if x[0, 0] == 10: break", f"multiprocessing_context={method!r}")
    out, errors = program.communicate(timeout=60)
    assert program.returncode == 0 and errors == "" and len(out.split()) == 6
    assert gone(map(int, set(out.split())))
