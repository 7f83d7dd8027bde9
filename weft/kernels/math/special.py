"""The error function, its relatives and their inverses as vector code."""

from __future__ import annotations

import math
from typing import Any

from . import tables
from .tools import FORMATS, Tools

__all__ = ["Errors"]

ROOT_HALF = (0.7071067811865476, -4.833646656726457e-17)  # √½ and its rounding error
ROOT_TWO_LOW = -9.667293313452913e-17  # the rounding error of √2


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
        """log of the standard normal distribution function, accurate far to the left."""
        if x.kind == "f32":
            return self.cast(self.log_ndtr(self.cast(x, "f64")), "f32")
        far, p = x < -1.0, self.ndtr(-self.abs(x))
        tail = 0.5 * self._erfcx_tail(self.clamp(x * -ROOT_HALF[0], 0.7, 1e300), tables.ERFCX)[0]
        square = self.exactly("fmul", x * 0.5, x)  # fused or not it would depend on the number of lanes
        left = self.log(self.select(far, tail, p)) - self.select(far, square, 0.0)
        return self.select(x < 0.0, left, self.log1p(-p))

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
        if rest is not None:
            q_low = q_low + rest * (2.0 * x * q - 2 / math.sqrt(math.pi))
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
        """The y with erf y = x, for x in [−1, 1]."""
        if x.kind == "f32":
            wide = self.abs(self.cast(x, "f64"))
            return self.copysign(self.cast(self._inverse(wide, 1.0 - wide), "f32"), x)
        size = self.abs(x)
        y = self._inverse(size, 1.0 - size)
        return self.copysign(y - self._inverse_error(y, size, 1.0 - size), x)

    def ndtri(self, p: Any) -> Any:
        """The quantile of the standard normal distribution, √2 erfinv(2p − 1), also for denormal p."""
        wide = self.cast(p, "f64")
        low = wide < 0.5
        beyond = 2.0 * self.select(low, wide, 1.0 - wide)
        y = self._inverse(1.0 - beyond, beyond)
        if p.kind == "f32":
            y = math.sqrt(2) * y
            return self.cast(self.select(low, -y, y), "f32")
        error = self._inverse_error(y, 1.0 - beyond, beyond)
        low_part = self.select(y < math.inf, y * ROOT_TWO_LOW - error * math.sqrt(2), 0.0)
        y = self.fma(y, math.sqrt(2), low_part)
        return self.select(low, -y, y)

    def _inverse_error(self, y: Any, x: Any, beyond: Any) -> Any:
        """y less the number with erf y = x, for y near it, in f64: one step of Newton's method; 0 far out, where the
        numbers are denormal."""
        size = self.clamp(y, 0.0, 27.0)
        near = (size - x) + size * self.polynomial(size * size, tables.ERF_SMALL["f64"])
        off = self.select(size < 0.75, near, beyond - self._erfc_tail(size))
        error = off * (math.sqrt(math.pi) / 2) * self.exp(size * size)
        return self.select((beyond > 1e-290) & (beyond <= 1.0), error, 0.0)

    def _inverse(self, x: Any, beyond: Any) -> Any:
        """The y ≥ 0 with erf y = x, where beyond = 1 − x; ∞ for 0 beyond, NaN for less."""
        (above, below), centre = tables.ERFINV_NEAR[x.kind], tables.ERFINV_CENTRE[x.kind]
        left = 0.64 - x * x
        near = x * self.polynomial(left, above) / self.polynomial(left, below)
        r = self.sqrt(-self.log(beyond))
        far = r * self.polynomial((r - centre) / (r + centre), tables.ERFINV_FAR[x.kind])
        return self.select(beyond.eq(0.0), math.inf, self.select(x <= 0.8, near, far))
