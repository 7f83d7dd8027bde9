"""Checkpoints of a run as they are asked for, written between two steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from .checkpoint import Tree, write_checkpoints
from .runs import RunFolder


class Saver:
    """Collects wishes for checkpoints and writes them when the state is whole.

    A full disk costs the checkpoint that is being written, never an older one: there is a warning, training goes on, and
    `error` holds what was wrong until a later one succeeds.
    """

    def __init__(self, run: RunFolder | None, state: Callable[[], Tree]) -> None:
        self.run, self.state = run, state
        self.wanted: list[str] = []
        self.unwanted: list[str] = []
        self.error: OSError | None = None
        self.last: tuple[int, int] | None = None  # (epoch, batch) of the checkpoint that is `last` now

    def want(self, name: str) -> None:
        """Write this one at the next opportunity."""
        if name not in self.wanted:
            self.wanted.append(name)

    def drop(self, name: str) -> None:
        """Remove this one after the next is written."""
        self.unwanted.append(name)

    def write(self) -> None:
        """Write what is wanted."""
        names, self.wanted = self.wanted, []
        if self.run is None or not names:
            return
        tree = self.state()
        place = tree["position"]["epoch"], tree["position"]["batch"]
        names = [name for name in names if name != "last" or place != self.last]
        try:
            if names:
                write_checkpoints(tree, self.run.checkpoints, [self.run.checkpoint(name).name for name in names])
            for name in self.unwanted:
                self.run.checkpoint(name).unlink(missing_ok=True)
        except OSError as error:
            self.error = error
            warnings.warn(
                f"{self.run.checkpoints}: the checkpoint at step {tree['position']['step']} could not be written "
                f"({error.strerror or error}); the earlier ones are whole, training goes on",
                stacklevel=4,
            )
            return
        self.last = place if "last" in names else self.last
        self.unwanted, self.error = [], None
