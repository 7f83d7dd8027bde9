"""What `torch` itself has beyond Weft's names."""

from __future__ import annotations

from typing import Any

from ...errors import ConditionError
from ..version import VERSION as __version__
from ..version import TorchVersion

__all__ = ["TorchVersion", "__version__"]


def _assert(condition: Any, message: str) -> None:
    """`assert`, as a function."""
    if not condition:
        raise ConditionError(message)
