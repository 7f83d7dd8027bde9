"""The Cauchy (Lorentz) distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_parameters

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """p(x) = 1 / (πγ (1 + ((x − x₀)/γ)²)); it has no mean.

    loc, scale: x₀ and γ

    >>> weft.distributions.Cauchy(0.0, 1.0).cdf(weft.tensor([-1.0, 0.0, 1.0]))
    tensor([0.2500, 0.5000, 0.7500])
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        shape, (self.loc, self.scale) = broadcast_parameters(loc, scale)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return weft.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return weft.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """x₀ + γ c with c standard Cauchy."""
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
