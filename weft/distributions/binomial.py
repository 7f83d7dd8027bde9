"""The binomial distribution: successes in a number of trials."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..autograd import no_grad
from ..errors import InvalidValueError, UnsupportedError
from ..nn import functional as F
from ..ops.math.quantiles import betainc
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .quantiles import least_count
from .utils import ProbsOrLogits, broadcast_parameters

__all__ = ["Binomial"]


class Binomial(ProbsOrLogits, Distribution):
    """P(k) = C(n, k) pᵏ (1 − p)ⁿ⁻ᵏ.

    total_count: n, the number of trials

    >>> weft.distributions.Binomial(2, weft.tensor(0.5)).log_prob(weft.tensor([0.0, 1.0, 2.0])).exp()
    tensor([0.2500, 0.5000, 0.2500])
    """

    arg_constraints: ClassVar = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _lattice = (0.0, 1.0)

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        parameter = self._take_parameter(probs, logits)
        shape, (parameter, count) = broadcast_parameters(parameter, total_count)
        self.total_count = count.to(parameter.dtype)
        self._keep_parameter(parameter)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return weft.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        choices = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return choices + value * self.logits - n * F.softplus(self.logits)

    def cdf(self, value: Tensor) -> Tensor:
        """I(n − k, k + 1, 1 − p), the incomplete beta function."""
        return self._cumulative(value)

    def _cumulative(self, value: Tensor) -> Tensor:
        failures = (self.total_count - value.floor()).clamp(min=0)
        found = betainc(failures.clamp(min=1), value.floor() + 1, 1 - self.probs)
        return weft.where(failures == 0, 1.0, found)

    def icdf(self, value: Tensor) -> Tensor:
        """The least k with F(k) ≥ value."""
        p, count, probs = weft.broadcast_tensors(value, self.total_count, self.probs)
        return least_count(self._cumulative, p, weft.where(probs == 0, 0.0, count), self.probs)

    def entropy(self) -> Tensor:
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        most = self.total_count.max().item()
        if not math.isfinite(most):
            raise InvalidValueError(f"Binomial: enumerate_support needs a finite total_count, got {most}")
        count = int(most)
        if not self.total_count.min().item() == count:
            raise UnsupportedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = weft.arange(1 + count, dtype=self._param.dtype).reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((1 + count, *tuple(self._batch_shape))) if expand else values
