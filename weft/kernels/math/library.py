"""Functions that processors do not have, as vector code for 'f32' and 'f64', nearly all without branches.

Each is within 2 ulp of the true value over its whole range unless its docstring says otherwise, keeps NaN, the limits at
±∞ and the sign of zero, and handles denormal numbers (as far as the processor's mode does). Where ranges need different
formulas all are computed and one is selected.
"""

from __future__ import annotations

import math
from typing import Any

from .bessel import Bessel
from .exp import Exponentials
from .gamma import Gamma
from .orthogonal import Recurrences
from .special import Errors
from .tools import FORMATS, float_bits, literal_value
from .trig import Trigonometry

__all__ = ["Math"]


class Math(Exponentials, Trigonometry, Errors, Gamma, Bessel, Recurrences):
    """The mathematical functions of the builder `Function`; values in, values out."""

    def sqrt(self, x: Any) -> Any:
        """√x, correctly rounded."""
        return self.intrinsic("sqrt", x)

    def hypot(self, x: Any, y: Any) -> Any:
        """√(x² + y²) without overflow; ∞ if one is infinite, even beside NaN."""
        x, y = self.pair(x, y)
        if x.kind == "f32":
            a, b = self.cast(x, "f64"), self.cast(y, "f64")
            root = self.cast(self.sqrt(a * a + b * b), "f32")
        else:
            large = self.maximum(self.abs(x), self.abs(y))
            scale = self.select(large > 2.0**500, self.const("f64", 2.0**-600, x.lanes), 1.0)
            scale = self.select(large < 2.0**-400, 2.0**600, scale)
            a, b = x * scale, y * scale
            root = self.sqrt(a * a + b * b) / scale
        return self.select(self.isinf(x) | self.isinf(y), math.inf, root)

    # --------------------------------------------------------------------------- sign and rounding
    def abs(self, x: Any) -> Any:
        """|x|; the least integer is its own."""
        if x.is_float:
            return self.intrinsic("fabs", x)
        return self.select(x < 0, -x, x) if x.is_signed and x.kind != "i1" else x

    def copysign(self, x: Any, sign: Any) -> Any:
        """The magnitude of x with the sign of the other."""
        return self.intrinsic("copysign", *self.pair(x, sign))

    def signbit(self, x: Any) -> Any:
        """Whether the sign bit is set, as for −0.0; x < 0 for integers."""
        if not x.is_float:
            return x < 0
        return self.bitcast(x, FORMATS[x.kind].whole) < 0

    def sign(self, x: Any) -> Any:
        """−1, 0 or 1; NaN stays."""
        if x.kind == "i1":
            return x
        y = self.select(x > 0, self.const(x.kind, 1, x.lanes), self.select(x.eq(0), 0, x))
        return self.select(x < 0, -1, y) if x.is_signed or x.is_float else y

    def nextafter(self, x: Any, y: Any) -> Any:
        """The number next to x in the direction of y."""
        x, y = self.pair(x, y)
        form = FORMATS[x.kind]
        bits = self.bitcast(x, form.whole)
        away = (y > x) ^ (x < 0.0)  # from 0: the bits count up
        moved = self.bitcast(self.select(away, bits + 1, bits - 1), x.kind)
        smallest = self.copysign(self.bitcast(self.const(form.whole, 1, x.lanes), x.kind), y)
        moved = self.select(x.eq(0.0), smallest, moved)
        moved = self.select(x.eq(y), y, moved)
        return self.select(x.ne(x) | y.ne(y), x + y, moved)

    def frexp(self, x: Any) -> tuple[Any, Any]:
        """(m, e) with x = m 2ᵉ and ½ ≤ |m| < 1, both floats; (x, 0) where x is 0, infinite or NaN."""
        form = FORMATS[x.kind]
        sign, field = -1 << form.width - 1, ((1 << form.width - 1) - 1) & (-1 << form.fraction)
        bits = self.bitcast(x, form.whole)
        size = bits & ~sign
        small = size < 1 << form.fraction  # 0 or denormal: the bits are x in units of its smallest number
        normal = self.select(small, self.bitcast(self.cast(size, x.kind), form.whole), size)
        m = self.bitcast((normal & ~field) | float_bits(x.kind, 0.5) | (bits & sign), x.kind)
        e = ((normal & field) >> form.fraction) - (form.bias - 1)
        e = self.select(small, e - (form.bias - 1 + form.fraction), e)
        plain = size.eq(0) | (size >= field)
        return self.select(plain, x, m), self.cast(self.select(plain, 0, e), x.kind)

    def truncated(self, x: Any, unsigned: bool = False) -> Any:
        """A float as i64, or as u64; what does not fit gives some integer."""
        if not unsigned:
            return self.cast(x, "i64")
        large = x >= 2.0**63
        whole = self.cast(self.select(large, x - 2.0**63, x), "i64")
        return self.cast(self.select(large, whole ^ (1 << 63), whole), "u64")

    def floor(self, x: Any) -> Any:
        return self.intrinsic("floor", x) if x.is_float else x

    def ceil(self, x: Any) -> Any:
        return self.intrinsic("ceil", x) if x.is_float else x

    def trunc(self, x: Any) -> Any:
        return self.intrinsic("trunc", x) if x.is_float else x

    def round_even(self, x: Any) -> Any:
        """The nearest integer, halves to even."""
        return self.intrinsic("roundeven", x) if x.is_float else x

    # ------------------------------------------------------------------------------ classification
    def isnan(self, x: Any) -> Any:
        return x.ne(x) if x.is_float else self.const("i1", False, x.lanes)

    def isinf(self, x: Any) -> Any:
        return self.abs(x).eq(math.inf) if x.is_float else self.const("i1", False, x.lanes)

    def isfinite(self, x: Any) -> Any:
        return self.abs(x) < math.inf if x.is_float else self.const("i1", True, x.lanes)

    # ------------------------------------------------------------------------------------- extremes
    def _extreme(self, a: Any, b: Any, first: Any, nan_wins: bool) -> Any:
        """a where first(a, b), else b; a NaN wins over numbers or loses to them."""
        a, b = self.pair(a, b)
        chosen = self.select(first(a, b), a, b)  # b where one is NaN
        if not a.is_float:
            return chosen
        other = a if nan_wins else b
        known = literal_value(other)
        if known is not None and known == known:
            return chosen
        return self.select(other.ne(other), a, chosen)

    def maximum(self, a: Any, b: Any) -> Any:
        """The larger; NaN if one is NaN."""
        a, b = self._number_first(a, b)
        return self._extreme(a, b, lambda a, b: a > b, True)

    def minimum(self, a: Any, b: Any) -> Any:
        """The smaller; NaN if one is NaN."""
        a, b = self._number_first(a, b)
        return self._extreme(a, b, lambda a, b: a < b, True)

    def fmax(self, a: Any, b: Any) -> Any:
        """The larger; a number wins over NaN."""
        return self._extreme(a, b, lambda a, b: a > b, False)

    def fmin(self, a: Any, b: Any) -> Any:
        """The smaller; a number wins over NaN."""
        return self._extreme(a, b, lambda a, b: a < b, False)

    def _number_first(self, a: Any, b: Any) -> tuple[Any, Any]:
        """The constant, if there is one, first: then one instruction does."""
        a, b = self.pair(a, b)
        return (b, a) if literal_value(b) is not None else (a, b)

    # ------------------------------------------------------------------------------------- division
    def _safe_divisor(self, x: Any, y: Any) -> tuple[Any, Any]:
        """(divisor that never traps, where it replaces 0 or the −1 that overflows)."""
        special = y.eq(0)
        if x.is_signed:
            special = special | y.eq(-1)
        return self.select(special, 1, y), special

    def quotient(self, x: Any, y: Any) -> Any:
        """x / y rounded towards 0; for integers 0 where y is 0, and the least integer / −1 is itself."""
        x, y = self.pair(x, y)
        if x.is_float:
            return self.trunc(x / y)
        divisor, _ = self._safe_divisor(x, y)
        q = x // divisor
        if x.is_signed:
            q = self.select(y.eq(-1), -x, q)
        return self.select(y.eq(0), 0, q)

    def fmod(self, x: Any, y: Any) -> Any:
        """The remainder with the sign of x; for integers 0 where y is 0."""
        x, y = self.pair(x, y)
        if x.is_float:
            return self.exactly("frem", x, y)
        divisor, special = self._safe_divisor(x, y)
        return self.select(special, 0, x % divisor)

    def remainder(self, x: Any, y: Any) -> Any:
        """The remainder with the sign of y (Python's %); for integers 0 where y is 0."""
        x, y = self.pair(x, y)
        rest = self.fmod(x, y)
        if not x.is_float:
            if not x.is_signed:
                return rest
            wrong = rest.ne(0) & ((rest ^ y) < 0)
            return self.select(wrong, rest + y, rest)
        wrong = (rest < 0.0) ^ (y < 0.0)
        moved = self.select(wrong, rest + y, rest)
        return self.select(rest.eq(0.0), self.copysign(rest, y), moved)

    def floor_divide(self, x: Any, y: Any) -> Any:
        """⌊x / y⌋; x / y where y is 0.0, 0 where y is the integer 0."""
        x, y = self.pair(x, y)
        if x.is_float:
            return self._floor_divide_floats(x, y)
        q = self.quotient(x, y)
        if not x.is_signed:
            return q
        rest = self.fmod(x, y)
        wrong = rest.ne(0) & ((rest ^ y) < 0)
        return self.select(wrong, q - 1, q)

    def _floor_divide_floats(self, x: Any, y: Any) -> Any:
        """From the exact remainder, so that no rounding of x / y reaches an integer that is too large."""
        rest = self.fmod(x, y)
        ratio = x / y
        q = (x - rest) / y
        wrong = rest.ne(0.0) & ((rest < 0.0) ^ (y < 0.0))
        q = self.select(wrong, q - 1.0, q)
        near = self.floor(q)
        near = self.select(q - near > 0.5, near + 1.0, near)
        near = self.select(q.eq(0.0), self.copysign(self.const(x.kind, 0.0, x.lanes), ratio), near)
        return self.select(y.eq(0.0), ratio, near)

    # ---------------------------------------------------------------------------------------- shifts
    def _within(self, x: Any, count: Any) -> Any:
        """Whether a shift count is from 0 to the width − 1."""
        return self.cast(count, "u" + count.kind[1:]) < int(x.kind[1:])

    def shift_left(self, x: Any, count: Any) -> Any:
        """x · 2^count; 0 for counts outside the width, as in NumPy."""
        x, count = self.pair(x, count)
        within = self._within(x, count)
        return self.select(within, x << self.select(within, count, 0), 0)

    def shift_right(self, x: Any, count: Any) -> Any:
        """⌊x / 2^count⌋; 0 or −1 for counts outside the width, as in NumPy."""
        x, count = self.pair(x, count)
        within = self._within(x, count)
        if x.is_signed:
            return x >> self.select(within, count, int(x.kind[1:]) - 1)
        return self.select(within, x >> self.select(within, count, 0), 0)
