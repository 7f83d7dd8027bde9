"""Small tools that many parts share: trees of containers, recomputation."""

from . import pytree

__all__ = ["pytree"]
