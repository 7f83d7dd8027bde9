"""Truth values and bits: comparison, logic, classification of numbers, bitwise arithmetic."""

from __future__ import annotations

import numpy as np

from ..dtype import BOOL, FLOAT, INTEGER
from .primitive import Elementwise, register_module

REAL = (BOOL, FLOAT)
WHOLE = (BOOL, INTEGER)


class Comparison(Elementwise, abstract=True):
    """A truth value for each element."""

    result, differentiable, numbers = "bool", False, "second"


class Eq(Comparison):
    """x = other, element by element."""

    reference = np.equal


class Ne(Comparison):
    """x ≠ other, element by element."""

    reference, aliases = np.not_equal, ("not_equal",)


class Lt(Comparison):
    """x < other, element by element."""

    reference, aliases, categories = np.less, ("less",), REAL


class Le(Comparison):
    """x ≤ other, element by element."""

    reference, aliases, categories = np.less_equal, ("less_equal",), REAL


class Gt(Comparison):
    """x > other, element by element."""

    reference, aliases, categories = np.greater, ("greater",), REAL


class Ge(Comparison):
    """x ≥ other, element by element."""

    reference, aliases, categories = np.greater_equal, ("greater_equal",), REAL


class LogicalAnd(Comparison):
    """Both are non-zero."""

    numbers = "none"
    reference = np.logical_and


class LogicalOr(Comparison):
    """At least one is non-zero."""

    numbers = "none"
    reference = np.logical_or


class LogicalXor(Comparison):
    """Just one is non-zero."""

    numbers = "none"
    reference = np.logical_xor


class LogicalNot(Comparison):
    """It is zero."""

    reference = np.logical_not


class Isnan(Comparison):
    """Not a number."""

    inplace = False

    def reference(self, x):
        return np.isnan(x) if x.dtype.kind in "fc" else np.zeros(x.shape, np.bool_)


class Isinf(Comparison):
    """Infinite, of either sign."""

    inplace = False

    def reference(self, x):
        return np.isinf(x) if x.dtype.kind in "fc" else np.zeros(x.shape, np.bool_)


class Isfinite(Comparison):
    """Neither infinite nor NaN."""

    inplace = False

    def reference(self, x):
        return np.isfinite(x) if x.dtype.kind in "fc" else np.ones(x.shape, np.bool_)


class Isreal(Comparison):
    """The imaginary part is 0."""

    inplace = False

    def reference(self, x):
        return x.imag == 0 if x.dtype.kind == "c" else np.ones(x.shape, np.bool_)


class Isposinf(Comparison):
    """+∞."""

    inplace, categories = False, REAL

    def reference(self, x):
        return x == np.inf if x.dtype.kind == "f" else np.zeros(x.shape, np.bool_)


class Isneginf(Comparison):
    """−∞."""

    inplace, categories = False, REAL

    def reference(self, x):
        return x == -np.inf if x.dtype.kind == "f" else np.zeros(x.shape, np.bool_)


class Signbit(Comparison):
    """The sign bit is set (also for −0.0)."""

    inplace, categories = False, REAL

    def reference(self, x):
        return np.signbit(x) if x.dtype.kind == "f" else x < 0


# ------------------------------------------------------------------------------------------- bits


class BitwiseAnd(Elementwise):
    """Bits set in both."""

    reference, categories, differentiable = np.bitwise_and, WHOLE, False


class BitwiseOr(Elementwise):
    """Bits set in either."""

    reference, categories, differentiable = np.bitwise_or, WHOLE, False


class BitwiseXor(Elementwise):
    """Bits set in just one."""

    reference, categories, differentiable = np.bitwise_xor, WHOLE, False


class BitwiseNot(Elementwise):
    """Every bit flipped; logical negation for bool."""

    reference, categories, differentiable = np.bitwise_not, WHOLE, False


class BitwiseLeftShift(Elementwise):
    """x · 2^other by shifting bits."""

    reference, categories, differentiable = np.left_shift, (INTEGER, INTEGER), False


class BitwiseRightShift(Elementwise):
    """⌊x / 2^other⌋ by shifting bits."""

    reference, categories, differentiable = np.right_shift, (INTEGER, INTEGER), False


register_module(__name__)
