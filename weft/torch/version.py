"""The version that programs see."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["VERSION", "VERSIONS", "TorchVersion"]


class TorchVersion(str):
    """A version as text that compares by its numbers: `torch.__version__ >= '1.5.0'`, `>= (1, 10)`.

    >>> TorchVersion("2.13.0") >= "2.9"
    True
    """

    def _numbers(self) -> tuple[int, ...]:
        return _numbers(str(self))

    def __lt__(self, other: Any) -> bool:
        return _compared(self, other) < 0

    def __le__(self, other: Any) -> bool:
        return _compared(self, other) <= 0

    def __gt__(self, other: Any) -> bool:
        return _compared(self, other) > 0

    def __ge__(self, other: Any) -> bool:
        return _compared(self, other) >= 0

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) if isinstance(other, TorchVersion) else _compared(self, other) == 0

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _numbers(version: Any) -> tuple[int, ...]:
    """(2, 13, 0) of '2.13.0+weft', of (2, 13) and of a version object; what follows the numbers is left out."""
    if isinstance(version, (tuple, list)):
        parts = [int(part) for part in version if str(part).isdigit()]
    else:
        found = re.match(r"\s*v?(\d+(?:\.\d+)*)", str(version))
        parts = [int(part) for part in found.group(1).split(".")] if found else []
    return (*parts, *(0 for _ in range(3 - len(parts))))


def _compared(one: Any, other: Any) -> int:
    a, b = _numbers(one), _numbers(other)
    return (a > b) - (a < b)


VERSION = TorchVersion("2.13.0+weft")
VERSIONS = {"torchvision": TorchVersion("0.28.0+weft"), "torchaudio": TorchVersion("2.13.0+weft")}
