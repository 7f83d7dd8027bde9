"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from ..tensor import Tensor
from .exp_family import ExponentialFamily
from .location_scale import LocationScale
from .utils import standard_normal

__all__ = ["Normal"]


class Normal(LocationScale, ExponentialFamily):
    """N(μ, σ²): p(x) = exp(−(x − μ)² / 2σ²) / (σ √2π).

    loc, scale: μ and σ

    >>> weft.distributions.Normal(0.0, 1.0).cdf(weft.tensor([-1.0, 0.0, 1.0]))
    tensor([0.1587, 0.5000, 0.8413])
    """

    _mean_carrier_measure = 0

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """μ + σ ε with ε ~ N(0, 1)."""
        return self.loc + standard_normal(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return -z * z / 2 - self.scale.log() - math.log(2 * math.pi) / 2

    def cdf(self, value: Tensor) -> Tensor:
        return (1 + ((value - self.loc) / (self.scale * math.sqrt(2))).erf()) / 2

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale.square(), -0.5 / self.scale.square()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -x * x / (4 * y) + (-math.pi / y).log() / 2
