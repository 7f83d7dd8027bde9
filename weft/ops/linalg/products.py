"""Products of two tensors by their names: of matrices and vectors, inner, outer, Kronecker and vector products; diagonals."""

from __future__ import annotations

import math

from ...dtypes import BOOL, FLOAT
from ...errors import DtypeError, IndexRangeError, ShapeError
from ...sizes import wrap_dim
from ...tensor import Tensor
from ..core.primitive import operation, write_out
from ..math.elementwise import conj
from ..shape.join import cat
from .contract import MATMUL, has_sparse, need_rank, need_tensors, product, same_dtype

__all__ = ["outer"]


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product: vectors, matrices and batches of matrices in every combination."""
    result = product(input, other)
    return result if out is None else write_out(out, result, "matmul")


def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """(n, k) @ (k, m) → (n, m)."""
    if has_sparse(input, mat2):
        return input @ mat2
    need_rank("mm", input, 2, "input")
    need_rank("mm", mat2, 2, "mat2")
    result = product(input, mat2, "mm")
    return result if out is None else write_out(out, result, "mm")


operation(kind="Contraction", primitive=MATMUL)(matmul)
operation(kind="Contraction", primitive=MATMUL)(mm)
operation("linalg.matmul", method=False, kind="Contraction", primitive=MATMUL)(matmul)


@operation(out=True, kind="Contraction", primitive=MATMUL)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """(B, n, k) @ (B, k, m) → (B, n, m)."""
    need_rank("bmm", input, 3, "batch1")
    need_rank("bmm", mat2, 3, "batch2")
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(
            f"bmm: batch sizes differ, {tuple(input.shape)} and {tuple(mat2.shape)}; use matmul to broadcast a batch "
            "of 1"
        )
    return product(input, mat2, "bmm")


@operation(out=True, kind="Contraction", primitive=MATMUL)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """(n, k) @ (k) → (n)."""
    if has_sparse(input):
        return input @ vec
    need_rank("mv", input, 2, "input")
    need_rank("mv", vec, 1, "vec")
    return product(input, vec, "mv")


@operation(out=True, kind="Contraction", primitive=MATMUL)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Σ xᵢ yᵢ of two vectors of equal length."""
    _need_vectors("dot", input, tensor)
    return product(input, tensor, "dot")


@operation(out=True, kind="Contraction", primitive=MATMUL)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Σ x̄ᵢ yᵢ of two vectors of equal length."""
    _need_vectors("vdot", input, other)
    return product(conj(input), other, "vdot")


def _need_vectors(name: str, x: Tensor, y: Tensor) -> None:
    need_rank(name, x, 1, "input")
    need_rank(name, y, 1, "tensor")
    if x.shape != y.shape:
        raise ShapeError(
            f"{name}: inconsistent tensor size, expected two vectors of equal length, got {x.shape[0]} and "
            f"{y.shape[0]}; use * to broadcast"
        )


@operation("linalg.vecdot", method=False, out=True)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Σ x̄ᵢ yᵢ along a dimension, the others broadcast."""
    need_tensors("linalg.vecdot", x, y)
    same_dtype("linalg.vecdot", x, y)
    if x.dtype.category < FLOAT:
        raise DtypeError(
            f"linalg.vecdot: expected a floating point or complex tensor as input, got {x.dtype}; convert it with "
            ".float()"
        )
    rank = max(x.ndim, y.ndim)
    at = wrap_dim(dim, rank, "linalg.vecdot") - rank
    if rank == 0:
        return conj(x) * y
    if min(x.ndim, y.ndim) < -at or x.shape[at] != y.shape[at]:
        raise ShapeError(
            f"linalg.vecdot: sizes along dim {dim} differ, {tuple(x.shape)} and {tuple(y.shape)}; they must be equal"
        )
    left, right = conj(x).movedim(at, -1).unsqueeze(-2), y.movedim(at, -1).unsqueeze(-1)
    return product(left, right, "linalg.vecdot").squeeze(-1).squeeze(-1)


@operation(out=True)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products summed over the last dimension of both: y[i…, j…] = Σₖ x[i…, k] · other[j…, k]."""
    need_tensors("inner", input, other)
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    same_dtype("inner", input, other)
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError(
            f"inner: inner() the last dimension must match on both input tensors but got shapes {tuple(input.shape)} "
            f"and {tuple(other.shape)}; transpose one of them"
        )
    size = input.shape[-1]
    a = input.reshape(math.prod(input.shape[:-1]), size)  # (I, k)
    b = other.reshape(math.prod(other.shape[:-1]), size)  # (J, k)
    return product(a, b.transpose(0, 1), "inner").reshape(*input.shape[:-1], *other.shape[:-1])


@operation(out=True, aliases=("ger",))
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """y[i, j] = input[i] · vec2[j]."""
    need_rank("outer", input, 1, "input")
    need_rank("outer", vec2, 1, "vec2")
    return input.unsqueeze(1) * vec2


@operation(out=True)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: every element of `input` times the whole of `other`."""
    need_tensors("kron", input, other)
    rank = max(input.ndim, other.ndim)
    left = (1,) * (rank - input.ndim) + tuple(input.shape)
    right = (1,) * (rank - other.ndim) + tuple(other.shape)
    spread = [size for s in left for size in (s, 1)]  # (a₁, 1, a₂, 1, …)
    inlaid = [size for s in right for size in (1, s)]  # (1, b₁, 1, b₂, …)
    tiles = input.reshape(spread) * other.reshape(inlaid)
    return tiles.reshape([a * b for a, b in zip(left, right, strict=True)])


def _cross(input: Tensor, other: Tensor, dim: int, name: str) -> Tensor:
    need_tensors(name, input, other)
    if input.ndim != other.ndim:
        raise ShapeError(
            f"{name}: inputs must have the same number of dimensions, got {tuple(input.shape)} and "
            f"{tuple(other.shape)}; unsqueeze one of them"
        )
    same_dtype(name, input, other)
    if input.dtype.category == BOOL:
        raise DtypeError(f'{name}: "cross" not implemented for bool; convert with .int()')
    at = wrap_dim(dim, input.ndim, name)
    if input.ndim == 0 or input.shape[at] != 3 or other.shape[at] != 3:
        raise ShapeError(
            f"{name}: inputs dimension {dim} must have length 3, got {tuple(input.shape)} and {tuple(other.shape)}; "
            "choose it with dim="
        )
    return _turned(input, at, 1) * _turned(other, at, 2) - _turned(input, at, 2) * _turned(other, at, 1)


def _turned(x: Tensor, dim: int, by: int) -> Tensor:
    """x with its three slices moved round: (x₁, x₂, x₀) for by = 1."""
    return cat([x.narrow(dim, by, 3 - by), x.narrow(dim, 0, by)], dim)


@operation("linalg.cross", method=False, out=True)
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product of vectors of length 3 along `dim`."""
    return _cross(input, other, dim, "linalg.cross")


@operation(out=True)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The vector product; without `dim` along the first dimension of size 3."""
    if dim is None:
        dim = next((d for d, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise ShapeError(
                f"cross: no dimension of size 3 in input of shape {tuple(input.shape)}; vectors have 3 elements"
            )
    return _cross(input, other, dim, "cross")


@operation()
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    need_rank("trace", input, 2, "input")
    if input.dtype.category == BOOL:
        raise DtypeError('trace: "trace" not implemented for bool; convert with .int()')
    return input.diagonal().sum()


@operation(method=False, out=True, name="linalg.diagonal")
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of two dimensions (the last two by default), as a view."""
    if A.ndim < 2:
        raise IndexRangeError(f"linalg.diagonal: needs at least two dimensions, got shape {tuple(A.shape)}")
    return A.diagonal(offset, dim1, dim2)
