"""The memory behind tensors, seen from outside: its address, its size, who shares it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["Storage", "owner_of"]


class Storage:
    """The block of memory that a tensor and all its views share; made on demand by `untyped_storage()`."""

    def __init__(self, tensor: Tensor) -> None:
        self._root = tensor._base if tensor._base is not None else tensor
        self._owner = owner_of(self._root._window())
        self.start, end = np.lib.array_utils.byte_bounds(self._owner)
        self._size = end - self.start if self._owner.size else 0

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self.start

    def nbytes(self) -> int:
        return self._size

    size = __len__ = nbytes

    def tolist(self) -> list[int]:
        """The bytes, in the order of memory."""
        return list(np.frombuffer(self._owner.tobytes("A"), np.uint8))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and other.start == self.start and other._size == self._size

    def __hash__(self) -> int:
        return hash(self.start)

    def __repr__(self) -> str:
        return f"<weft.Storage of {self._size} bytes at {self.start:#x}>"


def owner_of(array: np.ndarray) -> np.ndarray:
    """The array at the end of the chain of NumPy views."""
    while True:
        base = array.base
        if not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)  # as_strided puts a holder between the view and its array
        if not isinstance(base, np.ndarray):
            return array
        array = base
