"""Where a tensor's memory lies. Only the CPU is here so far; the class keeps the spelling of PyTorch.

Programs name devices before they know whether they are there, so every kind that PyTorch has can be named. Whatever puts
a tensor somewhere asks `usable`, which refuses all but the CPU. `on_the_cpu` makes every name mean the CPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from .errors import ArgumentError, DeviceError

__all__ = ["CPU", "device", "on_the_cpu", "usable"]

KINDS = ("cpu", "cuda", "mps", "xpu", "meta", "mtia", "hpu", "xla", "vulkan", "ipu", "maia", "privateuseone")
_mapped: list[str] = []  # kinds of device that stand for the CPU now


class device:  # PyTorch spells it in lower case
    """`weft.device('cpu')`, `weft.device('cuda', 1)`; two devices are equal when their type and index are."""

    __slots__ = ("index", "type")

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index
        if isinstance(type, int) and not isinstance(type, bool) and index is None:  # PyTorch's number of a card
            type, index = "cuda", type
        if not isinstance(type, str):
            raise ArgumentError(f"device: expected a name such as 'cpu', got {type!r}")
        name, _, number = type.partition(":")
        if number:
            if not number.isdigit():
                raise DeviceError(f"device: {type!r} has no valid index; write for example 'cpu' or 'cpu:0'")
            index = int(number)
        if name not in KINDS:
            raise DeviceError(f"device: {name!r} is not a kind of device; there are 'cpu' and, by name, {KINDS[1:]}")
        self.type, self.index = ("cpu", None) if name in _mapped else (name, index)

    def __repr__(self) -> str:
        return (
            f"device(type={self.type!r})" if self.index is None else f"device(type={self.type!r}, index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            if other.partition(":")[0] not in KINDS:
                return False  # words such as 'auto' and 'npu' of programs that know more kinds
            other = device(other)
        return isinstance(other, device) and (self.type, self.index or 0) == (other.type, other.index or 0)

    def __hash__(self) -> int:
        return hash((self.type, self.index or 0))

    def __enter__(self) -> device:
        """`with weft.device('cpu'):` new tensors lie there, as everywhere."""
        return usable(self)

    def __exit__(self, *_: object) -> None:
        pass

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.type, self.index))


CPU = device("cpu")


def usable(place: Any) -> device:
    """The device of a name (None: the CPU), refused unless tensors can lie there."""
    found = CPU if place is None else device(place)
    if found.type != "cpu":
        raise DeviceError(
            f"device: {str(found)!r} is not available in this build; use device='cpu' (`weft run --cpu` does for programs)"
        )
    return found


@contextlib.contextmanager
def on_the_cpu(kinds: Sequence[str] = KINDS) -> Iterator[None]:
    """Within it these kinds of device (all, by default) mean the CPU: `device('cuda')` is `device('cpu')`."""
    before = list(_mapped)
    _mapped[:] = kinds
    try:
        yield
    finally:
        _mapped[:] = before
