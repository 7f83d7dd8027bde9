"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..tensor import Tensor
from . import constraints
from .cauchy import Cauchy
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(TransformedDistribution):
    """|C| with C Cauchy around 0; its mean is infinite.

    scale: the scale of C

    >>> weft.distributions.HalfCauchy(2.0).icdf(weft.tensor(0.5))
    tensor(2.)
    """

    arg_constraints: ClassVar = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The scale of the distribution that is folded."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return weft.full_like(self.scale, math.inf)

    @property
    def mode(self) -> Tensor:
        return weft.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return weft.full_like(self.scale, math.inf)

    def log_prob(self, value: Tensor) -> Tensor:
        return weft.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
