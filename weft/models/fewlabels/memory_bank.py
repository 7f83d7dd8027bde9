"""A queue of keys: negatives from earlier batches, more of them than a batch could hold (MoCo; He et al. 2020)."""

from __future__ import annotations

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tape.modes import no_grad
from ...tensor import Tensor

__all__ = ["MemoryBank"]


class MemoryBank(nn.Module):
    """The last `size` keys of length 1: the newest overwrite the oldest. They are random directions at first.

    bank: the keys (size, dim), in the order of their places; place: the row that is written next
    Shape of what `update` takes: (B, dim), B ≤ size

    >>> queue = MemoryBank(3, 2)
    >>> for key in ([1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]):
    ...     queue.update(weft.tensor([key]))
    >>> queue.ordered().tolist()
    [[0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
    """

    bank: Tensor
    place: Tensor

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        if size < 1 or dim < 1:
            raise OptionError(f"MemoryBank: expected size and dim of at least 1, got {size} and {dim}")
        self.size = size
        self.register_buffer("bank", nn.functional.normalize(weft.randn(size, dim), dim=-1))
        self.register_buffer("place", weft.tensor(0, dtype=weft.int64))

    def update(self, keys: Tensor) -> None:
        """Put keys in, the oldest out; they are scaled to length 1."""
        if keys.ndim != 2 or keys.shape[1] != self.bank.shape[1] or len(keys) > self.size:
            raise ShapeError(
                f"MemoryBank: expected at most {self.size} keys (B, {self.bank.shape[1]}), got {tuple(keys.shape)}"
            )
        with no_grad():
            rows = (self.place + weft.arange(len(keys))) % self.size
            self.bank.index_copy_(0, rows, nn.functional.normalize(keys.detach(), dim=-1))
            self.place.copy_((self.place + len(keys)) % self.size)

    def ordered(self) -> Tensor:
        """The keys from the oldest to the newest. (size, dim)"""
        return self.bank.roll(-int(self.place), 0)
