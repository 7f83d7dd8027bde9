"""Small tools that many parts share: trees of containers, recomputation."""

from ..runtime.lazy import later as _later
from . import pytree

__all__ = ["checkpoint", "pytree"]

__getattr__, __dir__ = _later(__name__, ("checkpoint",))  # stands on the rest of Weft
