"""From a traced function to native code.

`PIPELINE` is the way of a graph: every pass has a name, and the optional ones can be left out
(`weft.compile(fn, without=("fuse",))`) with the same results. The table of passes is in pipeline.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import later

if TYPE_CHECKING:
    from ..runtime.cache import CacheInfo
    from ..runtime.fallbacks import FallbackInfo
    from .compiled import compile
    from .pipeline import OPTIONAL, PIPELINE, build_plan

__all__ = ["OPTIONAL", "PIPELINE", "build_plan", "cache_clear", "cache_info", "compile", "fallback_info"]

__getattr__, __dir__ = later(
    __name__, names={"compiled": ("compile",), "pipeline": ("OPTIONAL", "PIPELINE", "build_plan")}
)


def cache_info() -> CacheInfo:
    """Where compiled kernels are kept on disk, how many there are, and how large they may become together."""
    from ..runtime import cache

    return cache.info()


def fallback_info() -> FallbackInfo:
    """How often eager code could not be compiled in this process and fell back on NumPy, and the last reasons."""
    from ..runtime import fallbacks

    return fallbacks.info()


def cache_clear() -> None:
    """Forget every kernel on disk; those that are in use stay in memory."""
    from ..runtime import cache

    cache.clear()
