"""Linear systems, inverses and determinants.

Each primitive solves by LAPACK and states its gradient with the same primitive, so that derivatives
of every order follow. `check` names the public function in the error for a singular matrix; with an
empty name nothing is checked and `info` tells what LAPACK said.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...errors import OptionError, ShapeError
from ...tensor import Tensor, wrap
from ..core.primitive import Opaque, operation, summed_to, write_out
from ..core.results import named_result
from ..math.complex_numbers import complex_from
from ..math.elementwise import conj, where
from ..shape.join import cat
from .contract import product
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
)

__all__ = ["INVERSE", "SOLVE", "TRIANGULAR"]

SINGULAR = (
    "the input matrix is singular (U[{0},{0}] is zero); add a multiple of the identity, or use linalg.lstsq or pinv"
)

# -------------------------------------------------------------------------------------- primitives


class SolveTriangular(ByLapack, Opaque):
    """X with A X = B for triangular A; the other triangle (and a unit diagonal) of A is not read."""

    leading = 2

    def reference(self, a, b, *, upper, unit):
        if not b.size:
            return np.zeros(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:], b.dtype)
        substitute = lapack("trsm", a.dtype)
        return each_matrix(lambda m, r: (substitute(1, m, r, lower=not upper, diag=unit),), a, b)[0]

    def native(self, node):
        from ...kernels.solve.anchors import triangular

        return triangular(node, **node.params)

    def vjp(self, g, y, a, b, *, upper, unit):
        back = TRIANGULAR(adjoint(a), g, upper=not upper, unit=unit)
        return lambda: summed_to(_triangle(-(back @ adjoint(y)), upper, unit), a.shape), lambda: summed_to(
            back, b.shape
        )


def _triangle(x: Tensor, upper: bool, unit: bool) -> Tensor:
    return x.triu(int(unit)) if upper else x.tril(-int(unit))


class Solve(ByLapack, Opaque):
    """X with A X = B, and LAPACK's info for every matrix."""

    leading = 2

    def reference(self, a, b, *, check):
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        try:
            return np.linalg.solve(a, b), np.zeros(batch, np.int32)
        except np.linalg.LinAlgError:
            solution, info = each_matrix(_solve_one, a, b)
        if check:
            first_failure(check, info, "The solver failed because " + SINGULAR)
        return solution, info

    def vjp(self, g, y, a, b, *, check):
        back = SOLVE(adjoint(a), g[0], check="")[0]
        return lambda: summed_to(-(back @ adjoint(y[0])), a.shape), lambda: summed_to(back, b.shape)


def _solve_one(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.int32]:
    factors, pivots, info = lapack("getrf", a.dtype)(a)
    if info:
        return np.full(b.shape, np.nan, b.dtype), np.int32(info)
    return lapack("getrs", a.dtype)(factors, pivots, b)[0], np.int32(0)


class Inverse(ByLapack, Opaque):
    """A⁻¹, and LAPACK's info for every matrix (a singular one gives infinities)."""

    leading = 2

    def reference(self, a, *, check):
        try:
            return np.linalg.inv(a), np.zeros(a.shape[:-2], np.int32)
        except np.linalg.LinAlgError:
            inverse, info = each_matrix(_invert_one, a)
        if check:
            first_failure(
                check,
                info,
                "The diagonal element {0} is zero, the inversion could not be completed because the input matrix is "
                "singular; add a multiple of the identity, or use linalg.pinv",
            )
        return inverse, info

    def vjp(self, g, y, a, *, check):
        back = adjoint(y[0])
        return (-(back @ g[0] @ back),)


def _invert_one(a: np.ndarray) -> tuple[np.ndarray, np.int32]:
    info = lapack("getrf", a.dtype)(a)[2]
    return (np.full(a.shape, np.inf, a.dtype) if info else np.linalg.inv(a)), np.int32(info)


class Det(ByLapack, Opaque):
    """det A; its gradient is the matrix of cofactors, which exists for singular matrices too."""

    leading = 2

    def reference(self, a):
        return np.asarray(np.linalg.det(a))

    def vjp(self, g, y, a):
        return (g.unsqueeze(-1).unsqueeze(-1) * conj(COFACTOR(a)),)


class Cofactor(ByLapack, Opaque):
    """C = ∂ det A / ∂A = det A · A⁻ᵀ, by singular values: det(U) det(V) · Ū diag(Πⱼ≠ᵢ sⱼ) V̄ᴴ."""

    leading = 2

    def reference(self, a):
        u, s, vh = np.linalg.svd(a)
        size = a.shape[-1]
        others = np.where(np.eye(size, dtype=bool), 1, s[..., None, :]).prod(-1)  # (…, n): Π of the other sⱼ
        scale = np.linalg.det(u) * np.linalg.det(vh)
        spread = (u.conj() * others[..., None, :].astype(a.dtype)) @ vh.conj()
        return np.asarray(scale)[..., None, None] * spread

    def vjp(self, g, y, a):
        h, scale = conj(g), DET(a).unsqueeze(-1).unsqueeze(-1)
        total = (h * y).sum((-2, -1), keepdim=True)
        return (conj((total * y - y @ h.transpose(-2, -1) @ y) / scale),)


class Slogdet(ByLapack, Opaque):
    """sign(det A) and log |det A|."""

    leading = 2

    def reference(self, a):
        sign, log = np.linalg.slogdet(a)
        return np.asarray(sign), np.asarray(log)

    def vjp(self, g, y, a):
        back = adjoint(INVERSE(a, check="")[0])
        weight = g[1]
        if y[0].dtype.is_complex:
            weight = complex_from(g[1], -(conj(g[0]) * y[0]).imag)
        return (weight.unsqueeze(-1).unsqueeze(-1) * back,)


class MatrixExp(ByLapack, Opaque):
    """Σ Aᵏ/k!; the gradient is a block of the exponential of [[Aᴴ, g], [0, Aᴴ]]."""

    leading = 2

    def reference(self, a):
        from scipy.linalg import expm

        return expm(a) if a.size else a.copy()

    def vjp(self, g, y, a):
        size, back = a.shape[-1], adjoint(a)
        upper = cat([back, g], -1)  # (…, n, 2n)
        lower = cat([back * 0, back], -1)
        return (MATRIX_EXP(cat([upper, lower], -2)).narrow(-2, 0, size).narrow(-1, size, size),)


TRIANGULAR, SOLVE, INVERSE = SolveTriangular(), Solve(), Inverse()
DET, COFACTOR, SLOGDET, MATRIX_EXP = Det(), Cofactor(), Slogdet(), MatrixExp()


# -------------------------------------------------------------------------------------------- systems


def _is_vector(a: Tensor, b: Tensor) -> bool:
    """Whether PyTorch reads B as (a batch of) vectors: one dimension, or the sizes of A but for the last."""
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and tuple(b.shape) == tuple(a.shape[:-1]))


def _check_system(name: str, a: Tensor, b: Tensor, left: bool) -> None:
    need_inexact(name, a, b)
    need_square(name, a)
    need_matrices(name, b, "B")
    _check_right_side(name, a, b, left)


def _check_right_side(name: str, a: Tensor, b: Tensor, left: bool) -> None:
    rows = b.shape[-2 if left else -1]
    if rows != a.shape[-1]:
        equation = "AX = B" if left else "XA = B"
        raise ShapeError(
            f"{name}: incompatible shapes of A and B for the equation {equation}: {tuple(a.shape)} and "
            f"{tuple(b.shape)}; size {a.shape[-1]} against {rows}"
        )
    try:
        np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    except ValueError:
        raise ShapeError(
            f"{name}: the batch dimensions of A {tuple(a.shape)} and B {tuple(b.shape)} cannot be broadcast; "
            "unsqueeze one"
        ) from None


def _solved(name: str, a: Tensor, b: Tensor, left: bool, check: bool) -> tuple[Tensor, Tensor]:
    need_inexact(name, a, b)
    need_square(name, a)
    vector = _is_vector(a, b)
    if vector and not left:
        raise ShapeError(
            f"{name}: vector broadcasting of the left hand side is not supported for left=False; unsqueeze B"
        )
    right = b.unsqueeze(-1) if vector else b
    _check_right_side(name, a, right, left)
    title = name if check else ""
    if left:
        solution, info = SOLVE(a, right, check=title)
        return (solution.squeeze(-1) if vector else solution), info
    solution, info = SOLVE(a.transpose(-2, -1), right.transpose(-2, -1), check=title)
    return solution.transpose(-2, -1).contiguous(), info


@operation("linalg.solve", method=False, out=True)
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B (or X A = B for left=False)."""
    return _solved("linalg.solve", A, B, left, True)[0]


@named_result("solve_ex")
class SolveEx(NamedTuple):
    result: Tensor
    info: Tensor


@operation("linalg.solve_ex", method=False, out=True)
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """X with A X = B, and per matrix 0 or where it is singular, instead of an error."""
    return SolveEx(*_solved("linalg.solve_ex", A, B, left, check_errors))


@operation("linalg.solve_triangular", method=False)
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Tensor | None = None
) -> Tensor:
    """X with A X = B (or X A = B) for triangular A."""
    _check_system("linalg.solve_triangular", A, B, left)
    if left:
        result = TRIANGULAR(A, B, upper=bool(upper), unit=bool(unitriangular))
    else:
        a, b = A.transpose(-2, -1), B.transpose(-2, -1)
        result = TRIANGULAR(a, b, upper=not upper, unit=bool(unitriangular)).transpose(-2, -1)
    return result if out is None else write_out(out, result, "linalg.solve_triangular")


@named_result("triangular_solve")
class TriangularSolve(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor


@operation(out=True)
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """X with A X = input for triangular A, and a copy of A (older form of linalg.solve_triangular)."""
    _check_system("triangular_solve", A, input, True)
    a = A.transpose(-2, -1) if transpose else A
    solution = TRIANGULAR(a, input, upper=bool(upper) != bool(transpose), unit=bool(unitriangular))
    batch = tuple(solution.shape[:-2])
    return TriangularSolve(solution, A.expand(*batch, *A.shape[-2:]).clone())


# ------------------------------------------------------------------------------------------- inverses


def _inverse(A: Tensor, name: str) -> Tensor:
    need_inexact(name, A)
    need_square(name, A)
    return INVERSE(A, check=name)[0]


@operation("linalg.inv", method=False, out=True)
def inv(A: Tensor) -> Tensor:
    """A⁻¹ of every square matrix of a batch."""
    return _inverse(A, "linalg.inv")


@operation(out=True)
def inverse(input: Tensor) -> Tensor:
    """A⁻¹ of every square matrix of a batch (alias of linalg.inv)."""
    return _inverse(input, "inverse")


@named_result("inv_ex")
class InvEx(NamedTuple):
    inverse: Tensor
    info: Tensor


@operation("linalg.inv_ex", method=False, out=True)
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InvEx:
    """A⁻¹, and per matrix 0 or where it is singular, instead of an error."""
    need_inexact("linalg.inv_ex", A)
    need_square("linalg.inv_ex", A)
    return InvEx(*INVERSE(A, check="linalg.inv_ex" if check_errors else ""))


@operation("linalg.tensorinv", method=False, out=True)
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse with respect to tensordot: the first `ind` dimensions against the rest."""
    if ind <= 0:
        raise OptionError(f"linalg.tensorinv: expected a strictly positive integer for 'ind', got {ind}")
    need_inexact("linalg.tensorinv", A)
    if A.ndim < ind:
        raise ShapeError(
            f"linalg.tensorinv: ind={ind} is more than the dimensions of A, shape {tuple(A.shape)}; choose a smaller "
            "one"
        )
    rows, columns = A.shape[:ind].numel(), A.shape[ind:].numel()
    if rows != columns:
        raise ShapeError(
            f"linalg.tensorinv: expected self to satisfy prod(A.shape[{ind}:]) == prod(A.shape[:{ind}]), but got "
            f"{columns} != {rows} for shape {tuple(A.shape)}"
        )
    flat = INVERSE(A.reshape(rows, columns), check="linalg.tensorinv")[0]
    return flat.reshape(*A.shape[ind:], *A.shape[:ind])


@operation("linalg.tensorsolve", method=False, out=True)
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first."""
    need_inexact("linalg.tensorsolve", A, B)
    if dims is not None:
        moved = [d % A.ndim for d in dims]
        A = A.permute([d for d in range(A.ndim) if d not in moved] + moved)
    shape = A.shape[B.ndim :]
    if shape.numel() != B.numel():
        raise ShapeError(
            f"linalg.tensorsolve: expected self to satisfy prod(A.shape[B.ndim:]) == prod(A.shape[:B.ndim]), but got "
            f"{shape.numel()} != {B.numel()} for shapes {tuple(A.shape)} and {tuple(B.shape)}"
        )
    flat = A.reshape(B.numel(), B.numel())
    return SOLVE(flat, B.reshape(B.numel(), 1), check="linalg.tensorsolve")[0].reshape(shape)


# ---------------------------------------------------------------------------------------- determinants


@operation("linalg.det", method=False, out=True)
def linalg_det(A: Tensor) -> Tensor:
    """The determinant of every square matrix of a batch."""
    return det(A)


@operation()
def det(input: Tensor) -> Tensor:
    """The determinant of every square matrix of a batch (alias of linalg.det)."""
    need_inexact("linalg.det", input)
    need_square("linalg.det", input)
    return DET(input)


@named_result("slogdet")
class SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


@operation(out=True)
def slogdet(input: Tensor) -> SlogdetResult:
    """The sign (phase) of the determinant and the logarithm of its modulus."""
    need_inexact("linalg.slogdet", input)
    need_square("linalg.slogdet", input)
    return SlogdetResult(*SLOGDET(input))


@operation("linalg.slogdet", method=False, out=True)
def linalg_slogdet(A: Tensor) -> SlogdetResult:
    """The sign (phase) of the determinant and the logarithm of its modulus."""
    return slogdet(A)


@operation()
def logdet(input: Tensor) -> Tensor:
    """log det A; −∞ for a singular matrix, NaN for a negative determinant."""
    need_inexact("logdet", input)
    need_square("logdet", input)
    sign, log = SLOGDET(input)
    if input.dtype.is_complex:
        return sign.log() + log
    return where(sign == -1, float("nan"), log)


# -------------------------------------------------------------------------------- powers of a matrix


def _exponential(A: Tensor, name: str) -> Tensor:
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        need_inexact(name, A)
    need_square(name, A)
    return MATRIX_EXP(A)


@operation("linalg.matrix_exp", method=False)
def linalg_matrix_exp(A: Tensor) -> Tensor:
    """The exponential of every square matrix of a batch."""
    return _exponential(A, "linalg.matrix_exp")


@operation()
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of every square matrix of a batch (alias of linalg.matrix_exp)."""
    return _exponential(input, "matrix_exp")


def _power(A: Tensor, n: int, name: str) -> Tensor:
    """Aⁿ by repeated squaring: one product for each binary digit of n, and one for each 1 among them."""
    need_square(name, A)
    if n == 0:
        return where(wrap(np.ones((), np.bool_)), identity(A), A.contiguous())  # part of the graph, with gradient 0
    if n < 0:
        need_inexact(name, A)
        A, n = INVERSE(A, check=name)[0], -n
    result = None
    while True:
        if n & 1:
            result = A if result is None else product(result, A, name)
        n >>= 1
        if not n:
            return result.clone(memory_format="contiguous_format") if result is A else result
        A = product(A, A, name)


@operation("linalg.matrix_power", method=False, out=True)
def linalg_matrix_power(A: Tensor, n: int) -> Tensor:
    """Aⁿ for an integer n; negative powers invert."""
    return _power(A, n, "linalg.matrix_power")


@operation(out=True)
def matrix_power(input: Tensor, n: int) -> Tensor:
    """Aⁿ for an integer n; negative powers invert (alias of linalg.matrix_power)."""
    return _power(input, n, "matrix_power")
