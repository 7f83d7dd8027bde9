"""Fisher and Snedecor's F-distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..ops.math.implicit_gamma import standard_gamma
from ..ops.math.quantiles import betainc, betaincinv
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_parameters

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The ratio (c₁/ν₁)/(c₂/ν₂) of two chi-squared numbers with ν₁ and ν₂ degrees of freedom.

    df1, df2: ν₁ and ν₂

    >>> weft.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        shape, (self.df1, self.df2) = broadcast_parameters(df1, df2)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """ν₂/(ν₂ − 2) for ν₂ > 2."""
        return weft.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """(ν₁ − 2)/ν₁ · ν₂/(ν₂ + 2) for ν₁ > 2."""
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return weft.where(self.df1 > 2, found, math.nan)

    @property
    def variance(self) -> Tensor:
        """2ν₂² (ν₁ + ν₂ − 2) / (ν₁ (ν₂ − 2)² (ν₂ − 4)) for ν₂ > 4."""
        top = 2 * self.df2.square() * (self.df1 + self.df2 - 2)
        return weft.where(self.df2 > 4, top / (self.df1 * (self.df2 - 2).square() * (self.df2 - 4)), math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """(g₁/ν₁)/(g₂/ν₂) with gᵢ ~ Gamma(νᵢ/2, 1)."""
        shape, tiny = self._extended_shape(sample_shape), weft.finfo(self.df1.dtype).tiny
        top = standard_gamma((self.df1 / 2).expand(shape)) / self.df1
        bottom = standard_gamma((self.df2 / 2).expand(shape)) / self.df2
        return (top / bottom.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        half1, half2, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        normaliser = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        shape = half1 * ratio.log() + (half1 - 1) * value.log()
        return normaliser + shape - (half1 + half2) * (ratio * value).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """I(ν₁/2, ν₂/2, ν₁x/(ν₁x + ν₂)); gradients in x."""
        scaled = self.df1 * value
        return betainc(self.df1 / 2, self.df2 / 2, scaled / (scaled + self.df2))

    def icdf(self, value: Tensor) -> Tensor:
        share = betaincinv(self.df1 / 2, self.df2 / 2, value)
        return self.df2 / self.df1 * share / (1 - share)
