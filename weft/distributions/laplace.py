"""The Laplace (double exponential) distribution."""

from __future__ import annotations

import math
from typing import Any

import weft

from ..tensor import Tensor
from .location_scale import LocationScale

__all__ = ["Laplace"]


class Laplace(LocationScale):
    """p(x) = exp(−|x − μ| / b) / 2b.

    loc, scale: μ and b

    >>> weft.distributions.Laplace(0.0, 1.0).log_prob(weft.tensor(0.0))
    tensor(-0.6931)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The quantile of a uniform number: μ − b sign(u) log(1 − |u|), u on (−1, 1)."""
        u = 2 * weft.rand(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype) - 1
        u = u.clamp(min=weft.finfo(u.dtype).eps - 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        centred = value - 0.5
        return self.loc - self.scale * centred.sign() * (-2 * centred.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()
