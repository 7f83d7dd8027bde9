"""The smooth functions of one variable: exponentials, powers, trigonometry, and the rectifier."""

from __future__ import annotations

import math

import numpy as np

from ... import dtypes
from ...dtypes import FLOAT, INTEGER
from ...tape.modes import Taken
from ..core.operands import FLOATS
from ..core.pointwise import Elementwise
from ..core.primitive import register_module
from ..core.select import selected
from .elementwise import conj, where

__all__ = ["Smooth"]

# NumPy takes arrays faster than numbers
ZEROS, ONES = ({kind: np.full((), value, kind) for kind in FLOATS} for value in (0, 1))


class Smooth(Elementwise, abstract=True):
    """A differentiable function whose integer arguments become the default float."""

    result, cost = "float", 12

    def planes(self, x):
        formula = getattr(x, self.name, None)
        return formula() if formula is not None else None


class Exp(Smooth):
    """eˣ."""

    reference = np.exp

    def lower(self, f, x):
        return f.exp(x)

    def vjp(self, g, y, x):
        return (g * conj(y),)


class Exp2(Smooth):
    """2ˣ."""

    def reference(self, x):
        return np.exp2(x) if x.dtype.kind != "c" else np.exp(x * x.dtype.type(math.log(2)))

    def lower(self, f, x):
        return f.exp2(x)

    def vjp(self, g, y, x):
        return (g * conj(y) * math.log(2),)


class Expm1(Smooth):
    """eˣ − 1, accurate near 0."""

    reference = np.expm1

    def lower(self, f, x):
        return f.expm1(x)

    def vjp(self, g, y, x):
        return (g * conj(y + 1),)


class Log(Smooth):
    """The natural logarithm."""

    reference, domain = np.log, (0.1, 4.0)

    def lower(self, f, x):
        return f.log(x)

    def vjp(self, g, y, x):
        return (g / conj(x),)


class Log2(Smooth):
    """The logarithm to base 2."""

    reference, domain = np.log2, (0.1, 4.0)

    def lower(self, f, x):
        return f.log2(x)

    def vjp(self, g, y, x):
        return (g / (conj(x) * math.log(2)),)


class Log10(Smooth):
    """The logarithm to base 10."""

    reference, domain = np.log10, (0.1, 4.0)

    def lower(self, f, x):
        return f.log10(x)

    def vjp(self, g, y, x):
        return (g / (conj(x) * math.log(10)),)


class Log1p(Smooth):
    """log(1 + x), accurate near 0."""

    cost = 14
    reference, domain = np.log1p, (-0.5, 4.0)

    def lower(self, f, x):
        return f.log1p(x)

    def vjp(self, g, y, x):
        return (g / conj(x + 1),)


class Sqrt(Smooth):
    """√x; NaN for x < 0, infinite slope at 0."""

    cost = 4
    reference, domain = np.sqrt, (0.1, 4.0)

    def lower(self, f, x):
        return f.sqrt(x)

    def vjp(self, g, y, x):
        return (g / (2 * conj(y)),)


class Rsqrt(Smooth):
    """1 / √x."""

    cost = 8
    domain = (0.1, 4.0)

    def reference(self, x):
        return np.reciprocal(np.sqrt(x))

    def lower(self, f, x):
        return f.rsqrt(x)

    def vjp(self, g, y, x):
        return (-0.5 * g * conj(y * y * y),)


class Reciprocal(Smooth):
    """1 / x."""

    cost = 4
    domain = (0.2, 3.0)

    def reference(self, x):
        return np.reciprocal(x)

    def lower(self, f, x):
        return f.reciprocal(x)

    def vjp(self, g, y, x):
        return (-g * conj(y * y),)


class Square(Elementwise):
    """x²."""

    reference = np.square

    def compute_dtype(self, inputs):
        kind = super().compute_dtype(inputs)
        return dtypes.int64 if kind is dtypes.bool_ else kind

    def lower(self, f, x):
        return x * x

    def planes(self, x):
        return x.square()

    def vjp(self, g, y, x):
        return (g * conj(2 * x),)


class Sigmoid(Smooth):
    """1 / (1 + e⁻ˣ), without overflow."""

    def reference(self, x):
        return 1 / (1 + np.exp(-x))  # e⁻ˣ = ∞ gives 0, as it should

    def lower(self, f, x):
        return f.sigmoid(x)

    def vjp(self, g, y, x):
        return (g * conj(y * (1 - y)),)


class Relu(Elementwise):
    """max(x, 0); the slope at 0 is 0, and what comes back there is not looked at: it may be infinite."""

    exact = True
    categories = (INTEGER, FLOAT)

    def reference(self, x):
        return np.maximum(x, ZEROS[x.dtype] if x.dtype in ZEROS else x.dtype.type(0))

    def lower(self, f, x):
        return f.maximum(x, 0)

    def vjp(self, g, y, x):
        return (where(y > 0, g, 0),)

    def array_vjp(self, wanted, g, y, x):
        if not g.flags.c_contiguous:
            raise Taken
        zero = ZEROS[y.dtype]
        return (selected(y > zero, g, zero),)


# ------------------------------------------------------------------------------------- trigonometry


class Sin(Smooth):
    """sin x."""

    reference = np.sin

    def lower(self, f, x):
        return f.sin(x)

    def vjp(self, g, y, x):
        return (g * conj(x.cos()),)


class Cos(Smooth):
    """cos x."""

    reference = np.cos

    def lower(self, f, x):
        return f.cos(x)

    def vjp(self, g, y, x):
        return (-g * conj(x.sin()),)


class Tan(Smooth):
    """tan x."""

    reference, domain = np.tan, (-1.2, 1.2)

    def lower(self, f, x):
        return f.tan(x)

    def vjp(self, g, y, x):
        return (g * conj(1 + y * y),)


class Asin(Smooth):
    """The angle in [−π/2, π/2] whose sine is x."""

    reference, domain, aliases = np.arcsin, (-0.9, 0.9), ("arcsin",)

    def lower(self, f, x):
        return f.asin(x)

    def vjp(self, g, y, x):
        return (g * conj((1 - x * x).rsqrt()),)


class Acos(Smooth):
    """The angle in [0, π] whose cosine is x."""

    reference, domain, aliases = np.arccos, (-0.9, 0.9), ("arccos",)

    def lower(self, f, x):
        return f.acos(x)

    def vjp(self, g, y, x):
        return (-g * conj((1 - x * x).rsqrt()),)


class Atan(Smooth):
    """The angle in (−π/2, π/2) whose tangent is x."""

    reference, aliases = np.arctan, ("arctan",)

    def lower(self, f, x):
        return f.atan(x)

    def vjp(self, g, y, x):
        return (g / conj(1 + x * x),)


class Sinh(Smooth):
    """(eˣ − e⁻ˣ) / 2."""

    reference = np.sinh

    def lower(self, f, x):
        return f.sinh(x)

    def vjp(self, g, y, x):
        return (g * conj(x.cosh()),)


class Cosh(Smooth):
    """(eˣ + e⁻ˣ) / 2."""

    reference = np.cosh

    def lower(self, f, x):
        return f.cosh(x)

    def vjp(self, g, y, x):
        return (g * conj(x.sinh()),)


class Tanh(Smooth):
    """sinh x / cosh x."""

    reference = np.tanh

    def lower(self, f, x):
        return f.tanh(x)

    def vjp(self, g, y, x):
        return (g * conj(1 - y * y),)

    def array_vjp(self, wanted, g, y, x):
        slope = y * y
        np.subtract(ONES[y.dtype], slope, slope)
        return (np.multiply(g, slope, slope),)


class Asinh(Smooth):
    """The inverse of sinh."""

    cost = 24
    reference, aliases = np.arcsinh, ("arcsinh",)

    def lower(self, f, x):
        return f.asinh(x)

    def vjp(self, g, y, x):
        return (g * conj((x * x + 1).rsqrt()),)


class Acosh(Smooth):
    """The inverse of cosh on [1, ∞)."""

    cost = 24
    reference, domain, aliases = np.arccosh, (1.2, 4.0), ("arccosh",)

    def lower(self, f, x):
        return f.acosh(x)

    def vjp(self, g, y, x):
        if x.dtype.is_complex:
            return (g * conj((x - 1).rsqrt() * (x + 1).rsqrt()),)
        size = x.abs()  # PyTorch's 1/√(x² − 1), which is finite below −1 as well, without its cancellation near 1
        return (g * ((size - 1) * (size + 1)).rsqrt(),)


class Atanh(Smooth):
    """The inverse of tanh on (−1, 1)."""

    cost = 24
    reference, domain, aliases = np.arctanh, (-0.9, 0.9), ("arctanh",)

    def lower(self, f, x):
        return f.atanh(x)

    def vjp(self, g, y, x):
        return (g / conj(1 - x * x),)


register_module(__name__)
