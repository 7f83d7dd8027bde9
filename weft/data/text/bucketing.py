"""Batches of sequences with similar lengths, so that little is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import weft

from ...errors import OptionError
from ...tensor import Tensor
from ..sampler import Sampler, draw_seed, stream_of

__all__ = ["BucketBatchSampler"]


class BucketBatchSampler(Sampler[list[int]]):
    """Lists of indices of sequences with similar lengths, for `DataLoader(batch_sampler=…)`.

    The indices are shuffled, cut into pools of pool_batches · batch_size, sorted by length inside each pool, cut into
    batches, and the batches shuffled: a pool of one batch is plain shuffling, a pool of everything pads least. With
    `max_tokens` in place of batch_size a batch holds as many sequences as fit: count · longest ≤ max_tokens.

    The batches of epoch e are a pure function of the seed and e: `batches(e)`; each iteration gives the next epoch.
    Without `shuffle` everything is sorted by length and the order is the same each time.

    Example:
        >>> from weft.data.text import BucketBatchSampler
        >>> list(BucketBatchSampler([5, 1, 5, 1, 3], batch_size=2, shuffle=False))
        [[1, 3], [4, 0], [2]]
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray | Tensor,
        batch_size: int | None = None,
        *,
        max_tokens: int | None = None,
        shuffle: bool = True,
        drop_last: bool = False,
        pool_batches: int = 100,
        generator: weft.Generator | None = None,
        seed: int | None = None,
    ) -> None:
        self.lengths = np.asarray(lengths, np.int64)
        self.batch_size, self.max_tokens, self.pool_batches = batch_size, max_tokens, pool_batches
        self.shuffle, self.drop_last = shuffle, drop_last
        self._check()
        self.seed = draw_seed(seed, generator, "BucketBatchSampler") if shuffle else 0

    def batches(self, epoch: int) -> list[list[int]]:
        """The batches of an epoch."""
        count = len(self.lengths)
        if not self.shuffle:
            return self._cut(np.argsort(self.lengths, kind="stable"))
        stream = stream_of(self.seed, epoch)
        order, pool, made = stream.permutation(count), self._pool(), []
        for start in range(0, count, pool):
            part = order[start : start + pool]
            made += self._cut(part[np.argsort(self.lengths[part], kind="stable")])
        return [made[i] for i in stream.permutation(len(made))]

    def __iter__(self) -> Iterator[list[int]]:
        batches = self.batches(self.epoch)
        self.epoch += 1
        return iter(batches)

    def __len__(self) -> int:
        """The number of batches; with `max_tokens` it depends on the epoch: that of the next one."""
        if self.batch_size is None:
            return len(self.batches(self.epoch))
        whole, rest = divmod(len(self.lengths), self.batch_size)  # pools are whole numbers of batches
        return whole + (rest > 0 and not self.drop_last)

    def _pool(self) -> int:
        if self.batch_size is not None:
            return self.pool_batches * self.batch_size
        mean = max(self.lengths.mean(), 1.0)
        return max(int(self.pool_batches * self.max_tokens / mean), 1)

    def _cut(self, order: np.ndarray) -> list[list[int]]:
        """Sorted indices as batches; the last of a pool may be smaller, or is left out with drop_last."""
        made = self._by_size(order) if self.batch_size is not None else self._by_tokens(order)
        short = self.drop_last and self.batch_size is not None and made and len(made[-1]) < self.batch_size
        return made[:-1] if short else made

    def _by_size(self, order: np.ndarray) -> list[list[int]]:
        return [order[start : start + self.batch_size].tolist() for start in range(0, len(order), self.batch_size)]

    def _by_tokens(self, order: np.ndarray) -> list[list[int]]:
        made: list[list[int]] = []
        for index in order.tolist():
            longest = int(self.lengths[index])  # of the batch, as they are sorted
            if not made or (len(made[-1]) + 1) * longest > self.max_tokens:
                made.append([])
            made[-1].append(index)
        return made

    def _check(self) -> None:
        if (self.batch_size is None) == (self.max_tokens is None):
            raise OptionError("BucketBatchSampler: expected batch_size or max_tokens, got both or neither")
        limits = {"batch_size": self.batch_size, "max_tokens": self.max_tokens, "pool_batches": self.pool_batches}
        for name, value in limits.items():
            if value is not None and value < 1:
                raise OptionError(f"BucketBatchSampler: expected {name} to be at least 1, got {value}")
        if self.lengths.ndim != 1:
            raise OptionError(f"BucketBatchSampler: expected lengths of shape (N,), got {self.lengths.shape}")
        if self.max_tokens is not None and self.drop_last:
            raise OptionError("BucketBatchSampler: drop_last needs batch_size; batches of max_tokens have no full size")
        if self.max_tokens is not None and len(self.lengths) and self.lengths.max() > self.max_tokens:
            raise OptionError(
                f"BucketBatchSampler: a sequence of {self.lengths.max()} tokens exceeds max_tokens={self.max_tokens}; "
                "cut the sequences or raise it"
            )
