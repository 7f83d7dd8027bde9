"""Student's t-distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..ops.math.implicit_gamma import log_standard_gamma
from ..ops.math.quantiles import betainc, betaincinv
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_parameters, standard_normal

__all__ = ["StudentT"]


class StudentT(Distribution):
    """p(x) ∝ (1 + z²/ν)^(−(ν+1)/2), z = (x − μ)/σ.

    df: ν, the degrees of freedom
    loc, scale: μ and σ

    >>> weft.distributions.StudentT(weft.tensor(3.0)).variance
    tensor(3.)
    """

    arg_constraints: ClassVar = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        shape, (self.df, self.loc, self.scale) = broadcast_parameters(df, loc, scale)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return weft.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """σ² ν/(ν − 2); infinite for 1 < ν ≤ 2, NaN for ν ≤ 1."""
        safe = weft.where(self.df > 2, self.df, 3.0)
        finite = self.scale.square() * safe / (safe - 2)
        return weft.where(self.df > 2, finite, weft.where(self.df > 1, weft.full_like(finite, math.inf), math.nan))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale · ε √(ν / c) with ε ~ N(0, 1), c = 2z ~ χ²(ν), z ~ Gamma(ν/2, 1)."""
        shape = self._extended_shape(sample_shape)
        log_gamma = log_standard_gamma((self.df / 2).expand(shape)).to(self.df.dtype)
        return self.loc + self.scale * standard_normal(shape, self.df) * (((self.df / 2).log() - log_gamma) / 2).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1) * (z.square() / self.df).log1p() - self._log_normaliser()

    def _log_normaliser(self) -> Tensor:
        half = self.df / 2
        return self.scale.log() + 0.5 * (self.df * math.pi).log() + half.lgamma() - (half + 0.5).lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        """½ I(ν/2, ½, ν/(ν + z²)) to the left of loc, its complement to the right; gradients in x."""
        z = (value - self.loc) / self.scale
        tail = betainc(self.df / 2, weft.full_like(self.df, 0.5), self.df / (self.df + z.square())) / 2
        return weft.where(z < 0, tail, 1 - tail)

    def icdf(self, value: Tensor) -> Tensor:
        """z² = ν(1 − x)/x at the beta quantile x of twice the smaller tail."""
        half, tail = weft.full_like(self.df, 0.5), 2 * weft.minimum(value, 1 - value)
        x, rest = betaincinv(self.df / 2, half, tail), betaincinv(half, self.df / 2, 1 - tail)
        square = weft.where(tail < 0.5, (1 - x) / x, rest / (1 - rest))
        return self.loc + self.scale * (value - 0.5).sign() * (self.df * square).sqrt()

    def entropy(self) -> Tensor:
        upper = (self.df + 1) / 2
        return self._log_normaliser() + upper * (upper.digamma() - (self.df / 2).digamma())
