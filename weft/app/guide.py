"""`weft` alone: where a new user begins, and where a returning one goes on."""

from __future__ import annotations

from .output import console, hint, labelled

__all__ = ["show"]

STEPS = (
    ("list", "what can be trained"),
    ("train digits-mlp", "train on digits that come with Weft"),
    ("show latest", "settings, figures, curves of that run"),
    ("predict latest --sample 7", "its answer for a test digit"),
    ("check digits-mlp", "is a set-up sound?"),
)


def show() -> None:
    """Print a short guided start."""
    from .. import __version__
    from ..train.runs import latest_run

    page = console()
    page.print(f"[bold]Weft {__version__}[/]: deep learning in pure Python. To begin:\n")
    page.print(labelled((hint(words), meaning) for words, meaning in STEPS))
    latest = latest_run()
    if latest is not None:
        page.print(f"\nYour latest run is {latest.path}.", markup=False)
    page.print(f"\n{hint('--help')} lists every command.", markup=False)
