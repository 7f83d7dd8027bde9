"""RealNVP: affine couplings whose halves change roles, with learned shuffles between (Dinh, Sohl-Dickstein and Bengio 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import Flow
from .bijector import Bijector
from .coupling import RowCoupling
from .linear import ActNorm
from .noise import Noise
from .univariate import Affine

__all__ = ["RealNVP"]


class RealNVP(Flow):
    """x₂ = z₂ ⊙ exp s(z₁) + t(z₁), the halves exchanged from one coupling to the next; actnorm between them.

    >>> import weft
    >>> RealNVP(2, (32,), couplings=4).sample(5).shape
    weft.Size([5, 2])
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (64, 64),
        couplings: int = 8,
        noise: Noise | None = None,
        *,
        context: int = 0,
        bound: float = 3.0,
        dtype: Any = None,
    ) -> None:
        maps: list[Bijector] = []
        for number in range(couplings):
            swap, map = bool(number % 2), Affine(bound)
            maps += [
                RowCoupling(features, hidden, map, swap=swap, context=context, dtype=dtype),
                ActNorm(features, dtype=dtype),
            ]
        super().__init__(maps, features if noise is None else noise, context=context, dtype=dtype)
