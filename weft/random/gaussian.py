"""Box–Muller from operations that every machine rounds in one way, so that a stream's normals never differ by a bit.

The formulas use +, -, ·, / and √ in a fixed order and no library function. They run on NumPy arrays here and on vectors
of native code in `kernels/memory/philox.py`: whatever has these operators and the functions of `Arithmetic`. Logarithm, sine
and cosine are those of Sun's fdlibm (within 1 ulp), whose argument reductions are exact here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["DOUBLE", "SINGLE", "box_muller", "normal_pair"]

CHUNK = 16384  # elements worked on at a time, so that intermediate results stay in cache


class Constants(NamedTuple):
    """What the formulas need to know about a floating type."""

    integer: str  # the type of its bits
    fraction: int  # how many bits of these are the fraction
    sqrt_half: int  # the bits of √½
    ln2_high: float  # ln 2 in so few bits that products with exponents are exact
    ln2_low: float
    log: tuple[float, ...]
    sin: tuple[float, ...]
    cos: tuple[float, ...]


SINGLE = Constants(
    "i32",
    23,
    0x3F3504F3,
    6.9313812256e-01,
    9.0580006145e-06,
    (6.6666662693e-01, 4.0000972152e-01, 2.8498786688e-01, 2.4279078841e-01),
    (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4),
    (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5),
)
DOUBLE = Constants(
    "i64",
    52,
    0x3FE6A09E667F3BCD,
    6.93147180369123816490e-01,
    1.90821492927058770002e-10,
    (
        6.666666666666735130e-01,
        3.999999999940941908e-01,
        2.857142874366239149e-01,
        2.222219843214978396e-01,
        1.818357216161805012e-01,
        1.531383769920937332e-01,
        1.479819860511658591e-01,
    ),
    (
        -1.66666666666666324348e-01,
        8.33333333332248946124e-03,
        -1.98412698298579493134e-04,
        2.75573137070700676789e-06,
        -2.50507602534068634195e-08,
        1.58969099521155010221e-10,
    ),
    (
        4.16666666666666019037e-02,
        -1.38888888888741095749e-03,
        2.48015872894767294178e-05,
        -2.75573143513906633035e-07,
        2.08757232129817482790e-09,
        -1.13596475577881948265e-11,
    ),
)


class Arithmetic:
    """What the formulas need beyond operators, for NumPy arrays of one floating type."""

    def __init__(self, kind: type[np.floating]) -> None:
        self.kind, self.constants = kind, SINGLE if kind is np.float32 else DOUBLE
        self.integer = np.dtype(self.constants.integer.replace("i", "int"))

    def number(self, value: float) -> Any:
        return self.kind(value)

    def bits(self, x: NDArray) -> NDArray:
        return x.view(self.integer)

    def from_bits(self, x: NDArray) -> NDArray:
        return x.view(self.kind)

    def floating(self, x: NDArray) -> NDArray:
        return x.astype(self.kind)

    def integral(self, x: NDArray) -> NDArray:
        return x.astype(self.integer)

    sqrt, rint, where = staticmethod(np.sqrt), staticmethod(np.rint), staticmethod(np.where)


def horner(a: Any, x: Any, coefficients: Sequence[float]) -> Any:
    """c₀ + x (c₁ + x (c₂ + …))."""
    total = a.number(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = x * total + a.number(c)
    return total


def log(a: Any, x: Any) -> Any:
    """ln x for normal x > 0: x = 2ᵏ (1 + f) with √½ ≤ 1 + f < √2, s = f / (2 + f), and a series in s²."""
    c = a.constants
    shifted = a.bits(x) - c.sqrt_half
    k = a.floating(shifted >> c.fraction)
    f = a.from_bits((shifted & ((1 << c.fraction) - 1)) + c.sqrt_half) - a.number(1)
    s = f / (f + a.number(2))
    z = s * s
    half_square = f * f * a.number(0.5)
    inner = s * (half_square + z * horner(a, z, c.log)) + k * a.number(c.ln2_low)
    return k * a.number(c.ln2_high) - ((half_square - inner) - f)


def cos_sin_of_turns(a: Any, turns: Any) -> tuple[Any, Any]:
    """cos 2πt and sin 2πt for |t| ≤ ½: quarter turns are taken off first, which is exact."""
    c = a.constants
    quarters = a.rint(turns * a.number(4))
    x = (turns - quarters * a.number(0.25)) * a.number(2 * math.pi)
    z = x * x
    sine = x + x * (z * horner(a, z, c.sin))
    cosine = (a.number(1) - z * a.number(0.5)) + z * z * horner(a, z, c.cos)
    q = a.integral(quarters)
    odd = (q & 1) != 0
    cos_sign, sin_sign = a.floating(1 - ((q + 1) & 2)), a.floating(1 - (q & 2))
    return a.where(odd, sine, cosine) * cos_sign, a.where(odd, cosine, sine) * sin_sign


def normal_pair(a: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """Two independent standard normals from one number in (0, 1] and one in [-½, ½]."""
    radius = a.sqrt(log(a, first) * a.number(-2))
    cosine, sine = cos_sin_of_turns(a, second)
    return radius * cosine, radius * sine


def box_muller(first: NDArray, second: NDArray) -> NDArray:
    """(J,), (J,) → (2 J,): the pairs one after the other."""
    a, z = Arithmetic(first.dtype.type), np.empty((len(first), 2), first.dtype)
    for start in range(0, len(first), CHUNK):
        part = slice(start, start + CHUNK)
        z[part, 0], z[part, 1] = normal_pair(a, first[part], second[part])
    return z.reshape(-1)
