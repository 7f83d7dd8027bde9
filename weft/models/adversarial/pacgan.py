"""PacGAN: a discriminator that judges several draws together sees when they are all alike (Lin et al. 2018)."""

from __future__ import annotations

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor

__all__ = ["Packed"]


class Packed(nn.Module):
    """Scores of packs: m examples that follow each other, joined along their first dimension, are one input of D.

    A generator that draws one mode of many shows it in every pack. The packed densities p^m and q^m differ more the more
    modes are missing, whatever the loss.

    discriminator: (B / m, m · C, …) → scores. Shape: (B, C, …) → (B / m,) or (B / m, 1)

    >>> Packed(nn.Linear(4, 1), 2)(weft.zeros(6, 2)).shape
    weft.Size([3, 1])
    """

    def __init__(self, discriminator: nn.Module, pack: int) -> None:
        super().__init__()
        if pack < 1:
            raise OptionError(f"Packed: expected pack, examples judged together, to be at least 1, got {pack}")
        self.discriminator, self.pack = discriminator, pack

    def forward(self, x: Tensor) -> Tensor:
        if len(x) % self.pack:
            raise ShapeError(f"Packed: a batch of {len(x)} examples cannot be put into packs of {self.pack}")
        return self.discriminator(x.reshape(len(x) // self.pack, self.pack * x.shape[1], *x.shape[2:]))
