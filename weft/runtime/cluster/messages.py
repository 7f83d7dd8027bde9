"""Messages from one process to another: sent and taken beside what all do together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import DistributedError, DistributedTimeoutError
from .group import Group
from .waiting import polled
from .world import mpi

__all__ = ["Message", "receive", "send"]


class Message:
    """A message under way; `wait` gives the rank (in the group) at the other end."""

    def __init__(self, group: Group, request: Any, form: str, peer: int | None, array: np.ndarray | None) -> None:
        self.group, self.request, self.form, self.peer, self.array = group, request, form, peer, array
        self.status = mpi().Status()
        self.done = False

    def test(self) -> bool:
        """Whether it is done."""
        if not self.done:
            try:
                self.done = bool(self.request.Test(self.status))
            except mpi().Exception as error:
                raise self._wrong(error) from error
        return self.done

    def wait(self, seconds: float | None = None) -> int:
        """Until it is done, or the time is over."""
        seconds = self.group.seconds if seconds is None else seconds
        if not polled(self.test, seconds):
            who = "any rank" if self.peer is None else f"rank {self.group.ranks[self.peer]}"
            raise DistributedTimeoutError(
                f"rank {self.group.ranks[self.group.rank]}: {self.form}: {who} did not answer within {seconds:g} s"
            )
        if self.array is not None and self.status.Get_count(mpi().BYTE) != self.array.nbytes:
            raise self._wrong(f"{self.status.Get_count(mpi().BYTE)} bytes came")
        return self.status.Get_source() if self.array is not None else self.peer

    def _wrong(self, why: Any) -> DistributedError:
        return DistributedError(
            f"rank {self.group.ranks[self.group.rank]}: {self.form}: {why}; the sizes and types of what is sent and of what "
            "is expected must be equal"
        )


def _form(name: str, array: np.ndarray, tag: int) -> str:
    return f"{name} {array.dtype} ({', '.join(map(str, array.shape))}) tag {tag}"


def send(group: Group, array: np.ndarray, target: int, tag: int = 0) -> Message:
    """Start to send an array, which must stay as it is until that is done."""
    buffer = np.asarray(array, order="C")
    request = group.communicator.Isend([buffer.reshape(-1).view(np.uint8), mpi().BYTE], dest=target, tag=tag)
    return Message(group, request, _form(f"send to rank {group.ranks[target]}", array, tag), target, None)


def receive(group: Group, array: np.ndarray, source: int | None, tag: int = 0) -> Message:
    """Start to take an array, contiguous, from one rank of the group or from any."""
    library = mpi()
    place = library.ANY_SOURCE if source is None else source
    request = group.communicator.Irecv([array.reshape(-1).view(np.uint8), library.BYTE], source=place, tag=tag)
    who = "any rank" if source is None else f"rank {group.ranks[source]}"
    return Message(group, request, _form(f"receive from {who}", array, tag), source, array)
