"""Curves of a run as a picture."""

from __future__ import annotations

from collections.abc import Callable

from .runs import RunFolder


def draw_run(run: RunFolder, say: Callable[[str], None]) -> None:
    """curves.png in the run folder."""
