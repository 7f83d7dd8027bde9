"""Factorisations: Cholesky, QR, eigenvalues and singular values, with their gradients.

Gradients take part in every order because each is written in tensor operations on the factors.
Factors are defined only up to signs or phases (their gauge); a gradient is meaningful for functions
that do not depend on it. Exactly equal eigenvalues or singular values contribute nothing to the
terms that would divide by their difference.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from ..errors import AutogradError, DtypeError, LinAlgError, ShapeError
from ..tensor import Tensor, wrap
from .elementwise import complex_from, conj, where
from .matrix import (
    adjoint,
    each_matrix,
    first_failure,
    identity,
    lapack,
    need_inexact,
    need_matrices,
    need_square,
    triangle_weights,
)
from .primitive import Opaque, operation, summed_to
from .solve import TRIANGULAR

NOT_CONVERGED = (
    "The algorithm failed to converge because the input matrix contained non-finite values or has too many repeated "
    "values; check the input with isfinite().all()"
)


def _must_converge(name: str, values: np.ndarray) -> None:
    """Raise if any eigenvalue or singular value is not finite, naming the first such matrix."""
    if not np.isfinite(values).all():
        first_failure(name, np.asarray((~np.isfinite(values)).any(-1), np.int32), NOT_CONVERGED)


def _gaps(values: Tensor) -> Tensor:
    """1 / (λⱼ − λᵢ), and 0 for equal values and on the diagonal."""
    gap = values.unsqueeze(-2) - values.unsqueeze(-1)
    return where(gap == 0, 0, 1 / where(gap == 0, 1, gap))


def _diagonal_imaginary(x: Tensor) -> Tensor:
    """i · Im of the diagonal, as a vector."""
    part = x.diagonal(0, -2, -1).imag
    return complex_from(part * 0, part)


# ------------------------------------------------------------------------------------------- Cholesky


class Cholesky(Opaque):
    """L with A = L Lᴴ, read from the lower triangle, and LAPACK's info for every matrix.

    gᴬ = L⁻ᴴ Φ(Lᴴ gᴸ) L⁻¹, made Hermitian; Φ keeps the lower triangle and half of the diagonal.
    """

    leading = 2

    def reference(self, a, *, check):
        try:
            return np.linalg.cholesky(a), np.zeros(a.shape[:-2], np.int32)
        except np.linalg.LinAlgError:
            factor, info = each_matrix(_cholesky_one, a)
        if check:
            first_failure(
                check,
                info,
                "The factorization could not be completed because the input is not positive-definite (the leading minor "
                "of order {0} is not positive-definite); add a small multiple of the identity",
            )
        return factor, info

    def vjp(self, g, y, a, *, check):
        lower = y[0]
        inside = (adjoint(lower) @ g[0]) * triangle_weights(lower, 1, 0.5, 0)
        inside = 0.5 * (inside + adjoint(inside))
        half = TRIANGULAR(adjoint(lower), inside, upper=True, unit=False)  # L⁻ᴴ S
        return (adjoint(TRIANGULAR(adjoint(lower), adjoint(half), upper=True, unit=False)),)


def _cholesky_one(a: np.ndarray) -> tuple[np.ndarray, np.int32]:
    factor, info = lapack("potrf", a.dtype)(a, lower=1, clean=1)
    return factor, np.int32(info)


class CholeskySolve(Opaque):
    """X with L Lᴴ X = B (or Uᴴ U X = B), reading one triangle of the factor.

    With gᴮ = A⁻¹ g and C = −(gᴮ Xᴴ + X gᴮᴴ): gᴸ = C L, gᵁ = U C, not cut to the triangle, as PyTorch has it.
    """

    leading = 2

    def reference(self, b, factor, *, upper):
        if not b.size or not factor.size:
            return np.zeros(np.broadcast_shapes(b.shape[:-2], factor.shape[:-2]) + b.shape[-2:], b.dtype)
        routine = lapack("potrs", b.dtype)
        return each_matrix(lambda m, f: (routine(f, m, lower=not upper)[0],), b, factor)[0]

    def vjp(self, g, y, b, factor, *, upper):
        back = CHOLESKY_SOLVE(g, factor, upper=upper)
        return (
            lambda: summed_to(back, b.shape),
            lambda: summed_to(_factor_slope(-(back @ adjoint(y)), factor, upper), factor.shape),
        )


def _factor_slope(slope: Tensor, factor: Tensor, upper: bool) -> Tensor:
    both = slope + adjoint(slope)
    return factor @ both if upper else both @ factor


CHOLESKY, CHOLESKY_SOLVE = Cholesky(), CholeskySolve()


def _cholesky(name: str, A: Tensor, upper: bool, check: bool) -> tuple[Tensor, Tensor]:
    need_inexact(name, A)
    need_square(name, A)
    lower, info = CHOLESKY(adjoint(A) if upper else A, check=name if check else "")
    return (adjoint(lower) if upper else lower), info


@operation("linalg.cholesky", method=False, out=True)
def linalg_cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L with A = L Lᴴ for a Hermitian positive-definite A (or U with A = Uᴴ U)."""
    return _cholesky("linalg.cholesky", A, upper, True)[0]


@operation(out=True)
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """L with A = L Lᴴ (older form of linalg.cholesky)."""
    return _cholesky("cholesky", input, upper, True)[0]


CholeskyEx = namedtuple("cholesky_ex", "L info")


@operation("linalg.cholesky_ex", method=False, out=True)
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """L with A = L Lᴴ, and per matrix 0 or the order of the first minor that is not positive."""
    return CholeskyEx(*_cholesky("linalg.cholesky_ex", A, upper, check_errors))


@operation(out=True)
def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with A X = input, where A = L Lᴴ (or Uᴴ U) is given by its Cholesky factor."""
    need_inexact("cholesky_solve", input, L)
    need_matrices("cholesky_solve", input, "b")
    need_square("cholesky_solve", L, "u")
    if input.shape[-2] != L.shape[-1]:
        raise ShapeError(
            f"cholesky_solve: incompatible matrix sizes, the right side {tuple(input.shape)} and the factor "
            f"{tuple(L.shape)}; they must have as many rows"
        )
    return CHOLESKY_SOLVE(input, L, upper=bool(upper))


@operation(out=True)
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """A⁻¹, where A = L Lᴴ (or Uᴴ U) is given by its Cholesky factor."""
    need_inexact("cholesky_inverse", input)
    need_square("cholesky_inverse", input)
    return cholesky_solve(identity(input).expand(input.shape), input, upper)


# ------------------------------------------------------------------------------------------------- QR


class Qr(Opaque):
    """Q, R with A = Q R, Q with orthonormal columns, R upper triangular with real diagonal."""

    leading = 2

    def reference(self, a, *, mode):
        if mode == "r":
            return np.empty((0,), a.dtype), np.linalg.qr(a, "r")
        q, r = np.linalg.qr(a, mode)
        return q, r

    def vjp(self, g, y, a, *, mode):
        rows, columns = a.shape[-2:]
        if mode == "r":
            raise AutogradError(
                "linalg.qr: the derivative depends on Q, which is not computed when mode='r'; use mode='reduced'"
            )
        if mode == "complete" and rows > columns:
            raise AutogradError(
                f"linalg.qr: mode='complete' is not differentiable for more rows than columns ({rows} > {columns}); use "
                "mode='reduced'"
            )
        return (_qr_slope(*g, *y, columns > rows),)

    def batch(self, inputs, batched, size, params):
        if params["mode"] == "r":
            return Opaque.batch(self, inputs, batched, size, {"mode": "reduced"})
        return Opaque.batch(self, inputs, batched, size, params)


QR = Qr()


def _qr_slope(gq: Tensor, gr: Tensor, q: Tensor, r: Tensor, wide: bool) -> Tensor:
    """gᴬ = (gQ + Q (X*(N) − N)) R⁻ᴴ with N = Qᴴ gQ − gR Rᴴ.

    X* is the adjoint of the map from dA to the skew-Hermitian Qᴴ dQ: the lower triangle of N − Nᴴ with
    half of its diagonal. Columns of a wide A beyond the square part follow from R₂ = Qᴴ A₂.
    """
    from .join import cat

    if not wide:
        return _qr_slope_tall(gq, gr, q, r)
    rows, columns = r.shape[-2:]
    r1, r2 = r.narrow(-1, 0, rows), r.narrow(-1, rows, columns - rows)
    gr1, gr2 = gr.narrow(-1, 0, rows), gr.narrow(-1, rows, columns - rows)
    square = _qr_slope_tall(gq + q @ (r2 @ adjoint(gr2)), gr1, q, r1)
    return cat([square, q @ gr2], -1)


def _qr_slope_tall(gq: Tensor, gr: Tensor, q: Tensor, r: Tensor) -> Tensor:
    n = adjoint(q) @ gq - gr @ adjoint(r)
    skew = (n - adjoint(n)) * triangle_weights(n, 1, 0.5, 0)
    left = gq + q @ (skew - n)  # times R⁻ᴴ from the right: solve R Zᴴ = leftᴴ
    return adjoint(TRIANGULAR(r, adjoint(left), upper=True, unit=False))


QrResult = namedtuple("qr", "Q R")


@operation("linalg.qr", method=False, out=True)
def linalg_qr(A: Tensor, mode: str = "reduced") -> QrResult:
    """Q, R with A = Q R; mode 'reduced', 'complete' (square Q) or 'r' (R alone, Q empty)."""
    need_inexact("linalg.qr", A)
    need_matrices("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(
            f"linalg.qr: received unrecognized mode {mode!r}; expected one of 'reduced' (default), 'r', or 'complete'"
        )
    q, r = QR(A, mode=mode)
    return QrResult(wrap(np.empty((0,), A.dtype.np)) if mode == "r" else q, r)


@operation(out=True)
def qr(input: Tensor, some: bool = True) -> QrResult:
    """Q, R with A = Q R (older form of linalg.qr); some=False gives a square Q."""
    return linalg_qr(input, "reduced" if some else "complete")


class Geqrf(Opaque):
    """LAPACK's compact QR: R above, the reflectors below the diagonal, and their factors τ."""

    differentiable, leading = False, 2

    def reference(self, a):
        if not a.size:
            return a.copy(), np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
        return each_matrix(lambda m: lapack("geqrf", m.dtype)(m)[:2], a)


GEQRF = Geqrf()
GeqrfResult = namedtuple("geqrf", "a tau")


@operation(out=True, differentiable=False)
def geqrf(input: Tensor) -> GeqrfResult:
    """LAPACK's compact QR factorisation: (R with reflectors, τ)."""
    need_inexact("geqrf", input)
    need_matrices("geqrf", input)
    return GeqrfResult(*GEQRF(input))


def _check_reflectors(name: str, A: Tensor, tau: Tensor) -> None:
    need_inexact(name, A, tau)
    need_matrices(name, A)
    rows, columns = A.shape[-2:]
    if rows < columns and name != "ormqr":
        raise ShapeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1], got {tuple(A.shape)}")
    if tau.ndim != A.ndim - 1 or tuple(tau.shape[:-1]) != tuple(A.shape[:-2]) or tau.shape[-1] > columns:
        raise ShapeError(
            f"{name}: tau of shape {tuple(tau.shape)} does not fit A of shape {tuple(A.shape)}: expected one factor for each "
            f"reflector, shape {(*A.shape[:-2], columns)} or shorter in the last dimension"
        )


def _reflected(A: Tensor, tau: Tensor, x: Tensor, reverse: bool, conjugate: bool) -> Tensor:
    """H₁ H₂ … Hₖ x (or Hₖ … H₁ x) with Hᵢ = 1 − τᵢ vᵢ vᵢᴴ, vᵢ = (0, …, 1, A[i+1:, i])."""
    count, rows = tau.shape[-1], A.shape[-2]
    vectors = A.narrow(-1, 0, count).tril(-1) + wrap(np.eye(rows, count, dtype=A.dtype.np))
    for i in range(count) if reverse else reversed(range(count)):
        v, factor = vectors.narrow(-1, i, 1), tau.narrow(-1, i, 1).unsqueeze(-1)
        x = x - (conj(factor) if conjugate else factor) * (v @ (adjoint(v) @ x))
    return x


def _householder(A: Tensor, tau: Tensor, name: str) -> Tensor:
    _check_reflectors(name, A, tau)
    start = wrap(np.eye(A.shape[-2], A.shape[-1], dtype=A.dtype.np)).expand(A.shape)
    if not tau.shape[-1]:
        return where(wrap(np.ones((), np.bool_)), start, A)  # no reflectors: the identity, part of the graph
    return _reflected(A, tau, start, reverse=False, conjugate=False)


@operation("linalg.householder_product", method=False, out=True)
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of H₁ H₂ … Hₖ, Hᵢ = 1 − τᵢ vᵢ vᵢᴴ: Q from the output of geqrf."""
    return _householder(A, tau, "linalg.householder_product")


@operation(out=True)
def orgqr(input: Tensor, tau: Tensor) -> Tensor:
    """Q from the output of geqrf (alias of linalg.householder_product)."""
    return _householder(input, tau, "orgqr")


@operation(out=True)
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q · other (or other · Q for left=False; Qᴴ with transpose), Q the product of reflectors of geqrf."""
    _check_reflectors("ormqr", input, tau)
    need_inexact("ormqr", input, other)
    need_matrices("ormqr", other, "other")
    size = other.shape[-2 if left else -1]
    if size != input.shape[-2]:
        raise ShapeError(
            f"ormqr: other of shape {tuple(other.shape)} must have size {input.shape[-2]} (the rows of input "
            f"{tuple(input.shape)}) in dimension {-2 if left else -1}"
        )
    if left:
        return _reflected(input, tau, other, reverse=transpose, conjugate=transpose)
    return adjoint(_reflected(input, tau, adjoint(other), reverse=not transpose, conjugate=not transpose))


# ---------------------------------------------------------------------------------------- eigenvalues


class Eigh(Opaque):
    """Λ, V with A = V Λ Vᴴ for Hermitian A, of which only one triangle is read.

    gᴬ = V (diag gΛ + (Vᴴ gV) ∘ 1/(λⱼ − λᵢ)) Vᴴ
    """

    leading = 2

    def reference(self, a, *, uplo, name):
        try:
            values, vectors = np.linalg.eigh(a, uplo)
        except np.linalg.LinAlgError:
            raise LinAlgError(f"{name}: {NOT_CONVERGED}") from None
        _must_converge(name, values)
        return values, vectors

    def vjp(self, g, y, a, *, uplo, name):
        values, vectors = y
        inside = (adjoint(vectors) @ g[1]) * _gaps(values)
        scaled = vectors @ inside + vectors * g[0].unsqueeze(-2)
        return (scaled @ adjoint(vectors),)


class Eigvalsh(Opaque):
    """The eigenvalues of a Hermitian matrix alone; gᴬ = V diag(g) Vᴴ."""

    leading = 2

    def reference(self, a, *, uplo, name):
        try:
            values = np.linalg.eigvalsh(a, uplo)
        except np.linalg.LinAlgError:
            raise LinAlgError(f"{name}: {NOT_CONVERGED}") from None
        _must_converge(name, values)
        return values

    def vjp(self, g, y, a, *, uplo, name):
        vectors = EIGH(a, uplo=uplo, name=name)[1]
        return ((vectors * g.unsqueeze(-2)) @ adjoint(vectors),)


class Eig(Opaque):
    """Λ, V with A V = V Λ, both complex, the columns of V of length 1.

    gᴬ = V⁻ᴴ (diag gΛ + (Vᴴ gV − VᴴV Re diag(Vᴴ gV)) ∘ 1/conj(λⱼ − λᵢ)) Vᴴ
    """

    leading = 2

    def reference(self, a):
        kind = np.result_type(a.dtype, np.complex64)
        try:
            values, vectors = np.linalg.eig(a)
        except np.linalg.LinAlgError:
            raise LinAlgError(f"linalg.eig: input tensor should not contain infs or NaNs. {NOT_CONVERGED}") from None
        return values.astype(kind), vectors.astype(kind)

    def vjp(self, g, y, a):
        values, vectors = y
        slope = _eig_slope(*g, values, vectors)
        return (slope if a.dtype.is_complex else slope.real,)


def _eig_slope(g_values: Tensor, g_vectors: Tensor, values: Tensor, vectors: Tensor) -> Tensor:
    from .solve import SOLVE

    back = adjoint(vectors)
    inside = back @ g_vectors
    lengths = inside.diagonal(0, -2, -1).real  # how g would change the lengths, which are fixed
    inside = (inside - (back @ vectors) * lengths.unsqueeze(-2)) * conj(_gaps(values))
    total = inside @ back + g_values.unsqueeze(-1) * back
    return SOLVE(back, total, check="linalg.eig")[0]


class Eigvals(Opaque):
    """The eigenvalues of a general matrix alone."""

    leading = 2

    def reference(self, a):
        try:
            values = np.linalg.eigvals(a)
        except np.linalg.LinAlgError:
            raise LinAlgError(f"linalg.eigvals: input tensor should not contain infs or NaNs. {NOT_CONVERGED}") from None
        return values.astype(np.result_type(a.dtype, np.complex64))

    def vjp(self, g, y, a):
        values, vectors = EIG(a)
        slope = _eig_slope(g, vectors * 0, values, vectors)
        return (slope if a.dtype.is_complex else slope.real,)


EIGH, EIGVALSH, EIG, EIGVALS = Eigh(), Eigvalsh(), Eig(), Eigvals()
EigResult = namedtuple("eig", "eigenvalues eigenvectors")


def _triangle_name(name: str, UPLO: Any) -> str:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise ValueError(f"{name}: expected UPLO argument to be 'L' or 'U', but got {UPLO!r}")
    return UPLO.upper()


@operation("linalg.eigh", method=False, out=True)
def eigh(A: Tensor, UPLO: str = "L") -> EigResult:
    """Eigenvalues in ascending order and orthonormal eigenvectors of a Hermitian matrix."""
    need_inexact("linalg.eigh", A)
    need_square("linalg.eigh", A)
    return EigResult(*EIGH(A, uplo=_triangle_name("linalg.eigh", UPLO), name="linalg.eigh"))


@operation("linalg.eigvalsh", method=False, out=True)
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues in ascending order of a Hermitian matrix."""
    need_inexact("linalg.eigvalsh", A)
    need_square("linalg.eigvalsh", A)
    return EIGVALSH(A, uplo=_triangle_name("linalg.eigvalsh", UPLO), name="linalg.eigvalsh")


@operation("linalg.eig", method=False, out=True)
def eig(A: Tensor) -> EigResult:
    """Complex eigenvalues and eigenvectors (columns of length 1) of a square matrix."""
    need_inexact("linalg.eig", A)
    need_square("linalg.eig", A)
    return EigResult(*EIG(A))


@operation("linalg.eigvals", method=False, out=True)
def eigvals(A: Tensor) -> Tensor:
    """Complex eigenvalues of a square matrix."""
    need_inexact("linalg.eigvals", A)
    need_square("linalg.eigvals", A)
    return EIGVALS(A)


# ------------------------------------------------------------------------------------- singular values


class Svd(Opaque):
    """U, S, Vᴴ with A = U diag(S) Vᴴ, S in descending order.

    With Fᵢⱼ = 1/(sⱼ² − sᵢ²), Gᵤ = Uᴴ gU, Gᵥ = Vᴴ gV and skew(X) = X − Xᴴ:
    gᴬ = U (diag gS + F∘skew(Gᵤ) S + S F∘skew(Gᵥ)) Vᴴ + (1 − UUᴴ) gU S⁻¹ Vᴴ + U S⁻¹ gVᴴ (1 − VVᴴ)
    """

    leading = 2

    def reference(self, a, *, full, name):
        try:
            u, s, vh = np.linalg.svd(a, full_matrices=full)
        except np.linalg.LinAlgError:
            raise LinAlgError(f"{name}: {NOT_CONVERGED}") from None
        _must_converge(name, s)
        return u, s, vh

    def vjp(self, g, y, a, *, full, name):
        (gu, gs, gvh), (u, s, vh) = g, y
        count = s.shape[-1]
        gu, u = gu.narrow(-1, 0, count), u.narrow(-1, 0, count)
        gvh, vh = gvh.narrow(-2, 0, count), vh.narrow(-2, 0, count)
        return (_svd_slope(gu, gs, gvh, u, s, vh),)


def _svd_slope(gu: Tensor, gs: Tensor, gvh: Tensor, u: Tensor, s: Tensor, vh: Tensor) -> Tensor:
    rows, columns, count = u.shape[-2], vh.shape[-1], s.shape[-1]
    left, right = adjoint(u) @ gu, vh @ adjoint(gvh)  # Uᴴ gU, Vᴴ gV
    across, down = s.unsqueeze(-2), s.unsqueeze(-1)
    gaps = _gaps(s * s)
    inside = gaps * (left - adjoint(left)) * across + down * (gaps * (right - adjoint(right)))
    per_value = gs
    if u.dtype.is_complex:
        per_value = gs + _diagonal_imaginary(left) / s
    slope = u @ (inside @ vh + per_value.unsqueeze(-1) * vh)
    if rows > count:
        outside = gu / across
        slope = slope + (outside - u @ (adjoint(u) @ outside)) @ vh
    if columns > count:
        outside = gvh / down
        slope = slope + u @ (outside - (outside @ adjoint(vh)) @ vh)
    return slope


class Svdvals(Opaque):
    """The singular values alone; gᴬ = U diag(g) Vᴴ."""

    leading = 2

    def reference(self, a, *, name):
        try:
            values = np.linalg.svd(a, compute_uv=False)
        except np.linalg.LinAlgError:
            raise LinAlgError(f"{name}: {NOT_CONVERGED}") from None
        _must_converge(name, values)
        return values

    def vjp(self, g, y, a, *, name):
        u, _, vh = SVD(a, full=False, name=name)
        return (u @ (g.unsqueeze(-1) * vh),)


SVD, SVDVALS = Svd(), Svdvals()
SvdResult = namedtuple("linalg_svd", "U S Vh")
OldSvdResult = namedtuple("svd", "U S V")


def _no_driver(name: str, driver: Any) -> None:
    if driver is not None:
        raise DtypeError(f"{name}: keyword argument driver= is only supported on CUDA inputs; got {driver!r}, leave it away")


@operation("linalg.svd", method=False, out=True)
def linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SvdResult:
    """U, S, Vᴴ with A = U diag(S) Vᴴ; square U and V unless full_matrices=False."""
    need_inexact("linalg.svd", A)
    need_matrices("linalg.svd", A)
    _no_driver("linalg.svd", driver)
    return SvdResult(*SVD(A, full=bool(full_matrices), name="linalg.svd"))


@operation("linalg.svdvals", method=False, out=True)
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values in descending order."""
    need_inexact("linalg.svdvals", A)
    need_matrices("linalg.svdvals", A)
    _no_driver("linalg.svdvals", driver)
    return SVDVALS(A, name="linalg.svdvals")


@operation(out=True)
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> OldSvdResult:
    """U, S, V with A = U diag(S) Vᴴ (older form of linalg.svd, which returns Vᴴ)."""
    need_inexact("svd", input)
    need_matrices("svd", input)
    rows, columns = input.shape[-2:]
    if compute_uv:
        u, s, vh = SVD(input, full=not some, name="svd")
        return OldSvdResult(u, s, adjoint(vh))
    batch, kind = input.shape[:-2], input.dtype.np
    u, v = np.zeros((*batch, rows, rows), kind), np.zeros((*batch, columns, columns), kind)
    return OldSvdResult(wrap(u), SVDVALS(input, name="svd"), wrap(v))
