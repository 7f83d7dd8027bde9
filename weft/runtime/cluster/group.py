"""A group of processes: its channels, the order of its calls, and who makes them (a second thread, where asked)."""

from __future__ import annotations

import concurrent.futures
import threading
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import DistributedError
from .board import Board
from .waiting import Watch, differing
from .window import LARGEST, Window, together
from .world import mpi

__all__ = ["Group", "courier"]

FORM = 240  # bytes of a form when it is compared


class Courier:
    """Makes calls one after another in a thread of its own, so that computing goes on beside them."""

    def __init__(self) -> None:
        self.thread: concurrent.futures.ThreadPoolExecutor | None = None
        self.last: concurrent.futures.Future | None = None
        self.lock = threading.Lock()

    def start(self, job: Callable[[], Any]) -> concurrent.futures.Future:
        """Have a call made after all that were started before."""
        with self.lock:
            if self.thread is None:
                self.thread = concurrent.futures.ThreadPoolExecutor(1, "weft-courier")
            self.last = self.thread.submit(job)
            return self.last

    def run(self, job: Callable[[], Any]) -> Any:
        """Make a call now, or after those that were started before."""
        last = self.last
        return job() if last is None or last.done() else self.start(job).result()


courier = Courier()


class Group:
    """Processes that make calls together. `ranks` are their numbers in the world, `rank` the own place among them.

    Alone (size 1) there are no channels, and nobody may be asked for anything.
    """

    def __init__(self, ranks: Sequence[int], own: int, communicator: Any, seconds: float, label: str = "world") -> None:
        self.ranks, self.rank, self.seconds, self.label = tuple(ranks), own, seconds, label
        self.communicator, self.calls, self.alike = communicator, 0, set()
        self.token: Any = None  # orders the calls of a compiled plan
        self.watch: Watch | None = None
        self.window: Window | None = None  # where all processes are on one machine
        self.board: Board | None = None  # there, for calls that plans make without Python
        if communicator is not None:
            self.checks = communicator.Dup()
            self.watch = Watch(communicator.Dup(), self.ranks, own)
            if together(communicator):
                self.window = Window(communicator.Dup())
                self.board = Board(self.window.communicator, own)
                if self.board.most < LARGEST:  # little memory that processes may share (in a container, say): messages
                    self.window = None

    @property
    def size(self) -> int:
        return len(self.ranks)

    def __deepcopy__(self, memo: Any) -> Group:
        return self

    def __repr__(self) -> str:
        return f"<group {self.label} of ranks {', '.join(map(str, self.ranks))}>"

    def call(self, form: str, start: Callable[[Any], Any], seconds: float | None = None) -> None:
        """One call of all: `start(communicator)` gives the request (or requests) that is waited for.

        The first call of each form is compared with those of the other processes as text; later ones by a number that
        travels beside the data.
        """
        self.check_whole()
        self.calls += 1
        if form not in self.alike:
            self.compare(form, seconds)
            self.alike.add(form)
        own, every = np.array(zlib.crc32(form.encode()), np.int64), np.empty(self.size, np.int64)
        byte, started = mpi().BYTE, start(self.communicator)
        check, wrong = self.checks.Iallgather([own, 8, byte], [every, 8, byte]), None
        try:
            self._finish([check, *started] if isinstance(started, list) else [check, started], form, seconds)
        except mpi().Exception as error:  # some libraries refuse sizes that differ before we see it
            wrong = DistributedError(f"{form}: MPI has failed, {error}")
        if wrong is not None or (every != own).any():
            try:
                self.compare(form, seconds)
            except DistributedError as error:
                wrong = error
        if wrong is not None:
            raise self.watch.fail(wrong)
        if self.calls % 256 == 0:
            self.watch.listen()

    def meet(self, form: str) -> None:
        """Until all are in this call."""
        self.call(form, lambda channel: channel.Ibarrier())

    def parts(self, nbytes: int, form: str) -> list[np.ndarray] | None:
        """Memory that all processes see, so many bytes of each, for one call; None if they are on several machines."""
        if self.window is None or nbytes > LARGEST:
            return None
        if nbytes > self.window.capacity:
            self.meet(form)  # who asks for another size is noticed before memory is made together
            self.window.grow(nbytes)
        return [part[:nbytes] for part in self.window.next()]

    def check_whole(self) -> None:
        """Refuse to go on after a call that was given up."""
        if self.watch.broken is not None:
            raise DistributedError(
                f"an earlier call of this group was given up, it cannot be used: {self.watch.broken}"
            )

    def compare(self, form: str, seconds: float | None = None, alike: bool = True) -> None:
        """Show each other what call all are in; calls that differ are an error. `alike`: some may not come here for that."""
        own, all_forms = np.zeros(FORM, np.uint8), np.zeros((self.size, FORM), np.uint8)
        text = form.encode()[:FORM]
        own[: len(text)] = np.frombuffer(text, np.uint8)
        byte = mpi().BYTE
        self._finish([self.checks.Iallgather([own, byte], [all_forms, byte])], form, seconds, alike)
        found = {rank: row.tobytes().rstrip(b"\0").decode() for rank, row in zip(self.ranks, all_forms, strict=True)}
        if len(set(found.values())) > 1:
            raise DistributedError(differing(found))

    def _finish(self, requests: list[Any], form: str, seconds: float | None, alike: bool = True) -> None:
        self.watch.wait(requests, self.calls, form, self.seconds if seconds is None else seconds, alike)

    def close(self) -> None:
        """Give the channels back; all ranks do so together."""
        if self.communicator is not None and not self.watch.broken:
            for shared in (self.board, self.window):
                if shared is not None:
                    shared.close()
            for channel in (self.checks, self.watch.channel):
                channel.Free()
        self.communicator = None
