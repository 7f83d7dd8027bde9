"""The operations that gradients are written in: casts, arithmetic, powers, the conjugate, selection.

Each class is one operation: its NumPy meaning and its gradient side by side. operators.py adds what
PyTorch's signatures ask for (alpha, rounding modes, scalars) in terms of the classes.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from ... import dtypes
from ...dtypes import COMPLEX, INTEGER
from ...errors import ArgumentError, DtypeError
from ...tape.modes import mode
from ...tensor import Tensor, wrap
from ..core import base
from ..core.operands import broadcast_error, is_number, is_operand, kept_copy, scalar_array
from ..core.planes import Planes
from ..core.pointwise import NO_PARAMS, Elementwise
from ..core.primitive import operation, register_module, write_out
from ..core.select import selected

__all__ = ["ADD", "CAST", "DIV", "MUL", "POW", "SUB", "conj", "where"]

# ------------------------------------------------------------------------------------ type changes


class Cast(Elementwise):
    """The same values in another element type; the gradient comes back in the old one."""

    public = False
    differentiable = True

    def reference(self, x, *, to):
        if x.dtype.kind == "c" and to.np.kind != "c":
            x = x.real
        if to.np.kind in "iu" and x.dtype.kind in "fV":
            return _float_to_integer(x, to.np)
        return x.astype(to.np) if 0 not in x.strides else kept_copy(x, to.np)

    def operands(self, inputs):
        return None, list(inputs)

    def evaluate(self, inputs, params):
        (x,) = inputs
        try:
            result = mode.run(self.reference, x.array, **params)
        except RuntimeError:
            result = mode.run_inside(self.reference, x.array, **params)
        return self.record(wrap(result), inputs, params)

    def native_types(self, kinds, params):
        return None, params["to"].np

    def unchanged(self, numbers, *, to):
        return 0

    def lower(self, f, x, *, to):
        return f.truncated(x, to.np.kind == "u" and to.np.itemsize == 8) if x.is_float and to.np.kind in "iu" else x

    def planes(self, x, *, to):
        if to.is_complex:
            x = Planes.of(x)
            return Planes(*(part.to(to.to_real()) if isinstance(part, Tensor) else part for part in (x.real, x.imag)))
        return (x != 0) if to is dtypes.bool_ else x.real.to(to) if isinstance(x.real, Tensor) else None

    def vjp(self, g, y, x, *, to):
        return (g.to(x.dtype),)


def _float_to_integer(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Through int64, so that negative values wrap into unsigned types as they do in PyTorch."""
    if kind in (np.int64, np.uint64):
        return kept_copy(x, kind)
    return kept_copy(x, np.dtype(np.int64)).astype(kind)


CAST = Cast()


# --------------------------------------------------------------------------------- two-way arithmetic


class Add(Elementwise):
    """y = x + other."""

    public = False
    reference = np.add
    native_low = True

    def unchanged(self, numbers):
        return 1 if numbers[0] == 0 else 0 if numbers[1] == 0 else None

    def lower(self, f, x, other):
        return x | other if x.kind == "i1" else x + other

    def planes(self, x, other):
        return x + other

    def vjp(self, g, y, x, other):
        return g, g


class Sub(Elementwise):
    """y = x − other."""

    public = False
    reference = np.subtract
    native_low = True

    def compute_dtype(self, inputs):
        if any(isinstance(x, Tensor) and x.dtype is dtypes.bool_ for x in inputs):
            raise DtypeError(
                "sub: subtraction, the `-` operator, with a bool tensor is not supported; use `^` or logical_xor() "
                "instead, or `~` to invert a mask"
            )
        return super().compute_dtype(inputs)

    def unchanged(self, numbers):
        return 0 if numbers[1] == 0 else None

    def lower(self, f, x, other):
        return x - other

    def planes(self, x, other):
        return x - other

    def vjp(self, g, y, x, other):
        return g, lambda: -g


class Mul(Elementwise):
    """y = x · other."""

    numbers = "both"
    reference = np.multiply
    aliases = ("multiply",)
    native_low = True

    def unchanged(self, numbers):
        return 1 if numbers[0] == 1 else 0 if numbers[1] == 1 else None

    def lower(self, f, x, other):
        return x & other if x.kind == "i1" else x * other

    def planes(self, x, other):
        return x * other

    def vjp(self, g, y, x, other):
        return lambda: g * conj(other), lambda: g * conj(x)

    def array_vjp(self, wanted, g, y, x, other):
        if other.__class__ is float or other.__class__ is int:
            other = scalar_array(other, g.dtype)
        elif x.__class__ is float or x.__class__ is int:
            x = scalar_array(x, g.dtype)
        return np.multiply(g, other) if wanted[0] is not None else None, np.multiply(g, x) if wanted[
            1
        ] is not None else None


class Div(Elementwise):
    """y = x / other; integers are divided as floats."""

    cost = 4
    public = False
    reference, result = np.divide, "float"
    native_low = True

    def unchanged(self, numbers):
        return 0 if numbers[1] == 1 else None

    def lower(self, f, x, other):
        return x / other

    def planes(self, x, other):
        return x / other

    def vjp(self, g, y, x, other):
        return lambda: g / conj(other), lambda: -g * conj(y / other)


class Pow(Elementwise):
    """y = x ** exponent; 0 ** 0 is 1."""

    cost = 40
    public = False
    categories = (INTEGER, COMPLEX)
    domain = (0.2, 2.0)

    def reference(self, x, exponent):
        if x.dtype.kind == "i" and (exponent < 0).any():  # 1 / xⁿ rounded towards 0
            inverse = np.where(np.abs(x) == 1, np.power(x, np.abs(exponent)), 0)
            return np.where(exponent < 0, inverse, np.power(x, np.abs(exponent)))
        return np.power(x, exponent)

    def lower(self, f, x, exponent):
        return f.pow(x, exponent)

    def planes(self, x, exponent):
        return x.pow(exponent)

    def vjp(self, g, y, x, exponent):
        return (
            lambda: g * conj(_power_slope(x, exponent)),
            lambda: g * conj(_exponent_slope(y, x, exponent)),
        )


def _power_slope(x: Tensor, exponent: Any) -> Tensor:
    """d xᵉ/dx = e · xᵉ⁻¹, and 0 where e is 0 (also at x = 0, where xᵉ⁻¹ is infinite)."""
    if is_number(exponent):
        return exponent * x ** (exponent - 1) if exponent != 0 else x * 0
    return where(exponent == 0, 0, exponent * x ** (exponent - 1))


def _exponent_slope(y: Tensor, x: Any, exponent: Tensor) -> Tensor:
    """d xᵉ/de = xᵉ · log x, and 0 where x is 0 and e is not negative."""
    if is_number(x):
        if x == 0:
            return where((exponent.real if exponent.is_complex() else exponent) >= 0, 0, y * -math.inf)
        return y * (cmath.log(x) if isinstance(x, complex) or (exponent.is_complex() and x < 0) else _real_log(x))
    positive = (exponent.real if exponent.is_complex() else exponent) >= 0
    return where((x == 0) & positive, 0, y * x.log())


def _real_log(x: float) -> float:
    return math.log(x) if x > 0 else math.nan


# ------------------------------------------------------------------------------------ the conjugate


class ConjPhysical(Elementwise):
    """The complex conjugate, computed at once."""

    reference = np.conjugate

    def lower(self, f, x):
        return x

    def planes(self, x):
        return x.conj()

    def vjp(self, g, y, x):
        return (g.conj_physical(),)


def conj(x: Any) -> Any:
    """The complex conjugate; real tensors and numbers are returned as they are."""
    if x.__class__ is Tensor:  # the usual case, on the way back of every product
        try:
            if x.array.dtype.kind != "c":
                return x
        except AttributeError:  # a transform keeps its values to itself
            pass
    if is_number(x):
        return x.conjugate() if isinstance(x, complex) else x
    if isinstance(x, np.ndarray):
        return x.conj()
    return x.conj_physical() if x.dtype.is_complex else x


operation("conj")(conj)


# ----------------------------------------------------------------------------------------- selection


class Where(Elementwise):
    """x where the condition holds, else other."""

    public = False
    native_low = exact = True
    typed = 1

    def reference(self, condition, x, other):
        return np.where(condition, x, other)

    def operands(self, inputs):
        condition, *rest = inputs
        kind = dtypes.result_dtype(rest)
        return kind, [condition, *(x.to(kind) if isinstance(x, Tensor) else x for x in rest)]

    def evaluate(self, inputs, params):
        kind, operands = self.operands(inputs)
        arrays = [x.array if isinstance(x, Tensor) else scalar_array(x, kind.np) for x in operands]
        try:
            result = (
                selected(*arrays) if arrays[0].size < base.LARGE else base.run_large(self, selected, arrays, NO_PARAMS)
            )
        except ValueError:
            raise broadcast_error("where", *(a.shape for a in arrays)) from None
        return self.record(wrap(result), operands, params)

    def native_types(self, kinds, params):
        return None, kinds[1]

    def lower(self, f, condition, x, other):
        return f.select(condition, x, other)

    def planes(self, condition, x, other):
        pairs = ((x.real, other.real), (x.imag, other.imag))
        known = [not isinstance(a, Tensor) and not isinstance(b, Tensor) for a, b in pairs]
        if any(k and a != b for k, (a, b) in zip(known, pairs, strict=True)):
            return None
        return Planes(*(a if k else where(condition, a, b) for k, (a, b) in zip(known, pairs, strict=True)))

    def vjp(self, g, y, condition, x, other):
        return lambda: None, lambda: where(condition, g, 0), lambda: where(condition, 0, g)


ADD, SUB, MUL, DIV, POW, WHERE = Add(), Sub(), Mul(), Div(), Pow(), Where()
register_module(__name__)


def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Tensor | None = None) -> Any:
    """input where the condition holds, else other; with one argument the indices of its non-zeros."""
    if input is None and other is None and isinstance(condition, Tensor):
        return condition.nonzero(as_tuple=True)
    if not isinstance(condition, Tensor) or condition.dtype not in (dtypes.bool_, dtypes.uint8):
        found = condition.dtype if isinstance(condition, Tensor) else type(condition).__name__
        raise DtypeError(f"where: expected condition to be a boolean tensor, but got {found}; compare it first (x > 0)")
    if condition.dtype is dtypes.uint8:
        condition = condition.bool()
    for role, value in (("input", input), ("other", other)):
        if not is_operand(value):
            raise ArgumentError(f"where: {role} must be a tensor or a number, got {type(value).__name__}")
    result = WHERE(condition, input, other)
    return result if out is None else write_out(out, result, "where")
