"""What can go wrong between a set and its files; what is wrong inside a file is in `weft.io.errors`."""

from __future__ import annotations

import importlib
from typing import Any

from ...errors import WeftError

__all__ = ["DigestError", "DownloadError", "MissingExtraError", "SourceError", "SourceWarning", "extra"]


class SourceError(WeftError, FileNotFoundError):
    """A file of a set is in none of the folders; the message says which file is to be put where."""


class DownloadError(WeftError, OSError):
    """A file could not be fetched; what has arrived is kept and the next attempt continues there."""


class DigestError(DownloadError):
    """A fetched file is not the one its project publishes; it has been removed."""


class MissingExtraError(WeftError, ImportError):
    """A format needs a library that is not installed."""


class SourceWarning(UserWarning):
    """A file was read although its digest is not that of the canonical one."""


def extra(module: str, name: str, purpose: str) -> Any:
    """Import an optional library, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(f"{purpose} needs {package}: pip install 'weft[{name}]'") from error
