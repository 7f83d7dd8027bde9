"""The negative binomial distribution: successes before a number of failures."""

from __future__ import annotations

from typing import Any, ClassVar

import weft

from ..autograd import no_grad
from ..nn import functional as F
from ..ops.math.quantiles import betainc
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .quantiles import least_count
from .utils import ProbsOrLogits, broadcast_parameters

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ProbsOrLogits, Distribution):
    """P(k) = Γ(r + k) / (k! Γ(r)) · (1 − p)ʳ pᵏ: successes before r failures.

    total_count: r, any number above 0

    >>> weft.distributions.NegativeBinomial(3.0, weft.tensor(0.5)).mean
    tensor(3.)
    """

    arg_constraints: ClassVar = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _lattice = (0.0, 1.0)

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        parameter = self._take_parameter(probs, logits)
        shape, (parameter, count) = broadcast_parameters(parameter, total_count)
        self.total_count = count.to(parameter.dtype)
        self._keep_parameter(parameter)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Poisson counts whose rate is Gamma(r, (1 − p)/p)."""
        with no_grad():
            rate = Gamma(self.total_count, (-self.logits).exp(), validate_args=False).sample(sample_shape)
            return weft.poisson(rate)

    def log_prob(self, value: Tensor) -> Tensor:
        r = self.total_count
        powers = r * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = (r + value).lgamma() - (value + 1).lgamma() - r.lgamma()
        return powers + weft.where(r + value == 0, 0.0, ways)

    def cdf(self, value: Tensor) -> Tensor:
        """I(r, k + 1, 1 − p), the incomplete beta function."""
        return self._cumulative(value)

    def _cumulative(self, value: Tensor) -> Tensor:
        return betainc(self.total_count, value.floor() + 1, 1 - self.probs)

    def icdf(self, value: Tensor) -> Tensor:
        """The least k with F(k) ≥ value."""
        p, count, probs = weft.broadcast_tensors(value, self.total_count, self.probs)
        upper = weft.where((count == 0) | (probs == 0), 0.0, weft.inf)
        return least_count(self._cumulative, p, upper, self.probs)
