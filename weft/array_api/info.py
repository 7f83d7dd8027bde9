"""What this namespace can do, for programs that ask."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..device import CPU
from ..device import device as device_type
from ..dtypes import dtype, int64
from ..errors import InvalidValueError
from .array import check_device
from .types import KINDS, default_float


class NamespaceInfo:
    """The inspection functions of the standard."""

    def capabilities(self) -> dict[str, Any]:
        """What is supported that the standard leaves open."""
        most = next(n for n in (64, 32) if _supports(n))
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": most}

    def default_device(self) -> device_type:
        """The device of new arrays."""
        return CPU

    def devices(self) -> list[device_type]:
        """The devices there are."""
        return [CPU]

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtype]:
        """The element types of new arrays."""
        check_device(device)
        real = default_float()
        return {"real floating": real, "complex floating": real.to_complex(), "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, dtype]:
        """The element types, all or of the given kinds, by name."""
        check_device(device)
        names = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        unknown = [name for name in names if name not in KINDS]
        if unknown:
            raise InvalidValueError(f"dtypes: unknown kind {unknown[0]!r}; choose one of {', '.join(map(repr, KINDS))}")
        return {found.name: found for name in names for found in KINDS[name]}


def _supports(rank: int) -> bool:
    """Whether NumPy makes arrays of this many dimensions."""
    try:
        return np.empty((1,) * rank).ndim == rank
    except ValueError:
        return False


def __array_namespace_info__() -> NamespaceInfo:
    """The object with the inspection functions."""
    return NamespaceInfo()
