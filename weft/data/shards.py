"""Sharded streams: a folder of safetensors files with an index, read in random order without loading it.

    folder/
      index.json               fields of a row, and for each shard its file, rows, bytes and SHA-256 digest
      shard-00000.safetensors  every field as one array, rows along the first axis

The index is written last, so a folder without it was not finished. The order of an epoch is a pure function of the
seed, the epoch and the reader's place among ranks and workers. The shuffling buffer holds the places of rows, not the
rows: it costs 16 bytes a row, and going to any position reads no data.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import pathlib
import re
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import numpy as np

from ..dtypes import dtype as Dtype
from ..errors import ArgumentError, OptionError, ShapeError
from ..io.atomic import Path, replacing
from ..io.errors import FileFormatError, HeaderError, TruncatedError
from ..io.safetensors import CODES, write_arrays
from ..ops.create.sample import Generator
from ..tensor import Tensor, wrap
from .dataset import IterableDataset
from .mapped import MappedArray
from .sampler import batched, draw_seed, stream_of, world_and_rank
from .workers import get_worker_info

__all__ = ["ShardWriter", "ShardedDataset"]

FORMAT = "weft-shards-1"
INDEX = "index.json"
BLOCK = 64  # rows that are read together
MOST_OPEN = 64  # shards whose files are kept open
DRAWS = 4096  # random numbers that the shuffling buffer draws at once

Place = tuple[int, int]  # shard, row


class ShardWriter:
    """Write samples into shards of about `shard_bytes`; the folder is complete when the block ends without an error.

    A sample is a tensor, array or number, or a tuple or dictionary of them; all have the same fields.

    >>> with ShardWriter("train") as out:
    ...     for image, label in samples:
    ...         out.write((image, label))
    """

    def __init__(self, folder: Path, shard_bytes: int = 64 << 20) -> None:
        self.folder, self.shard_bytes = pathlib.Path(folder), shard_bytes
        self.container: str | None = None
        self.fields: dict[str, dict[str, Any]] = {}
        self.shards: list[dict[str, Any]] = []
        self._rows: list[dict[str, np.ndarray]] = []
        self._size = 0

    def __enter__(self) -> ShardWriter:
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / INDEX).exists():
            raise OptionError(f"ShardWriter: {self.folder} already holds shards; choose a new folder, or delete it")
        return self

    def write(self, sample: Any) -> None:
        """Add one sample."""
        container, row = _fields(sample)
        described = {name: _described(name, value) for name, value in row.items()}
        if self.container is None:
            self.container, self.fields = container, described
        if (container, described) != (self.container, self.fields):
            raise ShapeError(
                f"ShardWriter: every sample needs the same fields: the first was a {self.container} of {self.fields}, "
                f"this is a {container} of {described}"
            )
        self._rows.append({name: value.copy() for name, value in row.items()})
        self._size += sum(value.nbytes for value in row.values())
        if self._size >= self.shard_bytes:
            self.flush()

    def flush(self) -> None:
        """End the current shard."""
        if not self._rows:
            return
        name = f"shard-{len(self.shards):05d}.safetensors"
        arrays = {field: np.stack([row[field] for row in self._rows]) for field in self.fields}
        with replacing(self.folder / name) as file:
            digest = _Digest(file)
            write_arrays(digest, arrays, {})
        self.shards.append(
            {"file": name, "rows": len(self._rows), "bytes": digest.size, "sha256": digest.sha.hexdigest()}
        )
        self._rows, self._size = [], 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        self.flush()
        index = {"format": FORMAT, "container": self.container, "fields": self.fields, "shards": self.shards}
        with replacing(self.folder / INDEX) as file:
            file.write(json.dumps(index, indent=1).encode())


class _Digest:
    """A file that computes the digest of what is written to it."""

    def __init__(self, file: Any) -> None:
        self.file, self.sha, self.size = file, hashlib.sha256(), 0

    def write(self, data: Any) -> None:
        self.sha.update(data)
        self.size += self.file.write(data)


class ShardedDataset(IterableDataset[Any]):
    """The samples that a `ShardWriter` wrote, as a stream that is split over ranks and workers.

    shuffle: pieces of shards in random order, then rows through a buffer of `buffer_size`: each row that leaves the
    buffer is drawn at random and replaced by the next of the stream. verify: check the digest of each shard before
    its first row is read. `state_dict()` says where the last iteration stands; the loader keeps its own.

    >>> loader = DataLoader(ShardedDataset("train", seed=0), batch_size=64, num_workers=2)
    """

    def __init__(
        self,
        folder: Path,
        shuffle: bool = True,
        buffer_size: int = 8192,
        seed: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        verify: bool = False,
    ) -> None:
        self.folder, self.shuffle, self.buffer_size = pathlib.Path(folder), shuffle, buffer_size
        if buffer_size < 1:
            raise OptionError(f"ShardedDataset: buffer_size should be positive, got {buffer_size}")
        self.seed, self.transform, self.verify = draw_seed(seed, None, "ShardedDataset"), transform, verify
        world, place = world_and_rank()
        self.rank, self.world_size = place if rank is None else rank, world if world_size is None else world_size
        self.index = _read_index(self.folder)
        self.epoch, self._position, self._first = 0, (0, 0), 0
        self._open: dict[int, dict[str, MappedArray]] = {}
        self._verified: set[str] = set()

    def __len__(self) -> int:
        """The number of samples of all ranks and workers."""
        return sum(shard["rows"] for shard in self.index["shards"])

    def set_epoch(self, epoch: int) -> None:
        self.epoch, self._first = int(epoch), 0

    def __iter__(self) -> Iterator[Any]:
        first, self._first = self._first, 0
        return self.start_at(first)

    def start_at(self, sample: int) -> Iterator[Any]:
        """The stream of this epoch from its sample number `sample` on; those before it are not read."""
        epoch = self.epoch
        blocks = batched(itertools.islice(self._places(epoch), sample, None), BLOCK, drop_last=False)
        for row in itertools.chain.from_iterable(map(self._read, blocks)):
            sample += 1
            self._position = (epoch, sample)
            yield row if self.transform is None else self.transform(row)
        self._position = (epoch + 1, 0)

    def state_dict(self) -> dict[str, int]:
        """Seed, epoch and samples given by the last iteration in this process."""
        epoch, given = self._position
        return {"seed": self.seed, "epoch": epoch, "samples_given": given}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """The next iteration continues where the state was taken."""
        self.seed, self.epoch, self._first = (int(state_dict[key]) for key in ("seed", "epoch", "samples_given"))

    # ------------------------------------------------------------------------------- order
    def _places(self, epoch: int) -> Iterator[Place]:
        """Shard and row of every sample that this reader gives."""
        info = get_worker_info()
        workers, worker = (info.num_workers, info.id) if info is not None else (1, 0)
        readers, reader = self.world_size * workers, self.rank * workers + worker
        pieces, stream = self._pieces(readers), stream_of(self.seed, epoch)
        if self.shuffle:
            pieces = [pieces[i] for i in stream.permutation(len(pieces)).tolist()]
        places = ((shard, row) for shard, rows in pieces[reader::readers] for row in rows)
        return shuffled(places, self.buffer_size, stream.fold_in(reader)) if self.shuffle else places

    def _pieces(self, readers: int) -> list[tuple[int, range]]:
        """Shards, cut into equal parts where there are fewer shards than readers."""
        cuts = -(-readers // max(1, len(self.index["shards"])))
        return [
            (number, range(shard["rows"] * cut // cuts, shard["rows"] * (cut + 1) // cuts))
            for number, shard in enumerate(self.index["shards"])
            for cut in range(cuts)
        ]

    # ------------------------------------------------------------------------------- reading
    def _read(self, places: list[Place]) -> list[Any]:
        """The samples at these places, windows on arrays that hold them all."""
        shards, rows = np.array(places).T
        columns = {
            name: np.empty((len(places), *field["shape"]), Dtype.by_name[field["dtype"]].np)
            for name, field in self.index["fields"].items()
        }
        for shard in np.unique(shards).tolist():
            here = np.flatnonzero(shards == shard)
            for name, array in self._arrays(shard).items():
                columns[name][here] = array.read(rows[here])
        return [
            _sample(self.index["container"], {name: wrap(column[i, ...]) for name, column in columns.items()})
            for i in range(len(places))
        ]

    def _arrays(self, shard: int) -> dict[str, MappedArray]:
        """The fields of a shard, whose files stay open for a while."""
        arrays = self._open.pop(shard, None) or self._opened(self.index["shards"][shard])
        self._open[shard] = arrays  # the last used one stands last
        if len(self._open) > MOST_OPEN:
            del self._open[next(iter(self._open))]
        return arrays

    def _opened(self, shard: dict[str, Any]) -> dict[str, MappedArray]:
        path = self.folder / shard["file"]
        if not path.exists():
            raise FileFormatError(f"{path}: a shard of {self.folder / INDEX} is missing; copy the folder again")
        size = path.stat().st_size
        if size != shard["bytes"]:
            raise TruncatedError(f"{path}: the index says {shard['bytes']} bytes, the file has {size}; copy it again")
        if self.verify and shard["file"] not in self._verified and _digest(path) != shard["sha256"]:
            raise FileFormatError(
                f"{path}: the SHA-256 digest is not that of the index; the file is damaged, copy it again"
            )
        self._verified.add(shard["file"])
        return _mapped_fields(path, shard["rows"], self.index["fields"])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}


def shuffled(items: Iterator[Any], size: int, generator: Generator) -> Iterator[Any]:
    """The items in the order in which they leave a buffer of `size`: a random one goes, the next takes its place."""
    held = list(itertools.islice(items, size))
    draws = _integers(generator, len(held))
    for item, i in zip(items, draws, strict=False):
        yield held[i]
        held[i] = item
    for i in generator.fold_in(0).permutation(len(held)).tolist():
        yield held[i]


def _integers(generator: Generator, limit: int) -> Iterator[int]:
    while True:
        yield from generator.integers(0, limit, DRAWS).tolist()


# ------------------------------------------------------------------------------------------- rows and files


def _fields(sample: Any) -> tuple[str, dict[str, np.ndarray]]:
    """The kind of a sample and its values by name."""
    if isinstance(sample, dict):
        return "dict", {name: _array(value) for name, value in sample.items()}
    if isinstance(sample, (tuple, list)):
        return "tuple", {str(i): _array(value) for i, value in enumerate(sample)}
    return "single", {"0": _array(sample)}


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.array if isinstance(value, Tensor) else value)


def _described(name: Any, value: np.ndarray) -> dict[str, Any]:
    kind = Dtype.by_numpy.get(value.dtype)
    if not isinstance(name, str) or kind not in CODES:
        raise ArgumentError(
            f"ShardWriter: field {name!r} of type {value.dtype} cannot be stored; expected numbers by name"
        )
    return {"dtype": kind.name, "shape": list(value.shape)}


def _sample(container: str, values: dict[str, Tensor]) -> Any:
    if container == "dict":
        return values
    return tuple(values.values()) if container == "tuple" else values["0"]


def _read_index(folder: pathlib.Path) -> dict[str, Any]:
    path = folder / INDEX
    if not path.is_file():
        raise FileFormatError(
            f"{folder}: there is no {INDEX}; expected a folder that a ShardWriter has finished (the index is written last)"
        )
    try:
        index = json.loads(path.read_bytes())
        known = index["format"] == FORMAT and all(
            re.fullmatch(r"shard-\d+\.safetensors", shard["file"]) and shard["rows"] > 0 for shard in index["shards"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise HeaderError(f"{path}: not a well-formed index: {error}") from None
    if not known:
        raise HeaderError(f"{path}: expected an index of format {FORMAT!r} with shards in this folder")
    return index


def _digest(path: pathlib.Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _mapped_fields(path: pathlib.Path, rows: int, fields: dict[str, dict[str, Any]]) -> dict[str, MappedArray]:
    """Every field of a shard, ready to read rows of."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(length))
            starts = {name: 8 + length + header[name]["data_offsets"][0] for name in fields}
        except (ValueError, KeyError, TypeError, MemoryError, OverflowError) as error:
            raise HeaderError(f"{path}: not the shard that the index describes: {error!r}") from None
    return {
        name: MappedArray(path, field["dtype"], (rows, *field["shape"]), starts[name]) for name, field in fields.items()
    }
