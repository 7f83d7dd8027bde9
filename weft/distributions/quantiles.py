"""Quantiles without a formula: searched for on a lattice of values, or between two bounds.

The quantile of a probability p is the least x with F(x) ≥ p, so F is all that a search needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from ..autograd import no_grad
from ..errors import InvalidValueError
from ..tensor import Tensor
from . import constraints

__all__ = ["check_probability", "least_count", "root_between"]

MOST = 2.0**53  # beyond it float64 does not tell neighbouring integers apart
MOST_HALVINGS = 200  # from any interval of ordinary width down to neighbouring floats


def least_count(cumulative: Callable[[Tensor], Tensor], probability: Tensor, upper: Any, like: Tensor) -> Tensor:
    """The least k = 0, 1, … with F(k) ≥ p, in the type of `like`; `upper` for p = 1; NaN outside of [0, 1].

    cumulative: F, called with counts in the type of `like`, so that the answer agrees with `cdf` to the last bit
    """
    with no_grad():
        below = lambda count: cumulative(count.to(like.dtype)) < probability
        inside = (probability >= 0) & (probability < 1)
        high = weft.zeros_like(probability, dtype=weft.float64)
        low = high - 1
        while bool((rising := below(high) & inside & (high < MOST)).any()):
            low, high = low.where(~rising, high), high.where(~rising, 2 * high + 1)
        middle = ((low + high) / 2).floor()
        # beyond 2⁵³ only every other count is there, so that none may be left between two of them
        while bool((open_ := inside & (low < middle) & (middle < high)).any()):
            right = below(middle)
            low, high = middle.where(open_ & right, low), middle.where(open_ & ~right, high)
            middle = ((low + high) / 2).floor()
        found = weft.where(high >= MOST, weft.inf, high).to(like.dtype)
        found = weft.where(probability == 1, weft.as_tensor(upper, dtype=like.dtype), found)
        return found.masked_fill(~((probability >= 0) & (probability <= 1)), weft.nan)


def root_between(
    cumulative: Callable[[Tensor], Tensor],
    density: Callable[[Tensor], Tensor],
    probability: Tensor,
    bounds: Callable[[Tensor], tuple[Tensor, Tensor]],
) -> Tensor:
    """The x with F(x) = p, between bounds(p) halved down to neighbouring floats; NaN outside of [0, 1].

    Moving p or a parameter θ keeps F(x; θ) = p, hence dx = (dp − ∂F/∂θ dθ) / f(x): these gradients flow.
    """
    valid = (probability >= 0) & (probability <= 1)
    p = probability.where(valid, 0.5)
    with no_grad():
        low, high = first, last = [end + 0 * p for end in bounds(p.detach())]
        for _ in range(MOST_HALVINGS):
            middle = low + (high - low) / 2
            if not bool(((low < middle) & (middle < high)).any()):
                break
            left = cumulative(middle) < p
            low, high = middle.where(left, low), high.where(left, middle)
        found = first.where(p == 0, last.where(p == 1, high))
        slope = density(found)
        slope = slope.where(slope > 0, weft.inf)  # at an infinite end nothing moves
    rest = p - cumulative(found)
    return (found + (rest - rest.detach()) / slope).where(valid, weft.nan)


def check_probability(value: Tensor, name: str) -> None:
    """Refuse what is no probability, where the answer is an integer and NaN cannot be one."""
    if constraints.fails((value >= 0) & (value <= 1)):
        raise InvalidValueError(f"{name}.icdf: expected probabilities in [0, 1], got {value}")
