"""`DataLoader`: batches of a data set, in an order that is a pure function of seed and epoch.

In-memory sets (`TensorDataset` and its subsets) give shuffled batches by one gather for each tensor and unshuffled ones
as windows, without a copy. Other sets are read sample by sample and collated, here or in worker processes
(`workers.py`), which deliver the same batches in the same order.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..errors import OptionError
from ..ops.create.sample import Generator
from .collate import default_collate, default_convert
from .dataset import Dataset, Items, IterableDataset, latest
from .fetch import END, BatchTransform, MapFetcher, StreamFetcher
from .sampler import BatchSampler, RandomSampler, SequentialSampler, draw_seed, members
from .workers import Setup, WorkerError, WorkerPool

__all__ = ["DataLoader"]

T = TypeVar("T")


class DataLoader(Generic[T]):
    """Iterate over a data set in batches; arguments and defaults are PyTorch's.

    Each `iter(loader)` gives the next epoch: 0, 1, …, or the one that `set_epoch` chose. The order of an epoch is a
    pure function of (seed, epoch). The seed is `seed`, or drawn once, at construction, from `generator` or the default
    generator. `batch_transform(batch, generator)` is called on each collated batch with a generator that belongs to
    (seed, epoch, number of the batch). `state_dict()` says where the iteration stands; after `load_state_dict` the next
    iteration continues with the batch that would have come.

    Beyond PyTorch: batches of a `TensorDataset` are tuples; unshuffled ones are read-only windows on its tensors;
    workers send arrays through nameless shared memory. `pin_memory` changes nothing on the CPU.

    >>> loader = DataLoader(TensorDataset(weft.arange(6)), batch_size=4, shuffle=True, seed=0)
    >>> [len(x) for x, in loader]
    [4, 2]
    """

    def __init__(
        self,
        dataset: Dataset[T] | Items[T],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable | None = None,
        batch_sampler: Iterable | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed: int | None = None,
        batch_transform: BatchTransform | None = None,
    ) -> None:
        self.dataset, self.num_workers, self.timeout, self.in_order = dataset, num_workers, timeout, in_order
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.persistent_workers, self.batch_transform, self.generator = persistent_workers, batch_transform, generator
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self._check_workers()
        self._check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.seed = draw_seed(seed, generator, "DataLoader")
        # What decides the order and was given: its epoch may be set by others, its seed belongs to the state.
        self._given = next((given for given in (batch_sampler, sampler) if given is not None), None)
        if isinstance(dataset, IterableDataset):
            self._given = dataset
        self._choose_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self._whole = collate_fn is None
        batched = self._sized or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        self._next = _Progress(0)
        self._current: _Progress | None = None
        self._last_seen = getattr(self._given, "epoch", None)
        self._pool: WorkerPool | None = None

    # ------------------------------------------------------------------------------- arguments
    def _check_workers(self) -> None:
        workers, prefetch = self.num_workers, self.prefetch_factor
        _require(isinstance(workers, int) and workers >= 0, f"num_workers should be an integer >= 0, got {workers!r}")
        _require(self.timeout >= 0, f"timeout should be non-negative, got {self.timeout}")
        _require(workers or not self.timeout, "timeout needs workers; set num_workers > 0, or timeout=0")
        _require(workers or prefetch is None, "prefetch_factor needs workers; set num_workers > 0, or leave it out")
        _require(prefetch is None or prefetch > 0, f"prefetch_factor should be a positive integer, got {prefetch}")
        _require(workers or not self.persistent_workers, "persistent_workers needs num_workers > 0")
        _require(workers or self.multiprocessing_context is None, "multiprocessing_context needs num_workers > 0")

    def _check_order(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        stream = isinstance(self.dataset, IterableDataset)
        _require(not (stream and shuffle), f"an IterableDataset has its own order: expected no shuffle, got {shuffle}")
        _require(not (stream and sampler is not None), "an IterableDataset has its own order: expected no sampler")
        _require(not (stream and batch_sampler is not None), "an IterableDataset takes no batch_sampler")
        _require(sampler is None or not shuffle, "sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            alone = batch_size == 1 and not shuffle and sampler is None and not drop_last
            _require(alone, "batch_sampler is mutually exclusive with batch_size, shuffle, sampler and drop_last")
        _require(batch_size is not None or not drop_last, "batch_size=None (no batches) is exclusive with drop_last")

    def _choose_order(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        self.batch_size, self.drop_last = (None if batch_sampler is not None else batch_size), drop_last
        self._sized = batch_size is not None and batch_sampler is None  # batches are cut here
        self.sampler, self.batch_sampler = sampler, batch_sampler
        if isinstance(self.dataset, IterableDataset):
            _require(batch_size is None or batch_size > 0, f"batch_size should be a positive integer, got {batch_size}")
            return
        if sampler is None:
            own = RandomSampler(self.dataset, seed=self.seed) if shuffle else SequentialSampler(self.dataset)
            self.sampler = own
        if self._sized:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)

    # ------------------------------------------------------------------------------- iteration
    def __len__(self) -> int:
        """The number of batches; of a stream that knows its length, without regard to workers."""
        if isinstance(self.dataset, IterableDataset):
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        self._adopt_epoch()
        progress, self._next = self._next, _Progress(self._next.epoch + 1)
        self._current = progress
        made = (_Here if self.num_workers == 0 else _ThroughWorkers)(self, progress)
        self._last_seen = getattr(self._given, "epoch", None)
        return made

    def _adopt_epoch(self) -> None:
        """If somebody called `set_epoch` of the sampler they gave, as PyTorch's scripts do, that is the epoch."""
        epoch = getattr(self._given, "epoch", None)
        if isinstance(epoch, int) and epoch != self._last_seen:
            self._next = _Progress(epoch)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Any]:
        """The rows of each batch of an epoch, without the first `skip`: a range, an array or a list each."""
        pure = latest(type(self.sampler), "order", "__iter__")
        if pure and (self._sized or self.batch_sampler is None):
            order, size = self.sampler.order(epoch), self.batch_size
            if size is None:
                return members(order, skip)
            end = len(order) - len(order) % size if self.drop_last else len(order)
            return (order[i : min(i + size, end)] for i in range(skip * size, end, size))
        source = self.sampler if self.batch_sampler is None else self.batch_sampler
        if hasattr(source, "set_epoch"):
            source.set_epoch(epoch)
        return itertools.islice(iter(source), skip, None)

    def fetcher(self) -> MapFetcher | StreamFetcher:
        """What makes the batches."""
        if isinstance(self.dataset, IterableDataset):
            return StreamFetcher(self.dataset, self.collate_fn, self.batch_transform, self.batch_size, self.drop_last)
        batched = self.batch_sampler is not None
        return MapFetcher(self.dataset, self.collate_fn, self.batch_transform, batched, self._whole)

    def pool(self) -> WorkerPool:
        """The workers of a new iteration: those that stayed, or new ones."""
        if self._pool is not None and self._pool.alive:
            return self._pool
        setup = Setup(self.fetcher(), self.seed, self.worker_init_fn, self.num_workers)
        pool = WorkerPool(setup, _context(self.multiprocessing_context), self.prefetch_factor + 2)
        if self.persistent_workers:
            self._pool = pool
        return pool

    # ------------------------------------------------------------------------------- position
    def set_epoch(self, epoch: int) -> None:
        """The next iteration gives this epoch, from its first batch."""
        self._next, self._current = _Progress(int(epoch)), None

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands: seed, epoch, batches given (also by each worker, where they read streams)."""
        at = self._next if self._current is None or self._current.done else self._current
        state: dict[str, Any] = {"seed": self.seed, "epoch": at.epoch, "batches_given": at.given}
        if isinstance(self.dataset, IterableDataset) and self.num_workers:
            state["by_worker"] = list(at.by_worker) or [0] * self.num_workers
        if isinstance(getattr(self._given, "seed", None), int):
            state["order_seed"] = self._given.seed
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken: the next `iter` gives the rest of that epoch."""
        missing = {"seed", "epoch", "batches_given"} - set(state_dict)
        _require(not missing, f"load_state_dict: the state lacks {sorted(missing)}; expected what state_dict() gave")
        by_worker = list(state_dict.get("by_worker", ()))
        _require(
            len(by_worker) in (0, self.num_workers) or not any(by_worker),
            f"load_state_dict: a stream was read by {len(by_worker)} workers; it cannot go on with {self.num_workers}",
        )
        self.seed = int(state_dict["seed"])
        if self._given is None and hasattr(self.sampler, "seed"):
            self.sampler.seed = self.seed
        if "order_seed" in state_dict and hasattr(self._given, "seed"):
            self._given.seed = int(state_dict["order_seed"])
        self._next = _Progress(int(state_dict["epoch"]), int(state_dict["batches_given"]), by_worker)
        self._current = None
        self._last_seen = getattr(self._given, "epoch", None)
        if self._pool is not None:  # it was started with another seed
            self._pool.close()


@dataclass
class _Progress:
    """How far an iteration has come; shared by the iterator and its loader."""

    epoch: int
    given: int = 0
    by_worker: list[int] = field(default_factory=list)
    done: bool = False


class _Here:
    """An iteration in the loader's own process."""

    def __init__(self, loader: DataLoader, progress: _Progress) -> None:
        self._progress, self._fetcher = progress, loader.fetcher()
        self._fetcher.begin(loader.seed, progress.epoch, progress.given)
        stream = isinstance(loader.dataset, IterableDataset)
        self._rows = itertools.repeat(None) if stream else loader.batches(progress.epoch, progress.given)

    def __iter__(self) -> _Here:
        return self

    def __next__(self) -> Any:
        progress = self._progress
        for rows in self._rows:
            try:
                batch = self._fetcher.fetch(progress.given, rows)
            except Exception:
                progress.given += 1  # the next call goes on behind the batch that raised
                raise
            if batch is END:
                break
            progress.given += 1
            return batch
        progress.done = True
        self._rows = iter(())
        raise StopIteration


class _ThroughWorkers:
    """An iteration whose batches come from worker processes.

    Every worker has `prefetch_factor` orders before it; the one whose batch is given out gets the next order. Batches
    of a stream thus come in rounds: one from each worker that has not come to its end.
    """

    def __init__(self, loader: DataLoader, progress: _Progress) -> None:
        self._progress, self._pool = progress, loader.pool()
        self._timeout, self._in_order, self._keep = loader.timeout, loader.in_order, loader.persistent_workers
        count, self._stream = loader.num_workers, isinstance(loader.dataset, IterableDataset)
        progress.by_worker = progress.by_worker or [0] * count
        self._ordered = list(progress.by_worker)  # how many batches each was asked for, counted from the first ever
        self._generation = self._pool.begin(progress.epoch, progress.by_worker)
        self._rows = (
            iter(()) if self._stream else enumerate(loader.batches(progress.epoch, progress.given), progress.given)
        )
        self._waiting: deque[tuple[int, int]] = deque()  # worker and number of each order, in the order of giving out
        self._arrived: dict[tuple[int, int], Any] = {}
        first = _after_last(progress.by_worker) if self._stream else 0
        for i in range(count * loader.prefetch_factor):
            self._order((first + i) % count)

    def _order(self, worker: int) -> None:
        """Ask a worker for its next batch of a stream, or for the next batch of the epoch."""
        if self._stream:
            number, rows = self._ordered[worker] * len(self._ordered) + worker, None
            self._ordered[worker] += 1
        else:
            number, rows = next(self._rows, (None, None))
        if number is not None:
            self._waiting.append((worker, number))
            self._pool.order(worker, number, rows)

    def __iter__(self) -> _ThroughWorkers:
        return self

    def __next__(self) -> Any:
        while self._waiting:
            worker, number = self._next_arrived()
            batch = self._arrived.pop((worker, number))
            self._waiting.remove((worker, number))
            if batch is END:
                self._waiting = deque(order for order in self._waiting if order[0] != worker)
                continue
            self._order(worker)
            self._progress.given += 1
            self._progress.by_worker[worker] += 1
            if isinstance(batch, Exception):
                raise batch
            return batch
        self._progress.done = True
        if not self._keep:
            self._pool.close()
        raise StopIteration

    def _next_arrived(self) -> tuple[int, int]:
        """The order that is given out next, once its batch is here."""
        while True:
            if self._in_order and self._waiting[0] in self._arrived:
                return self._waiting[0]
            if not self._in_order and self._arrived:
                return next(iter(self._arrived))
            if self._generation != self._pool.generation:
                raise WorkerError("DataLoader: another iteration has taken over the persistent workers of this one")
            worker, number, batch = self._pool.receive(self._timeout, self._waiting[0][0] if self._in_order else None)
            self._arrived[worker, number] = batch


def _after_last(by_worker: list[int]) -> int:
    """The worker whose turn it is after each has given so many batches in rounds."""
    most = max(by_worker)
    return (max(w for w, count in enumerate(by_worker) if count == most) + 1) % len(by_worker) if most else 0


def _context(given: Any) -> Any:
    """The way to start processes: the one given or set for the program, else fork where it is usual.

    A forked worker needs no pickling and starts in milliseconds; Weft's own threads and locks survive a fork.
    """
    if given is not None and not isinstance(given, str):
        return given
    usual = "fork" if sys.platform == "linux" else None
    try:
        return multiprocessing.get_context(given or multiprocessing.get_start_method(allow_none=True) or usual)
    except ValueError:
        known = multiprocessing.get_all_start_methods()
        raise OptionError(f"DataLoader: multiprocessing_context should be one of {known}, got {given!r}") from None


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise OptionError(f"DataLoader: {message}")
