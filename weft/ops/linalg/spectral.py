"""Eigenvalues and singular values, with their gradients.

Eigenvectors and singular vectors are defined only up to signs or phases (their gauge); a gradient is
meaningful for functions that do not depend on it. Exactly equal eigenvalues or singular values
contribute nothing to the terms that would divide by their difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...errors import LinAlgError, OptionError
from ...tensor import Tensor, wrap
from ..core.primitive import Opaque, operation
from ..core.results import named_result
from ..math.complex_numbers import complex_from
from ..math.elementwise import conj, where
from .matrix import ByLapack, adjoint, first_failure, need_finite, need_inexact, need_matrices, need_square
from .solve import SOLVE

__all__ = ["EIGVALSH", "SVD", "SVDVALS", "converged", "eigvals", "svdvals"]

NOT_CONVERGED = (
    "The algorithm failed to converge because the input matrix has values too large for its type or too many repeated "
    "ones; scale it, or compute in float64"
)


def converged(name: str, function: Callable, a: np.ndarray, *args: Any, uplo: str = "", **options: Any) -> Any:
    """`function(a, …)` of NumPy: values, or a tuple that holds them in ascending or descending order.

    Input that is not finite is refused before, values that are not finite after.
    """
    need_finite(name, a, uplo)
    try:
        found = function(a, *args, **options)
    except np.linalg.LinAlgError:
        raise LinAlgError(f"{name}: {NOT_CONVERGED}") from None
    values = found if isinstance(found, np.ndarray) else found[len(found) // 3]  # (values, V) or (U, values, Vᴴ)
    if not np.isfinite(values).all():
        first_failure(name, np.asarray((~np.isfinite(values)).any(-1), np.int32), NOT_CONVERGED)
    return found


def _gaps(values: Tensor) -> Tensor:
    """1 / (λⱼ − λᵢ), and 0 for equal values and on the diagonal."""
    gap = values.unsqueeze(-2) - values.unsqueeze(-1)
    return where(gap == 0, 0, 1 / where(gap == 0, 1, gap))


def _diagonal_imaginary(x: Tensor) -> Tensor:
    """i · Im of the diagonal, as a vector."""
    part = x.diagonal(0, -2, -1).imag
    return complex_from(part * 0, part)


# ---------------------------------------------------------------------------------------- eigenvalues


class Eigh(ByLapack, Opaque):
    """Λ, V with A = V Λ Vᴴ for Hermitian A, of which only one triangle is read.

    gᴬ = V (diag gΛ + (Vᴴ gV) ∘ 1/(λⱼ − λᵢ)) Vᴴ
    """

    leading = 2

    def reference(self, a, *, uplo, name):
        values, vectors = converged(name, np.linalg.eigh, a, uplo, uplo=uplo)
        return values, vectors

    def vjp(self, g, y, a, *, uplo, name):
        values, vectors = y
        inside = (adjoint(vectors) @ g[1]) * _gaps(values)
        scaled = vectors @ inside + vectors * g[0].unsqueeze(-2)
        return (scaled @ adjoint(vectors),)


class Eigvalsh(ByLapack, Opaque):
    """The eigenvalues of a Hermitian matrix alone; gᴬ = V diag(g) Vᴴ."""

    leading = 2

    def reference(self, a, *, uplo, name):
        return converged(name, np.linalg.eigvalsh, a, uplo, uplo=uplo)

    def vjp(self, g, y, a, *, uplo, name):
        vectors = EIGH(a, uplo=uplo, name=name)[1]
        return ((vectors * g.unsqueeze(-2)) @ adjoint(vectors),)


class Eig(ByLapack, Opaque):
    """Λ, V with A V = V Λ, both complex, the columns of V of length 1.

    gᴬ = V⁻ᴴ (diag gΛ + (Vᴴ gV − VᴴV Re diag(Vᴴ gV)) ∘ 1/conj(λⱼ − λᵢ)) Vᴴ
    """

    leading = 2

    def reference(self, a):
        kind = np.result_type(a.dtype, np.complex64)
        values, vectors = converged("linalg.eig", np.linalg.eig, a)
        return values.astype(kind), vectors.astype(kind)

    def vjp(self, g, y, a):
        values, vectors = y
        slope = _eig_slope(*g, values, vectors)
        return (slope if a.dtype.is_complex else slope.real,)


def _eig_slope(g_values: Tensor, g_vectors: Tensor, values: Tensor, vectors: Tensor) -> Tensor:
    back = adjoint(vectors)
    inside = back @ g_vectors
    lengths = inside.diagonal(0, -2, -1).real  # how g would change the lengths, which are fixed
    inside = (inside - (back @ vectors) * lengths.unsqueeze(-2)) * conj(_gaps(values))
    total = inside @ back + g_values.unsqueeze(-1) * back
    return SOLVE(back, total, check="linalg.eig")[0]


class Eigvals(ByLapack, Opaque):
    """The eigenvalues of a general matrix alone."""

    leading = 2

    def reference(self, a):
        values = converged("linalg.eigvals", np.linalg.eigvals, a)
        return values.astype(np.result_type(a.dtype, np.complex64))

    def vjp(self, g, y, a):
        values, vectors = EIG(a)
        slope = _eig_slope(g, vectors * 0, values, vectors)
        return (slope if a.dtype.is_complex else slope.real,)


EIGH, EIGVALSH, EIG, EIGVALS = Eigh(), Eigvalsh(), Eig(), Eigvals()


@named_result("linalg_eig")
class EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


@named_result("linalg_eigh")
class EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


def _triangle_name(name: str, UPLO: Any) -> str:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise OptionError(f"{name}: expected UPLO argument to be 'L' or 'U', but got {UPLO!r}")
    return UPLO.upper()


@operation("linalg.eigh", method=False, out=True)
def eigh(A: Tensor, UPLO: str = "L") -> EighResult:
    """Eigenvalues in ascending order and orthonormal eigenvectors of a Hermitian matrix."""
    need_inexact("linalg.eigh", A)
    need_square("linalg.eigh", A)
    return EighResult(*EIGH(A, uplo=_triangle_name("linalg.eigh", UPLO), name="linalg.eigh"))


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


class Svd(ByLapack, Opaque):
    """U, S, Vᴴ with A = U diag(S) Vᴴ, S in descending order.

    With Fᵢⱼ = 1/(sⱼ² − sᵢ²), Gᵤ = Uᴴ gU, Gᵥ = Vᴴ gV and skew(X) = X − Xᴴ:
    gᴬ = U (diag gS + F∘skew(Gᵤ) S + S F∘skew(Gᵥ)) Vᴴ + (1 − UUᴴ) gU S⁻¹ Vᴴ + U S⁻¹ gVᴴ (1 − VVᴴ)
    """

    leading = 2

    def reference(self, a, *, full, name):
        u, s, vh = converged(name, np.linalg.svd, a, full_matrices=full)
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


class Svdvals(ByLapack, Opaque):
    """The singular values alone; gᴬ = U diag(g) Vᴴ."""

    leading = 2

    def reference(self, a, *, name):
        return converged(name, np.linalg.svd, a, compute_uv=False)

    def vjp(self, g, y, a, *, name):
        u, _, vh = SVD(a, full=False, name=name)
        return (u @ (g.unsqueeze(-1) * vh),)


SVD, SVDVALS = Svd(), Svdvals()


@named_result("linalg_svd")
class SvdResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


@named_result("svd")
class OldSvdResult(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor


def _no_driver(name: str, driver: Any) -> None:
    if driver is not None:
        raise OptionError(
            f"{name}: keyword argument driver= is only supported on CUDA inputs; got {driver!r}, leave it away"
        )


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
