"""The Poisson distribution."""

from __future__ import annotations

from typing import Any, ClassVar

import weft

from ..autograd import no_grad
from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .quantiles import least_count
from .utils import broadcast_parameters

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """P(k) = λᵏ e^(−λ) / k!.

    rate: λ

    >>> weft.distributions.Poisson(weft.tensor(4.0)).variance
    tensor(4.)
    """

    arg_constraints: ClassVar = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _lattice = (0.0, 1.0)

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        shape, (self.rate,) = broadcast_parameters(rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return weft.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        return weft.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        """Q(⌊k⌋ + 1, λ), the upper incomplete gamma function."""
        return self._cumulative(value)

    def _cumulative(self, value: Tensor) -> Tensor:
        return weft.special.gammaincc(value.floor() + 1, self.rate)

    def icdf(self, value: Tensor) -> Tensor:
        """The least k with F(k) ≥ value."""
        p, rate = weft.broadcast_tensors(value, self.rate)
        return least_count(self._cumulative, p, weft.where(rate == 0, 0.0, weft.inf), self.rate)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp()
