"""Functions of two numbers, element by element: the larger, the angle, the sign and the neighbour, sums of powers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dtypes import BOOL, COMPLEX, FLOAT
from ...tensor import Tensor
from ..core.pointwise import Elementwise
from ..core.primitive import register_module
from .elementwise import conj, where

REAL = (BOOL, FLOAT)


class Atan2(Elementwise):
    """y = the angle of the point (other, x), in (−π, π]."""

    cost = 24
    numbers = "none"
    reference, result, categories = np.arctan2, "float", REAL
    aliases = ("arctan2",)

    def lower(self, f, x, other):
        return f.atan2(x, other)

    def vjp(self, g, y, x, other):
        return lambda: g * (other / (x * x + other * other)), lambda: g * (-x / (x * x + other * other))


class Hypot(Elementwise):
    """y = √(x² + other²) without overflow."""

    cost = 10
    numbers = "none"
    reference, categories = np.hypot, (FLOAT, FLOAT)

    def lower(self, f, x, other):
        return f.hypot(x, other)

    def vjp(self, g, y, x, other):
        return lambda: g * (x / y), lambda: g * (other / y)


def _share_ties(g: Tensor, chosen: Any, tied: Any) -> Tensor:
    """g where chosen, half of it where the two arguments are equal, else 0."""
    return where(tied, g / 2, g).masked_fill(~chosen, 0)


class Maximum(Elementwise):
    """The larger of two elements; NaN wins. Where they are equal each gets half the gradient."""

    numbers = "none"
    reference, categories, inplace = np.maximum, REAL, False

    def lower(self, f, x, other):
        return f.maximum(x, other)

    def vjp(self, g, y, x, other):
        return lambda: _share_ties(g, x >= other, x == other), lambda: _share_ties(g, x <= other, x == other)


class Minimum(Elementwise):
    """The smaller of two elements; NaN wins. Where they are equal each gets half the gradient."""

    numbers = "none"
    reference, categories, inplace = np.minimum, REAL, False

    def lower(self, f, x, other):
        return f.minimum(x, other)

    def vjp(self, g, y, x, other):
        return lambda: _share_ties(g, x <= other, x == other), lambda: _share_ties(g, x >= other, x == other)


class Fmax(Elementwise):
    """The larger of two elements; a number wins over NaN."""

    numbers = "none"
    reference, categories, inplace = np.fmax, REAL, False

    def lower(self, f, x, other):
        return f.fmax(x, other)

    def vjp(self, g, y, x, other):
        first = (x >= other) | (other != other)
        return lambda: g.masked_fill(~first, 0), lambda: g.masked_fill(first, 0)


class Fmin(Elementwise):
    """The smaller of two elements; a number wins over NaN."""

    numbers = "none"
    reference, categories, inplace = np.fmin, REAL, False

    def lower(self, f, x, other):
        return f.fmin(x, other)

    def vjp(self, g, y, x, other):
        first = (x <= other) | (other != other)
        return lambda: g.masked_fill(~first, 0), lambda: g.masked_fill(first, 0)


class Copysign(Elementwise):
    """The magnitude of x with the sign of other."""

    numbers = "second"
    reference, result, categories = np.copysign, "float", REAL

    def lower(self, f, x, other):
        return f.copysign(x, other)

    def vjp(self, g, y, x, other):
        return lambda: where(x == 0, 0, g * y.sign() * x.sign()), lambda: g * 0


class Nextafter(Elementwise):
    """The next representable number after x towards other; the gradient is that of x + constant."""

    cost = 6
    numbers = "none"
    categories = (FLOAT, FLOAT)
    native_low = True

    def reference(self, x, other):
        if x.dtype.kind == "V":
            return _nextafter_bfloat16(x, other)
        return np.nextafter(x, other)

    def lower(self, f, x, other):
        return f.nextafter(x, other)

    def vjp(self, g, y, x, other):
        return lambda: g.masked_fill(x == other, 0), lambda: g * 0


def _nextafter_bfloat16(x: np.ndarray, other: np.ndarray) -> np.ndarray:
    """One step on the 16-bit patterns, which are ordered like the numbers of one sign."""
    x, other = np.broadcast_arrays(x, other)
    a, b = x.astype(np.float32), other.astype(np.float32)
    bits, target = x.copy("K").view(np.int16), other.copy("K").view(np.int16)
    stepped = np.where((b > a) == (a > 0), bits + np.int16(1), bits - np.int16(1))
    smallest = np.where(b > 0, np.int16(1), np.int16(-32767))
    moved = np.where(a == b, target, np.where(a == 0, smallest, stepped)).astype(np.int16)
    return np.where(np.isnan(a) | np.isnan(b), np.int16(0x7FC0), moved).view(x.dtype)


class Logaddexp(Elementwise):
    """log(eˣ + e^other) without overflow."""

    cost = 28
    numbers = "none"
    categories, inplace = (FLOAT, COMPLEX), False

    def reference(self, x, other):
        if x.dtype.kind != "c":
            return _logaddexp(x, other)
        high = np.where(x.real >= other.real, x, other)
        low = np.where(x.real >= other.real, other, x)
        return high + np.log1p(np.exp(low - high))

    def lower(self, f, x, other):
        return f.logaddexp(x, other)

    def vjp(self, g, y, x, other):
        """Shares of eˣ in the sum. σ(x − other) needs no y: a step that throws the sum away need not compute it."""
        if x.is_complex():
            return lambda: g * conj((x - y).exp()), lambda: g * conj((other - y).exp())
        return lambda: g * (x - other).sigmoid(), lambda: g * (other - x).sigmoid()


def _logaddexp(x: np.ndarray, other: np.ndarray) -> np.ndarray:
    """max + log(1 + e^−|x − other|) in whole-array steps: ten times faster than NumPy's loop."""
    tail = np.asarray(np.abs(x - other))
    np.log1p(np.exp(np.negative(tail, tail), tail), tail)
    result = np.maximum(x, other) + tail
    unclear = np.isnan(result)
    if unclear.any():  # ∞ − ∞ is no number, yet equal infinities add up to themselves
        result = np.where(unclear & (x == other), x, result)
    return result


class Logaddexp2(Elementwise):
    """log₂(2ˣ + 2^other) without overflow."""

    cost = 28
    numbers = "none"
    reference, categories, inplace = np.logaddexp2, (FLOAT, FLOAT), False

    def lower(self, f, x, other):
        return f.logaddexp2(x, other)

    def vjp(self, g, y, x, other):
        return lambda: g * (x - y).exp2(), lambda: g * (other - y).exp2()


class Heaviside(Elementwise):
    """0 for x < 0, `values` at 0, 1 for x > 0."""

    numbers = "none"
    differentiable, categories = False, REAL

    def reference(self, x, values):
        return np.where(np.isnan(x), x, np.where(x == 0, values, (x > 0).astype(x.dtype)))

    def lower(self, f, x, values):
        step = f.select(x.eq(0), values, f.cast(x > 0, x.kind))
        return f.select(f.isnan(x), x, step)


register_module(__name__)
