"""The inverse gamma distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..tensor import Tensor
from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """1/X with X ~ Gamma(α, β).

    concentration, rate: α and β

    >>> weft.distributions.InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """α."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """β."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """β/(α − 1), infinite for α ≤ 1."""
        return weft.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """β²/((α − 1)² (α − 2)), infinite for α ≤ 2."""
        alpha = self.concentration
        finite = self.rate.square() / ((alpha - 1).square() * (alpha - 2))
        return weft.where(alpha > 2, finite, math.inf)

    def entropy(self) -> Tensor:
        alpha = self.concentration
        return alpha + self.rate.log() + alpha.lgamma() - (1 + alpha) * alpha.digamma()
