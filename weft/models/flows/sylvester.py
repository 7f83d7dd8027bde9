"""Sylvester flow: a planar flow with M directions instead of one (van den Berg et al. 2018)."""

from __future__ import annotations

import math
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .bijector import Bijector, Pair
from .univariate import increasing_root

__all__ = ["Sylvester"]

F = nn.functional
LEVEL = math.log(math.e - 1)  # where softplus is 1


class Sylvester(Bijector):
    """y = z + Q R tanh(R̃ Qᵀz + b),   log|det J| = Σₘ log(1 + Rₘₘ R̃ₘₘ (1 − tanh²(·)ₘ))

    Q: (D, M) with orthonormal columns, a product of M Householder reflections; R, R̃: (M, M) upper triangular. The diagonal
    of R̃ is free, that of R is such that Rₘₘ R̃ₘₘ > −1 and f can be inverted: a bend may be as sharp as it has to be, and
    stretch as much, which diagonals in (−1, 1) cannot. What is orthogonal to Q stays; along Q the system is triangular, and
    each of its M equations increases in its unknown.

    context: 0, or the size of a context on which R, R̃ and b depend linearly
    Shape: (B, D) → (B, D), (B,)
    """

    def __init__(self, features: int, directions: int | None = None, context: int = 0, dtype: Any = None) -> None:
        super().__init__()
        count = features if directions is None else directions
        if not 1 <= count <= features:
            raise OptionError(f"Sylvester: expected 1 to {features} directions, got {directions}")
        self.features, self.directions = features, count
        self.reflections = nn.Parameter(weft.randn(count, features, dtype=dtype))
        size = count * count
        self.values = nn.Parameter(0.1 * weft.randn(2 * size + count, dtype=dtype))  # R, R̃, b
        self.net = nn.Linear(context, 2 * size + count, bias=False, dtype=dtype) if context else None

    def basis(self) -> Tensor:
        """Q = H₁ … H_M [:, :M] with H = I − 2 v vᵀ / ‖v‖²: (D, M)"""
        q = weft.eye(self.features, dtype=self.values.dtype)[:, : self.directions]
        for v in reversed(self.reflections.unbind()):
            q = q - 2 * weft.outer(v, v @ q) / (v @ v)
        return q

    def _triangles(self, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """R, R̃: (1 or B, M, M), b: (1 or B, M)"""
        values = self.values.unsqueeze(0) if self.net is None else self.values + self.net(context)
        m = self.directions
        first, second, b = values.split([m * m, m * m, m], dim=1)
        outer, inner = first.unflatten(1, (m, m)), second.unflatten(1, (m, m))
        slope = 1 + inner.diagonal(dim1=1, dim2=2)
        product = F.softplus(outer.diagonal(dim1=1, dim2=2) + LEVEL) - 1  # > −1, and 0 for 0
        return _triangle(outer, product * slope / (1 + slope**2)), _triangle(inner, slope), b

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        q, (r, inner, b) = self.basis(), self._triangles(context)
        bend = weft.tanh((inner @ (x @ q).unsqueeze(2)).squeeze(2) + b)  # (B, M)
        return x + (r @ bend.unsqueeze(2)).squeeze(2) @ q.mT, _volume(r, inner, bend)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        q, (r, inner, b) = self.basis(), self._triangles(context)
        target, m = y @ q, self.directions  # (B, M)
        found: list[Tensor] = []  # coordinates along Q, from the last one on
        bends: list[Tensor] = []
        for row in reversed(range(m)):
            later = weft.stack(found[::-1], 1) if found else y[:, :0]
            bent = weft.stack(bends[::-1], 1) if bends else y[:, :0]
            start = b[:, row] + (inner[:, row, row + 1 :] * later).sum(1)
            goal = target[:, row] - (r[:, row, row + 1 :] * bent).sum(1)
            outer, slope = r[:, row, row], inner[:, row, row]
            root = increasing_root(_line(outer, slope, start), goal, goal - outer.abs(), goal + outer.abs())
            found.append(root)
            bends.append(weft.tanh(slope * root + start))
        bend = weft.stack(bends[::-1], 1)
        return y - (r @ bend.unsqueeze(2)).squeeze(2) @ q.mT, -_volume(r, inner, bend)

    def extra_repr(self) -> str:
        return f"{self.features}, {self.directions}"


def _triangle(square: Tensor, diagonal: Tensor) -> Tensor:
    """Upper triangular, with this diagonal: (…, M, M), (…, M)"""
    return square.triu(1) + diagonal.unsqueeze(-1) * weft.eye(square.shape[-1], dtype=square.dtype)


def _volume(r: Tensor, inner: Tensor, bend: Tensor) -> Tensor:
    both = r.diagonal(dim1=-2, dim2=-1) * inner.diagonal(dim1=-2, dim2=-1)
    return weft.log1p(both * (1 - bend**2)).sum(1)


def _line(outer: Tensor, slope: Tensor, start: Tensor) -> Any:
    """v ↦ v + R tanh(R̃ v + b) with its slope, for one coordinate of all rows."""

    def value(v: Tensor) -> Pair:
        bend = weft.tanh(slope * v + start)
        return v + outer * bend, 1 + outer * slope * (1 - bend**2)

    return value
