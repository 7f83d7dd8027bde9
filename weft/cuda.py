"""PyTorch's questions about graphics cards, answered for a machine without: scripts choose `cpu` by themselves."""

from __future__ import annotations

from typing import Any

from .device import device
from .errors import DeviceError
from .runtime.lazy import later as _later

__all__ = [
    "device_count",
    "empty_cache",
    "get_device_name",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "synchronize",
]


def is_available() -> bool:
    """Whether tensors can lie on a graphics card."""
    return False


def device_count() -> int:
    """How many graphics cards tensors can lie on."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed."""


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Nothing to empty."""


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors occupy on a graphics card."""
    return 0


max_memory_allocated = memory_allocated


def _refused(name: str) -> DeviceError:
    return DeviceError(f"cuda.{name}: no graphics card can be used in this build; ask weft.cuda.is_available() first")


def synchronize(device: device | str | int | None = None) -> None:
    """Refused: there is nothing to wait for."""
    raise _refused("synchronize")


def get_device_name(device: device | str | int | None = None) -> str:
    """Refused: there is no card with a name."""
    raise _refused("get_device_name")


__getattr__, __dir__ = _later(__name__)
