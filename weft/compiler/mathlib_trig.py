"""Trigonometric functions and their inverses as vector code."""

from __future__ import annotations

import math
from typing import Any

from . import mathlib_tables as tables
from .mathlib_tools import FORMATS, Tools


class Trigonometry(Tools):
    """The part of `Math` around angles.

    Angles are reduced by multiples of π/2 in three parts: full accuracy for |x| ≤ 6e6 in f32 and 1e15 in f64 (1e6 on
    processors that cannot fuse products and sums). Beyond, results stay in [−1, 1] but mean nothing.
    """

    def _quadrant(self, size: Any) -> tuple[Any, Any]:
        """(q, r) with size = q π/2 + r, |r| ≤ π/4, for size ≥ 0; the lowest bits of the integer q count."""
        form = FORMATS[size.kind]
        shifted = size * (2 / math.pi) + form.shifter
        n = shifted - form.shifter
        q = self.bitcast(shifted, form.whole)
        if self.target.fma:
            r = size
            for part in tables.HALF_PI[size.kind]:
                r = self.fma(n, -part, r)
        else:
            r, n = self.cast(size, "f64"), self.cast(n, "f64")
            for part in tables.HALF_PI_SHORT:
                r = r - n * part
            r = self.cast(r, size.kind)
        return q, self.clamp(r, -0.79, 0.79)

    def _sine_and_cosine(self, r: Any) -> tuple[Any, Any]:
        """Of |r| ≤ π/4."""
        z = r * r
        sine = r + r * z * self.polynomial(z, tables.SIN[r.kind])
        cosine = 1.0 - (z * 0.5 - z * z * self.polynomial(z, tables.COS[r.kind]))
        return sine, cosine

    def _wave(self, q: Any, r: Any) -> Any:
        """sin(q π/2 + r)."""
        sine, cosine = self._sine_and_cosine(r)
        y = self.select((q & 1).ne(0), cosine, sine)
        sign = (q & 2) << (FORMATS[r.kind].width - 2)
        return self.bitcast(self.bitcast(y, q.kind) ^ sign, r.kind)

    def sin(self, x: Any) -> Any:
        """sin x; see the class for its range."""
        q, r = self._quadrant(self.abs(x))
        y = self._wave(q, r)
        form = FORMATS[x.kind]
        sign = self.bitcast(x, form.whole) & (1 << form.width - 1)
        return self.bitcast(self.bitcast(y, form.whole) ^ sign, x.kind)

    def cos(self, x: Any) -> Any:
        """cos x; see the class for its range."""
        q, r = self._quadrant(self.abs(x))
        return self._wave(q + 1, r)
