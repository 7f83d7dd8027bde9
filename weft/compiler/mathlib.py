"""Functions that processors do not have, as straight-line vector code for 'f32' and 'f64'.

Each is within 2 ulp of the true value over its whole range unless its docstring says otherwise, keeps NaN, the limits at
±∞ and the sign of zero, and handles denormal numbers (as far as the processor's mode does). A range that needs another
formula is computed for all lanes and selected. Polynomials are minimax fits; their errors stand beside them, relative to
the function.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .mathlib_special import Special
from .mathlib_trig import Trigonometry


@dataclass(frozen=True)
class Format:
    """A floating-point type: the integer type of its width, bits of the fraction, bias of the exponent."""

    whole: str
    fraction: int
    bias: int

    @property
    def shifter(self) -> float:
        """1.5 · 2^fraction: a small number added to it is rounded to an integer, which its lowest bits then hold."""
        return 1.5 * 2.0**self.fraction

    @property
    def shifter_bits(self) -> int:
        return (self.bias + self.fraction << self.fraction) + (1 << self.fraction - 1)

    @property
    def one_bits(self) -> int:
        return self.bias << self.fraction

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)


FORMATS = {"f32": Format("i32", 23, 127), "f64": Format("i64", 52, 1023)}

# (eʳ − 1 − r) / r² for |r| ≤ ½ ln 2: 2⁻²⁸·², 2⁻⁵⁷·⁷ of eʳ.
EXP = {
    "f32": (0.4999999403953552, 0.16666516661643982, 0.041668105870485306, 0.008369210176169872, 0.0013838575687259436),
    "f64": (
        0.5000000000000011,
        0.1666666666666643,
        0.04166666666652565,
        0.00833333333347972,
        0.0013888888944918857,
        0.00019841269545704907,
        2.4801491667304575e-05,
        2.7557543893352687e-06,
        2.763079237490819e-07,
        2.501620397750802e-08,
    ),
}
# (2ʳ − 1) / r for |r| ≤ ½: 2⁻²⁶·², 2⁻⁵⁴·⁵ of 2ʳ.
EXP2 = {
    "f32": (
        0.6931471824645996,
        0.24022594094276428,
        0.055503662675619125,
        0.00962546095252037,
        0.0013387941289693117,
        0.00013325670443009585,
    ),
    "f64": (
        0.6931471805599453,
        0.24022650695910172,
        0.055504108664824574,
        0.009618129107534665,
        0.001333355814528166,
        0.00015403530560015966,
        1.5252735254612837e-05,
        1.3215376373455291e-06,
        1.0177363206237929e-07,
        7.084627369623078e-09,
        4.5722454287320623e-10,
    ),
}
# Where eˣ is surely 0 and ∞.
EXP_RANGE = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
EXP2_RANGE = {"f32": (-151.0, 128.0), "f64": (-1076.0, 1024.0)}
# ln 2 in two parts; the first has so few bits that its product with an exponent is exact.
LN2 = {"f32": (0.693359375, -2.1219444e-4), "f64": (0.6931471803691238, 1.9082149292705877e-10)}
# f32: (log(1 + f) − f + f²/2) / f³ for 1 + f in [√½, √2]: 2⁻²⁷·³.
# f64: (2 atanh(s) / s − 2) / s² in powers of s², s = f / (2 + f): 2⁻⁵⁹·⁵.
LOG = {
    "f32": (
        0.3333333134651184,
        -0.2500082552433014,
        0.20001260936260223,
        -0.16623260080814362,
        0.14201126992702484,
        -0.1316053867340088,
        0.12764962017536163,
        -0.07636620104312897,
    ),
    "f64": (
        0.6666666666666735,
        0.39999999999409275,
        0.28571428743719973,
        0.22222198424660985,
        0.18183572588387564,
        0.1531382674505734,
        0.14798300618961074,
    ),
}
# log_b 2 in two parts (the first short, as above) and log_b e in two parts.
BASES = {
    2: {"f32": ((1.0, 0.0), (1.4426950216293335, 1.9259629911266175e-08)), "f64": ((1.0, 0.0), (1.4426950408889634, 2.0355273740931033e-17))},
    10: {"f32": ((0.30078125, 0.00024874566398119), (0.4342944920063019, -1.0103050118726503e-08)), "f64": ((0.30102999566406652, 1.9428738643e-13), (0.4342944819032518, 1.098319650216765e-17))},
}
# tanh x = x P(x²) / Q(x²) for |x| ≤ 9.02, f32: 2⁻²⁹·⁵.
TANH_P = (
    0.9999999986908119,
    0.13679913717432637,
    0.0038683260800575804,
    2.8007426811582135e-05,
    3.0584950823237366e-08,
    -1.2203417398141798e-11,
)
TANH_Q = (1.0, 0.4701324577774747, 0.027245832637256856, 0.0003938628235163333, 1.2873644343309719e-06)
