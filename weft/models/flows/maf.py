"""Masked autoregressive flow: quick densities, MADE's conditionals stacked (Papamakarios, Pavlakou and Murray 2017, N1 §10.4)."""

from __future__ import annotations

from ...tensor import Tensor
from .bijector import Pair
from .masked import MaskedBijector

__all__ = ["MAF"]


class MAF(MaskedBijector):
    """xᵢ = μᵢ(x_<i) + σᵢ(x_<i) zᵢ: one pass for the density, D passes to draw.

    One of them with normal noise is a MADE with normal conditionals.
    Shape: (B, D) → (B, D), (B,)
    """

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        return self._one_by_one(x, context, self.map.forward)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        return self._at_once(y, context, self.map.inverse)
