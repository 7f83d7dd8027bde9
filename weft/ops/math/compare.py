"""Truth values and bits: comparison, logic, classification of numbers, bitwise arithmetic."""

from __future__ import annotations

import numpy as np

from ...dtypes import BOOL, FLOAT, INTEGER
from ...tensor import Tensor
from ..core.pointwise import Elementwise
from ..core.primitive import register_module

REAL = (BOOL, FLOAT)
WHOLE = (BOOL, INTEGER)


class Comparison(Elementwise, abstract=True):
    """A truth value for each element."""

    result, differentiable, numbers = "bool", False, "second"


class Eq(Comparison):
    """x = other, element by element."""

    reference = np.equal

    def lower(self, f, x, other):
        return x.eq(other)

    def planes(self, x, other):
        return x == other


class Ne(Comparison):
    """x ≠ other, element by element."""

    reference, aliases = np.not_equal, ("not_equal",)

    def lower(self, f, x, other):
        return x.ne(other)

    def planes(self, x, other):
        return x != other


class Lt(Comparison):
    """x < other, element by element."""

    reference, aliases, categories = np.less, ("less",), REAL

    def lower(self, f, x, other):
        return x < other


class Le(Comparison):
    """x ≤ other, element by element."""

    reference, aliases, categories = np.less_equal, ("less_equal",), REAL

    def lower(self, f, x, other):
        return x <= other


class Gt(Comparison):
    """x > other, element by element."""

    reference, aliases, categories = np.greater, ("greater",), REAL

    def lower(self, f, x, other):
        return x > other


class Ge(Comparison):
    """x ≥ other, element by element."""

    reference, aliases, categories = np.greater_equal, ("greater_equal",), REAL

    def lower(self, f, x, other):
        return x >= other


class LogicalAnd(Comparison):
    """Both are non-zero."""

    numbers = "none"
    reference = np.logical_and

    def lower(self, f, x, other):
        return f.cast(x, "i1") & f.cast(other, "i1")


class LogicalOr(Comparison):
    """At least one is non-zero."""

    numbers = "none"
    reference = np.logical_or

    def lower(self, f, x, other):
        return f.cast(x, "i1") | f.cast(other, "i1")


class LogicalXor(Comparison):
    """Just one is non-zero."""

    numbers = "none"
    reference = np.logical_xor

    def lower(self, f, x, other):
        return f.cast(x, "i1") ^ f.cast(other, "i1")


class LogicalNot(Comparison):
    """It is zero."""

    reference = np.logical_not

    def lower(self, f, x):
        return ~f.cast(x, "i1")


class Isnan(Comparison):
    """Not a number."""

    inplace = False

    def reference(self, x):
        return np.isnan(x) if x.dtype.kind in "fc" else np.zeros(x.shape, np.bool_)

    def lower(self, f, x):
        return f.isnan(x)

    def planes(self, x):
        return x.any_part(Tensor.isnan)


class Isinf(Comparison):
    """Infinite, of either sign."""

    inplace = False

    def reference(self, x):
        return np.isinf(x) if x.dtype.kind in "fc" else np.zeros(x.shape, np.bool_)

    def lower(self, f, x):
        return f.isinf(x)

    def planes(self, x):
        return x.any_part(Tensor.isinf)


class Isfinite(Comparison):
    """Neither infinite nor NaN."""

    inplace = False

    def reference(self, x):
        return np.isfinite(x) if x.dtype.kind in "fc" else np.ones(x.shape, np.bool_)

    def lower(self, f, x):
        return f.isfinite(x)

    def planes(self, x):
        return ~x.any_part(lambda part: ~part.isfinite())


class Isreal(Comparison):
    """The imaginary part is 0."""

    inplace = False

    def reference(self, x):
        return x.imag == 0 if x.dtype.kind == "c" else np.equal(x, x) | True

    def lower(self, f, x):
        return f.const("i1", True, x.lanes)


class Isposinf(Comparison):
    """+∞."""

    inplace, categories = False, REAL

    def reference(self, x):
        return x == np.inf if x.dtype.kind == "f" else np.zeros(x.shape, np.bool_)

    def lower(self, f, x):
        return f.isinf(x) & (x > 0)


class Isneginf(Comparison):
    """−∞."""

    inplace, categories = False, REAL

    def reference(self, x):
        return x == -np.inf if x.dtype.kind == "f" else np.zeros(x.shape, np.bool_)

    def lower(self, f, x):
        return f.isinf(x) & (x < 0)


class Signbit(Comparison):
    """The sign bit is set (also for −0.0)."""

    inplace, categories = False, REAL

    def reference(self, x):
        return np.signbit(x) if x.dtype.kind == "f" else x < 0

    def lower(self, f, x):
        return f.signbit(x)


# ------------------------------------------------------------------------------------------- bits


class BitwiseAnd(Elementwise):
    """Bits set in both."""

    reference, categories, differentiable = np.bitwise_and, WHOLE, False

    def lower(self, f, x, other):
        return x & other


class BitwiseOr(Elementwise):
    """Bits set in either."""

    reference, categories, differentiable = np.bitwise_or, WHOLE, False

    def lower(self, f, x, other):
        return x | other


class BitwiseXor(Elementwise):
    """Bits set in just one."""

    reference, categories, differentiable = np.bitwise_xor, WHOLE, False

    def lower(self, f, x, other):
        return x ^ other


class BitwiseNot(Elementwise):
    """Every bit flipped; logical negation for bool."""

    reference, categories, differentiable = np.bitwise_not, WHOLE, False

    def lower(self, f, x):
        return ~x


class BitwiseLeftShift(Elementwise):
    """x · 2^other by shifting bits."""

    reference, categories, differentiable = np.left_shift, (INTEGER, INTEGER), False

    def lower(self, f, x, other):
        return f.shift_left(x, other)


class BitwiseRightShift(Elementwise):
    """⌊x / 2^other⌋ by shifting bits."""

    reference, categories, differentiable = np.right_shift, (INTEGER, INTEGER), False

    def lower(self, f, x, other):
        return f.shift_right(x, other)


register_module(__name__)
