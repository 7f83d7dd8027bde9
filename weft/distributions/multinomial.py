"""The multinomial distribution: counts of categories in a number of draws."""

from __future__ import annotations

from typing import Any, ClassVar

import weft

from ..autograd import no_grad
from ..errors import UnsupportedError
from ..tensor import Tensor
from . import constraints
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """P(k) = n! Π p_i^(k_i) / k_i!: how often each of K outcomes came in n trials.

    total_count: n, one number for the whole batch
    probs: p, (*, K), divided here by their sum; or
    logits: log p up to a constant, (*, K)

    >>> weft.distributions.Multinomial(10, weft.tensor([0.5, 0.5])).mean
    tensor([5., 5.])
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise UnsupportedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Multinomial:
        new = super().expand(batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        """Probabilities of the classes."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def param_shape(self) -> weft.Size:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)  # (n, *) → (*, n)
            counts = self._categorical._param.new_zeros(self._extended_shape(sample_shape))
            return counts.scatter_add(-1, drawn, weft.ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = weft.broadcast_tensors(self.logits, value)
        powers = weft.where((value == 0) & (logits == -float("inf")), 0.0, logits) * value
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + powers.sum(-1)

    def entropy(self) -> Tensor:
        """n H(p) − log n! + Σᵢ E[log kᵢ!], each kᵢ binomial."""
        n = self.total_count
        counts = Binomial(n, self.probs, validate_args=False)
        values = counts.enumerate_support(expand=False)[1:]
        expected = (counts.log_prob(values).exp() * (values + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - weft.lgamma(self.probs.new_tensor(n + 1.0)) + expected
