"""How a process waits for others: it sleeps between looks, tells the others where it is, and names who does not come.

What MPI does between two looks costs no processor time of ours: with more processes than cores, waiting yields. After a
quarter of a second each process sends the others the number and the form of the call it is in; so a call that differs is
named at once, and a process that is missing when the time is over by its rank.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import DistributedError, DistributedTimeoutError
from .world import mpi

__all__ = ["Watch", "polled"]

PATIENCE = 0.25  # seconds before the others are told where a process waits
SHORTEST, LONGEST = 2e-5, 1e-3  # seconds of sleep between two looks
EAGER = 6e-5  # the longest such sleep until patience is over: MPI moves large arrays on piece by piece, at each look
SPINS = 20  # looks that only let other threads and processes run
TEXT = 240  # bytes of a form


def polled(test: Callable[[], bool], seconds: float, looking: Callable[[], None] | None = None) -> bool:
    """Whether `test` comes true within so many seconds; `looking` is called in between once patience is over."""
    for _ in range(SPINS):
        if test():
            return True
        time.sleep(0)
    begin, pause, asked = time.monotonic(), SHORTEST, 0.0
    while not test():
        waited = time.monotonic() - begin
        if waited > seconds:
            return False
        if looking is not None and waited - asked > PATIENCE:
            asked = waited
            looking()
        time.sleep(pause)
        pause = min(pause * 1.5, EAGER if waited < PATIENCE else LONGEST)
    return True


class Watch:
    """Where the processes of one group are: the number of their present call, and its form as text."""

    def __init__(self, channel: Any, ranks: Sequence[int], own: int) -> None:
        self.channel, self.ranks, self.own = channel, ranks, own
        self.states: dict[int, tuple[int, str]] = {}
        self.sent: list[Any] = []
        self.broken: DistributedError | None = None

    def wait(self, requests: Sequence[Any], number: int, form: str, seconds: float, alike: bool = True) -> None:
        """Until all requests are done; an error names who is missing, or does something else where calls must be `alike`."""
        library, told = mpi(), [False]

        def looking() -> None:
            if not told[0]:
                self.tell(number, form)
                told[0] = True
            self.listen()
            if alike:
                self.compare(number, form)

        if not polled(lambda: library.Request.Testall(requests), seconds, looking):
            self.listen()
            raise self.fail(self.missing(number, form, seconds))

    def tell(self, number: int, form: str, others: Sequence[int] | None = None) -> None:
        """Send others (all, or those at these places) the present call."""
        self.sent = [request for request in self.sent if not request.Test()]
        message = np.zeros(8 + TEXT, np.uint8)
        message[:8].view(np.int64)[0] = number
        text = form.encode()[:TEXT]
        message[8 : 8 + len(text)] = np.frombuffer(text, np.uint8)
        for other in range(len(self.ranks)) if others is None else others:
            if other != self.own:
                self.sent.append(self.channel.Isend([message, mpi().BYTE], dest=other))

    def listen(self) -> None:
        """Read what others have sent."""
        library = mpi()
        while True:
            status = library.Status()
            if not self.channel.Iprobe(source=library.ANY_SOURCE, status=status):
                return
            message = np.zeros(8 + TEXT, np.uint8)
            self.channel.Recv([message, library.BYTE], source=status.Get_source())
            text = message[8:].tobytes().rstrip(b"\0").decode(errors="replace")
            self.states[status.Get_source()] = int(message[:8].view(np.int64)[0]), text

    def compare(self, number: int, form: str, others: Sequence[int] | None = None) -> None:
        """Refuse a call of this number that is another one elsewhere (at these places)."""
        for other, (theirs, text) in sorted(self.states.items()):
            if theirs == number and text != form and (others is None or other in others):
                raise self.fail(DistributedError(differing({self.ranks[self.own]: form, self.ranks[other]: text})))

    def missing(self, number: int, form: str, seconds: float) -> DistributedTimeoutError:
        """The error for those that did not come to a call of this number."""
        return self.absent(
            [k for k in range(len(self.ranks)) if k != self.own and not self._is_at(k, number)], form, seconds, number
        )

    def absent(self, places: Sequence[int], form: str, seconds: float, number: int = 0) -> DistributedTimeoutError:
        """The error for those at these places of the group, which did not come."""
        absent = [self.ranks[k] for k in places]
        waiting = [rank for rank in self.ranks if rank not in absent]
        if not absent:
            text = f"{form}: all ranks are there, but the call is not done after {seconds:g} s; is the network slow or gone?"
        else:
            which = f" (call {number})" if number else ""
            who = f", {named(waiting)} waited" if waiting else ""
            text = (
                f"{form}: {named(absent)} did not come within {seconds:g} s{which}{who}; it hangs, "
                "is much slower, or made fewer calls. A longer wait: init_process_group(timeout=…), WEFT_DISTRIBUTED_TIMEOUT"
            )
        return DistributedTimeoutError(text)

    def _is_at(self, place: int, number: int) -> bool:
        return place in self.states and self.states[place][0] >= number

    def fail(self, error: DistributedError) -> DistributedError:
        """Remember that messages of this group are still under way: nothing that follows can be trusted."""
        self.broken = error
        return error


def named(ranks: Sequence[int]) -> str:
    """'rank 3', 'ranks 0, 1'."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def differing(forms: dict[int, str]) -> str:
    """Calls that should be one, by rank: those of the most ranks first."""
    by_form: dict[str, list[int]] = {}
    for rank, form in sorted(forms.items()):
        by_form.setdefault(form, []).append(rank)
    rows = sorted(by_form.items(), key=lambda row: (-len(row[1]), row[1]))
    told = "; ".join(f"{named(ranks)}: {form}" for form, ranks in rows)
    return f"ranks are in different calls, {told}; all ranks of a group make the same calls in the same order"
