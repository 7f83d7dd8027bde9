"""Small tools that many parts share: trees of containers, recomputation."""

import importlib as _importlib
from typing import Any as _Any

from . import pytree

__all__ = ["checkpoint", "pytree"]


def __getattr__(name: str) -> _Any:
    """Modules that stand on the rest of Weft are loaded when they are asked for."""
    if name in __all__:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
