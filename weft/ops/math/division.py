"""Quotients rounded to integers, remainders, and the divisors and multiples that integers share."""

from __future__ import annotations

import numpy as np

from ...dtypes import FLOAT, INTEGER
from ...errors import DivisionError
from ..core.pointwise import Elementwise
from ..core.primitive import register_module

__all__ = ["FLOOR_DIVIDE", "TRUNC_DIVIDE"]

NUMERIC = (INTEGER, FLOAT)


def _integer_zero_guard(name: str, other: np.ndarray) -> None:
    if other.dtype.kind in "iub" and (other == 0).any():
        raise DivisionError(f"{name}: ZeroDivisionError: integer division by zero; mask the zeros out first")


class Remainder(Elementwise):
    """x − other · ⌊x / other⌋: the remainder with the sign of the divisor (Python's %)."""

    cost = 60
    categories = NUMERIC

    def reference(self, x, other):
        _integer_zero_guard("remainder", other)
        return np.remainder(x, other)

    def lower(self, f, x, other):
        return f.remainder(x, other)

    def vjp(self, g, y, x, other):
        return lambda: g, lambda: -g * (x / other).floor()


class Fmod(Elementwise):
    """The remainder with the sign of the dividend (C's fmod)."""

    cost = 60
    numbers = "second"
    categories = NUMERIC

    def reference(self, x, other):
        _integer_zero_guard("fmod", other)
        return np.fmod(x, other)

    def lower(self, f, x, other):
        return f.fmod(x, other)

    def vjp(self, g, y, x, other):
        return lambda: g, lambda: -g * (x / other).trunc()


class FloorDivide(Elementwise):
    """⌊x / other⌋, rounding towards −∞."""

    cost = 60
    numbers = "both"
    differentiable, categories = False, NUMERIC

    def reference(self, x, other):
        _integer_zero_guard("floor_divide", other)
        quotient = np.floor_divide(x, other)
        if x.dtype.kind == "f":
            quotient = np.where(other == 0, np.divide(x, other), quotient)
        return quotient

    def lower(self, f, x, other):
        return f.floor_divide(x, other)


class TruncDivide(Elementwise):
    """x / other rounded towards 0."""

    cost = 10
    public, differentiable, categories = False, False, NUMERIC

    def reference(self, x, other):
        _integer_zero_guard("div", other)
        if x.dtype.kind == "f":
            return np.trunc(np.divide(x, other))
        quotient = np.floor_divide(x, other)
        return quotient + ((np.remainder(x, other) != 0) & ((x < 0) != (other < 0))).astype(quotient.dtype)

    def lower(self, f, x, other):
        return f.quotient(x, other)


class Gcd(Elementwise):
    """The greatest common divisor of integers."""

    numbers = "none"
    cost = 300
    reference, differentiable, categories = np.gcd, False, (INTEGER, INTEGER)

    def lower(self, f, x, other):
        return f.gcd(x, other)


class Lcm(Elementwise):
    """The least common multiple of integers."""

    numbers = "none"
    cost = 300
    reference, differentiable, categories = np.lcm, False, (INTEGER, INTEGER)

    def lower(self, f, x, other):
        return f.lcm(x, other)


FLOOR_DIVIDE, TRUNC_DIVIDE = FloorDivide(), TruncDivide()
register_module(__name__)
