"""`torch.utils.data.datapipes`: streams that are put together by methods, `IterableWrapper(xs).map(f).batch(8)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import weft

from ..data.dataset import Dataset, IterableDataset

__all__ = [
    "Batcher",
    "DFIterDataPipe",
    "Filter",
    "IterDataPipe",
    "IterableWrapper",
    "MapDataPipe",
    "Mapper",
    "Shuffler",
    "functional_datapipe",
]

METHODS: dict[str, Callable[..., Any]] = {}


class IterDataPipe(IterableDataset[Any]):
    """A stream of samples; the names of `functional_datapipe` are its methods."""

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return lambda *args, **kwargs: METHODS[name](self, *args, **kwargs)

    @classmethod
    def register_datapipe_as_function(cls, name: str, kind: Callable[..., Any], *args: Any, **options: Any) -> None:
        """`functional_datapipe(name)` of a class."""
        METHODS[name] = kind


class MapDataPipe(Dataset[Any]):
    """Samples by their numbers."""


DFIterDataPipe = IterDataPipe


def functional_datapipe(name: str, enable_df_api_tracing: bool = False) -> Callable:
    """A decorator: pipe.name(…) makes a pipe of the class."""

    def entered(kind: Any) -> Any:
        METHODS[name] = kind
        return kind

    return entered


class IterableWrapper(IterDataPipe):
    """The samples of any iterable."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterable)

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


@functional_datapipe("map")
class Mapper(IterDataPipe):
    """fn(sample) of each."""

    def __init__(self, datapipe: Iterable[Any], fn: Callable[[Any], Any], *columns: Any) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __iter__(self) -> Iterator[Any]:
        return map(self.fn, self.datapipe)

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """The samples of which filter_fn is true."""

    def __init__(self, datapipe: Iterable[Any], filter_fn: Callable[[Any], bool], input_col: Any = None) -> None:
        self.datapipe, self.filter_fn = datapipe, filter_fn

    def __iter__(self) -> Iterator[Any]:
        return filter(self.filter_fn, self.datapipe)


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """Lists of batch_size samples."""

    def __init__(self, datapipe: Iterable[Any], batch_size: int, drop_last: bool = False, **options: Any) -> None:
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch


@functional_datapipe("shuffle")
class Shuffler(IterDataPipe):
    """The samples in a random order."""

    def __init__(self, datapipe: Iterable[Any], **options: Any) -> None:
        self.datapipe = datapipe

    def __iter__(self) -> Iterator[Any]:
        samples = list(self.datapipe)
        return (samples[i] for i in np.asarray(weft.randperm(len(samples))))


@functional_datapipe("sharding_filter")
def _whole(datapipe: Any) -> Any:
    """The pipe itself: one process reads all of it."""
    return datapipe
