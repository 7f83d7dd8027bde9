"""The gamma distribution."""

from __future__ import annotations

from typing import Any, ClassVar

import weft

from ..ops.math.implicit_gamma import standard_gamma
from ..ops.math.quantiles import gammaincinv
from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_parameters

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """p(x) = βᵅ xᵅ⁻¹ e^(−βx) / Γ(α) for x > 0.

    concentration, rate: α and β

    >>> weft.distributions.Gamma(3.0, 2.0).mean
    tensor(1.5000)
    """

    arg_constraints: ClassVar = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        shape, (self.concentration, self.rate) = broadcast_parameters(concentration, rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """z / β with z ~ Gamma(α, 1); gradients in α by implicit reparameterisation."""
        value = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate
        return value.clamp(min=weft.finfo(value.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        return (
            weft.xlogy(self.concentration, self.rate)
            + weft.xlogy(self.concentration - 1, value)
            - self.rate * value
            - self.concentration.lgamma()
        )

    def cdf(self, value: Tensor) -> Tensor:
        return weft.special.gammainc(self.concentration, self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return gammaincinv(self.concentration, value) / self.rate

    def entropy(self) -> Tensor:
        alpha = self.concentration
        return alpha - self.rate.log() + alpha.lgamma() + (1 - alpha) * alpha.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return (x + 1).lgamma() - (x + 1) * (-y).log()
