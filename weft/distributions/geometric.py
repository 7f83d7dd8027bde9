"""The geometric distribution: failures before the first success."""

from __future__ import annotations

from typing import Any, ClassVar

import weft

from ..autograd import no_grad
from ..errors import InvalidValueError
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .quantiles import least_count
from .utils import ProbsOrLogits, binary_entropy, broadcast_parameters, uniform

__all__ = ["Geometric"]


class Geometric(ProbsOrLogits, Distribution):
    """P(k) = (1 − p)ᵏ p for k = 0, 1, …: failures before the first success.

    >>> weft.distributions.Geometric(weft.tensor(0.25)).mean
    tensor(3.)
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _lattice = (0.0, 1.0)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        shape, (value,) = broadcast_parameters(self._take_parameter(probs, logits))
        self._keep_parameter(value)
        super().__init__(shape, validate_args=validate_args)
        if self._validate_args and probs is not None and constraints.fails(self.probs > 0):
            raise InvalidValueError(
                f"Expected parameter probs (Tensor of shape {tuple(value.shape)}) of distribution {self!r} to be "
                f"positive but found invalid values:\n{value[value <= 0]}"
            )

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return weft.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """⌊log u / log(1 − p)⌋ with u uniform."""
        with no_grad():
            return (uniform(self._extended_shape(sample_shape), self.probs).log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        return weft.special.xlog1py(value, -self.probs) + self.probs.log()

    def cdf(self, value: Tensor) -> Tensor:
        """1 − (1 − p)^(⌊k⌋ + 1)."""
        return self._cumulative(value)

    def _cumulative(self, value: Tensor) -> Tensor:
        return -(weft.special.xlog1py(value.floor() + 1, -self.probs)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """The least k with F(k) ≥ value."""
        p, probs = weft.broadcast_tensors(value, self.probs)
        return least_count(self._cumulative, p, weft.where(probs == 1, 0.0, weft.inf), self.probs)

    def entropy(self) -> Tensor:
        return binary_entropy(self.logits, self.probs) / self.probs
