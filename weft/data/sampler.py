"""Samplers: the order in which a loader visits a data set.

The order of epoch e is a pure function of the sampler's seed and e: `order(e)`. `iter(sampler)` gives the order of its
current epoch; random samplers then move on to the next. The seed is the argument `seed`, or drawn once, at
construction, from `generator` or Weft's default generator.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from ..errors import ArgumentError, OptionError, UnsupportedError
from ..ops.create.sample import Generator, generator_of
from ..runtime.cluster.world import launched_size, world_rank
from ..tensor import Tensor

__all__ = [
    "BatchSampler",
    "DistributedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T = TypeVar("T")
PIECE = 1 << 16  # indices drawn, or handed out as Python numbers, at a time


class Sampler(Generic[T]):
    """Something that can be iterated for indices; subclasses of your own need `__iter__`, and `__len__` if known."""

    epoch = 0

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[T]:
        raise UnsupportedError(f"{type(self).__name__}: a sampler needs a method __iter__(self)")

    def set_epoch(self, epoch: int) -> None:
        """The order of which epoch the next iteration gives."""
        self.epoch = int(epoch)


class SequentialSampler(Sampler[int]):
    """0, 1, … n − 1."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def order(self, epoch: int) -> range:
        return range(len(self.data_source))

    def __iter__(self) -> Iterator[int]:
        return iter(self.order(self.epoch))

    def __len__(self) -> int:
        return len(self.data_source)


class _Random(Sampler[int]):
    """A sampler whose order is drawn from the stream of its seed and epoch."""

    seed: int

    def order(self, epoch: int) -> Order:
        """The indices of an epoch, (n,) int64."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[int]:
        order = self.order(self.epoch)
        self.epoch += 1
        return members(order)


class RandomSampler(_Random):
    """A random permutation, or independent draws with `replacement`.

    `num_samples` beyond n without replacement continues with further permutations.

    >>> sorted(RandomSampler(range(4), seed=0))
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        self.data_source, self.replacement, self._num_samples = (
            data_source,
            _flag("replacement", replacement),
            num_samples,
        )
        _positive("num_samples", self.num_samples)
        self.seed = draw_seed(seed, generator, "RandomSampler")

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def order(self, epoch: int) -> Order:
        stream, n, wanted = stream_of(self.seed, epoch), len(self.data_source), self.num_samples
        if not n:
            raise OptionError(
                f"RandomSampler: expected a data set with samples to draw {wanted} from, got one of length 0"
            )
        piece = PIECE if self.replacement else n

        def draw(number: int) -> np.ndarray:
            stream.offset = number * -(-piece // 4) * 4  # one word for each index, in whole blocks of the stream
            return stream.integers(0, n, piece) if self.replacement else stream.permutation(n)

        order = Pieces(draw, piece, wanted)
        return order[:] if wanted <= max(piece, PIECE) else order

    def __len__(self) -> int:
        return self.num_samples


class Pieces(Sequence[int]):
    """A long order, drawn piece by piece where it is looked at; slices are arrays."""

    def __init__(self, draw: Callable[[int], np.ndarray], piece: int, length: int) -> None:
        self._draw, self._piece, self._length = draw, piece, length
        self._at, self._drawn = -1, np.empty(0, np.int64)  # the piece looked at last

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: Any) -> Any:
        if not isinstance(place, slice):
            first = range(self._length)[place]
            return int(self[first : first + 1][0])
        first, last, step = place.indices(self._length)
        if step != 1:
            raise OptionError(f"an order drawn in pieces is sliced with step 1, got {step}")
        parts = []
        while first < last:
            number, start = divmod(first, self._piece)
            end = min(self._piece, start + last - first)
            parts.append(self._drawn_piece(number)[start:end])
            first += end - start
        return parts[0] if len(parts) == 1 else np.concatenate(parts or [np.empty(0, np.int64)])

    def _drawn_piece(self, number: int) -> np.ndarray:
        if number != self._at:
            self._at, self._drawn = number, self._draw(number)
        return self._drawn


Order = range | np.ndarray | Pieces


class SubsetRandomSampler(_Random):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None, *, seed: int | None = None) -> None:
        self.indices, self.seed = indices, draw_seed(seed, generator, "SubsetRandomSampler")

    def order(self, epoch: int) -> np.ndarray:
        indices = np.asarray(self.indices, np.int64)
        return indices[stream_of(self.seed, epoch).permutation(len(indices))]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(_Random):
    """Indices drawn in proportion to weights, which need not sum to 1."""

    def __init__(
        self,
        weights: Sequence[float] | np.ndarray | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        self.num_samples, self.replacement = _positive("num_samples", num_samples), _flag("replacement", replacement)
        self.weights = np.asarray(weights.array if isinstance(weights, Tensor) else weights, np.float64)
        if self.weights.ndim != 1:
            raise OptionError(f"WeightedRandomSampler: weights should be a 1d sequence, got shape {self.weights.shape}")
        self.seed = draw_seed(seed, generator, "WeightedRandomSampler")

    def order(self, epoch: int) -> np.ndarray:
        return stream_of(self.seed, epoch).multinomial(self.weights, self.num_samples, self.replacement)

    def __len__(self) -> int:
        return self.num_samples


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index of one common order, from `rank` on; all parts have the same length.

    The order is filled up with its own beginning, or cut short with `drop_last`. Replicas and rank are those of the
    environment (WORLD_SIZE, RANK; 1 and 0 without them) unless given.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        world, place = world_and_rank()
        self.num_replicas, self.rank = world if num_replicas is None else num_replicas, place if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise OptionError(
                f"DistributedSampler: invalid rank {self.rank}, rank should be in the interval [0, "
                f"{self.num_replicas - 1}]"
            )
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        n, replicas = len(dataset), self.num_replicas
        self.num_samples = n // replicas if drop_last else -(-n // replicas)
        self.total_size = self.num_samples * replicas

    def order(self, epoch: int) -> np.ndarray:
        n = len(self.dataset)
        order = stream_of(self.seed, epoch).permutation(n) if self.shuffle else np.arange(n)
        return np.resize(order, self.total_size)[self.rank :: self.num_replicas]

    def __iter__(self) -> Iterator[int]:
        return iter(self.order(self.epoch).tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices from another sampler; the last may be shorter unless `drop_last`.

    >>> list(BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        self.sampler, self.batch_size = sampler, _positive("batch_size", batch_size)
        self.drop_last = _flag("drop_last", drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        return batched(self.sampler, self.batch_size, self.drop_last)

    def __len__(self) -> int:
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        if hasattr(getattr(self, "sampler", None), "set_epoch"):
            self.sampler.set_epoch(epoch)


def members(order: Order, start: int = 0) -> Iterator[int]:
    """The indices of an order from a place on, as Python numbers, of which only a piece is made at a time."""
    for first in range(start, len(order), PIECE):
        part = order[first : first + PIECE]
        yield from part if isinstance(part, range) else part.tolist()


def batched(samples: Iterable[T], size: int, drop_last: bool) -> Iterator[list[T]]:
    """Lists of `size` neighbours."""
    iterator = iter(samples)
    while batch := list(itertools.islice(iterator, size)):
        if len(batch) == size or not drop_last:
            yield batch


# ------------------------------------------------------------------------------------------- seeds and checks


def draw_seed(seed: int | None, generator: Generator | None, name: str) -> int:
    """The seed given, or one drawn from the generator (the default one for None)."""
    if seed is not None:
        return Generator().manual_seed(seed).initial_seed()
    return int(generator_of(generator, name).integers(0, 2**63))


def stream_of(seed: int, epoch: int) -> Generator:
    """The random stream of one epoch."""
    return Generator().manual_seed(seed).fold_in(epoch)


def world_and_rank() -> tuple[int, int]:
    """How many processes train together and which one this is, as launchers say in the environment."""
    return int(os.environ.get("WORLD_SIZE", launched_size())), int(os.environ.get("RANK", world_rank()))


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value <= 0:
        raise OptionError(f"{name} should be a positive integer value, but got {name}={value}")
    return int(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} should be a boolean value, but got {name}={value}")
    return value
