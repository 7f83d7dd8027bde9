"""The multivariate normal distribution with a covariance of low rank plus diagonal."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..errors import InvalidValueError
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .multivariate_normal import half_log_det, mahalanobis
from .utils import lazy_property, standard_normal

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """N(μ, W Wᵀ + diag d) in D dimensions.

    Densities cost O(D R²) by Woodbury's identity and the determinant lemma with the capacitance matrix
    C = I + Wᵀ diag(1/d) W:  det Σ = det C · Π d,  Σ⁻¹ = diag(1/d) − diag(1/d) W C⁻¹ Wᵀ diag(1/d).

    loc: μ, (*, D)
    cov_factor: W, (*, D, R)
    cov_diag: d, (*, D)

    >>> normal = weft.distributions.LowRankMultivariateNormal(weft.zeros(2), weft.ones(2, 1), weft.ones(2))
    >>> normal.covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        batch = _batch_shape(loc, cov_factor, cov_diag)
        event_shape = loc.shape[-1:]
        self.loc = loc.expand(batch + event_shape)
        self.cov_factor = cov_factor.expand(batch + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch + event_shape)
        super().__init__(batch, event_shape, validate_args=validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = capacitance_tril(cov_factor, cov_diag)

    def _square(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        found = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return found.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """L with Σ = L Lᵀ: √d times the Cholesky factor of I + (W/√d)(W/√d)ᵀ."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        identity = weft.eye(self._event_shape[0], dtype=scaled.dtype)
        return self._square(root * weft.linalg.cholesky(scaled @ scaled.mT + identity))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Σ = W Wᵀ + diag d."""
        factor = self._unbroadcasted_cov_factor
        return self._square(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Σ⁻¹ by Woodbury's identity."""
        inverse = self._unbroadcasted_cov_diag.reciprocal()
        weighted = (self._unbroadcasted_cov_factor * inverse.unsqueeze(-1)).mT  # Wᵀ diag(1/d): (*, R, D)
        solved = weft.linalg.solve_triangular(self._capacitance_tril, weighted, upper=False)
        return self._square(inverse.diag_embed() - solved.mT @ solved)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """μ + W ε + √d η with independent normal ε (R), η (D)."""
        shape = self._extended_shape(sample_shape)
        low = standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc)
        wide = standard_normal(shape, self.loc)
        moved = (self._unbroadcasted_cov_factor @ low.unsqueeze(-1)).squeeze(-1)
        return self.loc + moved + self._unbroadcasted_cov_diag.sqrt() * wide

    def log_prob(self, value: Tensor) -> Tensor:
        distance = low_rank_mahalanobis(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, value - self.loc, self._capacitance_tril
        )
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def _log_det(self) -> Tensor:
        """log det Σ."""
        return 2 * half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def entropy(self) -> Tensor:
        found = 0.5 * (self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._log_det())
        return found.expand(self._batch_shape)


def _batch_shape(loc: Tensor, factor: Tensor, diag: Tensor) -> weft.Size:
    """Check the sizes against each other and broadcast what stands before them."""
    if loc.dim() < 1:
        raise InvalidValueError("loc must be at least one-dimensional.")
    if factor.dim() < 2:
        raise InvalidValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
    if factor.shape[-2:-1] != loc.shape[-1:]:
        raise InvalidValueError(f"cov_factor must be a batch of matrices with shape {loc.shape[-1]} x m")
    if diag.shape[-1:] != loc.shape[-1:]:
        raise InvalidValueError(f"cov_diag must be a batch of vectors with shape {loc.shape[-1:]}")
    try:
        return weft.broadcast_shapes(loc.shape[:-1], factor.shape[:-2], diag.shape[:-1])
    except RuntimeError:
        raise InvalidValueError(
            f"Incompatible batch shapes: loc {loc.shape}, cov_factor {factor.shape}, cov_diag {diag.shape}"
        ) from None


def capacitance_tril(factor: Tensor, diag: Tensor) -> Tensor:
    """The Cholesky factor of I + Wᵀ diag(1/d) W: (*, R, R)."""
    weighted = factor.mT / diag.unsqueeze(-2)
    return weft.linalg.cholesky(weighted @ factor + weft.eye(factor.shape[-1], dtype=factor.dtype))


def low_rank_mahalanobis(factor: Tensor, diag: Tensor, x: Tensor, capacitance: Tensor) -> Tensor:
    """xᵀ Σ⁻¹ x = Σ x²/d − |C^(−½) Wᵀ (x/d)|²: (*, D) → (*)."""
    projected = (factor.mT @ (x / diag).unsqueeze(-1)).squeeze(-1)  # (*, R)
    return (x.square() / diag).sum(-1) - mahalanobis(capacitance, projected)
