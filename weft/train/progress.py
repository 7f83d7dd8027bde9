"""What a training shows: a live line in a terminal, one plain line an epoch elsewhere.

Lines are chosen from richer and shorter forms by the width there is. Time spent compiling counts neither in rates nor in
the time that is left.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from ..runtime.notices import listening

__all__ = ["Display", "LiveDisplay", "PlainDisplay", "make_display"]

BAR_AT_MOST, BAR_AT_LEAST = 30, 6


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
    live = console.is_terminal and not console.is_dumb_terminal
    return LiveDisplay(console) if live else PlainDisplay(console)


class PlainDisplay(Display):
    """One line an epoch."""

    def __init__(self, console: Any) -> None:
        self.console, self.epochs = console, None
        self.clock = Clock()
        self._listening: Any = None

    def start(self, epochs: int | None) -> None:
        self.epochs = epochs
        self._listening = listening(self.compiling)
        self._listening.__enter__()

    def close(self) -> None:
        if self._listening is not None:
            self._listening.__exit__(None, None, None)
            self._listening = None

    def epoch(self, number: int, batches: int | None, done: int) -> None:
        self.clock.epoch()

    def batch(self, number: int, samples: int, figures: dict[str, float]) -> None:
        self.clock.batch(samples)

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Surrounds the compilation of a step: a pause for the clock."""
        with self.clock.pause():
            yield

    def row(self, row: dict[str, Any], shown: Collection[str]) -> None:
        self.say(line(row, shown, self.epochs, self.rate(), self.width()))

    def width(self) -> int | None:
        """Columns there are; None: as many as it takes."""
        return None

    def rate(self) -> float:
        """Samples a second in this epoch's steps."""
        return self.clock.rate()

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


class Clock:
    """Time in steps, without that of compiling: samples a second in this epoch, seconds a batch since the start."""

    def __init__(self) -> None:
        self.paused, self.pauses, self.depth = 0.0, 0.0, 0  # since when; seconds in all; pauses within pauses
        self.began = self.epoch_began = self.ended = time.perf_counter()
        self.batches, self.samples = 0, 0
        self.before = 0.0  # the rate of the epoch before

    def now(self) -> float:
        """Seconds on a clock that stands still in pauses."""
        return (self.paused if self.depth else time.perf_counter()) - self.pauses

    def epoch(self) -> None:
        self.before, self.samples, self.epoch_began = self.rate(), 0, self.now()
        if not self.batches:
            self.began = self.epoch_began

    def batch(self, samples: int) -> None:
        self.samples += samples
        self.batches += 1
        self.ended = self.now()

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        if not self.depth:
            self.paused = time.perf_counter()
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            if not self.depth:
                self.pauses += time.perf_counter() - self.paused

    def rate(self) -> float:
        """Samples a second in this epoch; before its first batch, in the one before."""
        return self.samples / max(self.ended - self.epoch_began, 1e-9) if self.samples else self.before

    def left(self, batches: int) -> float | None:
        """Seconds that so many batches will take, validations between them included; None: not known yet."""
        spent = self.now() - self.began
        return batches * spent / self.batches if self.batches and spent > 0.2 else None


class LiveDisplay(PlainDisplay):
    """Below the lines of epochs one that moves: a bar over all epochs, loss, samples a second and the time left."""

    def __init__(self, console: Any) -> None:
        super().__init__(console)
        from rich.live import Live

        self.number, self.batches = 0, None  # of the epoch; its batches
        self.begun, self.done = 0, 0  # batches of the epochs before, and of this one
        self.figures: dict[str, float] = {}
        self.live = Live(console=console, get_renderable=self._text, refresh_per_second=8, transient=True)

    def start(self, epochs: int | None) -> None:
        super().start(epochs)
        self.live.start()

    def epoch(self, number: int, batches: int | None, done: int) -> None:
        super().epoch(number, batches, done)
        self.number, self.batches = number, batches
        self.begun, self.done = 0 if batches is None else number * batches, done

    def batch(self, number: int, samples: int, figures: dict[str, float]) -> None:
        super().batch(number, samples, figures)
        self.done, self.figures = number, figures

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        with super().compiling():
            self.live.refresh()
            yield

    def width(self) -> int | None:
        return self.console.width

    def say(self, text: str) -> None:
        self.live.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        super().close()
        self.live.stop()

    def _text(self) -> Any:
        from rich.text import Text

        return Text(self.moving(self.console.width), no_wrap=True, overflow="crop", end="")

    def moving(self, width: int) -> str:
        """The line that moves, at most `width` characters."""
        head = _epoch_of(self.number, self.epochs)
        if self.clock.depth:
            return f"{head} compiling… {time.perf_counter() - self.clock.paused:.0f} s"[:width]
        total = None if self.batches is None or self.epochs is None else self.batches * self.epochs
        done = self.begun + self.done
        figures = [f"{name} {short(value)}" for name, value in self.figures.items()]
        rate = f"{compact(self.rate())} samples/s" if self.figures else ""
        count = f"{done:,}/{total:,}" if total else f"{done:,}"
        left = self.clock.left(total - done) if total else None
        time_left = "" if left is None else f"{clock_time(left)} left"
        forms = (
            [count, *figures, rate, time_left],
            [count, *figures[:1], rate, time_left],
            [*figures[:1], rate.replace(" samples", ""), time_left],
            [*figures[:1], time_left],
            [time_left],
        )
        return _with_bar(head, done / total if total else 0.0, forms, width)


def _with_bar(head: str, share: float, forms: Iterable[list[str]], width: int) -> str:
    """The richest form that leaves room for a bar."""
    for parts in forms:
        tail = "  ".join(part for part in parts if part)
        room = width - len(head) - len(tail) - 3
        if room >= BAR_AT_LEAST:
            break
    size = max(0, min(BAR_AT_MOST, room))
    return f"{head} {'━' * round(share * size):{'╌'}<{size}}  {tail}"[:width].rstrip()


def line(row: dict[str, Any], shown: Collection[str], epochs: int | None, rate: float, width: int | None = None) -> str:
    """An epoch as one line, losses first, then what is logged for the progress line: the richest form that fits."""
    names = [name for name in row if name.endswith("loss")]
    names += [name for name in row if name in shown and name not in names]
    head, ending = _epoch_of(row["epoch"], epochs), f"{row['seconds']:.1f} s"
    full = [f"{name} {short(row[name])}" for name in names]
    pairs = _paired(row, names, "{} {} (val {})", short)
    close = _paired(row, names, "{} {}/{}", brief)
    forms = [
        [*full, f"{rate:,.0f} samples/s", ending],
        [*pairs, f"{compact(rate)} samples/s", ending],
        [*pairs, f"{compact(rate)}/s", ending],
        [*pairs, ending],
        [*close, ending],
        *([*close[:count], *rest] for count in range(len(close), 0, -1) for rest in ([ending], [])),
        [],
    ]
    lines = ["  ".join([head, *parts]) for parts in forms]
    return next((text for text in lines if width is None or len(text) <= width), lines[-1][:width])


def _paired(row: dict[str, Any], names: list[str], form: str, number: Any) -> list[str]:
    """Figures of training and validation side by side; those without a partner under their own names."""
    found = []
    for name in names:
        stem, partner = name.removeprefix("train_"), name.replace("train_", "val_", 1)
        if name.startswith("train_") and partner in names:
            found.append(form.format(stem, number(row[name]), number(row[partner])))
        elif not (name.startswith("val_") and name.replace("val_", "train_", 1) in names):
            found.append(f"{name} {number(row[name])}")
    return found


def _epoch_of(number: int, epochs: int | None) -> str:
    """`epoch  3/40`, as wide for every epoch."""
    return f"epoch {number + 1}" if epochs is None else f"epoch {number + 1:>{len(str(epochs))}}/{epochs}"


def short(value: float) -> str:
    """A figure in four or five characters."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e3 or value == 0 else f"{value:.2e}"


def brief(value: float) -> str:
    """A figure in as few characters as tell something."""
    return f"{value:.3f}" if 1e-2 <= abs(value) < 1e3 or value == 0 else f"{value:.1e}"


def compact(number: float) -> str:
    """`987`, `12.3k`, `4.5M`."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def clock_time(seconds: float) -> str:
    """`0:07`, `12:34`, `1:02:03`, `5 days`."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 100:
        return f"{hours / 24:.0f} days"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
