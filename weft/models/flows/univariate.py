"""Increasing maps of single numbers, given their parameters: what couplings and autoregressive flows do to each element.

Parameters that are all 0 make every map the identity, so that a network whose last layer starts at 0 starts a flow there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import weft

from ...errors import OptionError
from ...tensor import Tensor

__all__ = ["Affine", "Shift", "Univariate", "increasing_root"]

Pair = tuple[Tensor, Tensor]


class Univariate(ABC):
    """y = f(x; θ) with log dy/dx, element by element: (…), (…, K) → (…), (…), where K = `parameters`."""

    parameters: int

    @abstractmethod
    def forward(self, x: Tensor, theta: Tensor) -> Pair:
        """y and log dy/dx"""

    @abstractmethod
    def inverse(self, y: Tensor, theta: Tensor) -> Pair:
        """x and log dx/dy"""

    @property
    def inv(self) -> Univariate:
        """The inverse map with the same parameters."""
        return _InvertedUnivariate(self)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in vars(self).items() if name != "parameters")
        return f"{type(self).__name__}({options})"


class _InvertedUnivariate(Univariate):
    def __init__(self, univariate: Univariate) -> None:
        self.univariate, self.parameters = univariate, univariate.parameters

    @property
    def inv(self) -> Univariate:
        return self.univariate

    def forward(self, x: Tensor, theta: Tensor) -> Pair:
        return self.univariate.inverse(x, theta)

    def inverse(self, y: Tensor, theta: Tensor) -> Pair:
        return self.univariate.forward(y, theta)


class Shift(Univariate):
    """y = x + t: volumes stay as they are (NICE)."""

    parameters = 1

    def forward(self, x: Tensor, theta: Tensor) -> Pair:
        return x + theta[..., 0], weft.zeros_like(x)

    def inverse(self, y: Tensor, theta: Tensor) -> Pair:
        return y - theta[..., 0], weft.zeros_like(y)


class Affine(Univariate):
    """y = x eˢ + t with s = b tanh(s̃ / b), so that no step scales by more than eᵇ (RealNVP, MAF, IAF).

    parameters: t, s̃
    """

    parameters = 2

    def __init__(self, bound: float = 7.0) -> None:
        if not bound > 0:
            raise OptionError(f"Affine: the bound of log-scales must be positive, got {bound}")
        self.bound = bound

    def forward(self, x: Tensor, theta: Tensor) -> Pair:
        scale = self._scale(theta)
        return x * scale.exp() + theta[..., 0], scale

    def inverse(self, y: Tensor, theta: Tensor) -> Pair:
        scale = self._scale(theta)
        return (y - theta[..., 0]) * (-scale).exp(), -scale

    def _scale(self, theta: Tensor) -> Tensor:
        return self.bound * weft.tanh(theta[..., 1] / self.bound)


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
