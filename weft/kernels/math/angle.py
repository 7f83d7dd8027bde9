"""Angles of any size less their multiples of π/2, as vector code.

Small ones by π/2 in three parts; where a lane of a vector holds a large one, a branch that is rarely taken computes
lane after lane with as many bits of 2/π as the number needs (M. H. Payne and R. N. Hanek, 1983).
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

from . import tables
from .tools import FORMATS, Tools

__all__ = ["Angles"]

WORDS = 20  # of 64 bits, the first of them before the point: enough for the largest f64
# The largest angles from which multiples of π/2 in three parts are taken; without fused products they round.
NEAR = {True: {"f32": 1e6, "f64": 1e14}, False: {"f32": 1e5, "f64": 1e6}}


class Angles(Tools):
    """The part of `Math` that brings angles near 0."""

    def _quadrant(self, size: Any, fine: bool = False) -> list[Any]:
        """[q, r] with size = q π/2 + r up to whole turns, |r| ≤ π/4, for size ≥ 0; q counts in the lowest bits of integers.

        fine: [q, r, rest], where rest is what was lost by rounding r.
        """
        if not self.branches:
            write = lambda part: lambda f, x: f._quadrant(x, fine)[part]
            return [self.routine(f"quadrant{part}.{fine}", write(part), size) for part in range(2 + fine)]
        far = size > NEAR[self.target.fma][size.kind]
        return self.unless(far, self._near_quadrant(size, fine), lambda near: self._far_quadrant(size, far, near))

    def _near_quadrant(self, size: Any, fine: bool) -> list[Any]:
        form = FORMATS[size.kind]
        shifted = size * (2 / math.pi) + form.shifter
        n = shifted - form.shifter
        if self.target.fma:
            r = size
            for part in tables.HALF_PI[size.kind]:
                r = self.fma(n, -part, r)
        else:
            r, wide = self.cast(size, "f64"), self.cast(n, "f64")
            for part in tables.HALF_PI_SHORT:
                r = r - wide * part
            r = self.cast(r, size.kind)
        q = self.bitcast(shifted, form.whole)
        return [q, r, self._rest_of_angle(size, n, r)] if fine else [q, r]

    def _rest_of_angle(self, size: Any, n: Any, r: Any) -> Any:
        """size − n π/2 − r, for r near size − n π/2."""
        if not self.target.fma:
            return self.const(size.kind, 0.0, size.lanes)
        first, second, third = tables.HALF_PI[size.kind]
        product, product_low = self.two_product(n, self.const(n.kind, second, n.lanes))
        near, lost = self.two_sum(self.fma(n, -first, size), -product)
        return self.exactly("fsub", near, r) + (lost - product_low - n * third)

    def _far_quadrant(self, size: Any, far: Any, near: list[Any]) -> list[Any]:
        """The parts `near`, and in lanes that are far what `_reduced` gives; NaN for ∞."""
        form, wide = FORMATS[size.kind], self.cast(size, "f64")
        with self.loop(0, size.lanes, carry=[self.const("f64", 0.0, size.lanes)] * 3, runs=True) as lane:
            one = self.extract(wide, lane.i) if size.lanes > 1 else wide
            parts = self.routine("angle", _reduced, one)
            parts = [self.extract(parts, i) for i in range(3)]
            if size.lanes > 1:
                parts = [self.insert(whole, x, lane.i) for whole, x in zip(lane.carry, parts, strict=True)]
            lane.next(parts)
        q, r, rest = lane.results
        short = self.cast(r + (wide - wide), size.kind)
        rest = self.cast(self.exactly("fsub", r, self.cast(short, "f64")) + rest, size.kind)
        found = [self.bitcast(self.cast(q, size.kind) + form.shifter, form.whole), short, rest]
        return [self.select(far, x, y) for x, y in zip(found, near, strict=False)]


def _reduced(f: Any, x: Any) -> Any:
    """(q, r, rest, 0) in f64 with x = q π/2 + r + rest up to whole turns, for one finite x > 2⁻¹⁰.

    x is m 2ᵉ with m of 53 bits. Bits of 2/π that make whole turns of it do not count; of the 192 that follow the product
    with m is exact, two bits before the point and 126 behind it are kept, 62 of which may be 0 for some x.
    """
    bits = f.bitcast(x, "u64")
    m = (bits & ((1 << 52) - 1)) | (1 << 52)
    start = f.intrinsic("umax", bits >> 52, 1013) - 1013
    table = f.table("two_over_pi", two_over_pi(), "u64")
    words = [f.load(table, (start >> 6) + i, "u64") for i in range(4)]
    first, second, third = (f.intrinsic("fshl", a, b, start & 63) for a, b in itertools.pairwise(words))
    middle = m * second
    low = middle + _high_product(f, m, third)
    high = m * first + _high_product(f, m, second) + f.cast(low < middle, "u64")
    q = (high + (1 << 61)) >> 62
    high, low = f.intrinsic("fshl", high, low, 2), low << 2  # behind the point, signed
    sign = f.cast(f.cast(high, "i64") >> 63, "u64")
    high, low = high ^ sign, low ^ sign
    large = f.cast(f.cast(high >> 11, "i64"), "f64") * 2.0**-53
    small = f.cast(f.cast(high & 2047, "i64"), "f64") * 2.0**-64 + f.cast(f.cast(low >> 11, "i64"), "f64") * 2.0**-117
    turn = f.exactly("fadd", large, small)
    turn_low = small - (turn - large)
    (half_pi, half_pi_low, _), flip = tables.HALF_PI["f64"], f.select(sign.ne(0), f.const("f64", -1.0), 1.0)
    r, lost = f.two_product(turn, f.const("f64", half_pi))
    r, rest = f.two_sum(r, lost + (turn * half_pi_low + turn_low * half_pi))
    parts = f.const("f64", 0.0, 4)
    for i, part in enumerate((f.cast(q, "f64"), flip * r, flip * rest)):
        parts = f.insert(parts, part, i)
    return parts


def _high_product(f: Any, a: Any, b: Any) -> Any:
    """The upper 64 of the 128 bits of a product."""
    return f.cast((f.cast(a, "u128") * f.cast(b, "u128")) >> 64, "u64")


@functools.cache
def two_over_pi() -> list[int]:
    """2/π in binary: a word of zeros before the point, the others behind it."""
    one = 1 << 64 * (WORDS + 1)
    pi = 16 * _arc_cotangent(5, one) - 4 * _arc_cotangent(239, one)  # Machin's formula
    digits = (2 * one << 64 * (WORDS - 1)) // pi
    return [digits >> 64 * i & ((1 << 64) - 1) for i in reversed(range(WORDS))]


def _arc_cotangent(n: int, one: int) -> int:
    """one · acot n by Gregory's series."""
    total = term = one // n
    for k in range(3, one.bit_length(), 2):
        term = -term // (n * n)
        total += term // k
    return total
