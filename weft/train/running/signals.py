"""Ctrl-C at a good moment: a step is always finished, waiting is always broken off."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["Signals", "Terminated"]

CAUGHT = ("SIGINT", "SIGTERM")


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM)."""


class Signals:
    """Within `watching()` a first Ctrl-C (or SIGTERM) waits for the next `released()` part or `check()`.

    A second one acts at once. Elsewhere than in the main thread signals stay as they are.
    """

    def __init__(self) -> None:
        self.caught: int | None = None
        self.free = True
        self.safe = False  # whether an error came out of a released part: the state is that between two steps
        self.together = False  # of several ranks: only what all have agreed on ends the training
        self.agreed: int | None = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        self.caught, self.free, self.safe, self.agreed = None, False, False, None
        before = {}
        if threading.current_thread() is threading.main_thread():
            for name in CAUGHT:
                number = getattr(signal, name)
                before[number] = signal.signal(number, self._arrived)
        try:
            yield
        finally:
            self.free = True
            for number, handler in before.items():
                signal.signal(number, handler)

    def _arrived(self, number: int, frame: Any) -> None:
        if self.free or self.caught is not None:
            raise _error(number)
        self.caught = number

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """A part that may be broken off: nothing of the training changes in it."""
        try:
            self.check()
            self.free = not self.together
            yield
        except BaseException:
            self.safe = True
            raise
        finally:
            self.free = False

    def check(self) -> None:
        """Raise what was held back."""
        number = self.agreed if self.together else self.caught
        if number is not None:
            self.safe = True
            raise _error(number)


def _error(number: int) -> KeyboardInterrupt:
    return Terminated("SIGTERM") if number == signal.SIGTERM else KeyboardInterrupt()
