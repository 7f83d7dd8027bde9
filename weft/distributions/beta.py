"""The beta distribution on the unit interval."""

from __future__ import annotations

from typing import Any, ClassVar

import weft

from ..ops.math.implicit_gamma import log_standard_gamma
from ..ops.math.quantiles import betainc, betaincinv
from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_parameters

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """p(x) = xᵅ⁻¹ (1 − x)ᵝ⁻¹ / B(α, β) on [0, 1].

    concentration1, concentration0: α and β

    >>> weft.distributions.Beta(3.0, 1.0).mean
    tensor(0.7500)
    """

    arg_constraints: ClassVar = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        shape, (self.concentration1, self.concentration0) = broadcast_parameters(concentration1, concentration0)
        super().__init__(shape, validate_args=validate_args)

    @property
    def _total(self) -> Tensor:
        return self.concentration1 + self.concentration0

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / self._total

    @property
    def mode(self) -> Tensor:
        """(α − 1)₊ / ((α − 1)₊ + (β − 1)₊); where both are below 1, the end of the larger."""
        first, second = (self.concentration1 - 1).clamp(min=0), (self.concentration0 - 1).clamp(min=0)
        end = (self.concentration1 >= self.concentration0).to(first.dtype)
        both_low = (self.concentration1 < 1) & (self.concentration0 < 1)
        return weft.where(both_low, end, first / (first + second))

    @property
    def variance(self) -> Tensor:
        return self.concentration1 * self.concentration0 / (self._total.square() * (self._total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """z₁ / (z₁ + z₀) of two gamma variates, as the sigmoid of log z₁ − log z₀."""
        shape = self._extended_shape(sample_shape)
        first = log_standard_gamma(self.concentration1.expand(shape))
        second = log_standard_gamma(self.concentration0.expand(shape))
        value = (first - second).sigmoid().to(self.concentration1.dtype)
        return value.clamp(min=weft.finfo(value.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        powers = weft.xlogy(self.concentration1 - 1, value) + weft.special.xlog1py(self.concentration0 - 1, -value)
        return powers - self._log_normalizer(self.concentration1, self.concentration0)

    def cdf(self, value: Tensor) -> Tensor:
        """The incomplete beta function I(α, β, x); gradients in x."""
        return betainc(self.concentration1, self.concentration0, value)

    def icdf(self, value: Tensor) -> Tensor:
        return betaincinv(self.concentration1, self.concentration0, value)

    def entropy(self) -> Tensor:
        own = (self.concentration1 - 1) * self.concentration1.digamma()
        other = (self.concentration0 - 1) * self.concentration0.digamma()
        normaliser = self._log_normalizer(self.concentration1, self.concentration0)
        return normaliser - own - other + (self._total - 2) * self._total.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()
