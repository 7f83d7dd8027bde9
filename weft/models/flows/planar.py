"""Planar flow: space is stretched or pressed along one direction, at a plane (Rezende and Mohamed 2015, N1 def. 10.1)."""

from __future__ import annotations

import math
from typing import Any

import weft

from ... import nn
from ...tensor import Tensor
from .bijector import Bijector, Pair
from .univariate import increasing_root

__all__ = ["Planar"]

F = nn.functional


class Planar(Bijector):
    """y = z + û tanh(wᵀz + b),   log|det J| = log(1 + wᵀû (1 − tanh²(wᵀz + b)))

    û = u + (m(wᵀu) − wᵀu) w / ‖w‖² with m(a) = −1 + log(1 + eᵃ), so that wᵀû = m(wᵀu) > −1 and f can be inverted:
    wᵀz = a is the root of a + wᵀû tanh(a + b) = wᵀy, which increases in a. It starts with wᵀu = log(e − 1), where m = 0,
    and a small û: many maps after each other are then near the identity.

    context: 0, or the size of a context on which u, w and b depend linearly (an amortised posterior)
    Shape: (B, D) → (B, D), (B,)
    """

    def __init__(self, features: int, context: int = 0, dtype: Any = None) -> None:
        super().__init__()
        self.features, self.context = features, context
        self.values = nn.Parameter(_near_identity(features, dtype))  # u, w, b
        self.net = nn.Linear(context, 2 * features + 1, bias=False, dtype=dtype) if context else None

    def directions(self, context: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """û, w: (1 or B, D), and b: (1 or B,)"""
        values = self.values.unsqueeze(0) if self.net is None else self.values + self.net(context)
        u, w, b = values.split([self.features, self.features, 1], dim=1)
        along = (w * u).sum(1, keepdim=True)
        size = (w**2).sum(1, keepdim=True).clamp(min=weft.finfo(w.dtype).tiny)
        return u + (F.softplus(along) - 1 - along) * w / size, w, b.squeeze(1)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        u, w, b = self.directions(context)
        bend = weft.tanh((w * x).sum(1) + b)  # (B,)
        return x + u * bend.unsqueeze(1), weft.log1p((w * u).sum(1) * (1 - bend**2))

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        u, w, b = self.directions(context)
        k, target = (w * u).sum(1), (w * y).sum(1)

        def along(a: Tensor) -> Pair:
            bend = weft.tanh(a + b)
            return a + k * bend, 1 + k * (1 - bend**2)

        reach = k.abs() + 1e-6 * target.abs()
        a = increasing_root(along, target, target - reach, target + reach)
        bend = weft.tanh(a + b)
        return y - u * bend.unsqueeze(1), -weft.log1p(k * (1 - bend**2))

    def extra_repr(self) -> str:
        return f"{self.features}" + (f", context={self.context}" if self.context else "")


def _near_identity(features: int, dtype: Any) -> Tensor:
    """u, w, b with û = 0.1 N(0, 1) across w, and nothing along it."""
    w = weft.randn(features, dtype=dtype) / features**0.5
    along = w / (w @ w).clamp(min=weft.finfo(w.dtype).tiny)
    across = 0.1 * weft.randn(features, dtype=dtype)
    across = across - (across @ w) * along
    return weft.cat([across + math.log(math.e - 1) * along, w, 0.1 * weft.randn(1, dtype=dtype)])
