"""Inverse autoregressive flow: quick to draw from, the posterior of choice of variational autoencoders (Kingma et al. 2016)."""

from __future__ import annotations

from ...tensor import Tensor
from .bijector import Pair
from .masked import MaskedBijector

__all__ = ["IAF"]


class IAF(MaskedBijector):
    """xᵢ = μᵢ(z_<i) + σᵢ(z_<i) zᵢ: one pass to draw, D passes to find the z of an x.

    With the inverse map, `IAF(…, map=Affine().inv)`, and the weights of a `MAF`, it is that flow run backwards: to draw
    is there what to invert is here.
    Shape: (B, D) → (B, D), (B,)
    """

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        return self._at_once(x, context, self.map.forward)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        return self._one_by_one(y, context, self.map.inverse)
