"""Orthogonal polynomials by their recurrences, and divisors of integers: vector code with loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .tools import Tools

__all__ = ["Recurrences"]

# name: (p₁ of x, pₖ₊₁ of x, k, pₖ₋₁ and pₖ). Laguerre's in differences, which stay accurate near 0.
RECURRENCES: dict[str, tuple[Callable, Callable]] = {
    "chebyshev_t": (lambda x: x, lambda x, k, before, p: 2.0 * x * p - before),
    "chebyshev_u": (lambda x: x + x, lambda x, k, before, p: 2.0 * x * p - before),
    "chebyshev_v": (lambda x: x + x - 1.0, lambda x, k, before, p: 2.0 * x * p - before),
    "chebyshev_w": (lambda x: x + x + 1.0, lambda x, k, before, p: 2.0 * x * p - before),
    "hermite_h": (lambda x: x + x, lambda x, k, before, p: 2.0 * (x * p - k * before)),
    "hermite_he": (lambda x: x, lambda x, k, before, p: x * p - k * before),
    "laguerre": (lambda x: 1.0 - x, lambda x, k, before, p: p + (k * (p - before) - x * p) / (k + 1.0)),
    "legendre": (lambda x: x, lambda x, k, before, p: ((k + k + 1.0) * x * p - k * before) / (k + 1.0)),
}


class Recurrences(Tools):
    """The part of `Math` whose loops run until the last lane is done."""

    def orthogonal(self, name: str, x: Any, n: Any) -> Any:
        """pₙ(x), n rounded towards 0; 1 for n = 0 whatever x is, 0 for n < 0. In f64, rounded at the end."""
        x, n = self.pair(x, n)
        y = self.routine(f"orthogonal.{name}", _polynomial(name), self.cast(x, "f64"), self.cast(n, "i64"))
        return self.cast(y, x.kind)

    def gcd(self, a: Any, b: Any) -> Any:
        """The greatest common divisor of integers; that of 0 and 0 is 0."""
        sizes = self._sizes(a, b)
        return self.cast(self.routine("gcd", _gcd, *sizes), a.kind)

    def lcm(self, a: Any, b: Any) -> Any:
        """The least common multiple of integers, wrapping around; 0 where one is 0."""
        x, y = self._sizes(a, b)
        divisor = self.routine("gcd", _gcd, x, y)
        return self.cast(x // self.select(divisor.eq(0), 1, divisor) * y, a.kind)

    def _sizes(self, a: Any, b: Any) -> list[Any]:
        """|a| and |b| as unsigned integers of 32 or 64 bits."""
        wide, own = "u64" if a.kind[1:] == "64" else "u32", "u" + a.kind[1:]
        return [self.cast(self.cast(self.abs(x), own), wide) for x in self.pair(a, b)]

    def low_zeros(self, x: Any) -> Any:
        """The number of zero bits below the lowest one; the width − 1 for 0."""
        name = f"llvm.cttz.{self.suffix(x.kind, x.lanes)}"
        return self.call(name, x.kind, x.lanes, x, self.const("i1", False)) & (int(x.kind[1:]) - 1)


def _polynomial(name: str) -> Callable:
    first, following = RECURRENCES[name]

    def write(f: Any, x: Any, n: Any) -> Any:
        one = f.const("f64", 1.0, x.lanes)
        with f.loop(1, f.largest(n), carry=[one, first(x)]) as steps:
            before, p = steps.carry
            more = n > f.splat(steps.i, x.lanes)
            k = f.splat(f.cast(steps.i, "f64"), x.lanes)
            steps.next([f.select(more, p, before), f.select(more, following(x, k, before, p), p)])
        p = f.select(n.eq(0), 1.0, steps.results[1])
        return f.select(n < 0, 0.0, p)

    return write


def _gcd(f: Any, a: Any, b: Any) -> Any:
    """Stein's algorithm: of two odd numbers the larger is replaced by their difference, which is even, without its zeros.

    A step takes at least one bit from one of them, so their widths bound the number of steps.
    """
    first = f.select(a.eq(0), b, a)
    b = f.select(a.eq(0), 0, b)
    shared = f.low_zeros(first | b)
    bits = int(a.kind[1:])
    width = [f.call(f"llvm.ctlz.i{bits}", a.kind, 1, f.largest(x), f.const("i1", False)) for x in (first, b)]
    steps = f.cast(2 * bits + 1 - (width[0] + width[1]), "i64")
    with f.loop(0, steps, carry=[first >> f.low_zeros(first), b]) as loop:
        a, b = loop.carry
        b = b >> f.low_zeros(b)
        less, done = f.intrinsic("umin", a, b), b.eq(0)
        loop.next([f.select(done, a, less), f.intrinsic("umax", a, b) - f.select(done, a, less)])
    return loop.results[0] << shared
