"""Products added to something: β · x + α · (a b), for matrices, vectors and batches."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...dtypes import BOOL, FLOAT
from ...errors import ArgumentError, DtypeError, ShapeError
from ...tensor import Tensor
from ..core.primitive import operation, write_out
from ..math.elementwise import ADD
from .contract import has_sparse, need_rank, product, same_dtype
from .products import outer


def _weight(value: Any, kind: Any) -> Any:
    """β or α for a tensor type: integer tensors take whole numbers, as PyTorch truncates them."""
    if kind.category < FLOAT and isinstance(value, float):
        return int(value)
    return value


def _added(name: str, input: Tensor, result: Tensor, beta: Any, alpha: Any) -> Tensor:
    """β · input + α · result, in the sizes of `result`; with β = 0 the input is not even read."""
    if beta == 1 and alpha == 1:
        total = ADD.fast(input, result)
    else:
        beta, alpha = _weight(beta, result.dtype), _weight(alpha, result.dtype)
        total = result if alpha == 1 else result * alpha
        if beta == 0:
            return total
        total = (input if beta == 1 else input * beta) + total
    if total.shape != result.shape:
        raise ShapeError(
            f"{name}: input of shape {tuple(input.shape)} cannot be expanded to the shape of the product "
            f"{tuple(result.shape)}; give it a broadcastable shape"
        )
    return total


def _check_added(name: str, input: Any, first: Any, second: Any, first_rank: int, second_rank: int) -> None:
    need_rank(name, first, first_rank, "the first factor")
    need_rank(name, second, second_rank, "the second factor")
    if not isinstance(input, Tensor):
        raise ArgumentError(f"{name}: argument 'input' must be a Tensor, got {type(input).__name__}")
    kind = first.dtype
    if input.dtype is not kind or second.dtype is not kind:
        same_dtype(name, input, first, second)


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """β · input + α · (mat1 @ mat2)."""
    if has_sparse(mat1, mat2):
        total = _added("addmm", input, mat1 @ mat2, beta, alpha)
        return total if out is None else write_out(out, total, "addmm")
    _check_added("addmm", input, mat1, mat2, 2, 2)
    total = _added("addmm", input, product(mat1, mat2, "addmm"), beta, alpha)
    return total if out is None else write_out(out, total, "addmm")


operation(inplace=True, kind="Contraction")(addmm)


@operation(out=True, inplace=True)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """β · input + α · (mat @ vec)."""
    _check_added("addmv", input, mat, vec, 2, 1)
    return _added("addmv", input, product(mat, vec, "addmv"), beta, alpha)


@operation(out=True, inplace=True)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """β · input + α · (vec1 ⊗ vec2)."""
    need_rank("addr", vec1, 1, "vec1")
    need_rank("addr", vec2, 1, "vec2")
    kind = dtypes.result_dtype((input, vec1, vec2))
    for role, value in (("beta", beta), ("alpha", alpha)):
        if isinstance(value, float) and kind.category < FLOAT:
            raise DtypeError(
                f"addr: for integral input tensors, argument {role} must not be a floating point number, got {value}"
            )
    if kind.category == BOOL:
        beta, alpha = bool(beta), bool(alpha)
    return _added("addr", input.to(kind), outer(vec1, vec2).to(kind), beta, alpha)


@operation(out=True, inplace=True)
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """β · input + α · Σᵦ (batch1ᵦ @ batch2ᵦ)."""
    _check_added("addbmm", input, batch1, batch2, 3, 3)
    _check_batches("addbmm", batch1, batch2)
    count, rows, inner_size = batch1.shape
    wide = batch1.transpose(0, 1).reshape(rows, count * inner_size)  # (n, B·k)
    tall = batch2.reshape(count * inner_size, batch2.shape[2])  # (B·k, m)
    return _added("addbmm", input, product(wide, tall, "addbmm"), beta, alpha)


@operation(out=True, inplace=True)
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """β · input + α · (batch1 @ batch2), matrix by matrix."""
    _check_added("baddbmm", input, batch1, batch2, 3, 3)
    _check_batches("baddbmm", batch1, batch2)
    return _added("baddbmm", input, product(batch1, batch2, "baddbmm"), beta, alpha)


def _check_batches(name: str, x: Tensor, y: Tensor) -> None:
    if x.shape[0] != y.shape[0] or x.shape[2] != y.shape[1]:
        raise ShapeError(
            f"{name}: expected batches (B, n, k) and (B, k, m), got {tuple(x.shape)} and {tuple(y.shape)}; check the "
            "batch size and the inner size"
        )
