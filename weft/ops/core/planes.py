"""Complex numbers as two real tensors, in which compiled code computes with them.

Native code knows real numbers. An operation that takes complex ones says in `planes(*operands, **params)` what it does to
their parts, in operations on real tensors; complex operands come as `Planes`, and so do complex results go. The compiler's
pass `planes` puts that in the place of the operation.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

from ...tensor import Tensor
from .base import PRIMITIVES

__all__ = ["Planes"]

Part = Any  # a real tensor, or a Python float: the same number everywhere


class Planes:
    """real + i · imag, each a real tensor or a number. `whole` is the tensor (…, 2) of both, where there is one already.

    A part that is the number 0 takes no part in products: 0 · ∞ is not computed there.
    """

    __slots__ = ("imag", "real", "whole")

    def __init__(self, real: Part, imag: Part = 0.0, whole: Tensor | None = None) -> None:
        self.real, self.imag, self.whole = real, imag, whole

    @staticmethod
    def of(x: Any) -> Planes:
        """A number, a real tensor or planes as planes."""
        if isinstance(x, Planes):
            return x
        return Planes(x) if isinstance(x, Tensor) else Planes(complex(x).real, complex(x).imag)

    # ----------------------------------------------------------------------------------- arithmetic
    def __neg__(self) -> Planes:
        return Planes(-self.real, -self.imag)

    def __add__(self, other: Any) -> Planes:
        other = Planes.of(other)
        return Planes(_sum(self.real, other.real), _sum(self.imag, other.imag))

    def __sub__(self, other: Any) -> Planes:
        return self + -Planes.of(other)

    def __mul__(self, other: Any) -> Planes:
        """(a + ib)(c + id) = ac − bd + i (ad + bc)."""
        a, b, other = self.real, self.imag, Planes.of(other)
        c, d = other.real, other.imag
        return Planes(_sum(_product(a, c), -_product(b, d)), _sum(_product(a, d), _product(b, c)))

    def __truediv__(self, other: Any) -> Planes:
        """(a + ib) / (c + id), with c and d divided by the larger of them first, so that no square overflows."""
        other = Planes.of(other)
        c, d = other.real, other.imag
        if _is_zero(d):
            return Planes(_quotient(self.real, c), _quotient(self.imag, c))
        if not isinstance(c, Tensor) and not isinstance(d, Tensor):
            inverse = 1 / complex(c, d)
            return self * inverse
        size = _larger(abs(c), abs(d))
        c, d = c / size, d / size
        share = c * c + d * d
        top = self * Planes(c, -d)
        return Planes(_quotient(_quotient(top.real, share), size), _quotient(_quotient(top.imag, share), size))

    # ------------------------------------------------------------------------------------ functions
    def conj(self) -> Planes:
        return Planes(self.real, -self.imag)

    def abs(self) -> Part:
        """√(a² + b²) without overflow."""
        if _is_zero(self.imag):
            return abs(self.real)
        if _is_zero(self.real):
            return abs(self.imag)
        if not isinstance(self.real, Tensor) and not isinstance(self.imag, Tensor):
            return math.hypot(self.real, self.imag)
        return _tensor(self.real, self.imag).hypot(_tensor(self.imag, self.real))

    def angle(self) -> Tensor:
        return _tensor(self.imag, self.real).atan2(_tensor(self.real, self.imag))

    def exp(self) -> Planes:
        """eᵃ (cos b + i sin b)."""
        if _is_zero(self.imag):
            return Planes(_exp(self.real))
        size = _exp(self.real)
        return Planes(_product(size, _cos(self.imag)), _product(size, _sin(self.imag)))

    def expm1(self) -> Planes:
        """eᶻ − 1: expm1(a) cos b − 2 sin²(b/2) + i eᵃ sin b."""
        a, b = self.tensors()
        half = (b * 0.5).sin()
        return Planes(a.expm1() * b.cos() - 2 * half * half, a.exp() * b.sin())

    def exp2(self) -> Planes:
        return (self * math.log(2)).exp()

    def log(self) -> Planes:
        """log |z| + i arg z; near |z| = 1 from z − 1, which is exact there."""
        a, b = self.tensors()
        high, low = a.abs().maximum(b.abs()), a.abs().minimum(b.abs())
        size = a.hypot(b)
        near = 0.5 * ((high - 1) * (high + 1) + low * low).log1p()
        return Planes(_where((size > 0.5) & (size < 2), near, size.log()), b.atan2(a))

    def log1p(self) -> Planes:
        a, b = self.tensors()
        small = (a.abs() < 0.5) & (b.abs() < 0.5)
        near = 0.5 * _where(small, a * (2 + a) + b * b, 0.0).log1p()
        return Planes(_where(small, near, (a + 1).hypot(b).log()), b.atan2(a + 1))

    def log2(self) -> Planes:
        return self.log() * (1 / math.log(2))

    def log10(self) -> Planes:
        return self.log() * (1 / math.log(10))

    def sqrt(self) -> Planes:
        """t = √((|a| + |z|) / 2): t + i b/2t on the right, |b|/2t ± it on the left."""
        a, b = self.tensors()
        t = ((a.abs() + a.hypot(b)) * 0.5).sqrt()
        other = _where(t == 0, b, b / (2 * t))  # of the sign of b
        return Planes(_where(a >= 0, t, other.abs()), _where(a >= 0, other, t.copysign(b)))

    def rsqrt(self) -> Planes:
        return self.sqrt().reciprocal()

    def reciprocal(self) -> Planes:
        return Planes(1.0) / self

    def square(self) -> Planes:
        return self * self

    def sgn(self) -> Planes:
        size = self.abs()
        share = _where(size == 0, 0.0, 1 / size)
        return Planes(_product(self.real, share), _product(self.imag, share))

    def sinh(self) -> Planes:
        a, b = self.tensors()
        return Planes(a.sinh() * b.cos(), a.cosh() * b.sin())

    def cosh(self) -> Planes:
        a, b = self.tensors()
        return Planes(a.cosh() * b.cos(), a.sinh() * b.sin())

    def tanh(self) -> Planes:
        """(s + i t) / (1 + i s t) with s = tanh a, t = tan b."""
        a, b = self.tensors()
        s, t = a.tanh(), b.tan()
        return Planes(s, t) / Planes(1.0, s * t)

    def sin(self) -> Planes:
        a, b = self.tensors()
        return Planes(a.sin() * b.cosh(), a.cos() * b.sinh())

    def cos(self) -> Planes:
        a, b = self.tensors()
        return Planes(a.cos() * b.cosh(), -(a.sin() * b.sinh()))

    def tan(self) -> Planes:
        """−i tanh iz."""
        turned = Planes(-self.imag, self.real).tanh()
        return Planes(turned.imag, -turned.real)

    def sigmoid(self) -> Planes:
        return ((-self).exp() + 1.0).reciprocal()

    def pow(self, exponent: Planes) -> Planes | None:
        """e^(w log z); by multiplication for small whole numbers w; 0^w = 0 for w with a positive real part, 0⁰ = 1."""
        number = exponent.real
        if _is_zero(exponent.imag) and not isinstance(number, Tensor) and number == int(number) and abs(number) <= 64:
            power = self._repeated(abs(int(number)))
            return power if number >= 0 else power.reciprocal()
        if not isinstance(self.real, Tensor) and not isinstance(self.imag, Tensor):
            return (exponent * cmath.log(complex(self.real, self.imag))).exp() if self.abs() else None
        found = (self.log() * exponent).exp()
        size = self.abs()
        limit = (number == 0).to(number.dtype) if isinstance(number, Tensor) else float(number == 0)
        return Planes(_where(size == 0, limit, found.real), _where(size == 0, 0.0, found.imag))

    def _repeated(self, count: int) -> Planes:
        power, factor = Planes(1.0), self
        while count:
            if count % 2:
                power = power * factor
            count //= 2
            factor = factor * factor if count else factor
        return power

    def __eq__(self, other: Any) -> Tensor:
        other = Planes.of(other)
        return _both(self.real == other.real, self.imag == other.imag)

    def __ne__(self, other: Any) -> Tensor:
        return ~(self == other)

    __hash__ = None

    def any_part(self, test: Callable[[Tensor], Tensor]) -> Tensor:
        """Where a test holds for one of the parts."""
        real, imag = self.tensors()
        return test(real) | test(imag)

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Both parts as tensors; one of them must be."""
        return _tensor(self.real, self.imag), _tensor(self.imag, self.real)


def _is_zero(x: Part) -> bool:
    return not isinstance(x, Tensor) and x == 0


def _sum(x: Part, y: Part) -> Part:
    return y if _is_zero(x) else x if _is_zero(y) else x + y


def _product(x: Part, y: Part) -> Part:
    return 0.0 if _is_zero(x) or _is_zero(y) else x * y


def _quotient(x: Part, y: Part) -> Part:
    return 0.0 if _is_zero(x) else x / y


def _larger(x: Part, y: Part) -> Part:
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return x.maximum(y)
    tensor, number = (x, y) if isinstance(x, Tensor) else (y, x)
    return tensor.clamp(min=number)


def _tensor(x: Part, like: Part) -> Tensor:
    """A part as a tensor, by the type of the other one."""
    return x if isinstance(x, Tensor) else like._filled(x)


def _exp(x: Part) -> Part:
    return x.exp() if isinstance(x, Tensor) else math.exp(x)


def _cos(x: Part) -> Part:
    return x.cos() if isinstance(x, Tensor) else math.cos(x)


def _sin(x: Part) -> Part:
    return x.sin() if isinstance(x, Tensor) else math.sin(x)


def _both(x: Any, y: Any) -> Any:
    return x & y if isinstance(x, Tensor) and isinstance(y, Tensor) else (y if x is True else x if y is True else False)


def _where(condition: Tensor, x: Part, other: Part) -> Tensor:
    return PRIMITIVES["Where"](condition, x, other)
