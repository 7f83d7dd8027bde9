"""Trigonometric functions and their inverses as vector code."""

from __future__ import annotations

import math
from typing import Any

from . import tables
from .angle import Angles
from .tools import FORMATS

__all__ = ["Trigonometry"]


class Trigonometry(Angles):
    """The part of `Math` around angles."""

    def _sine_and_cosine(self, r: Any, rest: Any = None) -> tuple[Any, Any]:
        """Of r + rest, |r| ≤ π/4, rest a small correction."""
        z = r * r
        more = r * z * self.polynomial(z, tables.SIN[r.kind])
        less = z * 0.5 - z * z * self.polynomial(z, tables.COS[r.kind])
        if rest is not None:
            more, less = more + rest, less + r * rest
        return r + more, 1.0 - less

    def _wave(self, q: Any, r: Any, rest: Any = None) -> Any:
        """sin(q π/2 + r + rest)."""
        return self._turned(q, *self._sine_and_cosine(r, rest))

    def _turned(self, q: Any, sine: Any, cosine: Any) -> Any:
        """sin(q π/2 + r) from the sine and cosine of r."""
        y = self.select((q & 1).ne(0), cosine, sine)
        sign = (q & 2) << (FORMATS[y.kind].width - 2)
        return self.bitcast(self.bitcast(y, q.kind) ^ sign, y.kind)

    def sin_cos(self, x: Any) -> tuple[Any, Any]:
        """(sin x, cos x) for x ≥ 0."""
        q, r = self._quadrant(x)
        waves = self._sine_and_cosine(r)
        return self._turned(q, *waves), self._turned(q + 1, *waves)

    def sin(self, x: Any) -> Any:
        """sin x for every x."""
        q, r = self._quadrant(self.abs(x))
        y = self._wave(q, r)
        return self.flip_sign(y, x)

    def cos(self, x: Any) -> Any:
        """cos x for every x."""
        q, r = self._quadrant(self.abs(x))
        return self._wave(q + 1, r)

    def tan(self, x: Any) -> Any:
        """tan x for every x."""
        q, r, rest = self._quadrant(self.abs(x), fine=True)  # what is lost of r would be doubled and more
        z = r * r
        more = r * z * self.polynomial(z, tables.TAN[x.kind])
        t = r + (more + (rest + rest * z))
        odd = (q & 1).ne(0)
        return self.flip_sign(self.select(odd, -1.0 / t, t), x)

    def sin_pi(self, x: Any) -> Any:
        """sin πx for every x."""
        return self._wave(*self._half_turns(x))

    def cos_pi(self, x: Any) -> Any:
        """cos πx for every x."""
        q, r, rest = self._half_turns(x)
        return self._wave(q + 1, r, rest)

    def _half_turns(self, x: Any) -> tuple[Any, Any, Any]:
        """(q, r, rest) with πx = q π/2 + r + rest up to whole turns, |r| ≤ π/4."""
        form, (half_pi, low, _) = FORMATS[x.kind], tables.HALF_PI[x.kind]
        turn = x - 2.0 * self.round_even(x * 0.5)  # in [−1, 1]
        n = self.round_even(turn + turn)
        left = turn - n * 0.5
        r, lost = self.two_product(left, self.const(x.kind, 2 * half_pi, x.lanes))
        return self.bitcast(n + form.shifter, form.whole), r, lost + left * (2 * low)

    def sinc(self, x: Any) -> Any:
        """sin πx / πx, and 1 at 0."""
        half_pi, low, _ = tables.HALF_PI["f64"]
        q, r, rest = self._half_turns(x)
        wide = self.clamp(self.cast(x, "f64"), -1e300, 1e300)
        wave = self.cast(self._wave(q, r, rest), "f64")
        angle, lost = self.two_product(wide, self.const("f64", 2 * half_pi, x.lanes))
        far = wave / angle
        if x.kind == "f64":
            far = far - far * ((lost + wide * (2 * low)) / angle)
        far = self.cast(far, x.kind)
        near = 1.0 + r * r * self.polynomial(r * r, tables.SIN[x.kind])
        return self.select(self.abs(x) <= 0.25, near, far)

    # ----------------------------------------------------------------------------------- inverses
    def _arc(self, size: Any) -> tuple[Any, Any, Any]:
        """(whether size ≤ ½, s, asin s − s) for s = size or else √((1 − size) / 2), size ≥ 0."""
        small = size <= 0.5
        z = self.select(small, size * size, 0.5 - size * 0.5)
        s = self.select(small, size, self.sqrt(z))
        return small, s, s * z * self.polynomial(z, tables.ASIN[size.kind])

    def asin(self, x: Any) -> Any:
        """The angle in [−π/2, π/2] whose sine is x."""
        high, low, _ = tables.HALF_PI[x.kind]
        small, s, more = self._arc(self.abs(x))
        rough = high - 2.0 * s
        lost = (high - rough) - 2.0 * s
        return self.copysign(self.select(small, s + more, rough - (2.0 * more - (low + lost))), x)

    def acos(self, x: Any) -> Any:
        """The angle in [0, π] whose cosine is x."""
        high, low, _ = tables.HALF_PI[x.kind]
        small, s, more = self._arc(self.abs(x))
        near = high - (self.copysign(s + more, x) - low)
        far = 2.0 * (s + more)
        return self.select(small, near, self.select(x < 0.0, 2 * high - (far - 2 * low), far))

    def _angle(self, y: Any, x: Any) -> Any:
        """atan(y / x) for y, x ≥ 0, not both 0 or ∞, whose sum is finite."""
        high, low, _ = tables.HALF_PI[y.kind]
        steep, middle = y > x * (math.sqrt(2) + 1), y > x * (math.sqrt(2) - 1)
        above = self.select(steep, -x, self.select(middle, y - x, y))
        below = self.select(steep, y, self.select(middle, y + x, x))
        t = above / below
        z = t * t
        small = t * z * self.polynomial(z, tables.ATAN[y.kind])
        base = self.select(steep, high, self.select(middle, self.const(y.kind, high / 2, y.lanes), 0.0))
        rest = self.select(steep, low, self.select(middle, self.const(y.kind, low / 2, y.lanes), 0.0))
        return base + (t + (small + rest))

    def atan(self, x: Any) -> Any:
        """The angle in (−π/2, π/2) whose tangent is x."""
        return self.copysign(self._angle(self.least(self.abs(x), 1e30), self.const(x.kind, 1.0, x.lanes)), x)

    def atan2(self, y: Any, x: Any) -> Any:
        """The angle of the point (x, y), in [−π, π], with the special cases of C."""
        y, x = self.pair(y, x)
        high, low, _ = tables.HALF_PI[y.kind]
        a, b = self.abs(y), self.abs(x)
        far_a, far_b = a.eq(math.inf), b.eq(math.inf)
        up, right = (
            self.select(far_a, 1.0, self.select(far_b, 0.0, a)),
            self.select(far_b, 1.0, self.select(far_a, 0.0, b)),
        )
        large = self.maximum(up, right) > 2.0 ** (FORMATS[y.kind].bias - 1)
        scale = self.select(large, self.const(y.kind, 0.25, y.lanes), 1.0)
        up, right = up * scale, right * scale
        angle = self._angle(up, self.select(up.eq(0.0) & right.eq(0.0), 1.0, right))
        angle = self.select(self.signbit(x), 2 * high - (angle - 2 * low), angle)
        return self.select(x.ne(x) | y.ne(y), x + y, self.copysign(angle, y))
