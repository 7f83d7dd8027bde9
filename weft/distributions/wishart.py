"""The Wishart distribution of positive definite matrices."""

from __future__ import annotations

import math
from typing import Any

import weft

from ..errors import InvalidValueError
from ..ops.core.operands import is_number
from ..ops.math.implicit_gamma import standard_gamma
from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .multivariate_normal import cholesky_factor, half_log_det, one_matrix
from .utils import lazy_property, standard_normal

__all__ = ["Wishart"]


class Wishart(ExponentialFamily):
    """The sum of ν outer products of N(0, V) vectors in p dimensions.

    log p(X) = −½ (νp log 2 + ν log det V) − log Γ_p(ν/2) + ½ (ν − p − 1) log det X − ½ tr V⁻¹X.   Shape: (*, p, p)

    df: ν > p − 1, not only integers
    covariance_matrix: V, (*, p, p); or
    precision_matrix: V⁻¹; or
    scale_tril: its Cholesky factor

    >>> weft.distributions.Wishart(weft.tensor(3.0), weft.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_matrix(covariance_matrix, precision_matrix, scale_tril)
        df = weft.tensor(df, dtype=matrix.dtype) if is_number(df) else df
        batch, event_shape = weft.broadcast_shapes(matrix.shape[:-2], df.shape), matrix.shape[-2:]
        if constraints.fails(df > event_shape[-1] - 1):
            raise InvalidValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.")
        self.df = df.expand(batch)
        self.__dict__[name] = matrix.expand(batch + event_shape)
        super().__init__(batch, event_shape, validate_args=validate_args)
        self._unbroadcasted_scale_tril = cholesky_factor(name, matrix)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        matrices = ("covariance_matrix", "precision_matrix")
        found: dict[str, constraints.Constraint] = dict.fromkeys(matrices, constraints.positive_definite)
        size = self.__dict__.get("_event_shape", (1,))[-1]
        return found | {"scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(size - 1)}

    @lazy_property
    def scale_tril(self) -> Tensor:
        """L with V = L Lᵀ."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """V = L Lᵀ."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """V⁻¹."""
        return weft.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._batch_shape + self._event_shape)

    def _wide(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1).unsqueeze(-1)  # (*) → (*, 1, 1)

    @property
    def mean(self) -> Tensor:
        return self._wide(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """(ν − p − 1) V, NaN where ν ≤ p + 1."""
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        return self._wide(weft.where(factor > 0, factor, math.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """ν (V_ij² + V_ii V_jj)."""
        diagonal = self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._wide(self.df) * (self.covariance_matrix.square() + outer)

    def _steps(self) -> Tensor:
        """(ν − i)/2 for i = 0 … p − 1: (*, p)."""
        return (self.df.unsqueeze(-1) - weft.arange(self._event_shape[-1], dtype=self.df.dtype)) / 2

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Tensor:
        """Bartlett's decomposition L A (L A)ᵀ: A_ii² ~ χ²(ν − i), normal numbers below the diagonal."""
        shape = self._extended_shape(sample_shape)
        diagonal = (2 * standard_gamma(self._steps().expand(shape[:-1]))).sqrt()
        noise = standard_normal(shape, self._unbroadcasted_scale_tril).tril(-1) + diagonal.diag_embed()
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.mT

    def log_prob(self, value: Tensor) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        normaliser = nu * (p * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril)) + (nu / 2).mvlgamma(p)
        trace = weft.cholesky_solve(value, self._scale_for(value)).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (nu - p - 1) / 2 * weft.linalg.slogdet(value).logabsdet - trace / 2 - normaliser

    def _scale_for(self, value: Tensor) -> Tensor:
        shape = weft.broadcast_shapes(value.shape, self._unbroadcasted_scale_tril.shape)
        return self._unbroadcasted_scale_tril.expand(shape)

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        volume = (p + 1) * (half_log_det(self._unbroadcasted_scale_tril) + p * math.log(2) / 2)
        return volume + (nu / 2).mvlgamma(p) - (nu - p - 1) / 2 * self._steps().digamma().sum(-1) + nu * p / 2

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-weft.linalg.slogdet(-2 * x).logabsdet + p * math.log(2)) + half.mvlgamma(p)
