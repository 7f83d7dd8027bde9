"""The Weibull distribution."""

from __future__ import annotations

from typing import Any, ClassVar

import weft

from ..tensor import Tensor
from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """F(x) = 1 − exp(−(x/λ)ᵏ) for x > 0: λ E^(1/k), E exponential.

    scale: λ
    concentration: k

    >>> weft.distributions.Weibull(1.0, 1.0).mean
    tensor(1.)
    """

    arg_constraints: ClassVar = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        steps = [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)]
        base = Exponential(weft.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, order: int) -> Tensor:
        """E[(X/λ)^order] = Γ(1 + order/k)."""
        return (1 + order / self.concentration).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        """λ ((k − 1)/k)^(1/k)."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def entropy(self) -> Tensor:
        inverse = self.concentration.reciprocal()
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1
