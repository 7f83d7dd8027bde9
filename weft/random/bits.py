"""From raw bits to numbers: uniforms, normals, exponentials, integers, as the stream convention defines them."""

import math

import numpy as np
from numpy.typing import NDArray

from .gaussian import box_muller

HALF = 2**32 - 1


def _float_like(raw: NDArray) -> type[np.floating]:
    return np.float64 if raw.itemsize == 8 else np.float32


def _unit(raw: NDArray) -> NDArray:
    """[0, 1), exact: the top 24 bits of 32, or the top 53 of 64."""
    kind, dropped = (np.float64, 11) if raw.itemsize == 8 else (np.float32, 8)
    return np.multiply(raw >> dropped, kind(2.0 ** (dropped - 8 * raw.itemsize)), dtype=kind)


def _open(raw: NDArray) -> NDArray:
    """(0, 1], finest near 0: float(r) · 2⁻ᵇ + 2⁻⁽ᵇ⁺¹⁾."""
    kind, step = _float_like(raw), 2.0 ** (-8 * raw.itemsize)
    u = np.multiply(raw, kind(step), dtype=kind)
    u += kind(step / 2)
    return u


def _signed(raw: NDArray) -> NDArray:
    """[-½, ½], finest near 0, never 0: float(r as a signed integer) · 2⁻ᵇ + 2⁻⁽ᵇ⁺¹⁾."""
    kind, step = _float_like(raw), 2.0 ** (-8 * raw.itemsize)
    u = np.multiply(raw.view(f"i{raw.itemsize}"), kind(step), dtype=kind)
    u += kind(step / 2)
    return u


def _radius(raw: NDArray) -> NDArray:
    r = np.log(_open(raw))
    r *= r.dtype.type(-2)
    return np.sqrt(r, out=r)


def _angle(raw: NDArray) -> NDArray:
    angle = _signed(raw)
    angle *= angle.dtype.type(2 * math.pi)
    return angle


def _box_muller(raw: NDArray) -> NDArray:
    pairs = raw.reshape(-1, 2)  # (2 J,) → (J, 2)
    return box_muller(_open(pairs[:, 0]), _signed(pairs[:, 1]))


def _standard_exponential(raw: NDArray) -> NDArray:
    x = np.log(_open(raw))
    np.negative(x, out=x)
    return np.maximum(x, np.finfo(x.dtype).eps / 4, out=x)


def _multiply_high(w: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
    """⌊w · factor / 2⁶⁴⌋ from 32-bit halves, in the memory of w; no sum here passes 2⁶⁴."""
    shift, half = np.uint64(32), np.uint64(HALF)
    low_factor, high_factor = np.uint64(factor & HALF), np.uint64(factor >> 32)
    low = w & half
    w >>= shift
    carry = low * low_factor
    carry >>= shift
    if not high_factor:
        w *= low_factor
        w += carry
        w >>= shift
        return w
    middle = w * low_factor + carry
    w *= high_factor
    w += middle >> shift
    w += (low * high_factor + (middle & half)) >> shift
    return w


def _first_above(cumulative: NDArray, target: NDArray) -> NDArray[np.int64]:
    """The first index where a row of cumulative (B, C) exceeds target (B, S), by bisection of all at once."""
    low = np.zeros(target.shape, np.int64)
    high = np.full(target.shape, cumulative.shape[-1] - 1)
    for _ in range((cumulative.shape[-1] - 1).bit_length()):
        middle = (low + high) // 2
        above = np.take_along_axis(cumulative, middle, -1) > target
        high = np.where(above, middle, high)
        low = np.where(above, low, np.minimum(middle + 1, high))
    return low
