"""The categorical distribution over 0 … K − 1."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..autograd import no_grad
from ..errors import InvalidValueError
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .quantiles import check_probability
from .utils import ProbsOrLogits

__all__ = ["Categorical"]


class Categorical(ProbsOrLogits, Distribution):
    """P(k) = p_k for k = 0 … K − 1.

    probs: p, (*, K), divided here by their sum; or
    logits: log p up to a constant, (*, K)

    >>> die = weft.distributions.Categorical(weft.tensor([1.0, 1.0, 2.0]))
    >>> die.probs, die.mode
    (tensor([0.2500, 0.2500, 0.5000]), tensor(2))
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _lattice = (0.0, 1.0)
    is_binary = False

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        value = self._take_parameter(probs, logits)
        if value.dim() < 1:
            raise InvalidValueError(
                f"`{'probs' if self._by_probs else 'logits'}` parameter must be at least one-dimensional."
            )
        self._keep_parameter(value / value.sum(-1, True) if self._by_probs else value - value.logsumexp(-1, True))
        self._num_events = value.shape[-1]
        super().__init__(value.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: the categories are names, not numbers."""
        return weft.full(self._batch_shape, math.nan, dtype=self._param.dtype)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        """NaN: the categories are names, not numbers."""
        return weft.full(self._batch_shape, math.nan, dtype=self._param.dtype)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        count = math.prod(sample_shape)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)  # (*batch, K) → (B, K)
            drawn = weft.multinomial(rows, count, True).T  # (B, N) → (N, B)
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        index = value.long().unsqueeze(-1)
        shape = weft.broadcast_shapes(index.shape[:-1], self.logits.shape[:-1])
        logits = self.logits.expand((*shape, self._num_events))
        return logits.gather(-1, index.expand((*shape, 1))).squeeze(-1)

    def cdf(self, value: Tensor) -> Tensor:
        """p₀ + … + p_k."""
        return self._cumulative(value)

    def _cumulative(self, value: Tensor) -> Tensor:
        index = value.long().clamp(max=self._num_events - 1).unsqueeze(-1)
        shape = weft.broadcast_shapes(index.shape[:-1], self._batch_shape)
        sums = self.probs.cumsum(-1).expand((*shape, self._num_events))
        return sums.gather(-1, index.expand((*shape, 1))).squeeze(-1)

    def icdf(self, value: Tensor) -> Tensor:
        """The least k with p₀ + … + p_k ≥ value, as int64."""
        check_probability(value, "Categorical")
        missed = self.probs.cumsum(-1) < value.unsqueeze(-1)  # (*, K)
        return missed.sum(-1).clamp(max=self._num_events - 1)

    def entropy(self) -> Tensor:
        finite = self.logits.clamp(min=weft.finfo(self.logits.dtype).min)
        return -(finite * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = weft.arange(self._num_events).reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((self._num_events, *tuple(self._batch_shape))) if expand else values
