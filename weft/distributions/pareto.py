"""The Pareto distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..tensor import Tensor
from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """p(x) = α mᵅ / xᵅ⁺¹ for x ≥ m: m exp(E), E exponential of rate α.

    scale: m
    alpha: α

    >>> weft.distributions.Pareto(1.0, 3.0).mean
    tensor(1.5000)
    """

    arg_constraints: ClassVar = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        steps = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(Exponential(self.alpha, validate_args=validate_args), steps, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """α m / (α − 1), infinite for α ≤ 1."""
        alpha = self.alpha.clamp(min=1)
        return alpha * self.scale / (alpha - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        """m² α / ((α − 1)² (α − 2)), infinite for α ≤ 2."""
        alpha = self.alpha.clamp(min=2)
        return self.scale.square() * alpha / ((alpha - 1).square() * (alpha - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()
