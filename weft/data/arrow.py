"""Arrow's tables and files as data sets: Parquet, Arrow files, and folders that Hugging Face's `datasets` wrote.

Arrow files are mapped, so columns of numbers are windows on the file; Parquet is decoded. Files are a stranger's: what they
announce is compared with their size before they are decoded, and whatever pyarrow says of a damaged one becomes a
`FileFormatError`. Needs pyarrow (extra `tables`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, EntryError, MissingFileError, OptionError
from ..io.bounded import brief, load_json
from ..io.errors import FileFormatError, HeaderError, OversizeError, UnsafeNameError
from ..runtime.extras import extra
from ..tensor import wrap
from .dataset import Dataset, Subset
from .frames import Column, FrameDataset

__all__ = ["from_arrow", "from_hf", "from_parquet", "read_parquet"]

Path = str | os.PathLike[str]
PURPOSE = "Arrow and Parquet files need"
ALWAYS = 1 << 30  # bytes that any file may unpack to
GROWTH = 1000  # and larger ones this many times their size


# ------------------------------------------------------------------------------------------- tables


def from_arrow(table: Any, columns: Sequence[str] | None = None) -> FrameDataset:
    """The rows of an Arrow table or record batch; columns of numbers without gaps in one piece are shared, not copied.

    Lists of one length become tensors (N, length), texts and others Python objects, made when they are asked for.
    """
    if not hasattr(table, "column_names"):
        raise ArgumentError(
            f"from_arrow: expected an Arrow table, got {type(table).__name__}; from_frame takes frames of pandas and polars"
        )
    names = list(table.column_names)
    unknown = [name for name in columns or () if name not in names]
    if unknown:
        raise EntryError(f"from_arrow: no columns {', '.join(unknown)}; there are {', '.join(names)}")
    return FrameDataset({name: _column(table.column(name)) for name in (names if columns is None else columns)})


class ArrowColumn(Sequence[Any]):
    """A column whose values become Python objects one at a time; pictures of `datasets` ({bytes, path}) PIL images."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        found = self.values[int(index)].as_py()
        return _picture(found) if isinstance(found, dict) and found.keys() == {"bytes", "path"} else found


def _picture(parts: dict[str, Any]) -> Any:
    """The image in the bytes of a cell; files outside of the set are not opened."""
    import io

    if not parts["bytes"]:
        return parts
    image = extra("PIL.Image", "pictures need")
    try:
        opened = image.open(io.BytesIO(parts["bytes"]))
        opened.load()
    except (OSError, SyntaxError, ValueError) as error:
        raise FileFormatError(f"a picture of the data set cannot be read ({error})") from error
    return opened


def _column(values: Any) -> Column:
    arrow = extra("pyarrow", PURPOSE)
    kind, types = values.type, arrow.types
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if number:
        return wrap(_numbers(values))
    if types.is_fixed_size_list(kind) and not values.null_count:
        inner = kind.value_type
        if types.is_integer(inner) or types.is_floating(inner):
            flat = values.combine_chunks().flatten() if hasattr(values, "combine_chunks") else values.flatten()
            if not flat.null_count:
                return wrap(_numbers(flat).reshape(-1, kind.list_size))
    return ArrowColumn(values)


def _numbers(values: Any) -> np.ndarray:
    """Shared where Arrow can: one piece, no gaps, no bits; else a copy, with NaN for gaps."""
    if hasattr(values, "chunks"):
        if values.num_chunks == 1:
            return _numbers(values.chunk(0))
        return values.to_numpy() if values.num_chunks else np.zeros(0, values.type.to_pandas_dtype())
    return values.to_numpy(zero_copy_only=False)


# ------------------------------------------------------------------------------------------- files


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> Any:
    """The Arrow table of a Parquet file; what is damaged, or announces far more than it can hold, is refused."""
    arrow, parquet = extra("pyarrow", PURPOSE), extra("pyarrow.parquet", PURPOSE)
    if not os.path.isfile(path):
        raise MissingFileError(f"{os.fspath(path)}: there is no such file")
    try:
        with parquet.ParquetFile(path) as file:
            _check_growth(path, file.metadata)
            unknown = [name for name in columns or () if name not in file.schema_arrow.names]
            if unknown:
                raise EntryError(f"{path}: no columns {', '.join(unknown)}; {', '.join(file.schema_arrow.names)}")
            return file.read(columns=None if columns is None else list(columns))
    except (arrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path}: no Parquet file, or a damaged one ({brief(str(error))})") from error


def _check_growth(path: Path, metadata: Any) -> None:
    """Refuse a file that announces far more values, or bytes, than one of its size may unpack to."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    announced = max(sum(group.total_byte_size for group in groups), metadata.num_rows * max(metadata.num_columns, 1))
    allowed = max(ALWAYS, GROWTH * os.path.getsize(path))
    if announced > allowed or metadata.num_rows < 0:
        raise OversizeError(
            f"{path}: announces {brief(metadata.num_rows)} rows, {brief(announced)} bytes unpacked, of {os.path.getsize(path)}; "
            "refused. If you trust it, read it with pyarrow and give the table to from_arrow"
        )


def from_parquet(path: Path, columns: Sequence[str] | None = None) -> FrameDataset:
    """The rows of a Parquet file."""
    return from_arrow(read_parquet(path, columns), columns)


def _read_arrow(path: str) -> Any:
    """The table of an Arrow file, as a stream (what `datasets` writes) or with a footer; the file is mapped."""
    arrow, ipc = extra("pyarrow", PURPOSE), extra("pyarrow.ipc", PURPOSE)
    if not os.path.isfile(path):
        raise MissingFileError(f"{path}: there is no such file")
    try:
        source = arrow.memory_map(path)
        with source:
            head = bytes(source.read(6))
            source.seek(0)
            found = ipc.open_file(source) if head == b"ARROW1" else ipc.open_stream(source)
            table = found.read_all()
            table.validate()
            return table
    except (arrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise FileFormatError(f"{path}: no Arrow file, or a damaged one ({brief(str(error))})") from error


# ------------------------------------------------------------------------------------------- folders


def from_hf(folder: Path, split: str | None = None, columns: Sequence[str] | None = None) -> Any:
    """The data set in a folder of Hugging Face's `datasets`, without that library.

    folder: what `save_to_disk` wrote, one set or several splits; a folder of Parquet files as the hub has them
    (`data/train-00000-of-00002.parquet`); or one Parquet or Arrow file. split: its name; without it a folder of several
    splits gives a dictionary. Samples are {name: value}; numbers of Arrow files are windows on the file.

    >>> train = weft.data.from_hf("imdb", "train")
    >>> train[0]["text"], train[0]["label"]
    """
    path = os.fspath(folder)
    if os.path.isfile(path):
        return _of_table(_read_file(path, columns), columns)
    if not os.path.isdir(path):
        raise MissingFileError(f"from_hf: there is no folder or file {path!r}; Weft downloads none")
    splits = _splits(path)
    if split is None and len(splits) == 1:
        split = next(iter(splits))
    if split is not None:
        if split not in splits:
            raise OptionError(f"{path}: no split {split!r}; there are {', '.join(splits)}")
        return _of_files(splits[split], columns)
    return {name: _of_files(files, columns) for name, files in splits.items()}


def _splits(path: str) -> dict[str, Any]:
    """What each split is made of: a folder of `save_to_disk`, or Parquet files."""
    if os.path.isfile(os.path.join(path, "state.json")):
        return {_split_name(path): path}
    if os.path.isfile(os.path.join(path, "dataset_dict.json")):
        names = _object(os.path.join(path, "dataset_dict.json")).get("splits")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise HeaderError(f"{path}: dataset_dict.json: expected a list of splits, found {brief(names)}")
        return {name: os.path.join(path, _inside(name, path)) for name in names}
    found: dict[str, list[str]] = {}
    for place, inner, files in os.walk(path):
        inner.sort()
        for file in sorted(files):
            if file.endswith(".parquet"):
                found.setdefault(file.split("-")[0].removesuffix(".parquet"), []).append(os.path.join(place, file))
    if not found:
        listing = ", ".join(sorted(os.listdir(path))[:12]) or "nothing"
        raise MissingFileError(f"{path}: expected state.json, dataset_dict.json or Parquet files, found {listing}")
    return dict(found)


def _split_name(path: str) -> str:
    name = _object(os.path.join(path, "state.json")).get("_split")
    return name if isinstance(name, str) else "train"


def _object(file: str) -> dict[str, Any]:
    fields = load_json(file)
    if not isinstance(fields, dict):
        raise HeaderError(f"{file}: expected a JSON object, found {brief(fields)}")
    return fields


def _inside(name: Any, where: str) -> str:
    if not isinstance(name, str) or os.path.basename(name) != name or name in ("", ".", ".."):
        raise UnsafeNameError(f"{where}: files must lie in the folder, got {brief(name)}")
    return name


def _of_files(made_of: Any, columns: Sequence[str] | None) -> Dataset[Any]:
    arrow = extra("pyarrow", PURPOSE)
    if isinstance(made_of, list):
        return _of_table(arrow.concat_tables([read_parquet(file, columns) for file in made_of]), columns)
    if not os.path.isfile(os.path.join(made_of, "state.json")):
        raise MissingFileError(f"{made_of}: expected state.json, which is not there")
    state = _object(os.path.join(made_of, "state.json"))
    tables = [_read_arrow(file) for file in _listed(made_of, state, "_data_files")]
    if not tables:
        raise HeaderError(f"{made_of}: state.json names no files")
    rows = _of_table(_joined(made_of, tables), columns)
    chosen = [_read_arrow(file) for file in _listed(made_of, state, "_indices_files")]
    if not chosen:
        return rows
    numbers = np.concatenate([table.column("indices").to_numpy() for table in chosen]).astype(np.int64)
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(rows):
        raise HeaderError(f"{made_of}: rows are chosen that the files do not have")
    return Subset(rows, numbers)


def _joined(where: str, tables: list[Any]) -> Any:
    arrow = extra("pyarrow", PURPOSE)
    try:
        return arrow.concat_tables(tables)
    except arrow.ArrowException as error:
        raise FileFormatError(f"{where}: files of different columns ({brief(str(error))})") from error


def _listed(folder: str, state: dict[str, Any], key: str) -> list[str]:
    entries = state.get(key) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise HeaderError(f"{folder}: state.json: {key}: expected a list of files, found {brief(entries)}")
    return [os.path.join(folder, _inside(entry.get("filename"), folder)) for entry in entries]


def _read_file(path: str, columns: Sequence[str] | None) -> Any:
    return _read_arrow(path) if path.endswith((".arrow", ".feather")) else read_parquet(path, columns)


def _of_table(table: Any, columns: Sequence[str] | None) -> FrameDataset:
    return from_arrow(table, columns)
