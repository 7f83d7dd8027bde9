"""LU and LDL factorisations: the packed forms of LAPACK, their unpacking, and solves that reuse them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...errors import DtypeError, OptionError, ShapeError
from ...tensor import Tensor, wrap
from ..core.primitive import Opaque, operation
from ..core.results import named_result
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
)
from .solve import TRIANGULAR

# ------------------------------------------------------------------------------------------------- LU


class Lu(ByLapack, Opaque):
    """L (below the diagonal) and U packed in one matrix with A = P L U, pivots from 1, LAPACK's info.

    For square A: gᴬ = P L⁻ᴴ (tril₋₁(Lᴴ gL) + triu(gU Uᴴ)) U⁻ᴴ; the rest of a rectangular one follows from
    U₂ = L⁻¹ A₂ or L₂ = A₂ U⁻¹.
    """

    leading = 2

    def reference(self, a, *, check):
        packed, pivots, info = each_matrix(_factor_one, a)
        if check:
            first_failure(
                check,
                info,
                "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero; the matrix is "
                "singular, add a multiple of the identity or use lu_factor_ex",
            )
        return packed, pivots, info

    def vjp(self, g, y, a, *, check):
        packed, pivots, _ = y
        slope = _lu_slope(g[0], packed)
        return (PIVOT_MATRIX(pivots, rows=packed.shape[-2], kind=packed.dtype) @ slope,)


def _factor_one(a: np.ndarray) -> tuple[Any, ...]:
    if not a.size:
        return a, np.zeros(0, np.int32), np.int32(0)
    packed, pivots, info = lapack("getrf", a.dtype)(a)
    return packed, (pivots + 1).astype(np.int32), np.int32(info)


def _lu_slope(g: Tensor, packed: Tensor) -> Tensor:
    """The gradient of Pᵀ A from that of the packed factors."""
    rows, columns = packed.shape[-2:]
    size = min(rows, columns)
    square = packed.narrow(-2, 0, size).narrow(-1, 0, size)
    corner = g.narrow(-2, 0, size).narrow(-1, 0, size)
    lower_adjoint, upper_adjoint = adjoint(square.tril(-1) + identity(square)), adjoint(square.triu())
    below = lower_adjoint @ corner.tril(-1)
    above = corner.triu() @ upper_adjoint
    if columns > rows:
        right, g_right = packed.narrow(-1, size, columns - size), g.narrow(-1, size, columns - size)
        below = below - g_right @ adjoint(right)
    if rows > columns:
        bottom, g_bottom = packed.narrow(-2, size, rows - size), g.narrow(-2, size, rows - size)
        above = above - adjoint(bottom) @ g_bottom
    inside = TRIANGULAR(lower_adjoint, below.tril(-1) + above.triu(), upper=True, unit=True)
    slope = adjoint(TRIANGULAR(adjoint(upper_adjoint), adjoint(inside), upper=True, unit=False))
    if columns > rows:
        return cat([slope, TRIANGULAR(lower_adjoint, g_right, upper=True, unit=True)], -1)
    if rows > columns:
        rest = adjoint(TRIANGULAR(adjoint(upper_adjoint), adjoint(g_bottom), upper=True, unit=False))
        return cat([slope, rest], -2)
    return slope


class PivotMatrix(Opaque):
    """The permutation matrix P of a list of row exchanges (counted from 1), with A = P L U."""

    differentiable, leading = False, 1

    def reference(self, pivots, *, rows, kind):
        order = np.broadcast_to(np.arange(rows), (*pivots.shape[:-1], rows)).copy()
        each = np.arange(math.prod(pivots.shape[:-1]))
        flat, swaps = order.reshape(len(each), rows), pivots.reshape(len(each), pivots.shape[-1]) - 1
        for k in range(swaps.shape[1]):
            other = swaps[:, k]
            kept = flat[each, k].copy()
            flat[each, k] = flat[each, other]
            flat[each, other] = kept
        return np.eye(rows, dtype=kind.np)[order].swapaxes(-1, -2)


LU, PIVOT_MATRIX = Lu(), PivotMatrix()


def _factored(name: str, A: Tensor, pivot: bool, check: bool) -> tuple[Tensor, Tensor, Tensor]:
    need_inexact(name, A)
    need_matrices(name, A)
    if not pivot:
        raise OptionError(f"{name}: LU without pivoting is not implemented on the CPU; leave pivot=True")
    return LU(A, check=name if check else "")


@named_result("lu_factor")
class LuFactor(NamedTuple):
    LU: Tensor
    pivots: Tensor


@named_result("lu_factor_ex")
class LuFactorEx(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor


@operation("linalg.lu_factor", method=False, out=True)
def lu_factor(A: Tensor, *, pivot: bool = True) -> LuFactor:
    """L and U packed in one matrix, and the pivots; for linalg.lu_solve."""
    return LuFactor(*_factored("linalg.lu_factor", A, pivot, True)[:2])


@operation("linalg.lu_factor_ex", method=False, out=True)
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LuFactorEx:
    """L and U packed, the pivots, and per matrix 0 or the first zero on the diagonal of U."""
    return LuFactorEx(*_factored("linalg.lu_factor_ex", A, pivot, check_errors))


@operation(out=True)
def lu(input: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """L and U packed in one matrix and the pivots (older form of linalg.lu_factor_ex)."""
    packed, pivots, info = _factored("lu", input, pivot, False)
    return (packed, pivots, info) if get_infos else (packed, pivots)


@named_result("lu")
class LuResult(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor


def _unpacked(packed: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = packed.shape[-2:]
    size = min(rows, columns)
    lower = packed.narrow(-1, 0, size).tril(-1) + wrap(np.eye(rows, size, dtype=packed.dtype.np))
    return lower, packed.narrow(-2, 0, size).triu()


@operation("linalg.lu", method=False, out=True)
def linalg_lu(A: Tensor, *, pivot: bool = True) -> LuResult:
    """P, L, U with A = P L U: permutation, unit lower triangle, upper triangle."""
    packed, pivots, _ = _factored("linalg.lu", A, pivot, False)
    return LuResult(PIVOT_MATRIX(pivots, rows=A.shape[-2], kind=A.dtype), *_unpacked(packed))


@named_result("lu_unpack")
class LuUnpack(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor


@operation(method=False, out=True)
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> LuUnpack:
    """P, L, U from the packed form; what is not wanted comes back empty."""
    need_matrices("lu_unpack", LU_data)
    if unpack_pivots and LU_pivots.dtype.name != "int32":
        raise DtypeError(
            f"lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, got {LU_pivots.dtype}; "
            "pass the pivots of lu_factor as they are"
        )
    empty = wrap(np.empty((0,), LU_data.dtype.np))
    permutation = PIVOT_MATRIX(LU_pivots, rows=LU_data.shape[-2], kind=LU_data.dtype) if unpack_pivots else empty
    lower, upper = _unpacked(LU_data) if unpack_data else (empty, empty)
    return LuUnpack(permutation, lower, upper)


def _lu_solved(name: str, packed: Tensor, pivots: Tensor, b: Tensor, left: bool, adjoint_: bool) -> Tensor:
    need_inexact(name, packed, b)
    need_square(name, packed, "LU")
    need_matrices(name, b, "B")
    if b.shape[-2 if left else -1] != packed.shape[-1]:
        raise ShapeError(
            f"{name}: incompatible shapes of LU {tuple(packed.shape)} and B {tuple(b.shape)} for the equation "
            f"{'AX = B' if left else 'XA = B'}; their sizes must agree"
        )
    if pivots.dtype.name != "int32" or tuple(pivots.shape) != tuple(packed.shape[:-1]):
        raise ShapeError(
            f"{name}: expected int32 pivots of shape {tuple(packed.shape[:-1])}, got {pivots.dtype} of shape "
            f"{tuple(pivots.shape)}; pass the pivots of lu_factor"
        )
    if not left:  # X A = B  ⇔  Aᴴ Xᴴ = Bᴴ
        return adjoint(_lu_solved(name, packed, pivots, adjoint(b), True, not adjoint_)).contiguous()
    permutation = PIVOT_MATRIX(pivots, rows=packed.shape[-1], kind=packed.dtype)
    if adjoint_:  # Aᴴ = Uᴴ Lᴴ Pᵀ
        middle = TRIANGULAR(adjoint(packed), b, upper=False, unit=False)
        return permutation @ TRIANGULAR(adjoint(packed), middle, upper=True, unit=True)
    middle = TRIANGULAR(packed, permutation.transpose(-2, -1) @ b, upper=False, unit=True)
    return TRIANGULAR(packed, middle, upper=True, unit=False)


@operation("linalg.lu_solve", method=False, out=True)
def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A X = B (X A = B, Aᴴ X = B), A given by linalg.lu_factor."""
    return _lu_solved("linalg.lu_solve", LU, pivots, B, left, adjoint)


@operation(out=True)
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X with A X = input, A given by its LU factorisation (older form of linalg.lu_solve)."""
    return _lu_solved("lu_solve", LU_data, LU_pivots, input, True, False)


# ------------------------------------------------------------------------------------------------ LDL


class Ldl(ByLapack, Opaque):
    """LAPACK's packed A = L D Lᵀ (or Lᴴ) from the lower triangle, its pivots and info."""

    differentiable, leading = False, 2

    def reference(self, a, *, hermitian, check):
        routine = "hetrf" if hermitian and a.dtype.kind == "c" else "sytrf"
        packed, pivots, info = each_matrix(lambda m: _ldl_one(m, routine), a)
        if check:
            first_failure(
                check, info, "D[{0},{0}] is exactly zero; the matrix is singular, solving with it divides by zero"
            )
        return packed, pivots, info


def _ldl_one(a: np.ndarray, routine: str) -> tuple[Any, ...]:
    if not a.size:
        return a, np.zeros(0, np.int32), np.int32(0)
    packed, pivots, info = lapack(routine, a.dtype)(a, lower=1)
    return np.tril(packed), pivots.astype(np.int32), np.int32(info)


class LdlSolve(ByLapack, Opaque):
    """X with A X = B from the packed L D Lᵀ: blocks of D of size 1 (positive pivot) or 2 (negative)."""

    differentiable = False

    def shapes(self, packed, pivots, b, *, hermitian):
        return np.broadcast_shapes(packed.shape[:-2], b.shape[:-2]) + b.shape[-2:], b.dtype

    def reference(self, packed, pivots, b, *, hermitian):
        batch = np.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
        if not b.size or not packed.size:
            return np.zeros(batch + b.shape[-2:], b.dtype)
        return each_matrix(lambda m, p, r: (_ldl_solve_one(m, p[0], r, hermitian),), packed, pivots[..., None, :], b)[0]


def _ldl_solve_one(packed: np.ndarray, pivots: np.ndarray, b: np.ndarray, hermitian: bool) -> np.ndarray:
    x = np.array(b)
    blocks = _ldl_blocks(pivots)
    turn = np.conj if hermitian else np.asarray
    for start, size, row in blocks:  # forwards: P, L, then D
        last, stop = start + size - 1, start + size
        x[[last, row]] = x[[row, last]]
        x[stop:] -= packed[stop:, start:stop] @ x[start:stop]
        block = np.tril(packed[start:stop, start:stop])
        block = block + turn(np.tril(block, -1)).T
        x[start:stop] = np.linalg.solve(block, x[start:stop])
    for start, size, row in reversed(blocks):  # backwards: Lᵀ, then P
        last, stop = start + size - 1, start + size
        x[start:stop] -= turn(packed[stop:, start:stop]).T @ x[stop:]
        x[[last, row]] = x[[row, last]]
    return x


def _ldl_blocks(pivots: np.ndarray) -> list[tuple[int, int, int]]:
    """(first row, size, row exchanged with its last row) of each diagonal block."""
    blocks, k = [], 0
    while k < len(pivots):
        size = 1 if pivots[k] > 0 else 2
        blocks.append((k, size, abs(int(pivots[k])) - 1))
        k += size
    return blocks


LDL, LDL_SOLVE = Ldl(), LdlSolve()


@named_result("ldl_factor")
class LdlFactor(NamedTuple):
    LD: Tensor
    pivots: Tensor


@named_result("ldl_factor_ex")
class LdlFactorEx(NamedTuple):
    LD: Tensor
    pivots: Tensor
    info: Tensor


def _ldl(name: str, A: Tensor, hermitian: bool, check: bool) -> tuple[Tensor, Tensor, Tensor]:
    need_inexact(name, A)
    need_square(name, A)
    return LDL(A, hermitian=bool(hermitian), check=name if check else "")


@operation("linalg.ldl_factor", method=False, out=True, differentiable=False)
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> LdlFactor:
    """A = L D Lᵀ (Lᴴ) of a symmetric (Hermitian) matrix in LAPACK's packed form, and its pivots."""
    return LdlFactor(*_ldl("linalg.ldl_factor", A, hermitian, True)[:2])


@operation("linalg.ldl_factor_ex", method=False, out=True, differentiable=False)
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LdlFactorEx:
    """A = L D Lᵀ in packed form, its pivots, and per matrix 0 or the first zero of D."""
    return LdlFactorEx(*_ldl("linalg.ldl_factor_ex", A, hermitian, check_errors))


@operation("linalg.ldl_solve", method=False, out=True, differentiable=False)
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with A X = B, A given by linalg.ldl_factor."""
    need_inexact("linalg.ldl_solve", LD, B)
    need_square("linalg.ldl_solve", LD, "LD")
    need_matrices("linalg.ldl_solve", B, "B")
    if B.shape[-2] != LD.shape[-1]:
        raise ShapeError(f"linalg.ldl_solve: LD {tuple(LD.shape)} and B {tuple(B.shape)} must have as many rows")
    if pivots.dtype.category != 1 or tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise ShapeError(
            f"linalg.ldl_solve: expected integer pivots of shape {tuple(LD.shape[:-1])}, got {pivots.dtype} of shape "
            f"{tuple(pivots.shape)}; pass the pivots of ldl_factor"
        )
    return LDL_SOLVE(LD, pivots, B, hermitian=bool(hermitian))
