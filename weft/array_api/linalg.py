"""The linear algebra extension of the standard; every function works on stacks of matrices."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import weft

from ..errors import InvalidValueError, ShapeError
from ..tensor import Tensor
from .array import Array, axes_of, need_array
from .linear import matmul, matrix_transpose, tensordot, vecdot
from .statistics import sum
from .types import floating, promoted_arrays

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

Eigh = namedtuple("Eigh", ["eigenvalues", "eigenvectors"])
QR = namedtuple("QR", ["Q", "R"])
SLogDet = namedtuple("SLogDet", ["sign", "logabsdet"])
SVD = namedtuple("SVD", ["U", "S", "Vh"])


def _matrices(name: str, x: Any) -> Tensor:
    tensor = floating(need_array(name, x))
    if tensor.ndim < 2:
        raise ShapeError(f"{name}: needs at least 2 dimensions, got shape {tuple(tensor.shape)}")
    return tensor


# ---------------------------------------------------------------------------------------- decompositions


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """L with L Lᴴ = x (or U with Uᴴ U = x) for positive definite matrices."""
    return Array(weft.linalg.cholesky(_matrices("cholesky", x), upper=upper))


def eigh(x: Array, /) -> Eigh:
    """Eigenvalues in ascending order and eigenvectors of symmetric (Hermitian) matrices."""
    return Eigh(*map(Array, weft.linalg.eigh(_matrices("eigh", x))))


def eigvalsh(x: Array, /) -> Array:
    """Eigenvalues of symmetric (Hermitian) matrices in ascending order."""
    return Array(weft.linalg.eigvalsh(_matrices("eigvalsh", x)))


def qr(x: Array, /, *, mode: str = "reduced") -> QR:
    """x = Q R with orthonormal columns in Q and upper triangular R."""
    if mode not in ("reduced", "complete"):
        raise InvalidValueError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    return QR(*map(Array, weft.linalg.qr(_matrices("qr", x), mode)))


def svd(x: Array, /, *, full_matrices: bool = True) -> SVD:
    """x = U diag(S) Vᴴ, singular values in descending order."""
    return SVD(*map(Array, weft.linalg.svd(_matrices("svd", x), full_matrices)))


def svdvals(x: Array, /) -> Array:
    """The singular values in descending order."""
    return Array(weft.linalg.svdvals(_matrices("svdvals", x)))


# -------------------------------------------------------------------------------- determinants and solving


def det(x: Array, /) -> Array:
    """The determinant."""
    return Array(weft.linalg.det(_matrices("det", x)))


def slogdet(x: Array, /) -> SLogDet:
    """The sign and the logarithm of the absolute value of the determinant."""
    return SLogDet(*map(Array, weft.linalg.slogdet(_matrices("slogdet", x))))


def inv(x: Array, /) -> Array:
    """The inverse."""
    return Array(weft.linalg.inv(_matrices("inv", x)))


def solve(x1: Array, x2: Array, /) -> Array:
    """y with x1 y = x2; x2 is one vector, or matrices."""
    a, b = (floating(t) for t in promoted_arrays("solve", x1, x2))
    if b.ndim == 1:
        return Array(weft.linalg.solve(a, b.unsqueeze(-1)).squeeze(-1))
    lead = weft.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    # stretched, because PyTorch's rule would take some stacks of matrices for stacks of vectors
    return Array(weft.linalg.solve(a.expand(*lead, *a.shape[-2:]), b.expand(*lead, *b.shape[-2:])))


def pinv(x: Array, /, *, rtol: Any = None) -> Array:
    """The Moore-Penrose pseudo-inverse; singular values up to rtol · σ₁ count as 0."""
    return Array(weft.linalg.pinv(_matrices("pinv", x), rtol=_tolerance(rtol)))


def matrix_rank(x: Array, /, *, rtol: Any = None) -> Array:
    """The number of singular values above rtol · σ₁."""
    return Array(weft.linalg.matrix_rank(_matrices("matrix_rank", x), rtol=_tolerance(rtol)).to(weft.int64))


def _tolerance(rtol: Any) -> Any:
    return rtol.tensor if isinstance(rtol, Array) else rtol


def matrix_power(x: Array, n: int, /) -> Array:
    """xⁿ: the product of n factors, of the inverse if n < 0, the identity if n = 0."""
    return Array(weft.linalg.matrix_power(_matrices("matrix_power", x), n))


# -------------------------------------------------------------------------------------- norms and products


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Norms of matrices: 'fro', 'nuc', ±1 (columns), ±inf (rows), ±2 (singular values)."""
    return Array(weft.linalg.matrix_norm(_matrices("matrix_norm", x), ord, (-2, -1), keepdims))


def vector_norm(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Array:
    """(Σ |xᵢ|ᵖ)^(1/p) over the axes (all, if None), for any p."""
    tensor = floating(need_array("vector_norm", x))
    axes = axes_of(axis, tensor.ndim, "vector_norm")
    if not axes:  # a norm of single elements
        tensor, axes, keepdims = tensor.unsqueeze(-1), (-1,), False
    return Array(weft.linalg.vector_norm(tensor, ord, axes, keepdims))


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """a × b along an axis of size 3, the others broadcast."""
    a, b = promoted_arrays("cross", x1, x2)
    low = min(a.ndim, b.ndim)
    if not -low <= axis < (low if a.ndim == b.ndim else 0) or a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ShapeError(f"cross: axis {axis} of shapes {tuple(a.shape)} and {tuple(b.shape)} must have size 3")
    a, b = weft.broadcast_tensors(a.movedim(axis, -1), b.movedim(axis, -1))
    turned, twice = [1, 2, 0], [2, 0, 1]
    product = a[..., turned] * b[..., twice] - a[..., twice] * b[..., turned]
    return Array(product.movedim(-1, axis))


def outer(x1: Array, x2: Array, /) -> Array:
    """y[i, j] = x1[i] · x2[j]."""
    a, b = promoted_arrays("outer", x1, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer: takes two vectors, got shapes {tuple(a.shape)} and {tuple(b.shape)}")
    return Array(a.unsqueeze(1) * b)


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices, `offset` columns above the main one."""
    tensor = need_array("diagonal", x)
    if tensor.ndim < 2:
        raise ShapeError(f"diagonal: needs at least 2 dimensions, got shape {tuple(tensor.shape)}")
    rows, columns = tensor.shape[-2:]
    if not -rows < offset < columns:
        return Array(tensor.new_empty((*tensor.shape[:-2], 0)))
    return Array(weft.diagonal(tensor, offset, -2, -1))


def trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sums of the diagonals."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)
