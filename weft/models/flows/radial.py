"""Radial flow: space is drawn to a point or pushed away from it (Rezende and Mohamed 2015, N1 def. 10.2)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...tensor import Tensor
from .bijector import Bijector, Pair

__all__ = ["Radial"]

F = nn.functional


class Radial(Bijector):
    """y = z + β h (z − c),  h = 1 / (α + r),  r = ‖z − c‖,  α > 0,  β = −α + log(1 + eᵗ) > −α

    log|det J| = (D − 1) log(1 + β h) + log(1 + α β h²)
    Inverse: R = ‖y − c‖ = r (1 + β / (α + r)) is a quadratic equation in r.

    context: 0, or the size of a context on which c, α and β depend
    Shape: (B, D) → (B, D), (B,)
    """

    def __init__(self, features: int, context: int = 0, dtype: Any = None) -> None:
        super().__init__()
        self.features, self.context = features, context
        self.values = nn.Parameter(0.1 * weft.randn(features + 2, dtype=dtype))  # c, before α, before β
        self.net = nn.Linear(context, features + 2, bias=False, dtype=dtype) if context else None

    def _placed(self, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """c (1 or B, D), α and β (1 or B, 1)"""
        values = self.values.unsqueeze(0) if self.net is None else self.values + self.net(context)
        center, width, push = values.split([self.features, 1, 1], dim=1)
        alpha = F.softplus(width)
        return center, alpha, F.softplus(push) - alpha

    def _volume(self, radius: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        h = 1 / (alpha + radius)
        return ((self.features - 1) * weft.log1p(beta * h) + weft.log1p(alpha * beta * h**2)).squeeze(1)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        center, alpha, beta = self._placed(context)
        away = x - center
        radius = _length(away)
        return x + beta / (alpha + radius) * away, self._volume(radius, alpha, beta)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        center, alpha, beta = self._placed(context)
        away = y - center
        far = _length(away)
        half = 0.5 * (far - alpha - beta)
        root = (half**2 + far * alpha).sqrt()
        # half + root without cancellation where half is negative
        radius = weft.where(half > 0, half + root, far * alpha / (root - half.clamp(max=0)))
        return center + away / (1 + beta / (alpha + radius)), -self._volume(radius, alpha, beta)

    def extra_repr(self) -> str:
        return f"{self.features}" + (f", context={self.context}" if self.context else "")


def _length(x: Tensor) -> Tensor:
    """‖x‖ with a finite slope at 0: (B, D) → (B, 1)"""
    return ((x**2).sum(1, keepdim=True) + weft.finfo(x.dtype).tiny).sqrt()
