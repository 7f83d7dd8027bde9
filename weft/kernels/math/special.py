"""The error function, its relatives and their inverses as vector code."""

from __future__ import annotations

import math
from typing import Any

from . import tables
from .tools import FORMATS, Tools

__all__ = ["Errors"]

ROOT_HALF = (0.7071067811865476, -4.833646656726457e-17)  # √½ and its rounding error


class Errors(Tools):
    """The part of `Math` around the normal distribution. What is not hot in f32 goes through f64."""

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

    # ------------------------------------------------------------------------------------ inverses
    def erfinv(self, x: Any) -> Any:
        """The y with erf y = x, for x in [−1, 1]; within 4 ulp."""
        size = self.abs(x)
        return self.copysign(self._inverse(size, 1.0 - size), x)

    def ndtri(self, p: Any) -> Any:
        """The quantile of the standard normal distribution, √2 erfinv(2p − 1), also for denormal p; 4 ulp in f64."""
        if p.kind == "f32":
            return self.cast(self.ndtri(self.cast(p, "f64")), "f32")
        low = p < 0.5
        beyond = 2.0 * self.select(low, p, 1.0 - p)
        y = math.sqrt(2) * self._inverse(1.0 - beyond, beyond)
        return self.select(low, -y, y)

    def _inverse(self, x: Any, beyond: Any) -> Any:
        """The y ≥ 0 with erf y = x, where beyond = 1 − x; ∞ for 0 beyond, NaN for less."""
        (above, below), centre = tables.ERFINV_NEAR[x.kind], tables.ERFINV_CENTRE[x.kind]
        left = 0.64 - x * x
        near = x * self.polynomial(left, above) / self.polynomial(left, below)
        r = self.sqrt(-self.log(beyond))
        far = r * self.polynomial((r - centre) / (r + centre), tables.ERFINV_FAR[x.kind])
        return self.select(beyond.eq(0.0), math.inf, self.select(x <= 0.8, near, far))
