"""The generalised Pareto distribution of excesses."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_parameters, uniform

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """F(x) = 1 − (1 + ξz)^(−1/ξ), z = (x − μ)/σ ≥ 0.

    ξ = 0 is the shifted exponential distribution, its limit; for ξ < 0 the support ends at μ − σ/ξ.

    loc, scale: μ and σ
    concentration: ξ

    >>> weft.distributions.GeneralizedPareto(0.0, 1.0, 0.0).cdf(weft.tensor(1.0))
    tensor(0.6321)
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _look_first: ClassVar = ("log_prob", "log_survival_function")  # from which cdf follows

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        shape, (self.loc, self.scale, self.concentration) = broadcast_parameters(loc, scale, concentration)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        upper = weft.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)

    @property
    def mean(self) -> Tensor:
        """μ + σ/(1 − ξ) for ξ < 1."""
        return weft.where(self.concentration < 1, self.loc + self.scale / (1 - self.concentration), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """σ² / ((1 − ξ)² (1 − 2ξ)) for ξ < ½."""
        xi = self.concentration
        return weft.where(xi < 0.5, self.scale.square() / ((1 - xi).square() * (1 - 2 * xi)), math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The quantile of a uniform number."""
        return self.icdf(uniform(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        inside = (value >= self.loc) & (1 + self.concentration * self._z(value) >= 0)
        density = (1 + self.concentration) * self._log_rest(value) - self.scale.log()
        return weft.where(inside, density, -math.inf)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log(1 − F(x)) = −log(1 + ξz)/ξ."""
        return self._log_rest(value)

    def _log_rest(self, value: Tensor) -> Tensor:
        xi, z = self._safe(), self._z(value).clamp(min=0)
        return weft.where(self._is_exponential(), -z, -(xi * z).clamp(min=-1).log1p() / xi)

    def log_cdf(self, value: Tensor) -> Tensor:
        """log F(x)."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return -self.log_survival_function(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """μ + σ ((1 − p)^(−ξ) − 1)/ξ."""
        xi, log_rest = self._safe(), (-value).log1p()
        z = weft.where(self._is_exponential(), -log_rest, (-xi * log_rest).expm1() / xi)
        return self.loc + self.scale * z

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    def _is_exponential(self) -> Tensor:
        return self.concentration.abs() < weft.finfo(self.concentration.dtype).tiny

    def _safe(self) -> Tensor:
        """ξ, or 1 where it is 0 and the exponential formula is used."""
        return weft.where(self._is_exponential(), 1.0, self.concentration)
