"""The concrete (Gumbel-softmax) distribution: a relaxed one-hot vector."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..sizes import Size
from ..tensor import Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import uniform

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(Distribution):
    """log softmax((logits + G)/T), G standard Gumbel (Maddison et al. 2017).

    temperature: T
    probs: p, (*, K), divided here by their sum; or
    logits: log p up to a constant, (*, K)
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> ExpRelaxedCategorical:
        new = super().expand(batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @property
    def logits(self) -> Tensor:
        """Log-probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self._categorical.probs

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        gumbel = -(-uniform(self._extended_shape(sample_shape), self.logits).log()).log()
        return ((self.logits + gumbel) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        size = self._event_shape[0]
        temperature = self.logits.new_ones(()) * self.temperature
        scores = self.logits - value * temperature
        return math.lgamma(size) + (size - 1) * temperature.log() + scores.log_softmax(-1).sum(-1)


class RelaxedOneHotCategorical(TransformedDistribution):
    """A point of the simplex that tends to a one-hot draw as T tends to 0, with gradients.

    temperature: T
    probs: p, (*, K), divided here by their sum; or
    logits: log p up to a constant, (*, K)

    >>> draw = weft.distributions.RelaxedOneHotCategorical(weft.tensor(0.5), weft.ones(3)).rsample()
    >>> draw.sum().round(decimals=4)
    tensor(1.)
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """How far draws are from the corners."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.base_dist.probs
