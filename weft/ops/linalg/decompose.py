"""Factorisations by elimination and reflection: Cholesky and QR, with their gradients.

Gradients are written in tensor operations on the factors, so that derivatives of every order follow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...errors import AutogradError, OptionError, ShapeError
from ...tensor import Tensor, wrap
from ..core.primitive import Opaque, operation, summed_to
from ..core.results import named_result
from ..math.elementwise import conj, where
from ..shape.join import cat
from .matrix import (
    ByLapack,
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
from .solve import TRIANGULAR

__all__ = ["QR"]

# ------------------------------------------------------------------------------------------- Cholesky


class Cholesky(ByLapack, Opaque):
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
                "The factorization could not be completed because the input is not positive-definite (the leading "
                "minor of order {0} is not positive-definite); add a small multiple of the identity",
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


class CholeskySolve(ByLapack, Opaque):
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


@named_result("cholesky_ex")
class CholeskyEx(NamedTuple):
    L: Tensor
    info: Tensor


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


class Qr(ByLapack, Opaque):
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
                f"linalg.qr: mode='complete' is not differentiable for more rows than columns ({rows} > {columns}); "
                "use mode='reduced'"
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


@named_result("qr")
class QrResult(NamedTuple):
    Q: Tensor
    R: Tensor


@operation("linalg.qr", method=False, out=True)
def linalg_qr(A: Tensor, mode: str = "reduced") -> QrResult:
    """Q, R with A = Q R; mode 'reduced', 'complete' (square Q) or 'r' (R alone, Q empty)."""
    need_inexact("linalg.qr", A)
    need_matrices("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise OptionError(
            f"linalg.qr: received unrecognized mode {mode!r}; expected one of 'reduced' (default), 'r', or 'complete'"
        )
    q, r = QR(A, mode=mode)
    return QrResult(wrap(np.empty((0,), A.dtype.np)) if mode == "r" else q, r)


@operation(out=True)
def qr(input: Tensor, some: bool = True) -> QrResult:
    """Q, R with A = Q R (older form of linalg.qr); some=False gives a square Q."""
    return linalg_qr(input, "reduced" if some else "complete")


class Geqrf(ByLapack, Opaque):
    """LAPACK's compact QR: R above, the reflectors below the diagonal, and their factors τ."""

    differentiable, leading = False, 2

    def reference(self, a):
        if not a.size:
            return a.copy(), np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
        return each_matrix(lambda m: lapack("geqrf", m.dtype)(m)[:2], a)


GEQRF = Geqrf()


@named_result("geqrf")
class GeqrfResult(NamedTuple):
    a: Tensor
    tau: Tensor


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
        raise ShapeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1], got {tuple(A.shape)}"
        )
    if tau.ndim != A.ndim - 1 or tuple(tau.shape[:-1]) != tuple(A.shape[:-2]) or tau.shape[-1] > columns:
        raise ShapeError(
            f"{name}: tau of shape {tuple(tau.shape)} does not fit A of shape {tuple(A.shape)}: expected one factor "
            f"for each reflector, shape {(*A.shape[:-2], columns)} or shorter in the last dimension"
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
