"""The error function, the gamma function and their relatives as vector code."""

from __future__ import annotations

from typing import Any

from . import mathlib_tables as tables
from .mathlib_tools import Tools


class Special(Tools):
    """The part of `Math` that is called special functions."""

    def erf(self, x: Any) -> Any:
        """2/√π ∫₀ˣ exp(−t²) dt."""
        size = self.least(self.abs(x), 3.95)
        square = size * size
        p = self.polynomial(square, tables.ERF_P)
        y = self.least(size * p / self.polynomial(square, tables.ERF_Q), 1.0)
        return self.copysign(y, x)
