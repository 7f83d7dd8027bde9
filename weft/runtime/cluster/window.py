"""Memory that the processes of one machine see together: what they exchange is written once and read in place.

Each process has two parts of its own, used in turn. Who writes for call i + 2 has been through call i + 1, which nobody enters
before they have read what was written for call i; so one meeting for each writing is enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .world import mpi

__all__ = ["LARGEST", "Window"]

LARGEST = 1 << 25  # bytes of one part; longer arrays go piece by piece
SMALLEST = 1 << 20


class Window:
    """The parts of all processes of a communicator whose processes share one machine; it grows when more is asked for."""

    def __init__(self, communicator: Any) -> None:
        self.communicator, self.memory, self.turn = communicator, None, 0
        self.parts: list[list[np.ndarray]] = [[], []]  # by turn, then by place of the process

    @property
    def capacity(self) -> int:
        return len(self.parts[0][0]) if self.parts[0] else 0

    def grow(self, nbytes: int) -> None:
        """Room for so many bytes of each process; all of them come here together."""
        size = max(SMALLEST, 1 << (nbytes - 1).bit_length())
        library, before = mpi(), self.memory
        self.memory = library.Win.Allocate_shared(2 * size, 1, comm=self.communicator)
        whole = [np.frombuffer(self.memory.Shared_query(k)[0], np.uint8) for k in range(self.communicator.Get_size())]
        self.parts = [[array[:size] for array in whole], [array[size : 2 * size] for array in whole]]
        if before is not None:
            before.Free()

    def next(self) -> list[np.ndarray]:
        """The parts for one call, by place of the process."""
        self.turn ^= 1
        return self.parts[self.turn]

    def close(self) -> None:
        """Give the memory back; all processes do so together."""
        self.parts = [[], []]
        if self.memory is not None:
            self.memory.Free()
        self.memory = None


def together(communicator: Any) -> bool:
    """Whether all processes of a communicator share one machine."""
    near = communicator.Split_type(mpi().COMM_TYPE_SHARED)
    alone = near.Get_size() == communicator.Get_size()
    near.Free()
    return alone
