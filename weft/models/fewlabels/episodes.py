"""Small tasks drawn from many classes: `ways` classes, `shots` labelled examples of each, `queries` to be told (Vinyals 2016)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data.sampler import Sampler, draw_seed
from ...errors import OptionError, ShapeError
from ...tensor import Tensor, wrap

__all__ = ["EpisodicSampler", "draw_pairs", "support_and_query"]


class EpisodicSampler(Sampler[list[int]]):
    """Rows of one episode after the other, for `DataLoader(batch_sampler=…)`: class by class, shots before queries.

    What epoch e draws is a function of seed and e alone. Within an episode no example comes twice.
    labels: the class of each example (N,); classes with fewer than shots + queries examples are refused
    ways, shots, queries: classes of an episode, and examples of each with and without labels
    episodes: how many make an epoch
    seed: drawn from the default generator unless given

    >>> sampler = EpisodicSampler([0, 0, 1, 1, 2, 2], ways=2, shots=1, queries=1, episodes=3, seed=0)
    >>> [len(rows) for rows in sampler]
    [4, 4, 4]
    """

    def __init__(
        self, labels: Any, ways: int, shots: int, queries: int, episodes: int = 100, seed: int | None = None
    ) -> None:
        found = np.asarray(labels.array if isinstance(labels, Tensor) else labels)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise ShapeError(f"EpisodicSampler: expected whole numbers (N,), got {found.dtype} of shape {found.shape}")
        kinds, counts = np.unique(found, return_counts=True)
        fewest = counts.min() if len(counts) else 0
        if min(ways, shots, queries, episodes) < 1 or len(kinds) < ways or fewest < shots + queries:
            raise OptionError(
                f"EpisodicSampler: {len(kinds)} classes of at least {fewest} examples do not give {episodes} episodes of {ways} "
                f"classes with {shots} + {queries} examples"
            )
        self.rows = [np.flatnonzero(found == kind) for kind in kinds]
        self.ways, self.shots, self.queries, self.episodes = ways, shots, queries, episodes
        self.seed = draw_seed(seed, None, "EpisodicSampler")

    def order(self, epoch: int) -> Iterator[NDArray[np.int64]]:
        """The episodes of an epoch, each (ways · (shots + queries),)."""
        generator = np.random.default_rng([self.seed, epoch])
        for _ in range(self.episodes):
            chosen = generator.choice(len(self.rows), self.ways, replace=False)
            own = [generator.choice(self.rows[k], self.shots + self.queries, replace=False) for k in chosen]
            yield np.concatenate(own)

    def __iter__(self) -> Iterator[list[int]]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        return (rows.tolist() for rows in self.order(epoch))

    def __len__(self) -> int:
        return self.episodes


def support_and_query(x: Tensor, ways: int, shots: int) -> tuple[Tensor, Tensor]:
    """The examples of an episode: (ways · (shots + queries), …) → (ways, shots, …), (ways, queries, …)

    >>> support, query = support_and_query(weft.arange(6), ways=2, shots=1)
    >>> support.tolist(), query.tolist()
    ([[0], [3]], [[1, 2], [4, 5]])
    """
    if ways < 1 or len(x) % ways or len(x) // ways <= shots:
        raise ShapeError(
            f"support_and_query: {len(x)} examples are not {ways} classes with {shots} shots and queries each"
        )
    parts = x.reshape(ways, len(x) // ways, *x.shape[1:])
    return parts[:, :shots], parts[:, shots:]


def draw_pairs(labels: Any, count: int, generator: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Rows i and j of `count` pairs and whether they are of one class, which every second pair is: (count,) each.

    >>> i, j, same = draw_pairs([0, 0, 1, 1], 4, np.random.default_rng(0))
    >>> same.tolist()
    [1, 0, 1, 0]
    """
    found = np.asarray(labels.array if isinstance(labels, Tensor) else labels)
    kinds, classes = np.unique(found, return_inverse=True)
    rows = [np.flatnonzero(classes == k) for k in range(len(kinds))]
    if len(kinds) < 2 or min(map(len, rows)) < 2:
        raise OptionError(
            f"draw_pairs: expected two classes or more of two examples or more, got {len(found)} of {len(kinds)}"
        )
    same = 1 - np.arange(count) % 2
    i = generator.integers(len(found), size=count)
    j = np.empty(count, np.int64)
    for place, (row, alike) in enumerate(zip(i, same, strict=True)):
        own = rows[classes[row]]
        others = own[own != row] if alike else np.setdiff1d(np.arange(len(found)), own, assume_unique=True)
        j[place] = others[generator.integers(len(others))]
    return wrap(i), wrap(j), wrap(same)
