"""Switches that PyTorch scripts set at their start; on one CPU they have one value, and others are refused."""

from __future__ import annotations

from typing import Any

from ..device import CPU, device, usable
from ..errors import OptionError

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_default_device",
    "get_float32_matmul_precision",
    "set_default_device",
    "set_float32_matmul_precision",
    "use_deterministic_algorithms",
]

_PRECISIONS = ("highest", "high", "medium")
_switches = {"deterministic": False, "precision": "highest"}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remembered only: every operation gives the same bits for the same inputs."""
    _switches["deterministic"] = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was told."""
    return _switches["deterministic"]


def set_float32_matmul_precision(precision: str) -> None:
    """Remembered only: products of float32 matrices are computed in float32."""
    if precision not in _PRECISIONS:
        raise OptionError(f"set_float32_matmul_precision: expected one of {_PRECISIONS}, got {precision!r}")
    _switches["precision"] = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was told."""
    return _switches["precision"]


def set_default_device(device_: Any) -> None:
    """Where new tensors lie; `None` is the CPU, and others are refused."""
    usable(device_)


def get_default_device() -> device:
    """Where new tensors lie."""
    return CPU
