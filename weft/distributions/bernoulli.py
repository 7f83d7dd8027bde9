"""The Bernoulli distribution: a coin."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..autograd import no_grad
from ..nn import functional as F
from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .utils import ProbsOrLogits, binary_entropy, broadcast_parameters

__all__ = ["Bernoulli"]


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """1 with probability p, else 0.

    >>> coin = weft.distributions.Bernoulli(weft.tensor(0.25))
    >>> coin.mean, coin.variance
    (tensor(0.2500), tensor(0.1875))
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _lattice = (0.0, 1.0)
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        shape, (value,) = broadcast_parameters(self._take_parameter(probs, logits))
        self._keep_parameter(value)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        """1 or 0, NaN where both are equally likely."""
        return weft.where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return weft.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = weft.broadcast_tensors(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value.to(logits.dtype), reduction="none")

    def cdf(self, value: Tensor) -> Tensor:
        """1 − p at 0, 1 at 1."""
        return self._cumulative(value)

    def _cumulative(self, value: Tensor) -> Tensor:
        return weft.where(value < 1, 1 - self.probs, 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        """0 up to the probability 1 − p, then 1; NaN outside of [0, 1]."""
        one = (value > 1 - self.probs).to(self.probs.dtype)
        return one.masked_fill(~((value >= 0) & (value <= 1)), math.nan)

    def entropy(self) -> Tensor:
        return binary_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = weft.arange(2, dtype=self._param.dtype).reshape((2,) + (1,) * len(self._batch_shape))
        return values.expand((2, *tuple(self._batch_shape))) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return F.softplus(x)
