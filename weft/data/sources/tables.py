"""Tables: named columns, each of one kind, with missing values; and the way from there to tensors.

A table is never changed: every method returns a new one that shares the columns it keeps.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from ...dtypes import float32
from ...errors import DtypeError, OptionError, ShapeError
from ...ops.create.sample import Generator
from ...tensor import Tensor, wrap
from ..dataset import TensorDataset

__all__ = ["KINDS", "Column", "Table"]

KINDS = ("int", "float", "bool", "category", "datetime", "string")
FILLS = ("mean", "median", "zero", "nan", "error")


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one column.

    kind      values                                   in a missing place
    int       int64                                    0
    float     float64                                  NaN
    bool      bool                                     False
    category  int64 codes into `categories`            -1
    datetime  datetime64[us]                           NaT
    string    object (str)                             ""
    """

    name: str
    kind: str
    values: np.ndarray
    missing: np.ndarray
    categories: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: np.ndarray) -> Column:
        return replace(self, values=self.values[rows], missing=self.missing[rows])

    def tolist(self) -> list[Any]:
        """Python values: None where one is missing, the names of categories."""
        values = self.values.tolist()
        if self.kind == "category":
            values = [self.categories[code] for code in values]
        return [None if absent else value for value, absent in zip(values, self.missing.tolist(), strict=True)]

    def as_float(self) -> np.ndarray:
        """float64 values, NaN where one is missing: codes of categories, seconds since 1970 of times."""
        if self.kind == "string":
            raise DtypeError(
                f"column {self.name!r} holds text, which is no number; leave it out, or read it with "
                f"kinds={{{self.name!r}: 'category'}}"
            )
        values = self.values.astype(np.int64) / 1e6 if self.kind == "datetime" else self.values.astype(np.float64)
        return np.where(self.missing, np.nan, values)


class Table:
    """Columns of equal length.

    target: the name of the column that is to be predicted, where the table has one

    Example:
        >>> table = sources.read_table("houses.csv")  # doctest: +SKIP
        >>> train, test = table.split((0.8, 0.2), seed=0)  # doctest: +SKIP
        >>> pairs = test.to_dataset("price", by=train)  # filled and scaled with figures of train  # doctest: +SKIP
    """

    def __init__(self, columns: Iterable[Column], target: str | None = None) -> None:
        self._columns = {column.name: column for column in columns}
        lengths = {len(column) for column in self._columns.values()}
        if len(lengths) > 1:
            raise ShapeError(f"Table: columns of different lengths {sorted(lengths)}")
        self._length = lengths.pop() if lengths else 0
        self.target = target if target is None else self[target].name

    # ------------------------------------------------------------------------------ looking
    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    @property
    def kinds(self) -> dict[str, str]:
        return {name: column.kind for name, column in self._columns.items()}

    @property
    def shape(self) -> tuple[int, int]:
        return self._length, len(self._columns)

    def missing(self) -> dict[str, int]:
        """How many values each column lacks."""
        return {name: int(column.missing.sum()) for name, column in self._columns.items()}

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Column]:
        return iter(self._columns.values())

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> Column:
        if name not in self._columns:
            near = get_close_matches(str(name), self._columns, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, self._columns))}"
            raise OptionError(f"Table: no column {name!r}; {hint}")
        return self._columns[name]

    def __repr__(self) -> str:
        head = [[str(v) for v in column.take(np.arange(min(5, len(self)))).tolist()] for column in self]
        cells = [[column.name, column.kind, *shown] for column, shown in zip(self, head, strict=True)]
        widths = [max(map(len, column)) for column in cells]
        rows = (" ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in zip(*cells, strict=True))
        return "\n".join([f"Table of {len(self)} rows", *rows, *(["…"] if len(self) > 5 else [])])

    # ------------------------------------------------------------------------------ choosing
    def select(self, columns: Iterable[str]) -> Table:
        """Only these columns, in this order."""
        chosen = [self[name] for name in columns]
        return Table(chosen, self.target if self.target in [column.name for column in chosen] else None)

    def drop(self, *columns: str) -> Table:
        """Without these columns."""
        unwanted = {self[name].name for name in columns}
        return self.select(name for name in self.columns if name not in unwanted)

    def rows(self, rows: Any) -> Table:
        """Only these rows: indices, a slice, or a mask."""
        index = np.arange(len(self))[rows.array if isinstance(rows, Tensor) else rows]
        return Table([column.take(np.atleast_1d(index)) for column in self], self.target)

    def drop_missing(self, columns: Iterable[str] | None = None) -> Table:
        """Only the rows that have all these values (by default of all columns)."""
        absent = np.zeros(len(self), bool)
        for name in self.columns if columns is None else columns:
            absent |= self[name].missing
        return self.rows(~absent)

    def split(self, fractions: Sequence[float] = (0.8, 0.2), *, seed: int | None = 0) -> list[Table]:
        """Disjoint parts with these fractions of the rows: drawn at random by `seed`, in order where it is None."""
        if any(f < 0 for f in fractions) or not 0 < sum(fractions) <= 1 + 1e-9:
            raise OptionError(f"Table.split: fractions must be positive with a sum up to 1, got {tuple(fractions)}")
        count = len(self)
        order = np.arange(count) if seed is None else Generator().manual_seed(seed).permutation(count)
        ends = [round(count * end) for end in itertools.accumulate(fractions)]
        return [self.rows(order[start:end]) for start, end in itertools.pairwise([0, *ends])]

    # ------------------------------------------------------------------------------ numbers
    def numeric(
        self,
        columns: Iterable[str] | None = None,
        *,
        one_hot: bool = True,
        fill: str = "mean",
        by: Table | None = None,
    ) -> Table:
        """Every column as float, without missing values.

        A category becomes one column of 0 and 1 for each of its values (`place=north`), all 0 where it is missing,
        or its code with one_hot=False; a truth value 0 or 1, a time its seconds since 1970. Text is an error.

        fill: what takes the place of a missing number: "mean", "median", "zero", "nan" (left), or "error"
        by: the table whose means and medians are used, such as the training part; by default this one
        """
        if fill not in FILLS:
            raise OptionError(f"Table.numeric: fill must be one of {', '.join(FILLS)}, got {fill!r}")
        by = self if by is None else by
        chosen = self if columns is None else self.select(columns)
        return Table(
            itertools.chain.from_iterable(_numbers(c, by[c.name], one_hot, fill) for c in chosen), chosen.target
        )

    def standardize(self, by: Table | None = None) -> Table:
        """Each column with mean 0 and standard deviation 1: x ↦ (x − mean) / std, with figures of `by`.

        A constant column becomes 0. Columns that are not float are made so by `numeric()` first.
        """
        if any(kind != "float" for kind in self.kinds.values()):
            return self.numeric(by=by).standardize(None if by is None else by.numeric())
        figures = {c.name: (np.nanmean(c.values), np.nanstd(c.values)) for c in (self if by is None else by)}
        return Table([_scaled(column, *figures[column.name]) for column in self])

    def to_tensor(self, columns: str | Iterable[str] | None = None, dtype: Any = float32) -> Tensor:
        """The columns side by side, (N, D); a single name gives (N,). Missing values are an error: see `numeric`."""
        if isinstance(columns, str):
            return wrap(self._filled([columns])[:, 0].astype(dtype.np))
        return wrap(self._filled(self.columns if columns is None else columns).astype(dtype.np))

    def _filled(self, columns: Iterable[str]) -> np.ndarray:
        chosen = list(columns)
        for name in chosen:
            if self[name].missing.any():
                raise OptionError(
                    f"Table.to_tensor: column {name!r} lacks {self[name].missing.sum()} values; fill them by numeric(), "
                    "or leave their rows out by drop_missing()"
                )
        return np.stack([self[name].as_float() for name in chosen], 1) if chosen else np.empty((len(self), 0))

    def to_dataset(
        self, target: str | None = None, *, by: Table | None = None, standardize: bool = True, fill: str = "mean"
    ) -> TensorDataset:
        """Pairs (features (N, D) float32, target) of all columns but the target, and the target.

        A category or truth value as the target gives classes (N,) int64, a number (N, 1) float32 as it is.
        """
        target = target or self.target
        if target is None:
            raise OptionError("Table.to_dataset: name the column that is to be predicted")
        by = (self if by is None else by).drop(target)
        features, reference = self.drop(target).numeric(fill=fill, by=by), by.numeric(fill=fill)
        features = features.standardize(reference) if standardize else features
        labels = self._filled([target])
        classes = self[target].kind in ("category", "bool")
        labels = labels[:, 0].astype(np.int64) if classes else labels.astype(np.float32)
        return TensorDataset(features.to_tensor(), wrap(labels))

    @staticmethod
    def from_columns(columns: Mapping[str, Any], target: str | None = None) -> Table:
        """A table of arrays or lists; text with repeated values becomes a category.

        Example:
            >>> Table.from_columns({"x": [1, 2], "place": ["n", None]}).kinds
            {'x': 'int', 'place': 'string'}
        """
        from .kinds import column_of

        return Table([column_of(name, values) for name, values in columns.items()], target)


# ------------------------------------------------------------------------------------------ columns as numbers
def _float_column(name: str, values: np.ndarray) -> Column:
    return Column(name, "float", values, np.isnan(values))


def _numbers(column: Column, reference: Column, one_hot: bool, fill: str) -> list[Column]:
    if column.kind == "category" and one_hot:
        return _indicators(column, reference)
    values = column.as_float()
    if not column.missing.any() or fill == "nan":
        return [_float_column(column.name, values)]
    return [_float_column(column.name, np.where(column.missing, _filler(reference, fill), values))]


def _indicators(column: Column, reference: Column) -> list[Column]:
    """One column of 0 and 1 for each category of the reference; a value it does not know is all 0, as a missing one."""
    codes = {name: code for code, name in enumerate(column.categories)}
    return [
        _float_column(f"{column.name}={name}", (column.values == codes.get(name, -2)).astype(np.float64))
        for name in reference.categories
    ]


def _filler(reference: Column, fill: str) -> float:
    if fill == "error":
        raise OptionError(f"Table.numeric: column {reference.name!r} lacks values; choose another fill")
    present = reference.as_float()[~reference.missing]
    if fill == "zero" or not present.size:
        return 0.0
    return float(np.mean(present) if fill == "mean" else np.median(present))


def _scaled(column: Column, mean: float, std: float) -> Column:
    """A spread within rounding of the mean is that of a constant."""
    constant = not std > 1e-12 * max(1.0, abs(mean))
    return _float_column(column.name, (column.values - mean) / (1.0 if constant else std))
