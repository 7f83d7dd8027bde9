"""Elementwise functions of the standard: one line each where Weft's own function does what it asks for.

Weft already follows IEEE 754 and C99 at zeros, infinities and NaN; the functions that need more (floor division
as ⌊a / b⌋, complex expm1, sign and round) are written out below the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft

from ..dtypes import COMPLEX, FLOAT
from ..tensor import Tensor
from .array import Array, need_array
from .types import floating, promoted

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

# ------------------------------------------------------------------------------- what needs more care


def _sign(x: Tensor) -> Tensor:
    if x.dtype.category != COMPLEX:
        return x.sign()
    return weft.where(x.isnan(), weft.complex(x.real * math.nan, x.real * math.nan), x.sgn())


def _round(x: Tensor) -> Tensor:
    return _by_parts(weft.round, x) if x.dtype.category == COMPLEX else x.round()


def _by_parts(function: Callable, x: Tensor) -> Tensor:
    return weft.complex(function(x.real), function(x.imag))


def _expm1(x: Tensor) -> Tensor:
    """e^z − 1; where the parts are not finite or the imaginary part is 0, C99's e^z tells the rest."""
    y = x.expm1()
    if x.dtype.category != COMPLEX:
        return y
    real_line = weft.complex(x.real.expm1() + 0.0, x.imag)  # keeps the sign of a zero imaginary part; −0 + 0 is 0
    y = weft.where(x.imag == 0, real_line, y)
    return weft.where(x.real.isfinite() & x.imag.isfinite() | (x.imag == 0), y, x.exp() - 1)


def _floor_divide(a: Tensor, b: Tensor) -> Tensor:
    """⌊a / b⌋; Python's own rule differs at infinities and at the sign of zeros."""
    if a.dtype.category < FLOAT:
        return weft.floor_divide(a, b)
    ordinary = a.isfinite() & b.isfinite() & (a != 0) & (b != 0)
    return weft.where(ordinary, weft.floor_divide(a, b), (a / b).floor())


def _pow(a: Tensor, b: Tensor) -> Tensor:
    """aᵇ, with one exponent for each element: NumPy's short cut for one exponent 0.5, √a, is wrong at −∞ and −0."""
    if a.dtype.category != FLOAT:
        return weft.pow(a, b)
    shape = weft.broadcast_shapes(a.shape, b.shape)
    exponents = b.expand(shape).clone()
    return weft.pow(a.expand(shape).reshape(-1), exponents.reshape(-1)).reshape(shape)


def _of_floats(function: Callable) -> Callable:
    """A function of two floats that PyTorch does not define for integers."""
    return lambda a, b: function(floating(a), floating(b))


# ------------------------------------------------------------------------------------ makers, and the table


def _unary(name: str, operation: Callable, text: str) -> Callable[[Array], Array]:
    def function(x: Array, /) -> Array:
        return Array(operation(need_array(name, x)))

    return _titled(function, name, text)


def _binary(name: str, operation: Callable, text: str) -> Callable[[Any, Any], Array]:
    def function(x1: Array | complex, x2: Array | complex, /) -> Array:
        return Array(operation(*promoted(name, x1, x2)))

    return _titled(function, name, text)


def _titled(function: Callable, name: str, text: str) -> Callable:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text}, for each element."
    return function


abs = _unary("abs", weft.abs, "|x|")
acos = _unary("acos", weft.acos, "The inverse cosine")
acosh = _unary("acosh", weft.acosh, "The inverse hyperbolic cosine")
asin = _unary("asin", weft.asin, "The inverse sine")
asinh = _unary("asinh", weft.asinh, "The inverse hyperbolic sine")
atan = _unary("atan", weft.atan, "The inverse tangent")
atanh = _unary("atanh", weft.atanh, "The inverse hyperbolic tangent")
bitwise_invert = _unary("bitwise_invert", weft.bitwise_not, "~x")
ceil = _unary("ceil", weft.ceil, "⌈x⌉")
conj = _unary("conj", weft.conj, "The complex conjugate")
cos = _unary("cos", weft.cos, "cos x")
cosh = _unary("cosh", weft.cosh, "cosh x")
exp = _unary("exp", weft.exp, "eˣ")
expm1 = _unary("expm1", _expm1, "eˣ − 1, accurate near 0")
floor = _unary("floor", weft.floor, "⌊x⌋")
imag = _unary("imag", weft.imag, "The imaginary part")
isfinite = _unary("isfinite", weft.isfinite, "Whether x is neither infinite nor NaN")
isinf = _unary("isinf", weft.isinf, "Whether x is infinite")
isnan = _unary("isnan", weft.isnan, "Whether x is NaN")
log = _unary("log", weft.log, "ln x")
log1p = _unary("log1p", weft.log1p, "ln(1 + x), accurate near 0")
log2 = _unary("log2", weft.log2, "log₂ x")
log10 = _unary("log10", weft.log10, "log₁₀ x")
logical_not = _unary("logical_not", weft.logical_not, "not x")
negative = _unary("negative", weft.neg, "−x")
positive = _unary("positive", weft.positive, "+x")
real = _unary("real", weft.real, "The real part")
reciprocal = _unary("reciprocal", weft.reciprocal, "1 / x")
round = _unary("round", _round, "The nearest whole number, halves to the even one")
sign = _unary("sign", _sign, "x / |x|, 0 at 0")
signbit = _unary("signbit", weft.signbit, "Whether the sign bit is set (−0.0 has it)")
sin = _unary("sin", weft.sin, "sin x")
sinh = _unary("sinh", weft.sinh, "sinh x")
sqrt = _unary("sqrt", weft.sqrt, "√x")
square = _unary("square", weft.square, "x²")
tan = _unary("tan", weft.tan, "tan x")
tanh = _unary("tanh", weft.tanh, "tanh x")
trunc = _unary("trunc", weft.trunc, "x without its fraction")

add = _binary("add", weft.add, "a + b")
atan2 = _binary("atan2", weft.atan2, "The angle of the point (b, a)")
bitwise_and = _binary("bitwise_and", weft.bitwise_and, "a & b")
bitwise_left_shift = _binary("bitwise_left_shift", weft.bitwise_left_shift, "a << b")
bitwise_or = _binary("bitwise_or", weft.bitwise_or, "a | b")
bitwise_right_shift = _binary("bitwise_right_shift", weft.bitwise_right_shift, "a >> b, keeping the sign")
bitwise_xor = _binary("bitwise_xor", weft.bitwise_xor, "a ^ b")
copysign = _binary("copysign", weft.copysign, "|a| with the sign of b")
divide = _binary("divide", weft.div, "a / b")
equal = _binary("equal", weft.eq, "a = b")
floor_divide = _binary("floor_divide", _floor_divide, "⌊a / b⌋")
greater = _binary("greater", weft.gt, "a > b")
greater_equal = _binary("greater_equal", weft.ge, "a ≥ b")
hypot = _binary("hypot", _of_floats(weft.hypot), "√(a² + b²) without overflow")
less = _binary("less", weft.lt, "a < b")
less_equal = _binary("less_equal", weft.le, "a ≤ b")
logaddexp = _binary("logaddexp", _of_floats(weft.logaddexp), "ln(eᵃ + eᵇ)")
logical_and = _binary("logical_and", weft.logical_and, "a and b")
logical_or = _binary("logical_or", weft.logical_or, "a or b")
logical_xor = _binary("logical_xor", weft.logical_xor, "Whether just one of a and b is true")
maximum = _binary("maximum", weft.maximum, "The larger of a and b, NaN if one is NaN")
minimum = _binary("minimum", weft.minimum, "The smaller of a and b, NaN if one is NaN")
multiply = _binary("multiply", weft.mul, "a · b")
nextafter = _binary("nextafter", _of_floats(weft.nextafter), "The number after a in the direction of b")
not_equal = _binary("not_equal", weft.ne, "a ≠ b")
pow = _binary("pow", _pow, "aᵇ")
remainder = _binary("remainder", weft.remainder, "a modulo b, with the sign of b")
subtract = _binary("subtract", weft.sub, "a − b")


def clip(x: Array, /, min: Array | float | None = None, max: Array | float | None = None) -> Array:
    """min(max(x, min), max) for each element, in the type of x; NaN if any of the three is NaN."""
    y = need_array("clip", x)
    if min is None and max is None:
        return Array(y.clone())
    if min is not None:
        y = weft.maximum(y, _bound(min, y))
    if max is not None:
        y = weft.minimum(y, _bound(max, y))
    return Array(y)


def _bound(value: Any, x: Tensor) -> Tensor:
    """A bound of `clip` in the type of x."""
    if isinstance(value, Array):
        return value.tensor.to(x.dtype)
    return promoted("clip", Array(x), value)[1].to(x.dtype)
