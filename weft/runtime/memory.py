"""Freed memory is kept for the next array: giving it back to the system and faulting it in again costs more than
most operations on a large array.

Only glibc's malloc is told so (`mallopt`), once, when Weft is imported; `WEFT_KEEP_MEMORY` gives the number of MiB that
may be kept (512 by default), 0 leaves malloc as it is.
"""

from __future__ import annotations

import ctypes
import platform

from .switches import switch

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt's numbers
_LARGEST_FROM_HEAP = 32 << 20  # glibc's own upper limit


def keep_freed_memory() -> bool:
    """Let malloc keep freed memory; False where there is nothing to tell or the user said no."""
    given = switch("WEFT_KEEP_MEMORY")
    kept = int(given) << 20 if given.isdigit() else 0
    if kept == 0 or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    bounded = min(kept, 2**31 - 1)
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_FROM_HEAP)) and bool(mallopt(_TRIM_THRESHOLD, bounded))
