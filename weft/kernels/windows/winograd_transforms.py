"""The transforms of F(2×2, 3×3) and F(4×4, 3×3), along one dimension of a square of vectors and along both.

Points 0, ±1 and ∞ for m = 2, also ±2 for m = 4; y = Aᵀ[(G w) ⊙ (Bᵀ x)] in one dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..llvm.builder import Function
from ..llvm.values import Val

__all__ = [
    "Vectors",
    "input_transform",
    "kernel_adjoint",
    "kernel_transform",
    "output_adjoint",
    "output_transform",
    "square",
]

Vectors = Sequence[Val]


def combine(f: Function, weights: Sequence[float], values: Vectors) -> Val:
    """Σ weight · value, those with weight 1 first."""
    pairs = sorted(zip(weights, values, strict=True), key=lambda pair: pair[0] != 1)
    (weight, value), *rest = pairs
    total = value if weight == 1 else value * weight
    for weight, value in rest:
        total = total + value if weight == 1 else f.intrinsic("fmuladd", value, float(weight), total)
    return total


def input_transform(f: Function, x: Vectors) -> list[Val]:
    """Bᵀx of 4 or 6 vectors."""
    if len(x) == 4:
        return [x[0] - x[2], x[1] + x[2], x[2] - x[1], x[1] - x[3]]
    a, b = combine(f, (-4, 1), (x[2], x[4])), combine(f, (-4, 1), (x[1], x[3]))
    c, d = x[4] - x[2], x[3] - x[1]
    return [
        combine(f, (4, -5, 1), (x[0], x[2], x[4])),
        a + b,
        a - b,
        combine(f, (2, 1), (d, c)),
        combine(f, (-2, 1), (d, c)),
        combine(f, (4, -5, 1), (x[1], x[3], x[5])),
    ]


def output_transform(f: Function, m: Vectors) -> list[Val]:
    """Aᵀm: 4 → 2 or 6 → 4 vectors."""
    if len(m) == 4:
        return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]
    a, b, c, d = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    return [m[0] + a + c, combine(f, (2, 1), (d, b)), combine(f, (4, 1), (c, a)), combine(f, (8, 1, 1), (d, b, m[5]))]


def output_adjoint(f: Function, y: Vectors) -> list[Val]:
    """A y: 2 → 4 or 4 → 6 vectors."""
    if len(y) == 2:
        return [y[0], y[0] + y[1], y[0] - y[1], -y[1]]
    even, odd = y[0] + y[2], y[1] + y[3]
    even2, odd2 = combine(f, (4, 1), (y[2], y[0])), combine(f, (8, 2), (y[3], y[1]))
    return [y[0], even + odd, even - odd, even2 + odd2, even2 - odd2, y[3]]


def kernel_transform(f: Function, w: Vectors, m: int) -> list[Val]:
    """G w of 3 vectors."""
    if m == 2:
        half, middle = (w[0] + w[2]) * 0.5, w[1] * 0.5
        return [w[0], half + middle, half - middle, w[2]]
    even, far = (w[0] + w[2]) * (-1 / 6), combine(f, (1 / 24, 1 / 6), (w[0], w[2]))
    third = w[1] * (1 / 12)
    return [
        w[0] * 0.25,
        combine(f, (-1 / 6, 1), (w[1], even)),
        combine(f, (1 / 6, 1), (w[1], even)),
        far + third,
        far - third,
        w[2],
    ]


def kernel_adjoint(f: Function, s: Vectors) -> list[Val]:
    """Gᵀ s: 4 or 6 → 3 vectors."""
    if len(s) == 4:
        a, b = (s[1] + s[2]) * 0.5, (s[1] - s[2]) * 0.5
        return [s[0] + a, b, a + s[3]]
    a, b = (s[1] + s[2]) * (-1 / 6), (s[2] - s[1]) * (1 / 6)
    c, d = s[3] + s[4], s[3] - s[4]
    return [
        combine(f, (0.25, 1 / 24, 1), (s[0], c, a)),
        combine(f, (1 / 12, 1), (d, b)),
        combine(f, (1 / 6, 1, 1), (c, a, s[5])),
    ]


def square(
    transform: Callable[[Vectors], list[Val]], value: Callable[[int, int], Val], side: int
) -> Iterator[list[Val]]:
    """The transform along both dimensions of a square of vectors, row by row.

    A value is asked for when it is needed, and a row is given before the next is made: few vectors are held at a time.
    """
    columns = [transform([value(i, j) for i in range(side)]) for j in range(side)]
    for i in range(len(columns[0])):
        yield transform([column[i] for column in columns])
