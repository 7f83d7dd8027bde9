"""Series in time: windows of past and future, splits that keep the order, scaling, and Bach's chorales."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import OptionError, ShapeError
from ...io.errors import LayoutError
from ...tensor import Tensor, wrap
from ..dataset import Dataset, Rows, TensorDataset
from .fetch import Folder, find
from .files import members
from .read_tables import read_text

__all__ = ["JSBChorales", "Scaler", "Windows", "piano_roll", "split_by_time"]


def _series(values: Any) -> np.ndarray:
    """Values as (T, D); (T,) becomes (T, 1)."""
    array = values.array if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim not in (1, 2):
        raise ShapeError(f"a series is (T,) or (T, D), got {tuple(array.shape)}")
    return array[:, None] if array.ndim == 1 else array


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """Every stretch of a series, cut into the past, which is given, and the future, which is to be told.

    Sample i is (values[i·step : i·step + past], values[… + gap : … + gap + future]), (past, D) and (future, D), both
    float32 windows on the one series: nothing is copied before it is asked for.

    gap: steps between the last value of the past and the first of the future that are left out
    targets: the columns of the future that are wanted, by number; all by default

    Example:
        >>> pairs = Windows(weft.arange(10.0), past=3, future=1)
        >>> len(pairs), pairs[0][0][:, 0].tolist(), pairs[0][1].item()
        (7, [0.0, 1.0, 2.0], 3.0)
    """

    def __init__(
        self,
        values: Any,
        past: int,
        future: int = 1,
        step: int = 1,
        gap: int = 0,
        targets: Sequence[int] | None = None,
    ) -> None:
        if past < 1 or future < 1 or step < 1 or gap < 0:
            raise OptionError(
                f"Windows: past, future and step must be 1 or more, gap 0 or more: {past, future, step, gap}"
            )
        self.values = np.ascontiguousarray(_series(values), np.float32)
        self.past, self.future, self.step, self.gap = past, future, step, gap
        self.targets = slice(None) if targets is None else list(targets)
        self._length = max(0, (len(self.values) - past - gap - future) // step + 1)
        if not self._length:
            raise ShapeError(f"Windows: {past + gap + future} values make a window, the series has {len(self.values)}")

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        past, future = self.gather([range(len(self))[index]])
        return past[0], future[0]

    def gather(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """The batch of these windows: (B, past, D), (B, future, D)."""
        starts = np.asarray(rows, np.int64)[:, None] * self.step
        ahead = starts + self.past + self.gap
        past = self.values[starts + np.arange(self.past)]
        return wrap(past), wrap(self.values[ahead + np.arange(self.future)][:, :, self.targets])

    def as_tensors(self) -> TensorDataset:
        """All windows: (N, past, D) and (N, future, D)."""
        return TensorDataset(*self.gather(range(len(self))))


def split_by_time(values: Any, fractions: Sequence[float] = (0.8, 0.2), *, context: int = 0) -> list[np.ndarray]:
    """Parts of a series in their order, with these fractions of its length.

    context: how many values before its own each later part begins with, so that with `Windows(part, past=context)`
        its first future is its own first value and none of an earlier part

    Example:
        >>> [part.tolist() for part in split_by_time(np.arange(10), (0.7, 0.3), context=2)]
        [[0, 1, 2, 3, 4, 5, 6], [5, 6, 7, 8, 9]]
    """
    if any(f <= 0 for f in fractions) or sum(fractions) > 1 + 1e-9:
        raise OptionError(f"split_by_time: fractions must be positive with a sum up to 1, got {tuple(fractions)}")
    array = values.array if isinstance(values, Tensor) else np.asarray(values)
    ends = [round(len(array) * end) for end in itertools.accumulate(fractions)]
    return [array[max(0, start - context) : end] for start, end in itertools.pairwise([0, *ends])]


class Scaler:
    """Shift and scale each column with figures of the training part: y = (x − shift) / scale.

    kind: "standard" (mean and standard deviation) or "minmax" (onto [0, 1]); a constant column is only shifted

    Example:
        >>> scaler = Scaler(train)  # doctest: +SKIP
        >>> forecast = scaler.inverse(model(scaler(past)))  # doctest: +SKIP
    """

    def __init__(self, values: Any, kind: str = "standard") -> None:
        series = _series(values).astype(np.float64)
        if not len(series):
            raise ShapeError("Scaler: the series is empty")
        if kind == "standard":
            self.shift, scale = np.nanmean(series, 0), np.nanstd(series, 0)
        elif kind == "minmax":
            self.shift, scale = np.nanmin(series, 0), np.nanmax(series, 0) - np.nanmin(series, 0)
        else:
            raise OptionError(f"Scaler: kind must be 'standard' or 'minmax', got {kind!r}")
        self.scale = np.where(scale > 0, scale, 1.0)

    def __call__(self, values: Any) -> Any:
        """Scaled values, (…, D), or (T,) for a series of one column; tensors give tensors."""
        return self._mapped(values, lambda x: (x - self.shift) / self.scale)

    def inverse(self, values: Any) -> Any:
        """Values in the units of the series."""
        return self._mapped(values, lambda y: y * self.scale + self.shift)

    def _mapped(self, values: Any, function: Any) -> Any:
        array = values.array if isinstance(values, Tensor) else np.asarray(values)
        kind = array.dtype if array.dtype.kind == "f" else np.float64
        mapped = function(array.astype(np.float64)).astype(kind)
        return wrap(mapped) if isinstance(values, Tensor) else mapped


# ------------------------------------------------------------------------------------------ music
class JSBChorales(Dataset[Tensor]):
    """382 chorales by J. S. Bach (Boulanger-Lewandowski et al. 2012), a chord for each sixteenth.

    Sample i is (T, 4) int64: the notes of soprano, alto, tenor and bass as MIDI numbers, 0 for silence.

    split: "train" (229), "valid" (76) or "test" (77)
    """

    def __init__(self, root: Folder = None, split: str = "train", download: bool = False) -> None:
        if split not in ("train", "valid", "test"):
            raise OptionError(f"JSBChorales: split must be 'train', 'valid' or 'test', got {split!r}")
        path = find("jsb_chorales/jsb_chorales.tgz", root, download)
        found = {name: raw for name, raw in members(path, ".csv").items() if split in name.split("/")}
        if not found:
            raise LayoutError(f"{path}: no folder {split!r} in the archive")
        self.split = split
        self.chorales = [_chorale(raw, f"{path}/{name}") for name, raw in sorted(found.items())]

    def __len__(self) -> int:
        return len(self.chorales)

    def __getitem__(self, index: int) -> Tensor:
        return self.chorales[index]


def _chorale(raw: bytes, place: str) -> Tensor:
    columns = read_text(raw.decode(), place, ",", header=True)
    if len(columns) != 4 or any(column.kind != "int" or column.missing.any() for column in columns):
        raise LayoutError(f"{place}: expected four columns of notes")
    notes = np.stack([column.values for column in columns], 1)
    if notes.size and not 0 <= notes.min() <= notes.max() < 128:
        raise LayoutError(f"{place}: notes should lie in 0..127, found {notes.min()}..{notes.max()}")
    return wrap(notes)


def piano_roll(notes: Tensor, lowest: int = 21, keys: int = 88) -> Tensor:
    """Which of the keys are down at each time, float32 (T, keys), from notes (T, voices); 0 is silence."""
    array = notes.array
    times = np.broadcast_to(np.arange(len(array))[:, None], array.shape)
    sounding = array > 0
    if (array[sounding] < lowest).any() or (array[sounding] >= lowest + keys).any():
        raise OptionError(f"piano_roll: notes outside of {lowest}..{lowest + keys - 1}")
    roll = np.zeros((len(array), keys), np.float32)
    roll[times[sounding], array[sounding] - lowest] = 1
    return wrap(roll)
