"""Which local files are read: those whose digest is the published one, and others only where a person trusts them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from ...runtime.switches import switch
from .errors import DigestError, SourceWarning

__all__ = ["noting", "trusted"]

TRUTH = ("1", "true", "yes", "on")
_trusting: ContextVar[bool] = ContextVar("trusting", default=False)
_noted: ContextVar[list[Path] | None] = ContextVar("noted", default=None)


@contextlib.contextmanager
def trusted(wanted: bool = True) -> Iterator[None]:
    """Within, files that differ from the published ones are read, with a warning. WEFT_TRUST_DATA=1 does so everywhere.

    Example:
        >>> with weft.data.sources.trusted():  # doctest: +SKIP
        ...     data = weft.data.sources.MNIST("my-mnist")
    """
    token = _trusting.set(wanted or _trusting.get())
    try:
        yield
    finally:
        _trusting.reset(token)


@contextlib.contextmanager
def noting() -> Iterator[list[Path]]:
    """Within, every file of a set that is found goes into this list."""
    files: list[Path] = []
    token = _noted.set(files)
    try:
        yield files
    finally:
        _noted.reset(token)


def note(path: Path) -> None:
    """Tell whoever listens that this file is read."""
    files = _noted.get()
    if files is not None and path not in files:
        files.append(path)


def refuse(path: Path, canonical: str, algorithm: str, digest: str) -> None:
    """Raise for a file that is not the published one; where it is trusted, warn."""
    fault = f"{path} is not the canonical {canonical}: its {algorithm} is not {digest}"
    if _trusting.get() or switch("WEFT_TRUST_DATA").lower() in TRUTH:
        warnings.warn(f"{fault}; it is read nevertheless", SourceWarning, stacklevel=5)
        return
    raise DigestError(
        f"{fault}: it is damaged, or another file. Fetch it again, or use it as it is: --trust-data on the command line, "
        "`with weft.data.sources.trusted():` in Python, or WEFT_TRUST_DATA=1"
    )
