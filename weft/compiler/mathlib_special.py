"""The error function, the gamma function and their relatives as vector code."""

from __future__ import annotations

import math
from typing import Any

from . import mathlib_tables as tables
from .mathlib_tools import FORMATS, Tools

ROOT_HALF = (0.7071067811865476, -4.833646656726457e-17)  # √½ and its rounding error


class Special(Tools):
    """The part of `Math` that is called special functions. What is not hot in f32 goes through f64."""

    # ----------------------------------------------------------------------------- error functions
    def erf(self, x: Any) -> Any:
        """2/√π ∫₀ˣ exp(−t²) dt."""
        size = self.abs(x)
        small = size + size * self.polynomial(x * x, tables.ERF_SMALL[x.kind])
        if x.kind == "f64":
            return self.copysign(self.select(size < 0.75, small, 1.0 - self._erfc_tail(size)), x)
        shifter = FORMATS["f32"].shifter
        exponent = -self.polynomial(self.least(size, 3.97), tables.ERF_LARGE)
        shifted = exponent + shifter
        r = exponent - (shifted - shifter)
        large = 1.0 - self.polynomial(r, tables.EXP2_SHORT) * self._two_to(shifted)
        return self.copysign(self.select(size < 1.0, small, large), x)

    def erfc(self, x: Any) -> Any:
        """1 − erf x, accurate for large x."""
        if x.kind == "f32":
            return self.cast(self._erfc(self.cast(x, "f64"), None, short=True), "f32")
        return self._erfc(x, None)

    def ndtr(self, x: Any) -> Any:
        """The standard normal distribution function, ½ erfc(−x/√2), within 3 ulp in f64."""
        high, low = ROOT_HALF
        if x.kind == "f32":
            return self.cast(0.5 * self._erfc(self.cast(x, "f64") * -high, None, short=True), "f32")
        x = self.clamp(x, -40.0, 40.0)
        z, rest = self.two_product(x, self.const("f64", -high, x.lanes))
        return 0.5 * self._erfc(z, rest - x * low)

    def erfcx(self, x: Any) -> Any:
        """exp(x²) erfc x, within 3 ulp in f64."""
        if x.kind == "f32":
            return self.cast(self.erfcx(self.cast(x, "f64")), "f32")
        size = self.abs(x)
        y, y_low = self._erfcx_tail(self.clamp(size, 0.7, 1e200), tables.ERFCX)
        square, rest = self.two_product(self.least(size, 30.0), self.least(size, 30.0))
        grown = self.exp(square) * (1.0 + rest)
        small = grown * (1.0 - (size + size * self.polynomial(square, tables.ERF_SMALL["f64"])))
        y = self.select(size < 0.75, small, y + y_low)
        y = self.select(size > 1e100, (1 / math.sqrt(math.pi)) / size, y)
        return self.select(x < 0.0, 2.0 * grown - y, y)

    def log_ndtr(self, x: Any) -> Any:
        """log of the standard normal distribution function, accurate far to the left (within 4 ulp)."""
        if x.kind == "f32":
            return self.cast(self.log_ndtr(self.cast(x, "f64")), "f32")
        z = x * -ROOT_HALF[0]
        left = self.log(0.5 * self._erfcx_tail(self.clamp(z, 0.7, 1e300), tables.ERFCX)[0]) - x * 0.5 * x
        return self.select(x < -1.0, left, self.log1p(-self.ndtr(-x)))

    def _erfcx_tail(self, x: Any, coefficients: Any) -> tuple[Any, Any]:
        """exp(x²) erfc x for x ≥ 0.7 in f64, as a sum of two numbers."""
        h = self.polynomial((x - 3.0) / (x + 3.0), coefficients)
        double = x + x
        d = self.exactly("fadd", double, self.const("f64", 1.0, x.lanes))
        d_low = 1.0 - self.exactly("fsub", d, double)
        inverse = 1.0 / d
        q = self.exactly("fmul", h, inverse)
        return q, (self.fma(-q, d, h) - q * d_low) * inverse

    def _erfc_tail(self, x: Any, rest: Any = None, short: bool = False) -> Any:
        """erfc(x + rest) for x ≥ 0.7 in f64, rest a small correction."""
        x = self.clamp(x, 0.7, 28.0)
        square, lost = self.two_product(x, x)
        if rest is not None:
            lost = lost + 2.0 * x * rest
        q, q_low = self._erfcx_tail(x, tables.ERFCX_SHORT if short else tables.ERFCX)
        n, r, _ = self._reduced(-square)
        r = r - lost
        grown = r + r * r * self.polynomial(r, tables.EXP_SHORT if short else tables.EXP["f64"])
        e = self.exactly("fadd", self.const("f64", 1.0, x.lanes), grown)
        e_low = grown - (e - 1.0)
        return self.scaled(e * q + (e_low * q + e * q_low), n - FORMATS["f64"].shifter)

    def _erfc(self, x: Any, rest: Any, short: bool = False) -> Any:
        """erfc(x + rest) in f64; `short`: for results that are rounded to f32."""
        size = self.abs(x)
        tail = self._erfc_tail(size, None if rest is None else self.flip_sign(rest, x), short)
        more = x * self.polynomial(x * x, tables.ERF_SMALL["f64"])
        if rest is not None:
            more = more + rest * (2 / math.sqrt(math.pi))
        near = 1.0 - (x + more)
        return self.select(size < 0.75, near, self.select(x < 0.0, 2.0 - tail, tail))

    # ----------------------------------------------------------------------------- gamma functions
    def lgamma(self, x: Any) -> Any:
        """log |Γ(x)|; in f64 within 5 ulp for x > 0, and of the largest term of the reflection for x < 0."""
        if x.kind == "f32":
            return self.cast(self.lgamma(self.cast(x, "f64")), "f32")
        size = self.abs(x)
        small, large = size < 1.0, size >= 8.0
        a, factors = self._descended(size)
        product = self.const("f64", 1.0, x.lanes)
        for _, factor in factors:
            product = product * factor
        unit = a * (a - 1.0) * self.polynomial(a - 0.5, tables.LGAMMA)  # log Γ(1 + a)
        low = self.log(self.select(small | large, size, product))
        far = (size - 0.5) * (low - 1.0) + (0.5 * math.log(2 * math.pi) - 0.5)
        far = far + self.polynomial(1.0 / (size * size), tables.STIRLING) / size
        right = self.select(large, far, unit + self.select(small, -low, low))
        # Γ(x) Γ(−x) = −π / (x sin πx); for |x| < 1 the logarithms of x cancel
        turned = self.select(size < 1e-9, size, self.abs(self.sin_pi(size)) * (1 / math.pi))
        turned = self.select(small, turned, turned * size)
        left = -self.log(turned) - self.select(small, unit, right)
        y = self.select(x < 0.0, left, right)
        return self.select(self.isinf(x) | ((x <= 0.0) & self.floor(x).eq(x)), math.inf, y)

    def digamma(self, x: Any) -> Any:
        """ψ(x) = d log Γ(x) / dx; in f64 within 5 ulp for x > 0, and of the largest term of the reflection for x < 0."""
        if x.kind == "f32":
            return self.cast(self.digamma(self.cast(x, "f64")), "f32")
        size = self.abs(x)
        small = size < 1.0
        a, factors = self._descended(size)
        above, below = self.const("f64", 0.0, x.lanes), self.const("f64", 1.0, x.lanes)  # of the sum of 1 / factor
        for inside, factor in factors:
            above = self.select(inside, above * factor + below, above)
            below = below * factor
        zero, zero_low = tables.DIGAMMA_ZERO
        unit = ((a - zero) - zero_low) * self.polynomial(a - 0.5, tables.DIGAMMA)  # ψ(1 + a)
        inverse = 1.0 / size
        w = inverse * inverse
        far = self.log(size) - (0.5 * inverse + w * self.polynomial(w, tables.DIGAMMA_TAIL))
        right = self.select(size >= 8.0, far, unit + self.select(small, -inverse, above / below))
        # ψ(−x) = ψ(x) + 1/x + π / tan πx; for |x| < 1 the inverses of x cancel
        turn = self.sin_pi(size)
        left = self.select(small, unit, right + inverse) + math.pi * self.cos_pi(size) / turn
        y = self.select(x < 0.0, self.select(turn.eq(0.0), math.nan, left), right)
        return self.select(x.eq(0.0), self.copysign(self.const("f64", math.inf, x.lanes), -x), y)

    def _descended(self, size: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        """(a, factors) with size = 1 + a + a whole number and 0 ≤ a ≤ 1, for size < 8.

        The factors are size − 1, size − 2, … down to 1 + a: six pairs of a condition and a number, 1 where it fails.
        """
        a, factors = self.select(size < 1.0, size, size - 1.0), []
        for step in range(1, 7):
            inside = size >= step + 1.0
            factor = self.select(inside, size - float(step), 1.0)
            a = self.select(inside, factor - 1.0, a)
            factors.append((inside, factor))
        return a, factors
