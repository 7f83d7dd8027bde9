"""The Cauchy (Lorentz) distribution."""

from __future__ import annotations

import math
from typing import Any

import weft

from ..tensor import Tensor
from .location_scale import LocationScale

__all__ = ["Cauchy"]


class Cauchy(LocationScale):
    """p(x) = 1 / (πγ (1 + ((x − x₀)/γ)²)); it has no mean.

    loc, scale: x₀ and γ

    >>> weft.distributions.Cauchy(0.0, 1.0).cdf(weft.tensor([-1.0, 0.0, 1.0]))
    tensor([0.2500, 0.5000, 0.7500])
    """

    @property
    def mean(self) -> Tensor:
        return weft.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return weft.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """x₀ + γ c with c standard Cauchy."""
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - self._standard(value).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
