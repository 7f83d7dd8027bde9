"""Maps of vectors and matrices: to the simplex, to Cholesky factors, to positive definite matrices."""

from __future__ import annotations

import math
from typing import Any

import weft

from ...errors import InvalidValueError
from ...nn import functional as F
from ...tensor import Tensor
from .. import constraints
from ..utils import tril_matrix_to_vec, vec_to_tril_matrix
from .base import PlainTransform

__all__ = [
    "CorrCholeskyTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "SoftmaxTransform",
    "StickBreakingTransform",
]


def _need_dimensions(shape: Any, count: int) -> None:
    if len(shape) < count:
        raise InvalidValueError(f"Too few dimensions on input: expected at least {count}, got shape {tuple(shape)}")


class SoftmaxTransform(PlainTransform):
    """y = softmax x: onto the simplex, not one-to-one; the inverse is the logarithm. (*, D) → (*, D).

    >>> weft.distributions.SoftmaxTransform()(weft.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        _need_dimensions(shape, 1)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        _need_dimensions(shape, 1)
        return shape


class StickBreakingTransform(PlainTransform):
    """A stick of length 1 broken K times: y_k = z_k Π_{j<k}(1 − z_j), the rest last. (*, K) → (*, K + 1).

    z_k = sigmoid(x_k − log(K − k)), k = 0 … K − 1, so that x = 0 gives K + 1 equal pieces.

    >>> weft.distributions.StickBreakingTransform()(weft.zeros(3))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        share = self._shifted(x).sigmoid()
        left = (1 - share).cumprod(-1)
        return F.pad(share, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        pieces = y[..., :-1]
        left = (1 - pieces.cumsum(-1)).clamp(min=weft.finfo(y.dtype).tiny)
        return pieces.log() - left.log() + self._offsets(pieces).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # triangular: ∂y_k/∂x_k = y_k (1 − z_k)
        return (y[..., :-1].log() + F.logsigmoid(-self._shifted(x))).sum(-1)

    def _shifted(self, x: Tensor) -> Tensor:
        return x - self._offsets(x).log()

    def _offsets(self, x: Tensor) -> Tensor:
        """K, K − 1, …, 1."""
        return weft.arange(x.shape[-1], 0, -1, dtype=x.dtype)

    def forward_shape(self, shape: Any) -> Any:
        _need_dimensions(shape, 1)
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        _need_dimensions(shape, 1)
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(PlainTransform):
    """The lower triangle of a matrix, its diagonal through exp: (*, D, D) → (*, D, D).

    >>> weft.distributions.LowerCholeskyTransform()(weft.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(PlainTransform):
    """L Lᵀ of the `LowerCholeskyTransform` of a matrix: (*, D, D) → (*, D, D).

    >>> weft.distributions.PositiveDefiniteTransform()(weft.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(weft.linalg.cholesky(y))


class CorrCholeskyTransform(PlainTransform):
    """Cholesky factors of correlation matrices: (*, D(D−1)/2) → (*, D, D).

    With z = tanh x below the diagonal, L_ij = z_ij Π_{k<j} √(1 − z_ik²) and L_ii = Π_{k<i} √(1 − z_ik²).

    >>> weft.distributions.CorrCholeskyTransform()(weft.zeros(3)).diagonal()
    tensor([1., 1., 1.])
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        limit = 1 - weft.finfo(x.dtype).eps
        z = vec_to_tril_matrix(x.tanh().clamp(min=-limit, max=limit), diag=-1)
        left = (1 - z * z).sqrt().cumprod(-1)[..., :-1]
        return (z + weft.eye(z.shape[-1], dtype=z.dtype)) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = F.pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)  # Π_{k<j} (1 − z_ik²)
        lower, share = tril_matrix_to_vec(y, diag=-1), tril_matrix_to_vec(left, diag=-1)
        return (lower / share.sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # row by row triangular: ∂L_ij/∂z_ij = √(1 − Σ_{k<j} L_ik²), and ∂z/∂x = 1 − tanh² x
        left = F.pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        slopes = tril_matrix_to_vec(left, diag=-1).log().sum(-1) / 2
        return slopes + 2 * (math.log(2) - x - F.softplus(-2 * x)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        _need_dimensions(shape, 1)
        size = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != shape[-1]:
            raise InvalidValueError(f"Input is not a flattened lower-diagonal number: {shape[-1]} is not D(D - 1)/2")
        return (*shape[:-1], size, size)

    def inverse_shape(self, shape: Any) -> Any:
        _need_dimensions(shape, 2)
        if shape[-2] != shape[-1]:
            raise InvalidValueError(f"Input is not square: {tuple(shape[-2:])}")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)
