"""Where a tensor's memory lies. Only the CPU is here so far; the class keeps the spelling of PyTorch."""

from __future__ import annotations

from typing import Any

from .errors import ArgumentError, DeviceError

__all__ = ["CPU", "device"]


class device:  # PyTorch spells it in lower case
    """`weft.device('cpu')`; two devices are equal when their type and index are."""

    __slots__ = ("index", "type")

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index
        if not isinstance(type, str):
            raise ArgumentError(f"device: expected a name such as 'cpu', got {type!r}")
        name, _, number = type.partition(":")
        if number:
            if not number.isdigit():
                raise DeviceError(f"device: {type!r} has no valid index; write for example 'cpu' or 'cpu:0'")
            index = int(number)
        if name != "cpu":
            raise DeviceError(f"device: {name!r} is not available in this build; use device='cpu'")
        self.type, self.index = name, index

    def __repr__(self) -> str:
        return (
            f"device(type={self.type!r})" if self.index is None else f"device(type={self.type!r}, index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            other = device(other)
        return isinstance(other, device) and (self.type, self.index or 0) == (other.type, other.index or 0)

    def __hash__(self) -> int:
        return hash((self.type, self.index or 0))

    def __enter__(self) -> device:
        """`with weft.device('cpu'):` new tensors lie there, as everywhere."""
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.type, self.index))


CPU = device("cpu")
