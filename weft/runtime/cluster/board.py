"""Memory in which the processes of one machine put what they send from inside native code, and read it there.

Each process has a part that all see: the number of plans it has run, a slot for each of its last SLOTS calls, then two halves
for data. The slot of call n holds n and the checksum of its form once its data are there: who waits for the call looks at
the slots of all, and sees a call that is another one. Run r of a plan writes to half r mod 2, and begins when all have ended
run r − 2: so nothing is written over that somebody still reads.
"""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DistributedError
from .waiting import polled
from .world import mpi

if TYPE_CHECKING:
    from .group import Group

__all__ = ["MOST_CALLS", "Board", "Turn", "mark_of"]

SLOTS = 1024
MOST_CALLS = SLOTS // 2  # of one run: those of the run before may still be waited for
HEAD = 64 + 8 * SLOTS  # bytes before the data
SMALLEST = 1 << 20
SHARE = 4  # of the free memory that processes may share, 1/4 is taken at most
ALIGN = 64


@dataclasses.dataclass
class Turn:
    """One run of a plan: the number of its first call, and the first byte of each process's data."""

    first: int
    data: list[int]


class Board:
    """What a group of processes of one machine puts up for each other. All of them make it, and let it grow, together."""

    def __init__(self, communicator: Any, rank: int) -> None:
        self.communicator, self.rank, self.memory = communicator, rank, None
        self.runs = self.calls = self.capacity = 0
        self.parts: list[np.ndarray] = []  # bytes of each process
        self.starts: list[int] = []  # where they lie here
        self.ended: list[np.ndarray] = []  # the number of the last run of each
        size, library = communicator.Get_size(), mpi()
        room = np.array(_free_bytes() // (SHARE * 2 * size), np.int64)
        communicator.Allreduce(library.IN_PLACE, room, library.MIN)
        self.most = int(room)  # bytes of one half

    def begin(self, group: Group, calls: int, nbytes: int, form: str) -> Turn:
        """Room for the calls of one run, so many bytes of each process; waits until it is free."""
        if nbytes > self.capacity:
            from .group import courier

            courier.run(lambda: self._grow(group, nbytes, f"memory for {form}"))
        self.runs += 1
        if self._busy():
            if not polled(lambda: not self._busy(), group.seconds):
                raise group.watch.fail(group.watch.absent(self._busy(), form, group.seconds))
        half = HEAD + (self.runs & 1) * self.capacity
        turn = Turn(self.calls, [start + half for start in self.starts])
        self.calls += calls
        return turn

    def end(self) -> None:
        """This process has read all that it wants of the run."""
        self.ended[self.rank][0] = self.runs

    def _busy(self) -> list[int]:
        """Who may still read the half that is written next."""
        return [k for k, last in enumerate(self.ended) if last[0] < self.runs - 2]

    @property
    def slots(self) -> list[int]:
        """Where the slots of each process lie."""
        return [start + 64 for start in self.starts]

    def _grow(self, group: Group, nbytes: int, form: str) -> None:
        group.meet(form)  # who asks for another size is noticed before memory is made together
        self.capacity = max(SMALLEST, 1 << (nbytes - 1).bit_length())
        before, nbytes = self.memory, ALIGN + HEAD + 2 * self.capacity
        self.memory = memory = mpi().Win.Allocate_shared(nbytes, 1, comm=self.communicator)
        whole = [np.frombuffer(memory.Shared_query(k)[0], np.uint8) for k in range(group.size)]
        self.parts = [part[-part.ctypes.data % ALIGN :] for part in whole]
        self.starts = [part.ctypes.data for part in self.parts]
        own = self.parts[self.rank][:HEAD].view(np.int64)
        own[:] = -1
        own[0] = self.runs
        self.ended = [part[:8].view(np.int64) for part in self.parts]
        if before is not None:
            before.Free()
        group.meet(f"{form}, second half")

    def wait(self, group: Group, number: int, mark: int, form: str) -> None:
        """Until all processes have put up call `number`, whose slots then hold `mark`; an error names those that do not come."""
        slots = [part[64 + 8 * (number % SLOTS) :][:8].view(np.int64) for part in self.parts]
        told: set[int] = set()

        def missing() -> list[int]:
            return [k for k, slot in enumerate(slots) if slot[0] != mark]

        def looking() -> None:
            where = missing()
            if any(int(slots[k][0]) >> 32 >= number for k in where):
                self._differs(group, form)
            new = [k for k in where if k not in told]
            group.watch.tell(group.calls + 1, form, new)
            told.update(new)
            group.watch.listen()
            group.watch.compare(group.calls + 1, form, where)

        looking()
        if not polled(lambda: not missing(), group.seconds, looking):
            raise group.watch.fail(group.watch.absent(missing(), form, group.seconds))

    def _differs(self, group: Group, form: str) -> None:
        """Another call stands under this number elsewhere: say which, with all who notice."""
        group.compare(form, alike=False)
        raise group.watch.fail(DistributedError(f"{form}: ranks have made different numbers of calls"))

    def close(self) -> None:
        """Give the memory back; all processes do so together."""
        self.parts, self.ended = [], []
        if self.memory is not None:
            self.memory.Free()
        self.memory, self.capacity = None, 0


def mark_of(number: Any, checksum: Any) -> Any:
    """What the slot of a call holds."""
    return number << 32 | checksum


def _free_bytes() -> int:
    try:
        found = os.statvfs("/dev/shm")
    except (AttributeError, OSError):
        return 4 << 30
    return found.f_bavail * found.f_frsize
