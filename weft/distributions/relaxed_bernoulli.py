"""The binary concrete distribution: a relaxed coin."""

from __future__ import annotations

from typing import Any, ClassVar

from ..nn import functional as F
from ..sizes import Size
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import ProbsOrLogits, broadcast_parameters, uniform

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ProbsOrLogits, Distribution):
    """The log-odds (logits + L)/T, L standard logistic (Maddison et al. 2017).

    temperature: T
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        shape, (value,) = broadcast_parameters(self._take_parameter(probs, logits))
        self._keep_parameter(value)
        super().__init__(shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = uniform(self._extended_shape(sample_shape), self._param)
        return (u.log() - (-u).log1p() + self.logits) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        difference = self.logits - value * self.temperature
        temperature = difference.new_ones(()) * self.temperature
        return temperature.log() + difference - 2 * F.softplus(difference)

    def cdf(self, value: Tensor) -> Tensor:
        """σ(temperature · x − logits)."""
        return (value * self.temperature - self.logits).sigmoid()

    def icdf(self, value: Tensor) -> Tensor:
        return (value.log() - (-value).log1p() + self.logits) / self.temperature


class RelaxedBernoulli(TransformedDistribution):
    """A number of (0, 1) that tends to a Bernoulli(p) draw as T tends to 0, with gradients.

    temperature: T
    probs: p; or
    logits: its log-odds, log p/(1 − p)

    >>> draw = weft.distributions.RelaxedBernoulli(weft.tensor(0.5), weft.tensor(0.3)).rsample()
    >>> bool(0 < draw < 1)
    True
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """How far draws are from 0 and 1."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities of 1."""
        return self.base_dist.probs

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self.base_dist.param_shape
