"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..errors import InvalidValueError
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import lazy_property, standard_normal

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Distribution):
    """N(μ, Σ) in D dimensions, given by just one of Σ, its inverse, or its Cholesky factor L, Σ = L Lᵀ.

    log p(x) = −½ (D log 2π + log det Σ + (x − μ)ᵀ Σ⁻¹ (x − μ)).

    loc: μ, (*, D)
    covariance_matrix: Σ, (*, D, D); or
    precision_matrix: Σ⁻¹; or
    scale_tril: L, which costs least

    >>> weft.distributions.MultivariateNormal(weft.zeros(2), 4 * weft.eye(2)).entropy()
    tensor(4.2242)
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise InvalidValueError("loc must be at least one-dimensional.")
        name, matrix = one_matrix(covariance_matrix, precision_matrix, scale_tril)
        batch = weft.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(batch + loc.shape[-1:])
        self.__dict__[name] = matrix.expand(batch + matrix.shape[-2:])
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = cholesky_factor(name, matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """L, lower triangular with positive diagonal."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Σ = L Lᵀ."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Σ⁻¹."""
        inverse = weft.cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """μ + L ε with ε ~ N(0, I)."""
        noise = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        distance = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def _half_log_det(self) -> Tensor:
        """½ log det Σ = Σ log L_ii."""
        return half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self) -> Tensor:
        found = 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()
        return found.expand(self._batch_shape)


def one_matrix(covariance: Any, precision: Any, scale_tril: Any) -> tuple[str, Tensor]:
    """The one matrix that was given, with the name of its parameter."""
    given = {"covariance_matrix": covariance, "precision_matrix": precision, "scale_tril": scale_tril}
    present = [(name, matrix) for name, matrix in given.items() if matrix is not None]
    if len(present) != 1:
        raise InvalidValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    name, matrix = present[0]
    if matrix.dim() < 2:
        raise InvalidValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
    return name, matrix


def cholesky_factor(name: str, matrix: Tensor) -> Tensor:
    """L with Σ = L Lᵀ, from whichever matrix was given."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return weft.linalg.cholesky(matrix)
    return precision_to_scale_tril(matrix)


def precision_to_scale_tril(precision: Tensor) -> Tensor:
    """L from P = Σ⁻¹: with P reversed = C Cᵀ, P = UUᵀ for the upper U = C reversed, and L = U⁻ᵀ."""
    upper = weft.linalg.cholesky(precision.flip((-2, -1))).flip((-2, -1))
    identity = weft.eye(precision.shape[-1], dtype=precision.dtype)
    return weft.linalg.solve_triangular(upper.mT, identity.expand(precision.shape), upper=False)


def half_log_det(factor: Tensor) -> Tensor:
    """Σ log L_ii: (*, D, D) → (*)."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """xᵀ (L Lᵀ)⁻¹ x with broadcasting: (*, D, D), (*, D) → (*)."""
    if factor.dim() == 2:
        rows = x.reshape(-1, x.shape[-1])  # (*, D) → (N, D)
        solved = weft.linalg.solve_triangular(factor, rows.mT, upper=False)  # (D, N)
        return solved.square().sum(0).reshape(x.shape[:-1])
    batch = weft.broadcast_shapes(factor.shape[:-2], x.shape[:-1])
    columns = x.expand(batch + x.shape[-1:]).unsqueeze(-1)  # (*, D, 1)
    solved = weft.linalg.solve_triangular(factor.expand(batch + factor.shape[-2:]), columns, upper=False)
    return solved.square().sum((-2, -1))
