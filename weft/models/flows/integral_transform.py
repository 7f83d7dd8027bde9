"""The probability integral transform in n dimensions: X → U → Y, any density to any other (Rosenblatt 1952, N1 thm. 10.1).

uᵢ = F(xᵢ | x_<i) is uniform on [0, 1]ⁿ, whatever the distribution of x
"""

from __future__ import annotations

from collections.abc import Callable

import weft

from ...distributions import Distribution, Normal
from ...errors import ShapeError
from ...tensor import Tensor
from .bijector import Bijector, Chain, Pair

__all__ = ["IntegralTransform", "between", "normal_conditionals"]

Conditionals = Callable[[Tensor], Distribution]


class IntegralTransform(Bijector):
    """u = (F(x₁), F(x₂ | x₁), …, F(xₙ | x_<n)),   log|det J| = Σ log p(xᵢ | x_<i) = log p(x)

    conditionals: x (B, D) → a distribution of shape (B, D) with cdf and icdf, whose element i depends on x_<i alone
    """

    def __init__(self, conditionals: Conditionals) -> None:
        super().__init__()
        self.conditionals = conditionals

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        given = self.conditionals(x)
        if tuple(given.batch_shape) != tuple(x.shape):
            raise ShapeError(
                f"IntegralTransform: expected conditionals of shape {tuple(x.shape)}, got {given.batch_shape}"
            )
        return given.cdf(x), given.log_prob(x).sum(1)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        places = weft.arange(y.shape[1])

        def fill(x: Tensor, place: Tensor) -> tuple[Tensor, None]:
            return weft.where(places == place, self.conditionals(x).icdf(y), x), None

        x = weft.scan(fill, weft.zeros_like(y), places)[0]
        return x, -self.conditionals(x).log_prob(x).sum(1)


def between(source: Conditionals, target: Conditionals) -> Chain:
    """X → U → Y: the increasing triangular map that turns draws of one density into draws of the other."""
    return Chain(IntegralTransform(source), IntegralTransform(target).inv)


def normal_conditionals(mean: Tensor, covariance: Tensor) -> Conditionals:
    """p(xᵢ | x_<i) of N(μ, Σ): mean μᵢ + Σ_{j<i} Lᵢⱼ zⱼ and deviation Lᵢᵢ, with L Lᵀ = Σ and z = L⁻¹ (x − μ)."""
    lower = weft.linalg.cholesky(covariance)
    scale = lower.diagonal()

    def conditionals(x: Tensor) -> Distribution:
        z = weft.linalg.solve_triangular(lower, (x - mean).mT, upper=False).mT  # (B, D)
        return Normal(mean + z @ lower.tril(-1).mT, scale.expand(x.shape), validate_args=False)

    return conditionals
