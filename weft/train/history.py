"""The figures of a training, epoch by epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..errors import EntryError
from ..notebook import history_html

__all__ = ["History"]


class History:
    """Rows of figures, one an epoch, and how the training ended.

    `history["val_loss"]` is the column of a figure, `history[-1]` a row, `history.best("val_accuracy", "max")` the best row.
    """

    def __init__(self, rows: list[dict[str, Any]] | None = None) -> None:
        self.rows: list[dict[str, Any]] = rows or []
        self.seconds = 0.0
        self.data_wait = 0.0  # the share of training time spent waiting for data
        self.finished = False
        self.stopped_by: str | None = None  # why it ended before max_epochs
        self.figures: dict[str, float] = {}  # the last value of every figure

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, key: str | int) -> Any:
        if not isinstance(key, str):
            return self.rows[key]
        if not any(key in row for row in self.rows):
            raise EntryError(f"{key!r} was not logged; logged are {self.names}")
        return [row[key] for row in self.rows if key in row]

    @property
    def names(self) -> list[str]:
        """The figures, in the order in which they came."""
        return list(dict.fromkeys(name for row in self.rows for name in row if name not in ("kind", "epoch", "step")))

    def best(self, name: str, mode: str = "min") -> dict[str, Any]:
        """The row with the lowest ('min') or highest ('max') value of a figure; NaN never wins."""
        rows = [row for row in self.rows if name in row and not math.isnan(row[name])]
        if not rows:
            raise EntryError(f"{name!r} was not logged; logged are {self.names}")
        return (min if mode == "min" else max)(rows, key=lambda row: row[name])

    def __repr__(self) -> str:
        figures = ", ".join(f"{k} {v:.4g}" for k, v in self.figures.items())
        return f"History({len(self.rows)} epochs, {self.seconds:.1f} s{', ' + figures if figures else ''})"

    def _repr_html_(self) -> str:
        ended = "" if self.finished else f", stopped by {self.stopped_by}" if self.stopped_by else ", not finished"
        return history_html(self.rows, self.names, f"{len(self.rows)} epochs in {self.seconds:.1f} s{ended}")
