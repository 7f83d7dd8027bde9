"""Sign, magnitude and rounding, element by element."""

from __future__ import annotations

import numpy as np

from ...dtypes import BOOL, COMPLEX, FLOAT, INTEGER
from ...tensor import Tensor
from ..core.pointwise import Elementwise
from ..core.primitive import register_module
from .elementwise import where

__all__ = ["ROUND"]

REAL = (BOOL, FLOAT)
NUMERIC = (INTEGER, FLOAT)


class Neg(Elementwise):
    """y = −x."""

    reference, aliases, categories = np.negative, ("negative",), (INTEGER, COMPLEX)
    native_low = exact = True

    def lower(self, f, x):
        return -x

    def planes(self, x):
        return -x

    def vjp(self, g, y, x):
        return (-g,)


class Abs(Elementwise):
    """|x|; the modulus of a complex number."""

    reference, result, categories = np.abs, "real", (INTEGER, COMPLEX)
    aliases = ("absolute",)
    domain = (0.2, 2.0)

    def lower(self, f, x):
        return f.abs(x)

    def planes(self, x):
        return x.abs()

    def vjp(self, g, y, x):
        return (g * x.sgn(),)


class Sign(Elementwise):
    """−1, 0 or 1."""

    categories = REAL

    def reference(self, x):
        return np.sign(x) if x.dtype != np.bool_ else x

    def lower(self, f, x):
        return f.sign(x)

    def vjp(self, g, y, x):
        return (g * 0,)


class Sgn(Elementwise):
    """x / |x| (0 at 0): the sign, also of complex numbers."""

    def reference(self, x):
        return np.sign(x) if x.dtype != np.bool_ else x

    def lower(self, f, x):
        return f.sign(x)

    def planes(self, x):
        return x.sgn()

    def vjp(self, g, y, x):
        return (_complex_sign_slope(g, y, x) if x.is_complex() else g * 0,)


def _complex_sign_slope(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    size = x.abs()
    return where(size == 0, 0, (g - y * (g * y.conj()).real) / size)


class Floor(Elementwise):
    """The largest integer not above x."""

    categories = NUMERIC

    def reference(self, x):
        return np.floor(x)

    def lower(self, f, x):
        return f.floor(x)

    def vjp(self, g, y, x):
        return (g * 0,)


class Ceil(Elementwise):
    """The smallest integer not below x."""

    categories = NUMERIC

    def reference(self, x):
        return np.ceil(x)

    def lower(self, f, x):
        return f.ceil(x)

    def vjp(self, g, y, x):
        return (g * 0,)


class Trunc(Elementwise):
    """The integer part, towards 0."""

    categories, aliases = NUMERIC, ("fix",)

    def reference(self, x):
        return np.trunc(x)

    def lower(self, f, x):
        return f.trunc(x)

    def vjp(self, g, y, x):
        return (g * 0,)


class RoundHalfEven(Elementwise):
    """The nearest integer, halves to even."""

    public, categories = False, REAL

    def reference(self, x):
        return np.round(x)

    def lower(self, f, x):
        return f.round_even(x)

    def vjp(self, g, y, x):
        return (g * 0,)


ROUND = RoundHalfEven()
register_module(__name__)
