"""How a tensor is cut over ranks: its elements in order, equal parts, the last ones filled up with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..ops.collective.exchange import exchanged
from ..ops.create.create import zeros
from ..ops.shape.join import cat
from ..runtime.cluster.group import Group
from ..tensor import Tensor

__all__ = ["Cut", "gathered"]


@dataclass(frozen=True)
class Cut:
    """The part of one rank: elements low … high − 1 of a tensor of this shape, in `chunk` places."""

    shape: tuple[int, ...]
    rank: int
    size: int

    @property
    def numel(self) -> int:
        count = 1
        for n in self.shape:
            count *= n
        return count

    @property
    def chunk(self) -> int:
        return -(-self.numel // self.size)

    @property
    def low(self) -> int:
        return min(self.rank * self.chunk, self.numel)

    @property
    def high(self) -> int:
        return min(self.low + self.chunk, self.numel)

    def part(self, whole: Tensor) -> Tensor:
        """The elements of this rank, a view where the memory of the whole lies in order."""
        return whole.reshape(-1)[self.low : self.high]

    def filled(self, part: Tensor) -> Tensor:
        """The part in `chunk` places."""
        missing = self.chunk - (self.high - self.low)
        return part if not missing else cat([part, zeros(missing, dtype=part.dtype)])

    def whole(self, rows: Tensor) -> Tensor:
        """The tensor from the parts of all ranks, (size, chunk)."""
        return rows.reshape(-1)[: self.numel].reshape(self.shape)


def gathered(parts: Sequence[Tensor], cuts: Sequence[Cut], group: Group, option: Any = None) -> list[Tensor]:
    """Whole tensors of one type from the filled parts of all ranks, with one call for all of them."""
    rows = exchanged(cat(list(parts)), "all_gather", group, option)  # (ranks, places of all parts)
    found, start = [], 0
    for cut in cuts:
        found.append(cut.whole(rows[:, start : start + cut.chunk]))
        start += cut.chunk
    return found
