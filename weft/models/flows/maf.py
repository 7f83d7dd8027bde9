"""Masked autoregressive flow: quick densities, MADE's conditionals stacked (Papamakarios, Pavlakou and Murray 2017, N1 §10.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tensor import Tensor
from .base import Flow
from .bijector import Bijector, Pair
from .linear import BatchNorm, Permutation
from .masked import MaskedBijector
from .univariate import Univariate

__all__ = ["MAF", "MaskedAutoregressiveFlow"]


class MAF(MaskedBijector):
    """xᵢ = μᵢ(x_<i) + σᵢ(x_<i) zᵢ: one pass for the density, D passes to draw.

    One of them with normal noise is a MADE with normal conditionals.
    Shape: (B, D) → (B, D), (B,)
    """

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        return self._one_by_one(x, context, self.map.forward)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        return self._at_once(y, context, self.map.inverse)


class MaskedAutoregressiveFlow(Flow):
    """Several of them, the order of the elements turned around in between; with batch normalisation between, as in the paper.

    >>> import weft
    >>> MaskedAutoregressiveFlow(6, (16,), transforms=3).log_prob(weft.zeros(2, 6)).shape
    weft.Size([2])
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (64, 64),
        transforms: int = 5,
        map: Univariate | None = None,
        *,
        batch_norm: bool = True,
        context: int = 0,
        dtype: Any = None,
        **options: Any,
    ) -> None:
        maps: list[Bijector] = []
        for number in range(transforms):
            maps += [Permutation(features)] if number else []
            maps += [MAF(features, hidden, map, context=context, dtype=dtype, **options)]
            maps += [BatchNorm(features, dtype=dtype)] if batch_norm else []
        super().__init__(maps, features, context=context, dtype=dtype)
