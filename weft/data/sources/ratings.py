"""Ratings of items by persons, in the formats of the MovieLens sets: u.data, ratings.dat, ratings.csv."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft

from ...errors import OptionError
from ...io.errors import LayoutError
from ...tensor import Tensor
from .errors import SourceError
from .files import content

__all__ = ["Ratings", "read_ratings"]

SEPARATORS = ("::", "\t", ",")  # of ratings.dat, u.data, ratings.csv
COLUMNS = 4  # user, item, rating, time


@dataclass(frozen=True)
class Ratings:
    """One rating a row: numbers of persons and items from 0 on, values, times; `users` and `items` are their names.

    Example:
        >>> found = Ratings.of(np.array([7, 7, 9]), np.array([1, 5, 5]), np.array([4.0, 2.0, 5.0]))
        >>> found.matrix().tolist()
        [[4, 2], [0, 5]]
    """

    user: NDArray[np.int64]
    item: NDArray[np.int64]
    value: NDArray[np.float64]
    time: NDArray[np.int64]
    users: NDArray[np.int64]
    items: NDArray[np.int64]

    @classmethod
    def of(cls, user: NDArray, item: NDArray, value: NDArray, time: NDArray | None = None) -> Ratings:
        """From the names of persons and items of each rating."""
        users, user = np.unique(user, return_inverse=True)
        items, item = np.unique(item, return_inverse=True)
        times = np.zeros(len(value), np.int64) if time is None else np.asarray(time, np.int64)
        return cls(user, item, np.asarray(value, np.float64), times, users, items)

    def __len__(self) -> int:
        return len(self.value)

    def split(self, share: float, seed: int = 0) -> tuple[Ratings, Ratings]:
        """Ratings drawn at random for testing, `share` of them, and the rest before them; names stay the same."""
        if not 0 < share < 1:
            raise OptionError(f"Ratings.split: expected a share between 0 and 1, got {share}")
        order = np.random.default_rng(seed).permutation(len(self))
        count = round(share * len(self))
        return self._only(np.sort(order[count:])), self._only(np.sort(order[:count]))

    def matrix(self, steps: int = 1) -> Tensor:
        """(persons, items) of whole numbers, 0 where there is no rating; steps: 2 for half stars, which become 1 … 10."""
        scaled = self.value * steps
        if (scaled != np.round(scaled)).any() or (scaled < 1).any():
            raise OptionError(f"Ratings.matrix: with steps={steps}, ratings are not 1, 2, 3 …; half stars take steps=2")
        found = np.zeros((len(self.users), len(self.items)), np.int64)
        found[self.user, self.item] = scaled
        return weft.tensor(found)

    def _only(self, rows: Any) -> Ratings:
        return Ratings(self.user[rows], self.item[rows], self.value[rows], self.time[rows], self.users, self.items)


def read_ratings(path: str | os.PathLike[str]) -> Ratings:
    """Lines `user item rating time`, separated by tabs (u.data), `::` (ratings.dat) or commas (ratings.csv, whose first
    line has names), packed by gzip or not.

    Example:
        >>> read_ratings("ml-100k/u.data").matrix().shape  # doctest: +SKIP
        weft.Size([943, 1682])
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise SourceError(f"read_ratings: there is no file {path}")
    lines = content(path).decode("utf-8-sig").splitlines()
    lines = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if lines and lines[0][1].lower().startswith(("userid", "user_id")):
        lines = lines[1:]
    if not lines:
        raise LayoutError(f"{path}: there are no ratings in it")
    separator = next((s for s in SEPARATORS if s in lines[0][1]), None)
    rows = np.array([_row(path, number, line, separator) for number, line in lines])
    found = Ratings.of(rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64), rows[:, 2], rows[:, 3])
    if len(np.unique(found.user * len(found.items) + found.item)) < len(found):
        raise LayoutError(f"{path}: somebody has rated the same item twice")
    return found


def _row(path: Path, number: int, line: str, separator: str | None) -> list[float]:
    cells = line.split(separator) if separator else line.split()
    try:
        values = [float(cell) for cell in cells]
    except ValueError:
        values = []
    if len(values) != COLUMNS:
        raise LayoutError(f"{path}, line {number}: expected user, item, rating, time, got {line[:60]!r}")
    return values
