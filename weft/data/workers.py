"""Worker processes of a loader.

Each worker has a pipe of its own: a worker that dies, even in the middle of a message, disturbs nobody else's. A thread
in the worker takes orders at once, so neither side ever waits for the other to read. The loader's process reads only
when it wants a batch: there are no threads, queues or locks on its side, and Ctrl-C arrives where it waits.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import random
import signal
import socket
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import numpy as np

from ..errors import WeftError
from ..ops.create.sample import default_generator
from ..runtime.threads import set_num_threads
from .fetch import END, MapFetcher, StreamFetcher
from .sampler import stream_of
from .shared import Inbox, Outbox, Parcel

__all__ = ["WorkerError", "WorkerInfo", "WorkerPool", "get_worker_info"]

GRACE = 5.0  # seconds in which a worker may finish what it is doing before it is made to end
LOOK = 1.0  # seconds between looks at whether the other side is alive


class WorkerError(WeftError, RuntimeError):
    """A worker process that died, took too long, or raised something that cannot be raised again here."""


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows about itself: its number, how many there are, its seed and its copy of the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a loader: who it is. Elsewhere None."""
    return _info


class Setup(NamedTuple):
    """What every worker is given when it starts."""

    fetcher: MapFetcher | StreamFetcher
    seed: int
    init: Callable[[int], Any] | None
    count: int


class Answer(NamedTuple):
    """What a worker sends: a batch in a parcel, the end of its stream, or an exception (its class and its story)."""

    generation: int
    number: int
    parcel: Parcel | None = None
    failure: tuple[bytes | None, str] | None = None


# ------------------------------------------------------------------------------------------- in the worker


def work(number: int, setup: Setup, orders: Connection, channel: socket.socket) -> None:
    """The life of a worker: take orders, send answers, until told to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the loader's process, which ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not a handler that was inherited
    taken: queue.SimpleQueue = queue.SimpleQueue()
    stopping = threading.Event()
    threading.Thread(target=_take, args=(orders, taken, stopping, os.getppid()), daemon=True).start()
    worker = _Worker(number, setup, Outbox(channel))
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the loader is gone or has lost interest
        while (order := taken.get()) is not None and not stopping.is_set():
            answer = worker.answer(*order)
            if answer is not None:
                orders.send(answer)


def _take(orders: Connection, taken: queue.SimpleQueue, stopping: threading.Event, parent: int) -> None:
    """Move orders from the pipe to the queue; end the process if the loader's process is gone."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            while not orders.poll(LOOK):
                if os.getppid() != parent:
                    os._exit(1)
            order = orders.recv()
            if order is None:
                break
            taken.put(order)
    stopping.set()
    taken.put(None)


class _Worker:
    """Makes batches and packs them; an exception while it gets ready is the answer to every order."""

    def __init__(self, number: int, setup: Setup, outbox: Outbox) -> None:
        self.number, self.setup, self.outbox, self.generation = number, setup, outbox, -1
        self.broken: tuple[bytes | None, str] | None = None
        self.started = False

    def answer(self, generation: int, number: int, task: Any, free: list[int]) -> Answer | None:
        """The answer to an order: `number` of a batch, or −1 for the beginning of an epoch (no answer)."""
        self.outbox.free(free)
        if number < 0:
            return self._begin(generation, *task)
        if self.broken is not None:
            return Answer(generation, number, failure=self.broken)
        try:
            self._seed_others(number)
            batch = self.setup.fetcher.fetch(number, task)
            return Answer(generation, number, None if batch is END else self.outbox.pack(batch))
        except Exception:
            return Answer(generation, number, failure=self._story())

    def _begin(self, generation: int, epoch: int, skip: int) -> None:
        self.broken = None
        try:
            if not self.started:
                self._start(epoch)
            self.setup.fetcher.begin(self.setup.seed, epoch, skip, self.number, self.setup.count)
        except Exception:
            self.broken = self._story()

    def _start(self, epoch: int) -> None:
        global _info
        set_num_threads(1)  # the cores are taken by the other workers and by training
        seed = int(stream_of(self.setup.seed, epoch).fold_in(-1).integers(0, 2**62)) + self.number
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        default_generator.manual_seed(seed)
        _info = WorkerInfo(self.number, self.setup.count, seed, self.setup.fetcher.dataset)
        self.started = True
        if self.setup.init is not None:
            self.setup.init(self.number)

    def _seed_others(self, number: int) -> None:
        """Python's and NumPy's generators get a seed for each batch, so that resumed runs repeat what they draw."""
        seed = int(self.setup.fetcher.epoch_stream.fold_in(number).fold_in(-1).integers(0, 2**32))
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002

    def _story(self) -> tuple[bytes | None, str]:
        kind = sys.exc_info()[0]
        text = f"Caught {kind.__name__} in DataLoader worker process {self.number}.\nOriginal {traceback.format_exc()}"
        try:
            return pickle.dumps(kind), text
        except Exception:  # a class made inside a function
            return None, text


# ------------------------------------------------------------------------------------------- in the loader's process


class _Member:
    """One worker, seen from the loader's process."""

    def __init__(self, number: int, setup: Setup, context: Any, most: int) -> None:
        self.number, self.pending, self.dead = number, 0, False
        self.pipe, theirs = context.Pipe()
        channel, their_channel = socket.socketpair()
        self.channel, self.inbox = channel, Inbox(channel, most)
        self.process = context.Process(
            target=work, args=(number, setup, theirs, their_channel), name=f"weft-loader-{number}", daemon=True
        )
        try:
            self.process.start()
        except BaseException:
            self.pipe.close()
            channel.close()
            raise
        finally:
            theirs.close()
            their_channel.close()

    def send(self, generation: int, number: int, task: Any) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # told of when its answer does not come
            self.pipe.send((generation, number, task, self.inbox.given_back()))

    def read(self) -> Answer | None:
        """Its next answer; None if it has died and will give no more."""
        try:
            if self.pipe.poll() or self.process.is_alive():
                return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            pass
        self.dead = True
        return None

    def end(self) -> str:
        """How the process ended, in words."""
        self.process.join(GRACE)
        code = self.process.exitcode
        if code is None:
            return "closed its pipe"
        if code >= 0:
            return f"exited unexpectedly with code {code}"
        names = {sig.value: sig.name for sig in signal.Signals}
        advice = "; the system may have run out of memory" if -code == getattr(signal, "SIGKILL", None) else ""
        return f"was killed by signal {-code} ({names.get(-code, 'unknown')}){advice}"


class WorkerPool:
    """`setup.count` workers; `most` batches of each may be in use as windows on shared memory.

    An epoch starts with `begin`, which makes answers to earlier orders void. `order` asks for batches, `receive` waits
    for the next one, from whichever worker it comes.
    """

    def __init__(self, setup: Setup, context: Any, most: int) -> None:
        self.generation = 0
        self.members: list[_Member] = []
        self._end = weakref.finalize(self, _end_all, self.members, os.getpid())
        try:
            for number in range(setup.count):
                self.members.append(_Member(number, setup, context, most))
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        return self._end.alive

    def begin(self, epoch: int, skips: list[int]) -> int:
        """Start an epoch, of which worker w leaves out its first `skips[w]` batches; the number of this generation."""
        self.generation += 1
        for member, skip in zip(self.members, skips, strict=True):
            member.pending = 0
            self._send(member, -1, (epoch, skip))
        return self.generation

    def order(self, worker: int, number: int, task: Any) -> None:
        member = self.members[worker]
        member.pending += 1
        self._send(member, number, task)

    def _send(self, member: _Member, number: int, task: Any) -> None:
        try:
            member.send(self.generation, number, task)
        except BaseException:  # Ctrl-C may have come in the middle of a message: nothing more can be sent
            self.close(patient=False)
            raise

    def receive(self, timeout: float, wanted: int | None = None) -> tuple[int, int, Any]:
        """Worker, number and batch of an answer: the batch may be END or an exception to be raised.

        The death of a worker is an error when its answer is `wanted`, so that batches before it are still given out.
        """
        if not self.alive:
            raise WorkerError("DataLoader: the workers have ended after an error; start a new iteration")
        try:
            member, answer = self._wait(wanted, timeout)
        except BaseException:  # Ctrl-C may have come in the middle of a message: nothing more can be read
            self.close(patient=False)
            raise
        if answer.failure is not None:
            return member.number, answer.number, _raisable(*answer.failure)
        batch = END if answer.parcel is None else member.inbox.unpack(answer.parcel)
        return member.number, answer.number, batch

    def _wait(self, wanted: int | None, timeout: float) -> tuple[_Member, Answer]:
        deadline = time.monotonic() + timeout if timeout else float("inf")
        while True:
            for member in self.members:
                if member.dead and wanted in (None, member.number):
                    raise self._died(member)
            ready = self._ready(min(LOOK, max(0.0, deadline - time.monotonic())))
            for member in ready:
                answer = member.read()
                if answer is None:
                    continue
                if answer.generation == self.generation:
                    member.pending -= 1
                    return member, answer
                if answer.parcel is not None:
                    member.inbox.drop(answer.parcel)
            if not ready and time.monotonic() >= deadline:
                raise WorkerError(
                    f"DataLoader timed out after {timeout} seconds; raise `timeout`, or look at the data set"
                )

    def _ready(self, seconds: float) -> list[_Member]:
        """The workers that have something to read, or have died, after at most so many seconds."""
        busy = [member for member in self.members if member.pending and not member.dead]
        ready = wait([member.pipe for member in busy] + [member.process.sentinel for member in busy], seconds)
        return [member for member in busy if member.pipe in ready or not member.process.is_alive()]

    def _died(self, member: _Member) -> WorkerError:
        return WorkerError(f"DataLoader worker {member.number} (pid {member.process.pid}) {member.end()}")

    def close(self, patient: bool = True) -> None:
        """End the workers and wait until they have: batches that were given out stay valid."""
        if self._end.detach() is not None:
            _end_all(self.members, os.getpid(), GRACE if patient else 0.0)


def _end_all(members: list[_Member], owner: int, grace: float = GRACE) -> None:
    if os.getpid() != owner:  # a forked child that drops its copy of the pool
        return
    for member in members:
        with contextlib.suppress(OSError, ValueError):
            member.pipe.send(None)
        member.pipe.close()
        member.channel.close()
    deadline = time.monotonic() + grace
    for member in members:
        process = member.process
        for end, seconds in ((None, deadline - time.monotonic()), (process.terminate, 1.0), (process.kill, 1.0)):
            if end is not None and process.is_alive():
                end()
            process.join(max(0.0, seconds))


class _Lines(str):
    """Text whose line breaks survive KeyError, which shows the repr of its argument."""

    __repr__ = str.__str__


def _raisable(kind: bytes | None, text: str) -> Exception:
    """An exception of the class that the worker raised, with the worker's traceback as its text."""
    with contextlib.suppress(Exception):
        made = pickle.loads(kind or b"")(_Lines(text))
        if isinstance(made, Exception) and not isinstance(made, StopIteration):
            return made
    return WorkerError(text)
