"""What the builder's mathematical functions are by mpmath, for every finite number of their type.

mpmath's own functions fail or take minutes far out; there the asymptotic series stand, whose terms vanish at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp

PRECISE = 1400  # bits with which the largest f64 is reduced by multiples of π


@dataclass
class Truth:
    """A native function and the true one; errors are relative to the result or to `size(x)`, where that is larger."""

    native: Callable
    truth: Callable
    f32: float = 2  # ulp allowed
    f64: float = 2
    size: Callable = lambda x: 0.0
    costly: bool = False  # milliseconds by mpmath


def of(method: str, *settings: Any) -> Callable:
    return lambda f, *values: getattr(f, method)(*values, *settings)


def plain(name: str, truth: Callable, **settings: Any) -> Truth:
    return Truth(of(name), truth, **settings)


# ---------------------------------------------------------------- limits of domains


def within(function: Callable, low: float, high: float, at_low: Any = None, at_high: Any = None) -> Callable:
    """NaN outside [low, high]; limits at its ends where they are given."""

    def limited(x):
        if not low <= x <= high:
            return mp.nan
        limit = at_low if x == low else at_high if x == high else None
        return function(x) if limit is None else limit

    return limited


def clipped(function: Callable, bound: float = 1e5) -> Callable:
    """For functions that have long overflowed, or reached their limit, at ±bound."""
    return lambda x: function(max(min(x, mp.mpf(bound)), -mp.mpf(bound)))


def precisely(function: Callable) -> Callable:
    def precise(x):
        with mp.workprec(PRECISE):
            return function(x)

    return precise


# ---------------------------------------------------------------- around the normal distribution


def erfc(x):
    return mp.mpf(0) if x > 200 else mp.mpf(2) if x < -50 else mp.erfc(x)


def erfcx(x):
    if x < -30:
        return mp.inf
    if x < 1e4:
        return mp.exp(x * x) * mp.erfc(x)
    w = 1 / (2 * x * x)
    return (1 - w * (1 - 3 * w * (1 - 5 * w * (1 - 7 * w)))) / (x * mp.sqrt(mp.pi))


def log_ndtr(x):
    z = -x / mp.sqrt(2)
    return mp.log1p(-erfc(-z) / 2) if x > 0 else mp.log(erfcx(z) / 2) - z * z


def ndtri(p):
    """Newton's method on log Φ far to the left, where 2p − 1 would lose the digits of p."""
    if p > 0.01:
        return mp.sqrt(2) * mp.erfinv(2 * p - 1)
    y = -mp.sqrt(-2 * mp.log(p))
    for _ in range(12):
        y -= mp.log(mp.ncdf(y) / p) * mp.ncdf(y) / mp.npdf(y)
    return y


# ---------------------------------------------------------------- around Γ


def lgamma(x):
    if x <= 0 and x == mp.floor(x):
        return mp.inf
    return mp.loggamma(x) if x > 0 else mp.log(mp.pi / abs(mp.sinpi(x))) - mp.loggamma(1 - x)


def lgamma_size(x: float) -> float:
    """Left of 0: the larger term of the reflection."""
    return 0.0 if x > 0 else max(1.0, min(abs(x), 1e300) * math.log(max(abs(x), math.e)))


def digamma(x):
    if x == 0:
        return -mp.inf
    if x < 0 and x == mp.floor(x):
        return mp.nan
    return mp.digamma(x) if x > 0 else mp.digamma(1 - x) - mp.pi * mp.cospi(x) / mp.sinpi(x)


def cotangent_slope(n: int, x: Any) -> Any:
    """dⁿ/dxⁿ (π cot πx), from c′ = −π (1 + c²) for c = cot πx."""
    slope = [0, 1]  # a polynomial in c, lowest power first
    for _ in range(n):
        inner = [k * a for k, a in enumerate(slope)][1:]
        slope = [-(a + b) for a, b in zip([*inner, 0, 0], [0, 0, *inner], strict=True)]
    return mp.pi ** (n + 1) * mp.polyval(slope[::-1], mp.cospi(x) / mp.sinpi(x))


def polygamma(n: int) -> Truth:
    terms = math.factorial(n) * math.pi ** (n + 1)

    def truth(x):
        if x <= 0 and x == mp.floor(x):
            return (-1) ** (n + 1) * mp.inf
        return mp.psi(n, x) if x > 0 else (-1) ** n * mp.psi(n, 1 - x) - cotangent_slope(n, x)

    return Truth(of("polygamma", n), truth, 2, 4 + 2 * n, lambda x: terms * (x < 0), costly=True)


# ---------------------------------------------------------------- Bessel and Airy


def hankel(n: int, x: Any, sign: int) -> tuple[Any, Any]:
    """The even and the odd terms of Hankel's series, alternating where the sign is −1."""
    even = odd = mp.mpf(0)
    term = mp.mpf(1)
    for k in range(24):
        turned = term * (sign ** (k // 2))
        even, odd = (even, odd + turned) if k % 2 else (even + turned, odd)
        term *= (4 * n * n - (2 * k + 1) ** 2) / (8 * (k + 1) * x)
    return even, odd


def oscillating(name: str, n: int, exact: Callable) -> Truth:
    """Jₙ and Yₙ; between their zeros they are as large as √(2/πx)."""

    def far(x):
        (p, q), turn = hankel(n, x, -1), x - (2 * n + 1) * mp.pi / 4
        s, c = mp.sin(turn), mp.cos(turn)
        return mp.sqrt(2 / (mp.pi * x)) * (p * c - q * s if name == "bessel_j" else p * s + q * c)

    def truth(x):
        odd = -1 if x < 0 and n else 1
        return odd * (precisely(far)(abs(x)) if abs(x) > 1e3 else exact(n, abs(x)))

    limited = truth if name == "bessel_j" else within(truth, 0, mp.inf, at_low=-mp.inf)
    return Truth(of(name, n), limited, 2, 16, lambda x: math.sqrt(2 / (math.pi * max(abs(x), 1.0))), costly=True)


def modified(name: str, n: int, scaled: bool) -> Truth:
    """Iₙ and Kₙ; `scaled`: times e^∓x."""
    first = name == "bessel_i"

    def near(x):
        y = mp.besseli(n, x) if first else mp.besselk(n, x)
        return y * mp.exp(-x if first else x) if scaled else y

    def far(x):
        even, odd = hankel(n, x, 1)
        size = mp.sqrt(mp.pi / (2 * x)) / (mp.pi if first else 1)
        grown = 1 if scaled else mp.exp(min(x, mp.mpf(1e5)) * (1 if first else -1))
        return size * (even - odd if first else even + odd) * grown

    def truth(x):
        odd = -1 if x < 0 and n else 1
        return odd * (far(abs(x)) if abs(x) > 1e3 else near(abs(x)))

    limited = truth if first else within(truth, 0, mp.inf, at_low=mp.inf)
    return Truth(of(name, n, scaled), limited, 2, 4, costly=True)


def airy_size(x: float) -> float:
    """Left of 0 it waves; beyond −1e10 the phase is lost."""
    return 0.0 if x > 0 else math.inf if x < -1e10 else 1 / math.sqrt(math.pi * math.sqrt(max(1.0, abs(x))))


def airy(x):
    if x > 200 or x < -1e10:
        return mp.mpf(0)
    if x > -1e3:
        return mp.airyai(x)
    zeta = 2 * mp.sqrt(-x) * -x / 3
    terms = [mp.mpf(1)]
    for k in range(1, 12):
        terms.append(terms[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1) * zeta))
    p, q = (sum((-1) ** i * t for i, t in enumerate(terms[start::2])) for start in (0, 1))
    turn = zeta - mp.pi / 4
    return (mp.cos(turn) * p + mp.sin(turn) * q) / mp.sqrt(mp.pi * mp.sqrt(-x))


# ---------------------------------------------------------------- the table

TRUTHS = {
    "exp": plain("exp", clipped(mp.exp)),
    "exp2": plain("exp2", clipped(lambda x: mp.mpf(2) ** x)),
    "expm1": plain("expm1", clipped(mp.expm1)),
    "log": plain("log", within(mp.log, 0, mp.inf, at_low=-mp.inf)),
    "log2": plain("log2", within(lambda x: mp.log(x, 2), 0, mp.inf, at_low=-mp.inf)),
    "log10": plain("log10", within(mp.log10, 0, mp.inf, at_low=-mp.inf)),
    "log1p": plain("log1p", within(mp.log1p, -1, mp.inf, at_low=-mp.inf)),
    "sigmoid": plain("sigmoid", clipped(lambda x: 1 / (1 + mp.exp(-x)))),
    "tanh": plain("tanh", clipped(mp.tanh)),
    "sinh": plain("sinh", clipped(mp.sinh)),
    "cosh": plain("cosh", clipped(mp.cosh)),
    "asinh": plain("asinh", mp.asinh),
    "acosh": plain("acosh", within(mp.acosh, 1, mp.inf)),
    "atanh": plain("atanh", within(mp.atanh, -1, 1, -mp.inf, mp.inf)),
    "asin": plain("asin", within(mp.asin, -1, 1)),
    "acos": plain("acos", within(mp.acos, -1, 1)),
    "atan": plain("atan", mp.atan),
    "sin": plain("sin", precisely(mp.sin)),
    "cos": plain("cos", precisely(mp.cos)),
    "tan": plain("tan", precisely(mp.tan)),
    "sin_pi": plain("sin_pi", precisely(mp.sinpi)),
    "cos_pi": plain("cos_pi", precisely(mp.cospi)),
    "sinc": plain("sinc", precisely(mp.sincpi)),
    "sqrt": plain("sqrt", within(mp.sqrt, 0, mp.inf), f32=0.5, f64=0.5),
    "rsqrt": plain("rsqrt", within(lambda x: 1 / mp.sqrt(x), 0, mp.inf, at_low=mp.inf)),
    "erf": plain("erf", clipped(mp.erf, 50)),
    "erfc": plain("erfc", erfc),
    "ndtr": plain("ndtr", lambda x: erfc(-x / mp.sqrt(2)) / 2),
    "erfcx": plain("erfcx", erfcx, f64=2.5),
    "log_ndtr": plain("log_ndtr", log_ndtr, f64=3),
    "erfinv": plain("erfinv", within(mp.erfinv, -1, 1, -mp.inf, mp.inf)),
    "ndtri": plain("ndtri", within(ndtri, 0, 1, -mp.inf, mp.inf)),
    "lgamma": plain("lgamma", lgamma, size=lgamma_size),
    "digamma": plain("digamma", digamma, size=lambda x: 10.0 * (x < 0), costly=True),
    **{f"polygamma({n})": polygamma(n) for n in (1, 2, 5)},
    **{f"i{n}{'e' * e}": modified("bessel_i", n, e) for n in (0, 1) for e in (False, True)},
    **{f"k{n}{'e' * e}": modified("bessel_k", n, e) for n in (0, 1) for e in (False, True)},
    **{f"j{n}": oscillating("bessel_j", n, mp.besselj) for n in (0, 1)},
    **{f"y{n}": oscillating("bessel_y", n, mp.bessely) for n in (0, 1)},
    "spherical_bessel_j0": plain("spherical_bessel_j0", precisely(mp.sinc)),
    "airy_ai": plain("airy_ai", airy, f32=2, f64=60, size=airy_size, costly=True),
}
