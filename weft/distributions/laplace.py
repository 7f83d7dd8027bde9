"""The Laplace (double exponential) distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_parameters

__all__ = ["Laplace"]


class Laplace(Distribution):
    """p(x) = exp(−|x − μ| / b) / 2b.

    loc, scale: μ and b

    >>> weft.distributions.Laplace(0.0, 1.0).log_prob(weft.tensor(0.0))
    tensor(-0.6931)
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        shape, (self.loc, self.scale) = broadcast_parameters(loc, scale)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
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
        if self._validate_args:
            self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        centred = value - 0.5
        return self.loc - self.scale * centred.sign() * (-2 * centred.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()
