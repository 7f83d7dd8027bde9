"""Lewandowski, Kurowicka and Joe's distribution of correlation matrices, as Cholesky factors."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..autograd import no_grad
from ..errors import InvalidValueError
from ..nn import functional as F
from ..tensor import Tensor
from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_parameters, standard_normal

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors L of D × D correlation matrices R = L Lᵀ with p(R) ∝ det(R)^(η − 1).

    Shape: concentration (*) → events (D, D)

    dim: D, at least 2
    concentration: η; 1 is uniform over correlation matrices

    >>> L = weft.distributions.LKJCholesky(3, 2.0).sample()
    >>> (L @ L.mT).diagonal()
    tensor([1., 1., 1.])
    """

    arg_constraints: ClassVar = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise InvalidValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        shape, (self.concentration,) = broadcast_parameters(concentration)
        super().__init__(shape, (dim, dim), validate_args=validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """The onion: row i is a random direction in i dimensions, its squared length Beta(i/2, η + (D − 1 − i)/2)."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            row = weft.arange(1, self.dim, dtype=self.concentration.dtype)
            rest = self.concentration.unsqueeze(-1) + (self.dim - 1 - row) / 2
            square = Beta((row / 2).expand(rest.shape), rest).sample(sample_shape).unsqueeze(-1)  # (*, D − 1, 1)
            direction = standard_normal((*shape[:-2], self.dim - 1, self.dim), self.concentration).tril(0)
            direction = direction / direction.norm(dim=-1, keepdim=True)
            lower = F.pad(square.sqrt() * direction, [0, 0, 1, 0])  # a first row of zeros: (*, D, D)
            tiny = weft.finfo(lower.dtype).tiny
            diagonal = (1 - lower.square().sum(-1)).clamp(min=tiny).sqrt()
            return lower + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Σ_i (D − i + 2η − 2) log L_ii for i = 2 … D, less the logarithm of the normaliser."""
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = self.dim - weft.arange(2, self.dim + 1, dtype=diagonal.dtype)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + order
        return (order * diagonal.log()).sum(-1) - self._log_normaliser()

    def _log_normaliser(self) -> Tensor:
        steps = self.dim - 1
        alpha = self.concentration + steps / 2
        return steps / 2 * math.log(math.pi) + (alpha - 0.5).mvlgamma(steps) - alpha.lgamma() * steps
