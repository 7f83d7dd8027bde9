"""Frames as data sets: columns of pandas, polars, Arrow, NumPy or plain dictionaries, shared and not copied where possible.

A column of numbers without gaps becomes a tensor over the memory that the frame has; texts and other things stay Python
objects. None of the libraries is imported: a frame is what has `columns` and gives a column with `to_numpy()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, EntryError, IndexRangeError, ShapeError
from ..tensor import Tensor, wrap
from .dataset import Dataset, Rows, TensorDataset, taken

__all__ = ["FrameDataset", "from_frame"]

Column = Tensor | Sequence[Any]


class FrameDataset(Dataset[dict[str, Any]]):
    """Rows of named columns: sample i is {name: value}; a batch has a tensor or a list for each name.

    columns: tensors (N, …), or sequences of N Python objects.

    >>> people = FrameDataset({"age": weft.tensor([31, 25]), "name": ["Ada", "Alan"]})
    >>> people[1]
    {'age': tensor(25), 'name': 'Alan'}
    >>> people.gather([1, 0])
    {'age': tensor([25, 31]), 'name': ['Alan', 'Ada']}
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = dict(columns)
        sizes = {name: len(column) for name, column in self.columns.items()}
        if not sizes or len(set(sizes.values())) != 1:
            raise ShapeError(f"FrameDataset: expected columns of one length, got {sizes}")
        self.length = next(iter(sizes.values()))

    @property
    def column_names(self) -> list[str]:
        return list(self.columns)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        """The row of a number, or the column of a name."""
        if isinstance(index, str):
            return self._column(index)
        number = int(index)
        if not -self.length <= number < self.length:
            raise IndexRangeError(f"FrameDataset: expected a row below {self.length}, got {number}")
        return {name: column[number] for name, column in self.columns.items()}

    def gather(self, rows: Rows) -> dict[str, Any]:
        """The batch of these rows. A range with step 1 gives read-only windows on tensors: nothing is copied."""
        return {
            name: taken(column, rows) if isinstance(column, Tensor) else [column[int(row)] for row in rows]
            for name, column in self.columns.items()
        }

    def as_tensors(self, *names: str) -> TensorDataset:
        """Some columns, all tensors unless named, as rows (a[i], b[i], …); they are shared."""
        names = names or tuple(name for name, column in self.columns.items() if isinstance(column, Tensor))
        chosen = [self._column(name) for name in names]
        texts = [name for name, column in zip(names, chosen, strict=True) if not isinstance(column, Tensor)]
        if texts or not chosen:
            raise ArgumentError(f"as_tensors: {', '.join(texts) or 'no column'} has no numbers; name those that have")
        return TensorDataset(*chosen)

    def select(self, *names: str) -> FrameDataset:
        """The set with these columns alone."""
        return FrameDataset({name: self._column(name) for name in names})

    def _column(self, name: str) -> Column:
        if name not in self.columns:
            raise EntryError(f"no column {name!r}; there are {', '.join(self.columns)}")
        return self.columns[name]

    def __repr__(self) -> str:
        kinds = {
            n: f"{c.dtype}".removeprefix("weft.") if isinstance(c, Tensor) else "object"
            for n, c in self.columns.items()
        }
        return f"FrameDataset({self.length} rows: {', '.join(f'{name} {kind}' for name, kind in kinds.items())})"


def from_frame(frame: Any, columns: Sequence[str] | None = None) -> FrameDataset:
    """The rows of a pandas or polars frame, an Arrow table, a structured array, or a mapping from names to columns.

    columns: those that are wanted. Numbers without gaps are shared with the frame: what is written there is seen here. Gaps
    among whole numbers make them floating, with NaN.

    >>> from_frame({"x": np.arange(3.0), "y": ["a", "b", "c"]})[2]
    {'x': tensor(2., dtype=weft.float64), 'y': 'c'}
    """
    if hasattr(frame, "column_names") and hasattr(frame, "schema"):
        from .arrow import from_arrow

        return from_arrow(frame, columns)
    if isinstance(frame, np.ndarray):
        if frame.dtype.names is None:
            raise ArgumentError("from_frame: expected an array with named fields; TensorDataset takes plain arrays")
        found = {name: frame[name] for name in frame.dtype.names}
    elif isinstance(frame, Mapping):
        found = dict(frame)
    elif hasattr(frame, "columns") and hasattr(frame, "__getitem__"):
        found = {str(name): frame[name] for name in frame.columns}
    else:
        raise ArgumentError(f"from_frame: expected a frame with named columns, got {type(frame).__name__}")
    unknown = [name for name in columns or () if name not in found]
    if unknown:
        raise EntryError(f"from_frame: no columns {', '.join(unknown)}; there are {', '.join(map(str, found))}")
    return FrameDataset({str(name): column_of(found[name]) for name in (found if columns is None else columns)})


def column_of(values: Any) -> Column:
    """A column as a tensor that shares its memory, or as a list of Python objects."""
    if isinstance(values, Tensor):
        return values
    if not isinstance(values, np.ndarray) and hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if not isinstance(values, np.ndarray):
        numbers = all(isinstance(value, (bool, int, float)) for value in values)
        values = np.asarray(values) if numbers and len(values) else list(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufc":
        return wrap(values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("=")))
    return values.tolist() if isinstance(values, np.ndarray) else values
