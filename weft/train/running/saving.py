"""Checkpoints of a run as they are asked for, written between two steps, at a small share of the time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...tensor import Tensor
from ...utils.pytree import tree_leaves, tree_map
from .. import parts
from ..checkpoint import Tree, savable, write_checkpoints
from ..runs import RunFolder

__all__ = ["Saver"]

SHARE = 0.02  # of the time that goes into checkpoints: making a file durable can take longer than an epoch
SMALL = 1 << 26  # bytes of a state that may be kept in memory for a while instead


class Saver:
    """Collects wishes for checkpoints and writes them when the state is whole.

    Where epochs are so short that `last` and `best` would take more than a `SHARE` of the time, some of `last` are left
    out and `best` waits in memory; what is urgent (the end, Ctrl-C, an error) writes all. A killed training loses at
    most 1 / SHARE times what writing takes. A file that the user names is always written.

    A full disk costs the checkpoint that is being written, never an older one: there is a warning, training goes on, and
    `error` holds what was wrong until a later one succeeds.
    """

    def __init__(self, run: RunFolder | None, state: Callable[[], Tree], ranks: Any = None) -> None:
        self.run, self.state, self.ranks = run, state, ranks
        self.together: Path | None = None  # where several ranks write
        self.named: dict[str, str] = {}  # which parts the checkpoints of this session name
        if ranks is not None and ranks.size > 1:
            self.together = ranks.told(None if run is None else run.checkpoints)
        self.wanted: list[str] = []
        self.unwanted: list[str] = []
        self.held: Tree | None = None  # the best state that is not in a file yet
        self.urgent = False
        self.ready = 0.0  # when the next one may be written
        self.error: OSError | None = None
        self.last: tuple[int, int] | None = None  # (epoch, batch) of the checkpoint that is `last` now

    @property
    def keeps(self) -> bool:
        """Whether checkpoints are written, by this process or with it."""
        return self.run is not None or self.together is not None

    def want(self, name: str, urgent: bool = False) -> None:
        """Write this one at the next opportunity; urgent: and all that waits."""
        self.urgent = self.urgent or urgent
        if name not in self.wanted:
            self.wanted.append(name)

    def drop(self, name: str) -> None:
        """Remove this one after the next is written."""
        self.unwanted.append(name)

    def write(self, urgent: bool = False) -> None:
        """Write what is wanted, unless it can wait."""
        names, self.wanted = self.wanted, []
        urgent, self.urgent = urgent or self.urgent, False
        if self.together is not None:
            self._write_together(names, urgent)
            return
        if self.run is None or not (names or (urgent and self.held)):
            return
        tree = self.state() if names else None
        if not urgent and set(names) <= {"last", "best"} and time.monotonic() < self.ready and self._hold(tree, names):
            return
        start = time.monotonic()
        if self.held is not None and "best" not in names:
            self._write(self.held, ["best"])
        if names:
            self._write(tree, names)
        now = time.monotonic()
        self.ready = 0.0 if self.error else now + (now - start) * (1 / SHARE - 1)

    def _write_together(self, names: list[str], urgent: bool) -> None:
        """Of several ranks: all of them save at the same steps, those that rank 0 chooses; what is cut, each its part."""
        if not names:
            return
        begin = time.monotonic()
        if not self.ranks.told(urgent or names != ["last"] or begin >= self.ready):
            return
        tree = self.state()
        names = self.ranks.told(self._new(tree, names))
        if not names:
            return
        tree = parts.write(tree, self.together, self.ranks)
        if self.run is not None:
            removed, before = list(self.unwanted), self.named.get("last")
            self._write(tree, names)
            for name in removed:
                self.named.pop(name, None)
            folder = str(tree.get("parts", {}).get("folder", ""))
            for name in names:
                self.named[name] = folder
            if "last" in names and before is not None:
                self.named["previous"] = before
            self._remove_parts()
        now = time.monotonic()
        self.ready = now + (now - begin) * (1 / SHARE - 1)

    def _new(self, tree: Tree, names: list[str]) -> list[str]:
        """Those of the names that do not stand for this place already."""
        place = tree["position"]["epoch"], tree["position"]["batch"]
        return [name for name in names if name != "last" or place != self.last]

    def _remove_parts(self) -> None:
        """Let go of parts that nothing names; checkpoints of earlier sessions are read once to know theirs."""
        for path in self.run.checkpoints.glob("*.weft"):
            if path.stem not in self.named:
                self.named[path.stem] = parts.folder_of(path)
        parts.remove_unused(self.run.checkpoints, set(self.named.values()))

    def _hold(self, tree: Tree, names: list[str]) -> bool:
        """Keep the best state in memory instead of a file; False: it is too large."""
        if "best" not in names:
            return True
        tree = savable(tree)
        if sum(x.nbytes for x in tree_leaves(tree) if isinstance(x, Tensor)) > SMALL:
            return False
        self.held = tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, tree)
        return True

    def _write(self, tree: Tree, names: list[str]) -> None:
        place = tree["position"]["epoch"], tree["position"]["batch"]
        names = self._new(tree, names)
        try:
            if names:
                self.run.flush()
                write_checkpoints(tree, self.run.checkpoints, [self.run.checkpoint(name).name for name in names])
            for name in self.unwanted:
                self.run.checkpoint(name).unlink(missing_ok=True)
        except OSError as error:
            self.error = error
            warnings.warn(
                f"{self.run.checkpoints}: the checkpoint at step {tree['position']['step']} could not be written "
                f"({error.strerror or error}); the earlier ones are whole, training goes on",
                stacklevel=5,
            )
            return
        self.last = place if "last" in names else self.last
        self.held = None if "best" in names else self.held
        self.unwanted, self.error = [], None
