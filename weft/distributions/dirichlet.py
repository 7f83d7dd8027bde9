"""The Dirichlet distribution on the simplex."""

from __future__ import annotations

from typing import Any, ClassVar

import weft

from ..errors import InvalidValueError
from ..ops.math.implicit_gamma import log_standard_gamma
from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """p(x) = Γ(Σαᵢ)/ΠΓ(αᵢ) · Π xᵢ^(αᵢ−1) on the simplex.

    concentration: α, (*, K) with K ≥ 1

    >>> weft.distributions.Dirichlet(weft.tensor([1.0, 1.0, 2.0])).mean
    tensor([0.2500, 0.2500, 0.5000])
    """

    arg_constraints: ClassVar = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise InvalidValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """(αᵢ − 1)₊ normalised; where all αᵢ < 1, the corner of the largest."""
        above = (self.concentration - 1).clamp(min=0)
        mode = above / above.sum(-1, True)
        corner = weft.nn.functional.one_hot(self.concentration.argmax(-1), mode.shape[-1]).to(mode.dtype)
        return weft.where((self.concentration < 1).all(dim=-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """z / Σz with zᵢ ~ Gamma(αᵢ, 1), in logarithms so that small α do no harm."""
        log_gamma = log_standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        value = log_gamma.softmax(-1).to(self.concentration.dtype)
        return value.clamp(min=weft.finfo(value.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        return weft.xlogy(self.concentration - 1, value).sum(-1) - self._log_beta()

    def _log_beta(self) -> Tensor:
        """log ΠΓ(αᵢ) / Γ(Σαᵢ)."""
        return self.concentration.lgamma().sum(-1) - self.concentration.sum(-1).lgamma()

    def entropy(self) -> Tensor:
        total, size = self.concentration.sum(-1), self.concentration.shape[-1]
        own = ((self.concentration - 1) * self.concentration.digamma()).sum(-1)
        return self._log_beta() - (size - total) * total.digamma() - own

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
