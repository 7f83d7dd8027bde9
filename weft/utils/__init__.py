"""Small tools that many parts share: trees of containers, recomputation; PyTorch's place for data."""

from ..runtime.lazy import later as _later
from . import pytree

__all__ = ["checkpoint", "data", "pytree"]

__getattr__, __dir__ = _later(__name__, ("checkpoint", "data"))  # stands on the rest of Weft
