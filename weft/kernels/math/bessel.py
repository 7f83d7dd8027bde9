"""Bessel functions of order 0 and 1, and Airy's Ai, as vector code.

The modified ones are within a few ulp of the true value. J and Y are so relative to √(2/πx) or to their value,
whichever is larger: near their zeros only the absolute error is small.
"""

from __future__ import annotations

import math
from typing import Any

from . import bessel_tables as tables
from .tools import Tools

__all__ = ["Bessel"]


class Bessel(Tools):
    """The part of `Math` around Bessel's equation. Those of f32 go through f64."""

    # ------------------------------------------------------------------------------------ modified
    def bessel_i(self, x: Any, order: int, scaled: bool = False) -> Any:
        """Iₙ(x) for n = 0, 1; `scaled`: times e^−|x|."""
        kind, x = x.kind, self.cast(x, "f64")  # f32 has shorter polynomials
        size = self.abs(x)
        near = self.polynomial(size * size, tables.I_NEAR[kind][order])
        if order == 1:
            near = size * near
        far = self.polynomial(16.0 / size - 1.0, tables.I_FAR[kind][order]) / self.sqrt(size)
        if scaled:
            near = near * self.exp(-size)
        else:
            far = far * self._exp(size, -8) * 2.0**8  # eˣ overflows before Iₙ does
        y = self.select(size <= 8.0, near, far)
        return self.cast(self.copysign(y, x) if order == 1 else y, kind)

    def bessel_k(self, x: Any, order: int, scaled: bool = False) -> Any:
        """Kₙ(x) for n = 0, 1; `scaled`: times eˣ. ∞ at 0, NaN below."""
        if x.kind == "f32":
            return self.cast(self.bessel_k(self.cast(x, "f64"), order, scaled), "f32")
        square, logarithm = x * x, self.log(x) - math.log(2)
        near = self.polynomial(square, tables.K_REST[order])
        product = logarithm * self.polynomial(square, tables.K_LOG[order])
        near = near - product if order == 0 else 1.0 / x + x * (near + product)
        far = self.polynomial(1.0 - 4.0 / (x + 1.0), tables.K_FAR[order]) / self.sqrt(x)
        if scaled:
            near = near * self.exp(x)
        else:
            far = far * self.exp(-x)
        return self.select(x.eq(0.0), math.inf, self.select(x <= 1.0, near, far))

    # ---------------------------------------------------------------------------------- oscillating
    def bessel_j(self, x: Any, order: int) -> Any:
        """Jₙ(x) for n = 0, 1."""
        if x.kind == "f32":
            return self.cast(self.bessel_j(self.cast(x, "f64"), order), "f32")
        size = self.abs(x)
        p, q, sine, cosine = self._far_waves(size, order)
        y = self.select(size <= 8.0, self._bessel_j_near(size, order), p * cosine - q * sine)
        return self.flip_sign(y, x) if order == 1 else y

    def bessel_y(self, x: Any, order: int) -> Any:
        """Yₙ(x) for n = 0, 1; −∞ at 0, NaN below."""
        if x.kind == "f32":
            return self.cast(self.bessel_y(self.cast(x, "f64"), order), "f32")
        product = self.log(x) * self._bessel_j_near(x, order)
        rest = self.polynomial(x * x * (1 / 32) - 1.0, tables.Y_NEAR[order])
        near = product * (2 / math.pi) + (rest * x if order == 1 else rest)
        if order == 1:
            near = near - (2 / math.pi) / x  # finite for some x whose inverse is not
        p, q, sine, cosine = self._far_waves(x, order)
        y = self.select(x <= 8.0, near, p * sine + q * cosine)
        return self.select(x.eq(0.0), -math.inf, y)

    def spherical_bessel_j0(self, x: Any) -> Any:
        """sin x / x; 1 at 0, and 0 at ±∞."""
        y = self.select(self.isinf(x), 0.0, self.sin(x) / x)
        return self.select(x.eq(0.0), 1.0, y)

    def _bessel_j_near(self, x: Any, order: int) -> Any:
        """Jₙ(x) for 0 ≤ x ≤ 8."""
        square = x * x
        y = self.polynomial(square * (1 / 32) - 1.0, tables.J_NEAR[order])
        return x * y if order == 1 else 1.0 - square * y

    def _far_waves(self, x: Any, order: int) -> tuple[Any, Any, Any, Any]:
        """(p, q, s, c) for x ≥ 8, with Jₙ(x) = p c − q s and Yₙ(x) = p s + q c.

        p² + q² falls like 1/πx, and s, c are √2 times the sine and cosine of x − (n + ½) π/2.
        """
        inverse = 1.0 / x
        w = inverse * inverse * 128.0 - 1.0
        size = self.sqrt(inverse * (1 / math.pi))
        p = size * self.polynomial(w, tables.P[order])
        q = size * inverse * self.polynomial(w, tables.Q[order])
        sine, cosine = self.sin_cos(x)
        if order == 0:
            return p, q, sine - cosine, sine + cosine
        return p, q, -(sine + cosine), sine - cosine

    def airy_ai(self, x: Any) -> Any:
        """Airy's Ai(x), within 1e-14 of the result, or of its waves left of 0. NaN at ±∞.

        Left of −1e10 the waves are of the right size, but their phase would need more digits of ⅔ |x|^1.5.
        """
        if x.kind == "f32":
            return self.cast(self.airy_ai(self.cast(x, "f64")), "f32")
        size = self.abs(x)
        bounded = self.least(size, 1e200)
        zeta, rest = self._two_thirds(bounded, self.sqrt(bounded))
        near = self.polynomial((x + 1.5) * 0.4, tables.AIRY_NEAR)
        right = self.polynomial(1.0 - (10 / 3) / (zeta + 1.0), tables.AIRY_RIGHT) * self.exp(-zeta) * (1.0 - rest)
        sine, cosine = self.sin_cos(zeta)
        more = self._sine_and_cosine(self.select(zeta < 2.0**51, rest, 0.0))
        sine, cosine = sine * more[1] + cosine * more[0], cosine * more[1] - sine * more[0]
        inverse = 1.0 / zeta
        w = inverse * inverse * (512 / 9) - 1.0
        left = self.polynomial(w, tables.AIRY_P) * (sine + cosine)
        left = (left + inverse * self.polynomial(w, tables.AIRY_Q) * (sine - cosine)) * math.sqrt(0.5)
        far = self.select(x > 0.0, right, left) / self.sqrt(self.sqrt(size))
        return self.select(self.isinf(x), math.nan, self.select(self.abs(x + 1.5) <= 2.5, near, far))

    def _two_thirds(self, x: Any, root: Any) -> tuple[Any, Any]:
        """⅔ x √x as a sum of two numbers, for the rounded root of x."""
        product, lost = self.two_product(x, root)
        lost = lost + x * (self.fma(-root, root, x) / (root + root))
        zeta, rest = self.two_product(product, self.const("f64", 2 / 3, x.lanes))
        return zeta, rest + lost * (2 / 3) + product * 3.700743415417188e-17  # ⅔ less its rounded value
