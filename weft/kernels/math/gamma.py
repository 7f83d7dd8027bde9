"""The gamma function and its relatives as vector code."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from . import tables
from .tools import Tools

__all__ = ["Gamma"]

MOST_TERMS = 14  # of Euler and Maclaurin's series
LARGEST_ORDER = 100  # of polygamma for which all coefficients are numbers of f64


class Gamma(Tools):
    """The part of `Math` around Γ. Those of f32 go through f64."""

    def lgamma(self, x: Any) -> Any:
        """log |Γ(x)|; for x < 0 relative to the largest term of the reflection."""
        if x.kind == "f32":
            return self.cast(self._lgamma(self.cast(x, "f64"), self._lgamma_shortly), "f32")
        return self._lgamma(x, self._lgamma_closely)

    def _lgamma(self, x: Any, positive: Any) -> Any:
        """In f64, by `positive`: (log Γ(1 + a), log Γ(size)), with a = size where that is less than 1."""
        size = self.abs(x)
        small = size < 1.0
        unit, right = positive(size)
        # Γ(x) Γ(−x) = −π / (x sin πx); for |x| < 1 the logarithms of x cancel
        turned = self.select(size < 1e-9, size, self.abs(self.sin_pi(size)) * (1 / math.pi))
        turned = self.select(small, turned, turned * size)
        left = -self.log(turned) - self.select(small, unit, right)
        y = self.select(x < 0.0, left, right)
        return self.select(self.isinf(x) | ((x <= 0.0) & self.floor(x).eq(x)), math.inf, y)

    def _lgamma_shortly(self, size: Any) -> tuple[Any, Any]:
        """Within 5 ulp: for results that are rounded to f32."""
        small, large = size < 1.0, size >= 8.0
        a, factors = self._descended(size)
        product = self.const("f64", 1.0, size.lanes)
        for _, factor in factors:
            product = product * factor
        unit = a * (a - 1.0) * self.polynomial(a - 0.5, tables.LGAMMA)
        low = self.log(self.select(small | large, size, product))
        far = (size - 0.5) * (low - 1.0) + (0.5 * math.log(2 * math.pi) - 0.5)
        far = far + self.polynomial(1.0 / (size * size), tables.STIRLING) / size
        return unit, self.select(large, far, unit + self.select(small, -low, low))

    def _lgamma_closely(self, size: Any) -> tuple[Any, Any]:
        """Within 2 ulp: no sum of terms that cancel. Between ½ and 3 a polynomial each for [½, 1), [1, 2) and [2, 3)."""
        little, large = size < 0.5, size >= 8.0
        a = self.select(size < 1.0, size, size - 1.0)
        unit = a * (a - 1.0) * self.polynomial(a - 0.5, tables.LGAMMA)
        below = (size - 1.0) * self.polynomial(size - 0.75, tables.LGAMMA_BELOW)
        b, product = self._descended_to_two(size)
        two = (b - 2.0) * self.polynomial(b - 2.5, tables.LGAMMA_TWO)
        low, rest = self._log_in_pairs(self.clamp(self.select(little | large, size, product), 5e-324, 1e308))
        near = self.select(little, unit - low, self.select(size < 2.0, self.select(size < 1.0, below, unit), two + low))
        times = size - 0.5
        far, lost = self.two_product(times, low - 1.0)
        lost = lost + (times * rest + self.polynomial(1.0 / (size * size), tables.STIRLING) / size)
        far = far + (lost + (0.5 * math.log(2 * math.pi) - 0.5))
        far = self.select(size > 1e305, (low - 1.0) * size, far)  # the second number may be inf − inf
        return unit, self.select(size.eq(0.0), math.inf, self.select(large, far, near))

    def _descended_to_two(self, size: Any) -> tuple[Any, Any]:
        """(b, product) with Γ(size) = product · Γ(b) and 2 ≤ b < 3, for 2 ≤ size < 8; product is 1 below."""
        b, product = size, self.const("f64", 1.0, size.lanes)
        for step in range(1, 6):
            inside = size >= step + 2.0
            b = self.select(inside, size - float(step), b)
            product = product * self.select(inside, size - float(step), 1.0)
        return b, product

    def digamma(self, x: Any) -> Any:
        """ψ(x) = d log Γ(x) / dx; for x < 0 relative to the largest term of the reflection."""
        if x.kind == "f32":
            return self.cast(self.digamma(self.cast(x, "f64")), "f32")
        size = self.abs(x)
        small = size < 1.0
        a, b = self.select(small, size, size - 1.0), size
        above, below = self.const("f64", 0.0, x.lanes), self.const("f64", 1.0, x.lanes)  # of the sum of 1 / factor
        for step in range(1, 6):
            inside = size >= step + 2.0
            factor = self.select(inside, size - float(step), 1.0)
            b = self.select(inside, factor, b)
            above = self.select(inside, above * factor + below, above)
            below = below * factor
        two = self.polynomial(b - 2.5, tables.DIGAMMA_TWO) + above / below  # nothing in it cancels
        zero, zero_low = tables.DIGAMMA_ZERO
        unit = ((a - zero) - zero_low) * self.polynomial(a - 0.5, tables.DIGAMMA)  # ψ(1 + a)
        inverse = 1.0 / size
        w = inverse * inverse
        far = self.log(size) - (0.5 * inverse + w * self.polynomial(w, tables.DIGAMMA_TAIL))
        near = self.select(small, unit - inverse, self.select(size < 2.0, unit, two))
        right = self.select(size >= 8.0, far, near)
        # ψ(−x) = ψ(x) + 1/x + π / tan πx; for |x| < 1 the inverses of x cancel
        turn = self.sin_pi(size)
        series = inverse - size * (math.pi**2 / 3 + math.pi**4 / 45 * (size * size))
        turned = self.select(size < 1e-3, series, math.pi * self.cos_pi(size) / turn)
        left = self.select(small, unit, right + inverse) + turned
        y = self.select(x < 0.0, self.select(turn.eq(0.0), math.nan, left), right)
        return self.select(x.eq(0.0), self.copysign(self.const("f64", math.inf, x.lanes), -x), y)

    def _descended(self, size: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        """(a, factors) with size = 1 + a + a whole number and 0 ≤ a ≤ 1, for size < 8.

        The factors are size − 1, size − 2, … down to 1 + a: six pairs of a condition and a number, 1 where it fails.
        """
        a, factors = self.select(size < 1.0, size, size - 1.0), []
        for step in range(1, 7):
            inside = size >= step + 1.0
            factor = self.select(inside, size - float(step), 1.0)
            a = self.select(inside, factor - 1.0, a)
            factors.append((inside, factor))
        return a, factors

    # ------------------------------------------------------------------------- derivatives of digamma
    def polygamma(self, x: Any, n: int) -> Any:
        """ψ⁽ⁿ⁾(x) = (−1)ⁿ⁺¹ n! Σₖ (x + k)⁻ⁿ⁻¹ for n ≥ 1; for x < 0 relative to the largest term of the reflection.

        (−1)ⁿ ψ⁽ⁿ⁾(1 − x) − ψ⁽ⁿ⁾(x) is the n-th derivative of π / tan πx. At the poles, (−1)ⁿ⁺¹ ∞ like ζ has it.
        """
        if x.kind == "f32":
            return self.cast(self.polygamma(self.cast(x, "f64"), n), "f32")
        sign = -1.0 if n % 2 == 0 else 1.0
        factor = sign * (math.factorial(n) if n <= 170 else math.inf)
        if n > LARGEST_ORDER:
            return factor * self.zeta(self.const("f64", n + 1.0), x)
        negative = x < 0.0
        right = self._zeta(self.select(negative, 1.0 - x, x), n + 1, factor)
        cotangent = self.cos_pi(x) / self.sin_pi(x)
        slope = self.polynomial(cotangent * cotangent, cotangent_slope(n))
        left = -sign * right - (slope * cotangent if n % 2 == 0 else slope)
        pole = (x <= 0.0) & self.floor(x).eq(x)
        return self.select(pole, sign * math.inf, self.select(negative, left, right))

    def _zeta(self, x: Any, power: int, factor: float) -> Any:
        """factor · Σₖ (x + k)^−power for x ≥ 0 in f64: the first terms, and Euler and Maclaurin's series for the others."""
        count = 8 + power // 2
        inverse = 1.0 / (x + float(count))
        series = self.polynomial(inverse * inverse, euler_maclaurin(power)) + 0.5 * inverse
        total = self._times_power(series * factor, inverse, power - 1)
        for k in reversed(range(count)):
            total = total + self._times_power(self.const("f64", factor, x.lanes), 1.0 / (x + float(k)), power)
        return total

    def _times_power(self, y: Any, x: Any, n: int) -> Any:
        """y xⁿ in two steps, so that no small power of x is lost before it meets a large y."""
        half = self._fixed_power(x, n // 2)
        return y * half * (half * x if n % 2 else half)

    def zeta(self, x: Any, q: Any) -> Any:
        """ζ(x, q) = Σₖ (q + k)⁻ˣ; ∞ for x = 1 and q = 0, −1, …, NaN for x < 1, x = ∞ and broken powers of negative q."""
        x, q = self.pair(x, q)
        y = self.routine("zeta", _zeta_sum, self.cast(x, "f64"), self.cast(q, "f64"))
        return self.cast(y, x.kind)

    def log_gamma_slope(self, alpha: Any, log_z: Any, rule: Any) -> Any:
        """d log z / dα of a Gamma(α, 1) variate z at fixed probability, by the formulas of `ops.implicit_gamma`.

        `rule`: nodes and weights of the integrals on [0, 1].
        """
        alpha, log_z = self.pair(alpha, log_z)
        write = lambda f, a, b: _log_gamma_slope(f, a, b, rule)
        y = self.routine("log_gamma_slope", write, self.cast(alpha, "f64"), self.cast(log_z, "f64"))
        return self.cast(y, alpha.kind)


def _log_gamma_slope(f: Any, alpha: Any, log_z: Any, rule: Any) -> Any:
    """One loop for the series and one for both integrals; either runs only if some lane needs it."""
    psi, z = f.digamma(alpha), f.exp(log_z)
    low = log_z <= psi + 1.0 / alpha
    summed = low & (alpha < 30.0)
    series = _slope_series(f, alpha, z, psi + 1.0 / alpha - log_z, _rounds(f, summed, 79))
    integral = _slope_integral(f, alpha, z, log_z - psi, low, _rounds(f, ~summed, len(rule[0])), rule)
    return f.select(summed, series, integral)


def _rounds(f: Any, needed: Any, count: int) -> Any:
    """`count` if a lane needs the loop, else 0."""
    return f.cast(f.largest(f.cast(needed, "u8")), "i64") * count


def _slope_series(f: Any, alpha: Any, z: Any, gap: Any, rounds: Any) -> Any:
    """(1/α) Σₙ tₙ (gap + hₙ) with tₙ = zⁿ / (α+1)…(α+n), hₙ = Σₖ 1/(α+k) and gap = ψ(α+1) − log z."""
    one, zero = f.const("f64", 1.0, z.lanes), f.const("f64", 0.0, z.lanes)
    with f.loop(0, rounds, carry=[gap, one, zero, alpha]) as loop:
        total, term, harmonic, at = loop.carry
        at = at + 1.0
        inverse = 1.0 / at
        term, harmonic = term * (z * inverse), harmonic + inverse
        loop.next([total + term * (gap + harmonic), term, harmonic, at])
    return loop.results[0] / alpha


def _slope_integral(f: Any, alpha: Any, z: Any, gap: Any, low: Any, rounds: Any, rule: Any) -> Any:
    """∫ (σ gap + y) exp(σ α y − z (e^σy − 1)) dy over [0, reach], σ = −1 where `low` and else 1; gap = log z − ψ(α)."""
    sign = f.select(low, f.const("f64", -1.0, z.lanes), 1.0)
    lower = f.select(alpha > 111.0, f.sqrt(111.0 / alpha), 1.6 + 37.0 / alpha)
    upper = f.minimum(f.sqrt(74.0 / z), f.log1p(74.0 / z) + 1.0)
    reach = f.minimum(f.select(low, lower, upper), 40.0 / f.maximum(sign * (z - alpha), 1e-9))
    nodes, weights = (
        f.table(f"slope.{name}", numbers) for name, numbers in zip(("nodes", "weights"), rule, strict=True)
    )
    with f.loop(0, rounds, carry=[f.const("f64", 0.0, z.lanes)]) as loop:
        y = reach * f.splat(f.load(nodes, loop.i, "f64"), z.lanes)
        turned = sign * y
        value = (sign * gap + y) * f.exp(alpha * turned - z * f.expm1(turned))
        loop.next([loop.carry[0] + value * f.splat(f.load(weights, loop.i, "f64"), z.lanes)])
    return loop.results[0] * reach


def _zeta_sum(f: Any, x: Any, q: Any) -> Any:
    """The terms up to q + k > 10 one by one, and Euler and Maclaurin's series for the others."""
    pole = (q <= 0.0) & f.floor(q).eq(q)
    valid = (x > 1.0) & (x < math.inf) & ~pole & ((q > 0.0) | f.floor(x).eq(x))
    start = f.select(valid, q, 1.0)
    count = f.cast(f.select(start < 0.0, 12.0 - start, 12.0), "i64")
    power = lambda a, b: f.routine("pow", lambda f, a, b: f.pow(a, b), a, b)
    with f.loop(0, f.largest(count), carry=[f.const("f64", 0.0, x.lanes), start], runs=True) as loop:
        total, at = loop.carry
        more = count > f.splat(loop.i, x.lanes)  # a lane takes no notice of its neighbours
        loop.next([f.select(more, total + power(at, -x), total), f.select(more, at + 1.0, at)])
    total, at = loop.results
    inverse = 1.0 / (at * at)
    h = f.const("f64", 0.0, x.lanes)
    for j, c in reversed(list(enumerate(bernoulli_ratios(), 1))):
        h = (h * ((x + (2.0 * j - 1.0)) * (x + 2.0 * j)) + c) * inverse
    rest = power(at, 1.0 - x)
    y = f.select(rest.eq(0.0), total, total + rest * (1.0 / (x - 1.0) + x * h + 0.5 / at))
    y = f.select(valid, y, math.nan)
    return f.select(x.eq(1.0) | (pole & ~(x < 1.0)), math.inf, y)


def bernoulli_ratios() -> list[float]:
    """B₂ⱼ / (2j)! for j = 1, 2, …"""
    return [float(b / math.factorial(2 * j)) for j, b in enumerate(bernoulli(2 * MOST_TERMS + 1)[2::2], 1)]


def bernoulli(count: int) -> list[Fraction]:
    """B₀, B₁ = −½, B₂, … from Σₖ (m+1 over k) Bₖ = 0."""
    found = [Fraction(1)]
    for m in range(1, count):
        found.append(-sum(math.comb(m + 1, k) * b for k, b in enumerate(found)) / (m + 1))
    return found


def euler_maclaurin(power: int) -> list[float]:
    """Coefficients cⱼ with Σₖ (y + k)^−s ≈ y^(1−s) (Σⱼ cⱼ y^−2j + 1/2y): c₀ = 1/(s−1), cⱼ = B₂ⱼ s(s+1)…(s+2j−2) / (2j)!"""
    found, rising = [1 / (power - 1)], Fraction(power, 2)
    for j, b in enumerate(bernoulli(2 * MOST_TERMS + 1)[2::2], 1):
        found.append(float(b * rising))
        rising *= Fraction((power + 2 * j - 1) * (power + 2 * j), (2 * j + 1) * (2 * j + 2))
    return found


def cotangent_slope(n: int) -> list[float]:
    """Of dⁿ/dxⁿ (π / tan πx), a polynomial in c = 1 / tan πx, the coefficients of c⁰, c², … or of c¹, c³, …

    With Pₙ(c) for π = 1: P₀ = c and Pₙ₊₁ = −(1 + c²) Pₙ′.
    """
    p = [0, 1]
    for _ in range(n):
        slope = [-k * c for k, c in enumerate(p)][1:]
        p = [a + b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return [math.pi ** (n + 1) * c for c in p[(n + 1) % 2 :: 2]]
