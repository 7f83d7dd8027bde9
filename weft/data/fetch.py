"""Fetchers make the batches of a loader, in its own process or in a worker: the same code, the same numbers.

Around the making of batch b of epoch e, Weft's default generator stands at the beginning of the stream that belongs to
(seed, e, b). What a data set draws therefore depends neither on the number of workers nor on what came before, and a
resumed run draws the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import StateError
from ..ops.create.sample import Generator, default_generator
from .dataset import IterableDataset, gathering
from .sampler import batched, stream_of

__all__ = ["END", "MapFetcher", "StreamFetcher"]

END = object()  # what a fetcher gives when its stream is over
DATASET_DRAWS = 1  # the part of a batch's stream that is lent to the data set

Collate = Callable[[Any], Any]
BatchTransform = Callable[[Any, Generator], Any]


class _Fetcher:
    """Fields that both kinds share; `begin` must be called before each epoch."""

    def __init__(self, dataset: Any, collate: Collate | None, transform: BatchTransform | None) -> None:
        self.dataset, self.collate, self.transform = dataset, collate, transform
        self.epoch_stream = Generator()

    def begin(self, seed: int, epoch: int, skip: int = 0, worker: int = 0, workers: int = 1) -> None:
        """Prepare for an epoch of which this worker's first `skip` batches are not wanted."""
        self.epoch_stream = stream_of(seed, epoch)
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)

    def _transformed(self, batch: Any, number: int) -> Any:
        return batch if self.transform is None else self.transform(batch, self.epoch_stream.fold_in(number))

    @contextlib.contextmanager
    def _drawing(self, number: int) -> Iterator[None]:
        """The default generator stands at the stream of this batch; afterwards it is where it was."""
        before = default_generator.get_state()
        default_generator.set_state(self.epoch_stream.fold_in(number).fold_in(DATASET_DRAWS).get_state())
        try:
            yield
        finally:
            default_generator.set_state(before)


class MapFetcher(_Fetcher):
    """Batches of given rows of a data set with indices; single samples unless `batched`.

    whole: nobody gave a collate function, so the data set may gather batches itself.
    """

    def __init__(
        self, dataset: Any, collate: Collate | None, transform: BatchTransform | None, batched: bool, whole: bool
    ) -> None:
        super().__init__(dataset, collate, transform)
        self.batched, self.gather = batched, gathering(dataset) if batched and whole else None

    def fetch(self, number: int, rows: Any) -> Any:
        """Batch `number`, of these rows."""
        if self.gather is not None:
            return self._transformed(self.gather(rows), number)
        with self._drawing(number):
            return self._transformed(self._collected(rows), number)

    def _collected(self, rows: Any) -> Any:
        try:
            found = self._samples(rows.tolist() if isinstance(rows, np.ndarray) else rows)
        except StopIteration as error:  # it would end the loop over the loader as if the data were over
            raise StateError("the data set raised StopIteration in __getitem__") from error
        return found if self.collate is None else self.collate(found)

    def _samples(self, rows: Any) -> Any:
        if not self.batched:
            return self.dataset[rows]
        if hasattr(self.dataset, "__getitems__"):
            return self.dataset.__getitems__(list(rows))
        return [self.dataset[row] for row in rows]


class StreamFetcher(_Fetcher):
    """Batches of the next samples of an iterable data set; `batch_size=None` gives single samples."""

    def __init__(
        self,
        dataset: IterableDataset,
        collate: Collate | None,
        transform: BatchTransform | None,
        batch_size: int | None,
        drop_last: bool,
    ) -> None:
        super().__init__(dataset, collate, transform)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.batches: Iterator[Any] = iter(())

    def begin(self, seed: int, epoch: int, skip: int = 0, worker: int = 0, workers: int = 1) -> None:
        super().begin(seed, epoch)
        self.batches = self._start(skip, range(worker, worker + skip * workers, workers))

    def _start(self, skip: int, numbers: range) -> Iterator[Any]:
        size = self.batch_size or 1
        jump = hasattr(self.dataset, "start_at") and skip > 0
        samples = self.dataset.start_at(skip * size) if jump else iter(self.dataset)
        batches = iter(samples) if self.batch_size is None else batched(samples, size, self.drop_last)
        for number in () if jump else numbers:
            with self._drawing(number):
                next(batches, END)
        return batches

    def fetch(self, number: int, rows: None = None) -> Any:
        """The next batch, or END."""
        with self._drawing(number):
            batch = next(self.batches, END)
            if batch is END:
                return END
            return self._transformed(batch if self.collate is None else self.collate(batch), number)
