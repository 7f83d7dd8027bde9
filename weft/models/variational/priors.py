"""p(z): what codes are before anything is seen."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import weft

from ... import nn
from ...distributions import Distribution, Independent, Normal
from ...errors import UnsupportedError
from ...tensor import Tensor

__all__ = ["ConditionalNormal", "Prior", "StandardNormal"]


class Prior(nn.Module):
    """A density of codes (…, code). condition: (B, C), for priors p(z | c).

    A prior without `distribution` has its divergence from draws (`closed_form` is False).
    """

    closed_form = False

    @abstractmethod
    def log_prob(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        """log p(z): (K, B, code) → (K, B)"""

    @abstractmethod
    def draw(self, n: int, code: int, dtype: Any, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """z ~ p(z): (n, code)"""

    def distribution(self, code: int, dtype: Any, condition: Tensor | None = None) -> Distribution:
        """p(z) among `weft.distributions`: event (code,)."""
        raise UnsupportedError(f"{type(self).__name__} has no closed form: its divergence is drawn")


class StandardNormal(Prior):
    """p(z) = N(0, I)."""

    closed_form = True

    def log_prob(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        return standard_log_prob(z)

    def draw(self, n: int, code: int, dtype: Any, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        return weft.randn(n, code, dtype=dtype, generator=generator)

    def distribution(self, code: int, dtype: Any, condition: Tensor | None = None) -> Independent:
        zeros, ones = weft.zeros(code, dtype=dtype), weft.ones(code, dtype=dtype)
        return Independent(Normal(zeros, ones, validate_args=False), 1, validate_args=False)


class ConditionalNormal(Prior):
    """p(z | c) = N(μ(c), diag σ(c)²), both affine in the condition; starts as N(0, I) for every c.

    Shape: condition (B, conditions) → z (B, code)
    """

    closed_form = True

    def __init__(self, conditions: int, code: int, dtype: Any = None) -> None:
        super().__init__()
        self.network = nn.Linear(conditions, 2 * code, dtype=dtype)
        nn.init.zeros_(self.network.weight)
        nn.init.zeros_(self.network.bias)

    def log_prob(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        return self.distribution(z.shape[-1], z.dtype, condition).log_prob(z)

    def draw(self, n: int, code: int, dtype: Any, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        mean, log_scale = self.network(condition).chunk(2, -1)
        return mean + log_scale.exp() * weft.randn(n, code, dtype=dtype, generator=generator)

    def distribution(self, code: int, dtype: Any, condition: Tensor | None = None) -> Independent:
        mean, log_scale = self.network(condition).chunk(2, -1)
        return Independent(Normal(mean, log_scale.exp(), validate_args=False), 1, validate_args=False)


def standard_log_prob(z: Tensor) -> Tensor:
    """log N(z; 0, I): (…, code) → (…)"""
    return -0.5 * (z**2).sum(-1) - 0.5 * math.log(2 * math.pi) * z.shape[-1]
