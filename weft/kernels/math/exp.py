"""Exponentials, logarithms, powers and hyperbolic functions as vector code."""

from __future__ import annotations

import math
from typing import Any

from . import tables
from .tools import FORMATS, Tools, float_bits, literal_value

__all__ = ["Exponentials"]


class Exponentials(Tools):
    """The part of `Math` around eˣ."""

    # ------------------------------------------------------------------------------ exponentials
    def _reduced(self, x: Any) -> tuple[Any, Any, Any]:
        """(n, r, rough) with x = n ln 2 + r, |r| ≤ ½ ln 2; n has the shifter added, rough is r without the second part."""
        shifter, (high, low) = FORMATS[x.kind].shifter, tables.LN2[x.kind]
        shifted = x * (1 / math.log(2)) + shifter
        n = shifted - shifter
        rough = x - n * high
        return shifted, rough - n * low, rough

    def _exp(self, x: Any, shift: int = 0) -> Any:
        """eˣ · 2^shift."""
        low, high = tables.EXP_RANGE[x.kind]
        n, r, _ = self._reduced(self.clamp(x, low, high - shift))
        y = self.polynomial(r, (1.0, 1.0, *tables.EXP[x.kind]))
        n = n - (FORMATS[x.kind].shifter - shift)
        return self.scaled(y, n)

    def exp(self, x: Any) -> Any:
        """eˣ."""
        return self._exp(x)

    def exp2(self, x: Any) -> Any:
        """2ˣ."""
        shifter = FORMATS[x.kind].shifter
        x = self.clamp(x, *tables.EXP2_RANGE[x.kind])
        n = (x + shifter) - shifter
        return self.scaled(self.polynomial(x - n, (1.0, *tables.EXP2[x.kind])), n)

    def expm1(self, x: Any) -> Any:
        """eˣ − 1, accurate near 0."""
        form, (_, low) = FORMATS[x.kind], tables.LN2[x.kind]
        n, r, rough = self._reduced(self.clamp(x, -2.0 * form.fraction, tables.EXP_RANGE[x.kind][1]))
        lost = (rough - r) - (n - form.shifter) * low
        grown = r + (r * r * self.polynomial(r, tables.EXP[x.kind]) + lost)  # eʳ − 1
        half = self._two_to(n, -1)  # 2ⁿ/2 is finite for every n
        y = (half * grown + (half - 0.5)) * 2.0
        return self.select(self.abs(x) < 2.0 ** -(form.fraction + 2), x, y)

    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + e⁻ˣ), also where it is denormal.

        With e⁻ˣ = 2ⁿ (1 + g) it is 1 / ((1 + 2ⁿ) + 2ⁿ g) for n < 0, and else 2⁻ⁿ / ((1 + 2⁻ⁿ) + g).
        """
        low, _ = tables.EXP_RANGE[x.kind]
        shifted, r, _ = self._reduced(-self.clamp(x, low, -low))
        n = shifted - FORMATS[x.kind].shifter
        falling = n < 0.0
        grown = r + r * r * self.polynomial(r, tables.EXP[x.kind])
        scale = self.scaled(self.const(x.kind, 1.0, x.lanes), -self.abs(n))
        y = 1.0 / (1.0 + (scale + self.select(falling, grown * scale, grown)))
        return self.scaled(y, self.select(falling, 0.0, -n))

    def tanh(self, x: Any) -> Any:
        """sinh x / cosh x; 1 − 2 / (e²ˣ + 1) away from 0."""
        size, square = self.abs(x), x * x
        small = size + size * square * self.polynomial(square, tables.TANH[x.kind])
        n, r, _ = self._reduced(self.least(size + size, float(FORMATS[x.kind].fraction)))
        grown = r + r * r * self.polynomial(r, tables.EXP[x.kind])
        scale = self._two_to(n)
        large = 1.0 - 2.0 / (scale * grown + (scale + 1.0))
        return self.copysign(self.select(size < 0.55, small, large), x)

    def sinh(self, x: Any) -> Any:
        """(eˣ − e⁻ˣ) / 2."""
        size = self.abs(x)
        half = self._exp(size, -1)
        large = half - 0.25 / half
        small = size + size * (x * x) * self.polynomial(x * x, tables.SINH[x.kind])
        return self.copysign(self.select(size < 1.0, small, large), x)

    def cosh(self, x: Any) -> Any:
        """(eˣ + e⁻ˣ) / 2."""
        half = self._exp(self.abs(x), -1)
        return half + 0.25 / half

    # -------------------------------------------------------------------------------- logarithms
    def _split(self, x: Any) -> tuple[Any, Any, Any]:
        """(e, m, bits) with x = 2ᵉ m, m in [√½, √2), for positive finite x; e is a float, bits has it as an exponent."""
        form = FORMATS[x.kind]
        small = x < form.tiny
        x = self.select(small, x * 2.0**form.fraction, x)
        bits = self.bitcast(x, form.whole)
        root = float_bits(x.kind, math.sqrt(0.5))
        above = (bits - root) & (-1 << form.fraction)  # e in the place of the exponent
        m = self.bitcast(bits - above, x.kind)
        e = self.cast(above >> form.fraction, x.kind)
        return self.select(small, e - float(form.fraction), e), m, above

    def _log_tail(self, f: Any) -> Any:
        """log(1 + f) − f for 1 + f in [√½, √2)."""
        if f.kind == "f32":
            return f * f * (f * self.polynomial(f, tables.LOG["f32"]) - 0.5)
        half = f * f * 0.5
        s = f / (f + 2.0)
        z = s * s
        return s * (half + z * self.polynomial(z, tables.LOG["f64"])) - half

    def _log_limits(self, y: Any, x: Any) -> Any:
        """Logarithm y of x with its values where x is 0, negative, infinite or NaN."""
        y = self.select(x < math.inf, y, x)
        y = self.select(x.eq(0.0), -math.inf, y)
        return self.select(x < 0.0, math.nan, y)

    def log(self, x: Any) -> Any:
        """The natural logarithm."""
        (high, low), (e, m, _) = tables.LN2[x.kind], self._split(x)
        f = m - 1.0
        y = e * high + (f + (e * low + self._log_tail(f)))
        return self._log_limits(y, x)

    def _log_base(self, x: Any, base: dict[str, Any]) -> Any:
        (high, low), (scale, rest) = base[x.kind]
        e, m, _ = self._split(x)
        f = m - 1.0
        y = e * high + (f * scale + (f * rest + self._log_tail(f) * scale + e * low))
        return self._log_limits(y, x)

    def log2(self, x: Any) -> Any:
        """The logarithm to base 2."""
        return self._log_base(x, tables.BASE_2)

    def log10(self, x: Any) -> Any:
        """The logarithm to base 10."""
        return self._log_base(x, tables.BASE_10)

    def log1p(self, x: Any) -> Any:
        """log(1 + x), accurate near 0."""
        return self._log1p(x, None)

    def _log1p(self, x: Any, rest: Any) -> Any:
        """log(1 + x + rest), rest a correction far smaller than x."""
        form, (high, low) = FORMATS[x.kind], tables.LN2[x.kind]
        u, lost = self.two_sum(x, self.const(x.kind, 1.0, x.lanes))
        if rest is not None:
            lost = lost + rest
        e, m, above = self._split(u)
        above = self.intrinsic("smin", above, form.one_bits)
        scale = self.bitcast(form.one_bits - above, x.kind)  # 2⁻ᵉ, 0 where nothing was lost
        f = (m - 1.0) + lost * scale
        y = e * high + (f + (e * low + self._log_tail(f)))
        y = self._log_limits(y, u)
        return self.select(self.abs(x) < 2.0 ** -(form.fraction + 2), x, y)

    def _log1p_to_one(self, x: Any) -> Any:
        """log(1 + x) = 2 atanh s for x in [0, 1], where s = x / (2 + x) and so 2 s = x − s x."""
        s = x / (x + 2.0)
        square = s * s
        return x - s * (x - square * self.polynomial(square, tables.ATANH_THIRD[x.kind]))

    def logaddexp(self, x: Any, y: Any) -> Any:
        """log(eˣ + eʸ) without overflow; near its zeros only the absolute error is small."""
        x, y = self.pair(x, y)
        total = self.maximum(x, y) + self._log1p_to_one(self.exp(-self.abs(x - y)))
        return self.select(x.eq(y) & self.isinf(x), x, total)

    def logaddexp2(self, x: Any, y: Any) -> Any:
        """log₂(2ˣ + 2ʸ) without overflow; near its zeros only the absolute error is small."""
        x, y = self.pair(x, y)
        more = self._log1p_to_one(self.exp2(-self.abs(x - y)))
        total = self.maximum(x, y) + self.exactly("fmul", more, self.const(x.kind, 1 / math.log(2), x.lanes))
        return self.select(x.eq(y) & self.isinf(x), x, total)

    def xlogy(self, x: Any, y: Any) -> Any:
        """x log y, and 0 where x is 0 (unless y is NaN)."""
        x, y = self.pair(x, y)
        return self.select(x.eq(0.0) & y.eq(y), 0.0, x * self.log(y))

    def xlog1py(self, x: Any, y: Any) -> Any:
        """x log(1 + y), and 0 where x is 0 (unless y is NaN)."""
        x, y = self.pair(x, y)
        return self.select(x.eq(0.0) & y.eq(y), 0.0, x * self.log1p(y))

    # ------------------------------------------------------------------- inverse hyperbolic functions
    def asinh(self, x: Any) -> Any:
        """The inverse of sinh."""
        size = self.abs(x)
        more = size * size / (1.0 + self.sqrt(1.0 + size * size))
        return self.copysign(self._log_of_sum(size, more, size), x)

    def acosh(self, x: Any) -> Any:
        """The inverse of cosh on [1, ∞)."""
        t = x - 1.0
        return self.select(x < 1.0, math.nan, self._log_of_sum(self.sqrt(t * t + (t + t)), t, x))

    def _log_of_sum(self, a: Any, b: Any, x: Any) -> Any:
        """log(1 + a + b) for a ≥ b ≥ 0; log 2x where x is large."""
        large = x > 2.0 ** (FORMATS[x.kind].fraction + 2)
        total = self.exactly("fadd", a, b)
        rest = b - self.exactly("fsub", total, a)
        y = self._log1p(self.select(large, x, total), self.select(large, 0.0, rest))
        return self.select(large, y + math.log(2), y)

    def atanh(self, x: Any) -> Any:
        """The inverse of tanh on (−1, 1)."""
        size = self.abs(x)
        double = size + size
        y = 0.5 * self.log1p(double + double * size / (1.0 - size))
        return self.copysign(self.select(size > 1.0, math.nan, y), x)

    # ------------------------------------------------------------------------------------ powers
    def rsqrt(self, x: Any) -> Any:
        """1 / √x."""
        return 1.0 / self.sqrt(x)

    def reciprocal(self, x: Any) -> Any:
        """1 / x."""
        return 1.0 / x

    def pow(self, x: Any, y: Any) -> Any:
        """xʸ with the special cases of C; a few constant exponents become products and roots."""
        x, y = self.pair(x, y)
        if not x.is_float:
            return self._integer_power(x, y)
        short = self._short_power(x, literal_value(y))
        if short is not None:
            return short
        size = self.abs(x)
        power = self._power_in_f64(size, y) if x.kind == "f32" else self._power_in_pairs(size, y)
        whole = self.trunc(y).eq(y)
        halved = y * 0.5
        odd = whole & self.trunc(halved).ne(halved)
        negative = self.signbit(x)
        power = self.select((x < 0.0) & (size < math.inf) & ~whole, math.nan, power)
        power = self.select(negative & odd, -power, power)
        power = self.select(x.ne(x) | y.ne(y), x + y, power)
        one = x.eq(1.0) | y.eq(0.0) | (size.eq(1.0) & self.isinf(y))
        return self.select(one, 1.0, power)

    def _short_power(self, x: Any, exponent: float | None) -> Any:
        """x to one of the exponents that need no logarithm; None for others."""
        if exponent == 0:
            return self.const(x.kind, 1.0, x.lanes)
        if exponent == 1:
            return x
        if exponent == 2:
            return x * x
        if exponent == 3:
            return x * x * x
        if exponent in (0.5, -0.5):  # for −0.0 and −∞ as the root is, like PyTorch
            return self.sqrt(x) if exponent > 0 else self.rsqrt(x)
        if exponent in (-1, -2):
            return self._short_power(1.0 / x, -exponent)
        return None

    def _power_in_f64(self, size: Any, y: Any) -> Any:
        """|x|ʸ of f32 through f64, whose exponent range and precision leave nothing to correct."""
        wide, y = self.cast(size, "f64"), self.cast(y, "f64")
        form, (high, low) = FORMATS["f64"], tables.LN2["f64"]
        bits = self.bitcast(wide, "i64")
        above = (bits - float_bits("f64", math.sqrt(0.5))) & (-1 << form.fraction)
        f = self.bitcast(bits - above, "f64") - 1.0
        e = self.cast(self.cast(above >> form.fraction, "i32"), "f64")
        s = f / (f + 2.0)
        z = s * s
        logarithm = e * (high + low) + s * (2.0 + z * self.polynomial(z, tables.LOG_SHORT))
        logarithm = self.select(wide.eq(0.0), -math.inf, logarithm)
        logarithm = self.select(wide.eq(math.inf), math.inf, logarithm)
        n, r, _ = self._reduced(self.clamp(y * logarithm, -200.0, 200.0))
        power = self.polynomial(r, (1.0, 1.0, *tables.EXP_SHORT)) * self._two_to(n)
        return self.cast(power, "f32")

    def _power_in_pairs(self, size: Any, y: Any) -> Any:
        """|x|ʸ of f64 with the logarithm and its product with y carried as sums of two numbers."""
        form = FORMATS["f64"]
        total, error = self._log_in_pairs(size)
        exponent = self.clamp(y, -1e25, 1e25)
        product, product_low = self.two_product(total, exponent)
        product_low = product_low + error * exponent
        outside = self.abs(product) > 800.0
        product_low = self.select(outside, 0.0, product_low)
        product = self.clamp(product, -800.0, 800.0)
        n, r, _ = self._reduced(product)
        power = self.polynomial(r + product_low, (1.0, 1.0, *tables.EXP["f64"]))
        power = self.scaled(power, n - form.shifter)
        falling = y < 0.0
        power = self.select(size.eq(0.0), self.select(falling, self.const("f64", math.inf, y.lanes), 0.0), power)
        return self.select(size.eq(math.inf), self.select(falling, self.const("f64", 0.0, y.lanes), math.inf), power)

    def _log_in_pairs(self, x: Any) -> tuple[Any, Any]:
        """log x of positive finite f64 as a sum of two numbers."""
        high, low = tables.LN2["f64"]
        e, m, _ = self._split(x)
        f = m - 1.0
        denominator, rest = self.two_sum(m, self.const("f64", 1.0, m.lanes))
        inverse = 1.0 / denominator
        s = f * inverse
        s_low = (self.fma(-s, denominator, f) - s * rest) * inverse
        z, z_low = self.two_product(s, s)
        z_low = z_low + s * s_low * 2.0
        cube, cube_low = self.two_product(z, s)  # s³
        cube_low = cube_low + (z_low * s + z * s_low)
        third, third_low = self.two_product(cube, self.const("f64", 2 / 3, m.lanes))
        third_low = third_low + (cube_low * (2 / 3) + cube * 3.700743415417188e-17)
        tail = third_low + cube * z * self.polynomial(z, tables.LOG_LONG)
        total, error = self.two_sum(e * high, s * 2.0)
        total, more = self.two_sum(total, third)
        error = error + (more + (s_low * 2.0 + tail + e * low))
        return self.two_sum(total, error)

    def _integer_power(self, x: Any, y: Any) -> Any:
        """xⁿ by repeated squaring, wrapping around; 1 / xⁿ rounded towards 0 for n < 0."""
        exponent = literal_value(y)
        if exponent is not None and 0 <= exponent < 64:
            return self._fixed_power(x, int(exponent))
        one = self.const(x.kind, 1, x.lanes)
        if not x.is_signed:
            return self._squared(x, y, one)
        power = self._squared(x, self.abs(y), one)
        inverse = self.select(self.abs(x).eq(1), power, 0)
        return self.select(y < 0, inverse, power)

    def _fixed_power(self, x: Any, n: int) -> Any:
        result = None
        while n:
            if n & 1:
                result = x if result is None else result * x
            n >>= 1
            if n:
                x = x * x
        return self.const(x.kind, 1, x.lanes) if result is None else result

    def _squared(self, x: Any, n: Any, one: Any) -> Any:
        """xⁿ over the bits of n."""
        with self.loop(0, int(x.kind[1:]), carry=[one, x, n], runs=True) as bits:
            result, base, left = bits.carry
            taken = self.select((left & 1).ne(0), result * base, result)
            shifted = self.binary("lshr", left, 1)
            bits.next([taken, base * base, shifted])
        return bits.results[0]
