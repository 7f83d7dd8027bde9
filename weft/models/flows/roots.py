"""Roots of increasing functions, element by element: inverses of maps that have none in closed form."""

from __future__ import annotations

from collections.abc import Callable

import weft

from ...tensor import Tensor

__all__ = ["increasing_root"]


def increasing_root(f: Callable[[Tensor], tuple[Tensor, Tensor]], target: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The x in [low, high] with f(x) = target, for f that increases; f returns its value and its slope.

    Halving the interval until it is a rounding error wide, without gradient; then one Newton step with the slope held
    fixed, which changes nothing but carries the gradient of the implicit function theorem.
    """
    steps = 30 if target.dtype is weft.float32 else 58

    def halve(_: Tensor, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        low, high = ends
        middle = 0.5 * (low + high)
        below = f(middle)[0] < target
        return weft.where(below, middle, low), weft.where(below, high, middle)

    with weft.no_grad():
        low, high = weft.fori_loop(0, steps, halve, (low.detach(), high.detach()))
        x = 0.5 * (low + high)
        slope = f(x)[1].clamp(min=weft.finfo(x.dtype).eps)
    return x - (f(x)[0] - target) / slope
