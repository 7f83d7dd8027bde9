"""What can be wrong with a file: one class for each fault, all of them `FileFormatError`.

Every message names the file, what was expected and what was found. A file that raises one of these has loaded nothing.
"""

from __future__ import annotations

import pickle

from ..errors import WeftError

__all__ = [
    "ArchiveError",
    "ByteOrderError",
    "FileFormatError",
    "HeaderError",
    "LayoutError",
    "MagicError",
    "MissingStorageError",
    "OversizeError",
    "TruncatedError",
    "UnsafeNameError",
    "UnsafePickleError",
]


class FileFormatError(WeftError, RuntimeError, ValueError):
    """The root of everything that can be wrong with the contents of a file."""


class MagicError(FileFormatError):
    """The file is of another kind than the one asked for."""


class TruncatedError(FileFormatError):
    """The file ends before what it announces."""


class HeaderError(FileFormatError):
    """The description of the contents is not well formed."""


class LayoutError(FileFormatError):
    """The described tensors do not fit the bytes: wrong shape, overlap, gap, a window outside its storage."""


class ByteOrderError(FileFormatError):
    """The file was written on a big-endian machine."""


class ArchiveError(FileFormatError):
    """A zip archive that is damaged or not built the way PyTorch builds it."""


class OversizeError(FileFormatError):
    """The file announces far more than it can hold (as a decompression bomb does)."""


class UnsafeNameError(FileFormatError):
    """A name inside an archive points outside of it."""


class MissingStorageError(FileFormatError, KeyError):
    """A tensor refers to a storage that the file does not contain."""

    __str__ = Exception.__str__


class UnsafePickleError(FileFormatError, pickle.UnpicklingError):
    """A pickle asks for something other than tensors and plain containers; nothing of it was run."""
