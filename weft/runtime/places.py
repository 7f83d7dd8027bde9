"""Where runs lie: below `weft.train`, for the command line asks this at every key that completes and must not wait."""

from __future__ import annotations

import os
from pathlib import Path

from .switches import switch

__all__ = ["runs_folder"]


def runs_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """The folder that holds the runs: the one given, $WEFT_RUNS, or `runs` in the current folder."""
    return Path(given or switch("WEFT_RUNS"))
