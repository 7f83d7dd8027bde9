"""Kumaraswamy's distribution on the unit interval."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..tensor import Tensor
from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """F(x) = 1 − (1 − xᵃ)ᵇ on (0, 1).

    concentration1, concentration0: a and b

    >>> weft.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zero, one = weft.zeros_like(self.concentration0), weft.ones_like(self.concentration0)
        steps = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]  # (1 − u^(1/b))^(1/a)
        super().__init__(Uniform(zero, one, validate_args=False), steps, validate_args=validate_args)

    def _moment(self, order: int) -> Tensor:
        """E[X^order] = b B(1 + order/a, b)."""
        b, first = self.concentration0, 1 + order / self.concentration1
        return b * (first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """((a − 1)/(ab − 1))^(1/a) for a, b ≥ 1 that are not both 1, else NaN."""
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & (a * b > 1)
        return weft.where(inside, ((a - 1) / (a * b - 1)) ** a.reciprocal(), math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
