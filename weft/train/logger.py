"""Where figures go: metrics.jsonl, metrics.csv and TensorBoard's event file in the run folder."""

from __future__ import annotations

import warnings
from typing import Any

from .events import EventWriter
from .runs import RunFolder

__all__ = ["Logbook"]

Row = dict[str, Any]
NOT_FIGURES = frozenset({"kind", "epoch", "step", "seconds"})


class Logbook:
    """Writes rows of figures. If the disk is full rows wait, after one warning, and training goes on."""

    def __init__(self, run: RunFolder | None) -> None:
        self.run = run
        self.waiting: list[Row] = []
        self.written = 0 if run is None else run.count
        self.warned = False
        self.events: EventWriter | None = None

    @property
    def count(self) -> int:
        """Rows so far, those that wait included."""
        return self.written + len(self.waiting)

    def start(self, step: int) -> None:
        """Open the event file; TensorBoard forgets what earlier files of the run have beyond `step`."""
        if self.run is not None:
            self.events = EventWriter(self.run.path, step)

    def add(self, row: Row) -> None:
        self.waiting.append(row)
        if self.run is None:
            self.written, self.waiting = self.count, []
            return
        try:
            self._write_waiting()
        except OSError as error:
            self._warn(error)

    def _write_waiting(self) -> None:
        while self.waiting:
            row = self.waiting[0]
            self.run.append(row)
            self.waiting.pop(0)
            self.written += 1
            if self.events is not None:
                figures = {name: value for name, value in row.items() if name not in NOT_FIGURES}
                self.events.add_scalars(figures, row["step"])

    def _warn(self, error: OSError) -> None:
        if not self.warned:
            warnings.warn(
                f"{self.run.path}: figures cannot be written ({error}); they are kept in memory", stacklevel=4
            )
            self.warned = True

    def close(self) -> None:
        """Write what waits; if that fails it stays in memory, in the trainer's history."""
        try:
            if self.run is not None:
                self._write_waiting()
        except OSError as error:
            self._warn(error)
        for part in (self.events, self.run):
            if part is not None:
                part.close()
