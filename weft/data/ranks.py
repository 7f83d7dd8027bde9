"""One loader for several processes: joint batches cut over ranks, in an order that does not depend on how many there are.

Joint batch k of an epoch is the next N · batch_size examples of the order that one process would follow; rank r has the
r-th part of it. The last one may be smaller, with parts that differ by one; a rank without a part gets a stand-in example that
counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .dataset import IterableDataset
from .loader import DataLoader
from .sampler import DistributedSampler

__all__ = ["RankLoader", "for_rank"]


def for_rank(loader: Any, rank: int, size: int) -> Any:
    """The part of a loader that one of several ranks reads; loaders that already cut their data stay as they are."""
    if size == 1 or not isinstance(loader, DataLoader) or isinstance(loader, RankLoader):
        return loader
    if (
        isinstance(loader.dataset, IterableDataset)
        or isinstance(loader.sampler, DistributedSampler)
        or not loader._sized
    ):
        return loader
    found = object.__new__(RankLoader)
    found.__dict__.update(loader.__dict__)
    found.rank, found.size, found.shift = rank, size, (0, 0)
    if loader.batch_transform is not None:
        found.batch_transform = PartOfDraws(loader.batch_transform, rank, size)
    return found


class PartOfDraws:
    """A transform of batches whose random numbers are this rank's part of those for the joint batch."""

    def __init__(self, transform: Any, rank: int, size: int) -> None:
        self.transform, self.part = transform, (rank, 1, size)

    def __call__(self, batch: Any, generator: Any) -> Any:
        generator.part = self.part
        return self.transform(batch, generator)


class RankLoader(DataLoader):
    """A loader of which each rank reads its part; made by `for_rank`.

    Its state names examples, not batches: another number of ranks goes on with the example that would have come.
    """

    rank: int
    size: int
    shift: tuple[int, int]  # (epoch, examples): where the batches of an epoch begin that was continued

    @property
    def whole(self) -> int:
        """Examples of a joint batch."""
        return self.batch_size * self.size

    def _end(self, count: int, start: int) -> int:
        return count - (count - start) % self.whole if self.drop_last else count

    def _start(self, epoch: int) -> int:
        return self.shift[1] if self.shift[0] == epoch else 0

    def __len__(self) -> int:
        at = self._next.epoch if self._current is None or self._current.done else self._current.epoch
        start = self._start(at)
        return -(-(self._end(len(self.sampler), start) - start) // self.whole)

    def shares(self, number: int) -> tuple[int, int, int]:
        """Of a joint batch of the present epoch: the first example of this rank, how many it has, how many all have."""
        epoch = (self._current or self._next).epoch
        start = self._start(epoch)
        first = start + number * self.whole
        joint = min(self.whole, self._end(len(self.sampler), start) - first)
        low = joint * self.rank // self.size
        return low, joint * (self.rank + 1) // self.size - low, joint

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Any]:
        order = self._ordered(epoch)
        start = self._start(epoch)
        end = self._end(len(order), start)
        for first in range(start + skip * self.whole, end, self.whole):
            joint = order[first : min(first + self.whole, end)]
            low, high = len(joint) * self.rank // self.size, len(joint) * (self.rank + 1) // self.size
            yield joint[low:high] if high > low else joint[:1]

    def _ordered(self, epoch: int) -> Any:
        if hasattr(self.sampler, "order"):
            return self.sampler.order(epoch)
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)
        return np.fromiter(self.sampler, np.int64)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        return state | {"joint": self.whole, "start": [state["epoch"], self._start(state["epoch"])]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        given, epoch = int(state_dict["batches_given"]), int(state_dict["epoch"])
        begun, start = state_dict.get("start", (epoch, 0))
        done = (int(start) if begun == epoch else 0) + given * int(state_dict.get("joint", self.whole))
        self.shift = (epoch, done)
        super().load_state_dict(state_dict | {"batches_given": 0})
