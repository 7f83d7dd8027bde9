"""Data sets: collections of samples, and collections made from others (subsets, chains, splits, folds).

A data set may define `gather(rows)`, which returns the collated batch of many rows at once; the loader then calls it
instead of indexing row by row. `TensorDataset`, `MappedDataset` and subsets of them do.
"""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from ..errors import IndexRangeError, OptionError, ShapeError, UnsupportedError
from ..ops.create.interchange import as_tensor
from ..ops.create.sample import Generator, generator_of
from ..tensor import Tensor, wrap

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "k_fold",
    "random_split",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Rows = range | np.ndarray | Sequence[int]


class Items(Protocol[T_co]):
    """What a loader takes beside a `Dataset`: lists, arrays and others that give an item for a number."""

    def __getitem__(self, index: Any, /) -> T_co: ...


class Dataset(Generic[T]):
    """A collection with `__getitem__(index)` and, for most uses, `__len__()`; `a + b` puts two in a row."""

    def __getitem__(self, index: Any) -> T:
        raise UnsupportedError(f"{type(self).__name__}: a data set needs a method __getitem__(self, index)")

    def __add__(self, other: Dataset[T]) -> ConcatDataset[T]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """A stream of samples: `__iter__` instead of indices, for data that come one after another.

    With several workers each one iterates over its own copy: ask `get_worker_info()` which part to give. The loader
    calls `set_epoch(n)` before each epoch where the class has it. A stream that can begin at sample n without reading
    those before it says so with `start_at(n) -> Iterator`; others are read and thrown away when a run is resumed.
    """

    def __iter__(self) -> Iterator[T]:
        raise UnsupportedError(f"{type(self).__name__}: an iterable data set needs a method __iter__(self)")

    def __add__(self, other: Dataset[T]) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors (or NumPy arrays, which are shared): sample i is (a[i], b[i], …).

    >>> pairs = TensorDataset(weft.eye(3), weft.arange(3))
    >>> len(pairs), pairs[1]
    (3, (tensor([0., 1., 0.]), tensor(1)))
    """

    def __init__(self, *tensors: Tensor | np.ndarray) -> None:
        self.tensors = tuple(as_tensor(tensor) for tensor in tensors)
        if not self.tensors:
            raise OptionError("TensorDataset: expected at least one tensor")
        sizes = [tuple(tensor.shape) for tensor in self.tensors]
        if any(not size or size[0] != sizes[0][0] for size in sizes):
            raise ShapeError(f"TensorDataset: size mismatch between tensors, the first sizes differ: {sizes}")

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].array.shape[0]

    def gather(self, rows: Rows) -> tuple[Tensor, ...]:
        """The batch of these rows. A range with step 1 gives read-only windows on the tensors: nothing is copied."""
        return tuple(taken(tensor, rows) for tensor in self.tensors)


def taken(tensor: Tensor, rows: Rows) -> Tensor:
    """Rows of one tensor, by one gather or as a window that refuses writes."""
    if tensor._needs_grad:
        return tensor[np.asarray(rows, np.int64)]
    if isinstance(rows, range) and rows.step == 1:
        window = tensor.array[rows.start : rows.stop]
        window.flags.writeable = False  # an in-place operation on a batch would change the data set
        return wrap(window)
    array, chosen = tensor.array, np.asarray(rows, np.int64)
    if array.flags.c_contiguous:
        return wrap(array.take(chosen, 0))
    return wrap(np.ascontiguousarray(array[chosen]))  # `take` would copy the whole array first


class Subset(Dataset[T]):
    """The samples of a data set at these indices."""

    def __init__(self, dataset: Dataset[T], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> T:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T]:
        picked = [self.indices[i] for i in indices]
        if hasattr(self.dataset, "__getitems__"):
            return self.dataset.__getitems__(picked)
        return [self.dataset[i] for i in picked]

    def __len__(self) -> int:
        return len(self.indices)

    def gather(self, rows: Rows) -> Any:
        """The batch of these rows, where the data set beneath can gather."""
        if isinstance(rows, range) and rows.step == 1:
            return self.dataset.gather(self.indices[rows.start : rows.stop])
        if isinstance(self.indices, np.ndarray):
            return self.dataset.gather(self.indices[np.asarray(rows, np.int64)])
        return self.dataset.gather([self.indices[i] for i in np.asarray(rows).tolist()])


def gathering(dataset: Any) -> Callable[[Rows], Any] | None:
    """The data set's way to give whole batches; None where it has none, or where a subclass gives other samples."""
    beneath = dataset
    while type(beneath) is Subset:
        beneath = beneath.dataset
    known = not isinstance(beneath, (Subset, Tensor)) and latest(type(beneath), "gather", "__getitem__", "__getitems__")
    return dataset.gather if known else None


def latest(cls: type, name: str, *others: str) -> bool:
    """Whether the first class in the line of inheritance that defines any of these methods defines `name`."""
    for ancestor in cls.__mro__:
        if not vars(ancestor).keys().isdisjoint((name, *others)):
            return name in vars(ancestor)
    return False


class ConcatDataset(Dataset[T]):
    """Data sets one after another, as one."""

    def __init__(self, datasets: Iterable[Dataset[T]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise OptionError("ConcatDataset: datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise OptionError("ConcatDataset: does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T:
        if not -len(self) <= idx < len(self):
            raise _IndexBeyond(f"ConcatDataset: index {idx} is outside of {len(self)} samples")
        idx %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[which][idx - (self.cumulative_sizes[which - 1] if which else 0)]


class _IndexBeyond(IndexRangeError, ValueError):
    """PyTorch raises ValueError for a negative index that is too small; loops over `[i]` need an IndexError."""


class ChainDataset(IterableDataset[T]):
    """Streams one after another, as one."""

    def __init__(self, datasets: Iterable[Dataset[T]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[T]:
        for dataset in self._streams():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._streams())

    def set_epoch(self, epoch: int) -> None:
        for dataset in self.datasets:
            if hasattr(dataset, "set_epoch"):
                dataset.set_epoch(epoch)

    def _streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise OptionError(f"ChainDataset: only supports IterableDataset, got {type(dataset).__name__}")
            yield dataset


class StackDataset(Dataset[Any]):
    """Data sets of one length side by side: samples are tuples, or dictionaries where names are given."""

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if bool(args) == bool(kwargs):
            raise OptionError("StackDataset: expected data sets either by position or by name")
        self.datasets: Any = kwargs or args
        lengths = {len(dataset) for dataset in args or kwargs.values()}
        if len(lengths) > 1:
            raise ShapeError(f"StackDataset: size mismatch between datasets, their lengths are {sorted(lengths)}")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return len(next(iter(self.datasets.values())) if isinstance(self.datasets, dict) else self.datasets[0])


# ------------------------------------------------------------------------------------------- splits


def random_split(
    dataset: Dataset[T], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[T]]:
    """Disjoint random subsets with these lengths, or with these fractions of the data set.

    Fractions must sum to 1: each part gets ⌊n · fraction⌋ samples, the rest go to the first parts one by one.

    >>> train, test = random_split(range(10), [0.8, 0.2], weft.Generator().manual_seed(0))
    >>> len(train), len(test)
    (8, 2)
    """
    count = len(dataset)
    if math.isclose(sum(lengths), 1):
        lengths = _lengths(count, lengths)
    if sum(lengths) != count or any(length < 0 for length in lengths):
        raise OptionError(
            f"random_split: the sum of input lengths does not equal the length of the input dataset: {list(lengths)} "
            f"for {count} samples; give lengths that sum to {count}, or fractions that sum to 1"
        )
    order = generator_of(generator, "random_split").permutation(count).tolist()
    ends = list(itertools.accumulate(int(length) for length in lengths))
    return [Subset(dataset, order[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def _lengths(count: int, fractions: Sequence[float]) -> list[int]:
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise OptionError(f"random_split: fraction at index {i} is not between 0 and 1: {fraction}")
    lengths = [math.floor(count * fraction) for fraction in fractions]
    for i in range(count - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warnings.warn(f"random_split: the length of split at index {i} is 0: an empty dataset", stacklevel=3)
    return lengths


def k_fold(
    dataset: Dataset[T] | int,
    k: int = 5,
    shuffle: bool = False,
    seed: int = 0,
    stratify: Any = None,
) -> list[tuple[Any, Any]]:
    """k pairs (training part, validation part): every sample validates once.

    Parts are `Subset`s of a data set, or int64 arrays of indices where a number of samples was given. Without
    `shuffle` the folds are runs of neighbours. `stratify` holds a label for each sample: the counts of every label
    then differ by at most one between folds.

    >>> [validation.tolist() for _, validation in k_fold(5, 2)]
    [[0, 1, 2], [3, 4]]
    """
    count = dataset if isinstance(dataset, int) else len(dataset)
    if not 2 <= k <= count:
        raise OptionError(f"k_fold: expected 2 <= k <= {count} (the number of samples), got k={k}")
    generator = Generator().manual_seed(seed) if shuffle else None
    fold = _folds(count, k, generator) if stratify is None else _stratified(stratify, count, k, generator)
    pairs = [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(k)]
    if isinstance(dataset, int):
        return pairs
    return [(Subset(dataset, train), Subset(dataset, validation)) for train, validation in pairs]


def _folds(count: int, k: int, generator: Generator | None) -> np.ndarray:
    """The number of the fold in which each sample validates; the first count mod k folds are one longer."""
    fold = np.sort(np.arange(count) % k)
    return fold if generator is None else fold[generator.permutation(count)]


def _stratified(labels: Any, count: int, k: int, generator: Generator | None) -> np.ndarray:
    """As `_folds`, label by label: fold i takes every k-th of the sorted labels from i on."""
    labels = np.asarray(labels.array if isinstance(labels, Tensor) else labels)
    if labels.shape != (count,):
        raise ShapeError(f"k_fold: stratify needs one label for each of {count} samples, got shape {labels.shape}")
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(first))[codes]  # numbered as they appear
    ordered, classes = np.sort(codes), len(first)
    shares = np.stack([np.bincount(ordered[i::k], minlength=classes) for i in range(k)])  # (k, classes)
    if shares.sum(0).min() < k:
        warnings.warn(f"k_fold: the rarest label has {shares.sum(0).min()} samples, fewer than k={k}", stacklevel=3)
    fold = np.empty(count, np.int64)
    for label in range(classes):
        share = np.repeat(np.arange(k), shares[:, label])
        fold[codes == label] = share if generator is None else share[generator.permutation(len(share))]
    return fold
