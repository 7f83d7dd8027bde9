"""Monotone rational-quadratic splines: increasing maps made of K bins, with a slope at every knot and a closed inverse
(Gregory and Delbourgo 1982; Durkan et al. 2019), the identity outside of their box, or closed to a circle.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .univariate import Pair, Univariate

__all__ = ["CircularSpline", "RationalQuadraticSpline"]

F = nn.functional
LEAST = 1e-3  # share of the box that every bin has, and slope that every knot has


class _Bin(NamedTuple):
    """Of each element: where its bin begins, its sizes, the slopes at its ends."""

    x: Tensor
    y: Tensor
    width: Tensor
    height: Tensor
    left: Tensor
    right: Tensor


class _Spline(Univariate):
    """In a bin, with ξ = (x − x_k) / w and s = h / w:

    y = y_k + h (s ξ² + d_k ξ(1 − ξ)) / (s + (d_k + d_{k+1} − 2s) ξ(1 − ξ))
    """

    def __init__(self, bins: int, bound: float) -> None:
        if bins < 1 or bins * LEAST >= 1 or not bound > 0:
            raise OptionError(f"{type(self).__name__}: expected 1 to {int(1 / LEAST) - 1} bins and a bound above 0")
        self.bins, self.bound = bins, bound

    @abstractmethod
    def slopes(self, theta: Tensor) -> Tensor:
        """At all knots: (…, K + 1)"""

    def _inside(self, x: Tensor, theta: Tensor) -> Pair:
        """y and log dy/dx for x in the box."""
        bin = self._found(x, theta, inverse=False)
        s = bin.height / bin.width
        place = ((x - bin.x) / bin.width).clamp(0, 1)
        across = place * (1 - place)
        below = s + (bin.left + bin.right - 2 * s) * across
        y = bin.y + bin.height * (s * place**2 + bin.left * across) / below
        return y, _log_slope(s, bin, place, across, below)

    def _back(self, y: Tensor, theta: Tensor) -> Pair:
        """x and log dx/dy: the root of a quadratic equation, by the formula that does not cancel."""
        bin = self._found(y, theta, inverse=True)
        s = bin.height / bin.width
        up, curve = y - bin.y, bin.left + bin.right - 2 * s
        a = bin.height * (s - bin.left) + up * curve
        b = bin.height * bin.left - up * curve
        c = -s * up
        place = (2 * c / (-b - (b**2 - 4 * a * c).clamp(min=0).sqrt())).clamp(0, 1)
        across = place * (1 - place)
        return bin.x + place * bin.width, -_log_slope(s, bin, place, across, s + curve * across)

    def _found(self, value: Tensor, theta: Tensor, inverse: bool) -> _Bin:
        """The bin of each element, by comparisons and sums, which fuse into one loop."""
        widths, heights = (
            self._sizes(part) for part in (theta[..., : self.bins], theta[..., self.bins : 2 * self.bins])
        )
        starts = [size.cumsum(-1) - size - self.bound for size in (widths, heights)]
        edges = starts[1] if inverse else starts[0]
        number = (value.unsqueeze(-1) >= edges[..., 1:]).sum(-1, keepdim=True)
        chosen = weft.arange(self.bins) == number
        slopes = self.slopes(theta)
        columns = (*starts, widths, heights, slopes[..., :-1], slopes[..., 1:])
        return _Bin(*(weft.where(chosen, column, 0).sum(-1) for column in columns))

    def _sizes(self, raw: Tensor) -> Tensor:
        return 2 * self.bound * (LEAST + (1 - LEAST * self.bins) * raw.softmax(-1))


def _log_slope(s: Tensor, bin: _Bin, place: Tensor, across: Tensor, below: Tensor) -> Tensor:
    above = bin.right * place**2 + 2 * s * across + bin.left * (1 - place) ** 2
    return 2 * s.log() + above.log() - 2 * below.log()


def _slope(raw: Tensor) -> Tensor:
    """Positive, and 1 at 0."""
    return LEAST + F.softplus(raw + math.log(math.expm1(1 - LEAST)))


class RationalQuadraticSpline(_Spline):
    """A spline in [−bound, bound] with slope 1 at both ends, and y = x outside: continuous slopes everywhere.

    parameters: K widths, K heights, K − 1 slopes
    """

    def __init__(self, bins: int = 8, bound: float = 3.0) -> None:
        super().__init__(bins, bound)
        self.parameters = 3 * bins - 1

    def slopes(self, theta: Tensor) -> Tensor:
        return F.pad(_slope(theta[..., 2 * self.bins :]), (1, 1), value=1.0)

    def forward(self, x: Tensor, theta: Tensor) -> Pair:
        inside = x.abs() < self.bound
        y, slope = self._inside(x.clamp(-self.bound, self.bound), theta)
        return weft.where(inside, y, x), weft.where(inside, slope, 0)

    def inverse(self, y: Tensor, theta: Tensor) -> Pair:
        inside = y.abs() < self.bound
        x, slope = self._back(y.clamp(-self.bound, self.bound), theta)
        return weft.where(inside, x, y), weft.where(inside, slope, 0)


class CircularSpline(_Spline):
    """Angles in [−π, π) to angles: a spline whose slopes agree at ±π, then a turn (Rezende et al. 2020).

    parameters: K widths, K heights, K slopes, the angle of the turn. Any real x stands for x + 2πn.
    """

    def __init__(self, bins: int = 8) -> None:
        super().__init__(bins, math.pi)
        self.parameters = 3 * bins + 1

    def slopes(self, theta: Tensor) -> Tensor:
        found = _slope(theta[..., 2 * self.bins : 3 * self.bins])
        return weft.cat([found, found[..., :1]], -1)

    def forward(self, x: Tensor, theta: Tensor) -> Pair:
        y, slope = self._inside(_wrapped(x), theta)
        return _wrapped(y + theta[..., -1]), slope

    def inverse(self, y: Tensor, theta: Tensor) -> Pair:
        return self._back(_wrapped(y - theta[..., -1]), theta)


def _wrapped(angle: Tensor) -> Tensor:
    """Into [−π, π)."""
    return angle - 2 * math.pi * ((angle + math.pi) / (2 * math.pi)).floor()
