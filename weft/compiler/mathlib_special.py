"""The error function, the gamma function and their relatives as vector code."""

from __future__ import annotations

from typing import Any

from . import mathlib_tables as tables
from .mathlib_tools import FORMATS, Tools


class Special(Tools):
    """The part of `Math` that is called special functions."""

    def erf(self, x: Any) -> Any:
        """2/√π ∫₀ˣ exp(−t²) dt."""
        size = self.least(self.abs(x), 3.97)
        small = size + size * self.polynomial(size * size, tables.ERF_SMALL)
        shifter = FORMATS["f32"].shifter
        exponent = -self.polynomial(size, tables.ERF_LARGE)
        shifted = exponent + shifter
        r = exponent - (shifted - shifter)
        large = 1.0 - self.polynomial(r, tables.EXP2_SHORT) * self._two_to(shifted)
        return self.copysign(self.select(size < 0.99, small, large), x)
