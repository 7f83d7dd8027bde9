"""What a training shows: a live line in a terminal, one plain line an epoch elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from typing import Any

__all__ = ["Display", "LiveDisplay", "PlainDisplay", "make_display"]


class Display:
    """Shows nothing: the base of those that do."""

    def start(self, epochs: int | None) -> None:
        """Training begins; epochs: how many, if that is known."""

    def epoch(self, number: int, batches: int | None, done: int) -> None:
        """An epoch begins, `done` of its batches being done already."""

    def batch(self, number: int, samples: int, figures: dict[str, float]) -> None:
        """A batch of so many samples is done."""

    def row(self, row: dict[str, Any], shown: Collection[str]) -> None:
        """The figures of an epoch."""

    def say(self, text: str) -> None:
        """A message."""

    def close(self) -> None:
        """Training has ended."""


def make_display(wanted: bool | None) -> Display:
    """None: live in a terminal, else plain lines; True: always something; False: nothing."""
    if wanted is False:
        return Display()
    from rich.console import Console

    console = Console()
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


class PlainDisplay(Display):
    """One line an epoch."""

    def __init__(self, console: Any) -> None:
        self.console, self.epochs = console, None
        self.samples, self.began, self.ended = 0, time.perf_counter(), 0.0

    def start(self, epochs: int | None) -> None:
        self.epochs = epochs

    def epoch(self, number: int, batches: int | None, done: int) -> None:
        self.samples, self.began = 0, time.perf_counter()

    def batch(self, number: int, samples: int, figures: dict[str, float]) -> None:
        self.samples += samples
        self.ended = time.perf_counter()

    def row(self, row: dict[str, Any], shown: Collection[str]) -> None:
        self.say(line(row, shown, self.epochs, self.rate()))

    def rate(self) -> float:
        """Samples a second in this epoch's steps."""
        return self.samples / max(self.ended - self.began, 1e-9)

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


class LiveDisplay(PlainDisplay):
    """A bar for the batches of the epoch with loss, figures, samples a second and the time left."""

    def __init__(self, console: Any) -> None:
        super().__init__(console)
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self.task: Any = None
        self.begun, self.done = 0, 0  # batches of the epochs before, and of this one
        self.last = 0.0

    def start(self, epochs: int | None) -> None:
        super().start(epochs)
        self.progress.start()

    def epoch(self, number: int, batches: int | None, done: int) -> None:
        super().epoch(number, batches, done)
        if self.task is None:
            self.task = self.progress.add_task("", figures="", total=None)
        total = None if batches is None or self.epochs is None else batches * self.epochs
        self.begun, self.done = 0 if batches is None else number * batches, done
        of = "" if self.epochs is None else f"/{self.epochs}"
        self.progress.update(self.task, description=f"epoch {number + 1}{of}", total=total, completed=self.begun + done)

    def batch(self, number: int, samples: int, figures: dict[str, float]) -> None:
        super().batch(number, samples, figures)
        self.done = number
        now = time.perf_counter()
        if now - self.last < 0.1:
            return
        self.last = now
        text = "  ".join(f"{name} {short(value)}" for name, value in figures.items())
        self.progress.update(self.task, completed=self.begun + number, figures=f"{text}  {self.rate():,.0f} samples/s")

    def row(self, row: dict[str, Any], shown: Collection[str]) -> None:
        if self.task is not None:
            self.progress.update(self.task, completed=self.begun + self.done)
        super().row(row, shown)

    def say(self, text: str) -> None:
        self.progress.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        self.progress.stop()


def line(row: dict[str, Any], shown: Collection[str], epochs: int | None, rate: float) -> str:
    """An epoch as one line: losses first, then what is logged for the progress line."""
    names = [name for name in row if name.endswith("loss")]
    names += [name for name in row if name in shown and name not in names]
    figures = "  ".join(f"{name} {short(row[name])}" for name in names)
    of = "" if epochs is None else f"/{epochs}"
    return f"epoch {row['epoch'] + 1}{of}  {figures}  {rate:,.0f} samples/s  {row['seconds']:.1f} s"


def short(value: float) -> str:
    """A figure in four or five characters."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e3 or value == 0 else f"{value:.2e}"
