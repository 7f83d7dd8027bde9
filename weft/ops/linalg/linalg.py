"""Linear algebra over the factorisations: norms, condition, rank, pseudo-inverse, least squares, low rank."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ...errors import DtypeError, OptionError, ShapeError
from ...refusal import need_bounded
from ...sizes import wrap_dims
from ...tensor import Tensor, wrap
from ..core.primitive import OPERATIONS, Opaque, Primitive, operation
from ..core.results import named_result
from ..math.elementwise import where
from ..shape.join import stack
from .contract import product
from .decompose import QR
from .matrix import ByLapack, adjoint, need_inexact, need_matrices, need_square
from .solve import INVERSE
from .spectral import EIGVALSH, SVD, SVDVALS, converged

MANY_COLUMNS = 1 << 16  # of powers, each a tensor
MANY_TURNS = 1 << 12  # of a power iteration, two factorisations each

# --------------------------------------------------------------------------------------- pseudo-inverse


class Pinv(ByLapack, Opaque):
    """A⁺ = V S⁺ Uᴴ; singular values at or below max(atol, rtol · s₁) count as 0.

    With Y = A⁺: gᴬ = −Yᴴ g Yᴴ + (1 − A Y) gᴴ Y Yᴴ + Yᴴ Y gᴴ (1 − Y A)
    """

    def reference(self, a, atol, rtol, *, hermitian, name):
        if not a.size:
            return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
        u, s, vh = _hermitian_svd(name, a) if hermitian else converged(name, np.linalg.svd, a, full_matrices=False)
        size = np.abs(s)
        limit = np.maximum(atol[..., None], rtol[..., None] * size.max(-1, keepdims=True))
        inverted = np.divide(1, s, out=np.zeros(np.broadcast_shapes(s.shape, limit.shape), s.dtype), where=size > limit)
        return (vh.swapaxes(-1, -2).conj() * inverted[..., None, :]) @ u.swapaxes(-1, -2).conj()

    def vjp(self, g, y, a, atol, rtol, *, hermitian, name):
        return lambda: _pinv_slope(g, y, a), lambda: None, lambda: None

    def batch(self, inputs, batched, size, params):
        if tuple(batched) == (True, False, False) and inputs[1].ndim == inputs[2].ndim == 0:
            return PINV(*inputs, **params)
        return Primitive.batch(self, inputs, batched, size, params)


PINV = Pinv()


def _hermitian_svd(name: str, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values, vectors = converged(name, np.linalg.eigh, a, uplo="L")
    return vectors, values, vectors.swapaxes(-1, -2).conj()


def _pinv_slope(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    back, turned = adjoint(y), adjoint(g)
    slope = -(back @ g @ back)
    right = turned @ (y @ back)  # gᴴ Y Yᴴ: (m, n)
    left = (back @ y) @ turned  # Yᴴ Y gᴴ: (m, n)
    return slope + right - a @ (y @ right) + left - (left @ y) @ a


def _tolerances(name: str, A: Tensor, atol: Any, rtol: Any) -> tuple[Tensor, Tensor]:
    """atol and rtol as tensors in the real type of A; by default rtol is ε · max(m, n) when atol is not positive."""
    kind = A.dtype.to_real()
    for role, value in (("atol", atol), ("rtol", rtol)):
        if isinstance(value, Tensor) and value.is_complex():
            raise DtypeError(f"{name}: {role} tensor of complex type is not supported, got {value.dtype}")

    def as_tensor(value: Any) -> Tensor:
        return value.to(kind) if isinstance(value, Tensor) else wrap(np.asarray(value, kind.np))

    absolute = as_tensor(0.0 if atol is None else atol)
    if rtol is not None:
        return absolute, as_tensor(rtol)
    relative = as_tensor(dtypes.finfo(kind).eps * max(A.shape[-2:]))
    return absolute, relative if atol is None else where(absolute > 0, 0, relative)


def _pseudo_inverse(name: str, A: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    need_inexact(name, A)
    need_matrices(name, A)
    if hermitian:
        need_square(name, A)
    return PINV(A, *_tolerances(name, A, atol, rtol), hermitian=bool(hermitian), name=name)


@operation("linalg.pinv", method=False, out=True)
def pinv(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The Moore–Penrose inverse A⁺; singular values at or below max(atol, rtol · s₁) count as 0."""
    return _pseudo_inverse("linalg.pinv", A, atol, rcond if rtol is None else rtol, hermitian)


@operation()
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The Moore–Penrose inverse (older form of linalg.pinv)."""
    return _pseudo_inverse("pinverse", input, None, rcond, False)


# ---------------------------------------------------------------------------------------- least squares


@named_result("lstsq")
class LeastSquares(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@operation("linalg.lstsq", method=False, out=True)
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """X that minimises ‖A X − B‖₂, of least length if there are several.

    Residuals, rank and singular values come with the drivers of LAPACK that give them, else empty.
    """
    name = "linalg.lstsq"
    need_inexact(name, A, B)
    need_matrices(name, A)
    driver = driver or "gelsy"
    if driver not in DRIVERS:
        raise OptionError(f"{name}: parameter `driver` should be one of ({', '.join(DRIVERS)}), got {driver!r}")
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))
    right = B.unsqueeze(-1) if vector else B
    _check_least_squares(name, A, right)
    rows, columns = A.shape[-2:]
    limit = dtypes.finfo(A.dtype).eps * max(rows, columns) if rcond is None else rcond
    solution = PINV(A, *_tolerances(name, A, None, limit), hermitian=False, name=name) @ right
    values, rank = _values_and_rank(A, limit)
    empty = wrap(np.empty((0,), A.dtype.to_real().np))
    residuals = _squared(solution).reshape(solution.numel()).narrow(0, 0, 0)  # empty, but part of the graph
    full_rank = driver == "gels" or (driver != "gelsy" and rows > columns and bool((rank == columns).all()))
    if rows > columns and full_rank:
        residuals = _squared(A @ solution - right).sum(-2)
    return LeastSquares(
        solution.squeeze(-1) if vector else solution,
        residuals,
        wrap(np.empty((0,), np.int64)) if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else empty,
    )


def _squared(x: Tensor) -> Tensor:
    return x.real * x.real + x.imag * x.imag if x.is_complex() else x * x


def _check_least_squares(name: str, A: Tensor, B: Tensor) -> None:
    if A.ndim != B.ndim or A.shape[-2] != B.shape[-2]:
        raise ShapeError(
            f"{name}: input.size(-2) should match other.size(-2) and both need the same number of dimensions, got A "
            f"{tuple(A.shape)} and B {tuple(B.shape)}"
        )
    for a, b in zip(A.shape[:-2], B.shape[:-2], strict=True):
        if a != b and 1 not in (a, b):
            raise ShapeError(
                f"{name}: batch dimensions of A {tuple(A.shape)} and B {tuple(B.shape)} cannot be broadcast"
            )


def _values_and_rank(A: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    values = SVDVALS(A.detach(), name="linalg.lstsq")
    if not min(A.shape[-2:]):
        return values, wrap(np.zeros(tuple(A.shape[:-2]), np.int64))
    return values, (values > limit * values.narrow(-1, 0, 1)).sum(-1)


# ------------------------------------------------------------------------------------- norms and rank


def _vector_norm(*args: Any, **kwargs: Any) -> Tensor:
    return OPERATIONS["linalg.vector_norm"].function(*args, **kwargs)


@operation("linalg.matrix_norm", method=False, out=True)
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """A norm of every matrix: 'fro' √Σ|a|², 'nuc' Σ sᵢ, ±2 extreme sᵢ, ±1 column sums, ±inf row sums."""
    name = "linalg.matrix_norm"
    need_matrices(name, A, "the input tensor A")
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        need_inexact(name, A)
    if ord not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise OptionError(
            f"{name}: Order {ord} not supported; choose 'fro', 'nuc', ±1, ±2 or ±inf (a number, not a string)"
        )
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise ShapeError(f"{name}: dim must be a 2-tuple, got {dim}")
    dims = wrap_dims(dim, A.ndim, name)
    if dtype is not None:
        A = A.to(_norm_dtype(name, A, dtype))
    if ord == "fro":
        return _vector_norm(A, 2, dims, keepdim)
    if ord in ("nuc", 2, -2):
        return _spectral_norm(name, A, ord, dims, keepdim)
    summed, other = (dims[0], dims[1]) if abs(ord) == 1 else (dims[1], dims[0])
    sums = A.abs().sum(summed, keepdim=True)
    extreme = _largest(sums, other) if ord > 0 else sums.amin(other, keepdim=True)
    return extreme if keepdim else extreme.squeeze(dims)


def _norm_dtype(name: str, A: Tensor, dtype: Any) -> dtypes.dtype:
    wanted = dtypes.as_dtype(dtype)
    if wanted.category < dtypes.FLOAT or wanted.is_complex != A.dtype.is_complex:
        raise DtypeError(f"{name}: dtype should be {'complex' if A.is_complex() else 'floating point'}, got {wanted}")
    if wanted.itemsize < A.dtype.itemsize:
        raise DtypeError(
            f"{name}: the dtype of the input ({A.dtype}) should be convertible without narrowing to {wanted}"
        )
    return wanted


def _largest(x: Tensor, dim: int) -> Tensor:
    """The maximum over a dimension, 0 if it is empty."""
    return x.amax(dim, keepdim=True) if x.shape[dim] else x.sum(dim, keepdim=True)


def _spectral_norm(name: str, A: Tensor, ord: Any, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    need_inexact(name, A)
    rest = [d for d in range(A.ndim) if d not in dims]
    values = SVDVALS(A.permute([*rest, *dims]), name=name)  # (*rest, k)
    if ord == "nuc":
        norm = values.sum(-1)
    elif ord == 2:
        norm = _largest(values, values.ndim - 1).squeeze(-1)
    else:
        norm = values.amin(-1)
    if keepdim:
        for d in sorted(dims):
            norm = norm.unsqueeze(d)
    return norm


@operation("linalg.norm", method=False, out=True)
def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """A vector norm (one dim, or ord=None) or a matrix norm (two dims)."""
    if isinstance(dim, (tuple, list)) and len(dim) == 1:
        dim = dim[0]
    if dim is None and ord is not None:
        if A.ndim not in (1, 2):
            raise ShapeError(
                f"linalg.norm: if dim is not specified but ord is, the input must be 1D or 2D, got shape "
                f"{tuple(A.shape)}"
            )
        if A.ndim == 2:
            return matrix_norm(A, ord, (-2, -1), keepdim, dtype=dtype)
    if isinstance(ord, str) or (isinstance(dim, (tuple, list)) and ord is not None):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return _vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@operation("linalg.cond", method=False, out=True)
def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number ‖A‖ₚ ‖A⁻¹‖ₚ; s₁/sₙ by default, infinite for a singular matrix."""
    need_inexact("linalg.cond", A)
    need_matrices("linalg.cond", A)
    if p not in (None, "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise OptionError(f"linalg.cond: got an invalid norm type: {p}; choose None, 'fro', 'nuc', ±1, ±2 or ±inf")
    if not min(A.shape[-2:]):
        return wrap(np.zeros(tuple(A.shape[:-2]), A.dtype.to_real().np))
    if p in (None, 2, -2):
        values = SVDVALS(A, name="linalg.cond")
        first, last = values.narrow(-1, 0, 1).squeeze(-1), values.narrow(-1, values.shape[-1] - 1, 1).squeeze(-1)
        return last / first if p == -2 else first / last
    need_square("linalg.cond", A)
    inverted, info = INVERSE(A, check="")
    number = matrix_norm(A, p) * matrix_norm(where((info != 0).unsqueeze(-1).unsqueeze(-1), 0, inverted), p)
    return where(info != 0, math.inf, number)


@operation("linalg.matrix_rank", method=False, out=True, differentiable=False)
def matrix_rank(A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The number of singular values above max(atol, rtol · s₁)."""
    name = "linalg.matrix_rank"
    need_inexact(name, A)
    need_matrices(name, A)
    if tol is not None:
        atol, rtol = tol, 0.0
    absolute, relative = _tolerances(name, A, atol, rtol)
    if hermitian:
        need_square(name, A)
        values = EIGVALSH(A.detach(), uplo="L", name=name).abs()
    else:
        values = SVDVALS(A.detach(), name=name)
    if not min(A.shape[-2:]):
        return wrap(np.zeros(tuple(A.shape[:-2]), np.int64))
    scaled = relative.unsqueeze(-1) * values.amax(-1, keepdim=True)
    return (values > scaled.maximum(absolute.unsqueeze(-1))).sum(-1)


# -------------------------------------------------------------------------------- Vandermonde, low rank


@operation("linalg.vander", method=False)
def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Powers of every element: y[…, i, j] = xᵢʲ for j < N."""
    if x.dtype is dtypes.bool_ or x.dtype in dtypes.LOW_PRECISION:
        raise DtypeError(
            f"linalg.vander: supports floating point, complex, and integer tensors, but got {x.dtype}; convert it"
        )
    if (x.ndim == 0 and N is None) or (N is not None and N <= 1):
        raise ShapeError(
            f"linalg.vander: N must be greater than 1 and x at least 1-D, got N={N}, shape {tuple(x.shape)}"
        )
    x = x.unsqueeze(0) if x.ndim == 0 else x
    count = x.shape[-1] if N is None else need_bounded(N, "linalg.vander", "N", MANY_COLUMNS)
    if x.dtype.category < dtypes.FLOAT:
        x = x.long()
    columns = [x * 0 + 1, x]
    while len(columns) < count:
        columns.append(columns[-1] * x)
    return stack(columns[:count], -1)


def _range_basis(A: Tensor, columns: int, niter: int, center: Tensor | None) -> Tensor:
    """Orthonormal columns that nearly span the range of A: random combinations, refined by powers of A Aᴴ.

    N. Halko, P. G. Martinsson, J. A. Tropp: Finding structure with randomness (2011), algorithm 4.4.
    """

    def times(x: Tensor) -> Tensor:
        return A @ x if center is None else A @ x - center @ x

    def adjoint_times(x: Tensor) -> Tensor:
        return adjoint(A) @ x if center is None else adjoint(A) @ x - adjoint(center) @ x

    start = OPERATIONS["randn"].function(A.shape[-1], columns, dtype=A.dtype)
    basis = QR(times(start), mode="reduced")[0]
    for _ in range(niter):
        basis = QR(adjoint_times(basis), mode="reduced")[0]
        basis = QR(times(basis), mode="reduced")[0]
    return basis


@named_result("svd_lowrank")
class LowRank(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor


@operation(method=False)
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> LowRank:
    """U, S, V with A ≈ U diag(S) Vᴴ of rank q, by a randomised range finder; of A − M if M is given."""
    need_inexact("svd_lowrank", A)
    need_matrices("svd_lowrank", A)
    rank = 6 if q is None else q
    if rank < 0:
        raise OptionError(f"svd_lowrank: q(={rank}) must be non-negative")
    if not isinstance(niter, int) or niter < 0:
        raise OptionError(f"svd_lowrank: niter must be a non-negative integer, got {niter!r}")
    need_bounded(niter, "svd_lowrank", "niter", MANY_TURNS)
    if A.shape[-2] < A.shape[-1]:
        v, s, u = _low_rank(adjoint(A), rank, niter, None if M is None else adjoint(M))
        return LowRank(u, s, v)
    return LowRank(*_low_rank(A, rank, niter, M))


def _low_rank(A: Tensor, rank: int, niter: int, M: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    basis = _range_basis(A, rank, niter, M)
    small = adjoint(basis) @ A if M is None else adjoint(basis) @ A - adjoint(basis) @ M
    u, s, vh = SVD(small, full=False, name="svd_lowrank")
    return product(basis, u), s, adjoint(vh)


@operation(method=False)
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> LowRank:
    """The q leading principal components of the rows of A: U, S, V of the centred matrix."""
    need_inexact("pca_lowrank", A)
    need_matrices("pca_lowrank", A)
    rank = min(6, *A.shape[-2:]) if q is None else q
    if not 0 <= rank <= min(A.shape[-2:]):
        raise OptionError(f"pca_lowrank: q(={rank}) must be non-negative and at most min(m, n) = {min(A.shape[-2:])}")
    if niter < 0:
        raise OptionError(f"pca_lowrank: niter(={niter}) must be non-negative integer")
    if not center:
        return svd_lowrank(A, rank, niter)
    return svd_lowrank(A - A.sum(-2, keepdim=True) / A.shape[-2], rank, niter)
