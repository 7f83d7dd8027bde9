"""What can go wrong between a set and its files; what is wrong inside a file is in `weft.io.errors`."""

from __future__ import annotations

from ...errors import WeftError
from ...runtime.extras import MissingExtraError

__all__ = ["DigestError", "DownloadError", "MissingExtraError", "SourceError", "SourceWarning"]


class SourceError(WeftError, FileNotFoundError):
    """A file of a set is in none of the folders; the message says which file is to be put where."""


class DownloadError(WeftError, OSError):
    """A file could not be fetched; what has arrived is kept and the next attempt continues there."""


class DigestError(DownloadError):
    """A file is not the one its project publishes: a fetched one has been removed, a local one is refused."""


class SourceWarning(UserWarning):
    """A file was read although its digest is not that of the canonical one."""
