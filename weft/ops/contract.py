"""Products of two tensors: matrix multiplication in every rank combination, and what is built from it.

`Matmul` is the one primitive; vectors are matrices with a dimension of size 1. Products of many
tensors (einsum, chains) live in `einsum.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..autograd.modes import mode, switches
from ..dtype import BOOL, FLOAT
from ..errors import DtypeError, IndexRangeError, ShapeError
from ..tensor import Tensor, new, wrap, wrap_dim
from . import base
from .elementwise import ADD, conj
from .primitive import F32, F64, NO_PARAMS, Contraction, _raise_rank, operation, summed_to, write_out


class Matmul(Contraction):
    """(…, n, k) @ (…, k, m) → (…, n, m), leading dimensions broadcast."""

    transposes = True  # (A B)ᵀ = Bᵀ Aᵀ

    def reference(self, x, other):
        if x.ndim > 2 and other.ndim == 2 and x.size:  # one large product instead of many small ones
            return np.matmul(x.reshape(-1, x.shape[-1]), other).reshape(*x.shape[:-1], other.shape[1])
        return np.matmul(x, other)

    def shapes(self, x, other):
        front = np.broadcast_shapes(x.shape[:-2], other.shape[:-2])
        return (*front, x.shape[-2], other.shape[-1]), x.dtype

    def vjp(self, g, y, x, other):
        return lambda: _slope_left(g, other, x.shape), lambda: _slope_right(g, x, other.shape)

    def batch(self, inputs, batched, size, params):
        rank = max(x.ndim - b for x, b in zip(inputs, batched, strict=True))
        return MATMUL(*(_raise_rank(x, rank) if b else x for x, b in zip(inputs, batched, strict=True)))

    def summed(self, x, other):
        """Σ_t x[t] @ other[t], as one product. Shape: (T, n, k), (T, k, m) → (n, m)."""
        count, rows, inner = x.shape
        x = x.transpose(0, 1).reshape(rows, count * inner)  # (T, n, k) → (n, T k)
        return MATMUL(x, other.reshape(count * inner, other.shape[2]))  # (T, k, m) → (T k, m)

    def native(self, node):
        from ..compiler.anchors import product

        return product(node, *node.inputs)


MATMUL = Matmul()


def adjoint(x: Tensor) -> Tensor:
    """xᴴ: the conjugate transpose of the last two dimensions."""
    return conj(x).transpose(-2, -1)


def _array_adjoint(a: np.ndarray) -> np.ndarray:
    a = a.swapaxes(-1, -2)
    return a.conj() if a.dtype.kind == "c" else a


def _array_product(a: np.ndarray, b: np.ndarray) -> Tensor:
    small = a.size < base.LARGE
    return wrap(mode.run(MATMUL.compute, a, b) if small else base.run_large(MATMUL, MATMUL.compute, (a, b), NO_PARAMS))


def _slope_left(g: Tensor, other: Tensor, shape: tuple[int, ...]) -> Tensor:
    """g · otherᴴ, summed to the sizes of the left factor."""
    if not mode.grad and g._interpreter is None and other._interpreter is None:
        product = _array_product(g.array, _array_adjoint(other.array))
    else:
        product = MATMUL(g, adjoint(other))
    return summed_to(product, shape)


def _slope_right(g: Tensor, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """xᴴ · g, summed to the sizes of the right factor."""
    if len(shape) == 2 and x.ndim > 2:  # a weight shared by the batch: sum inside one product
        rows = _count(x.shape[:-1])
        x, g = x.reshape(rows, x.shape[-1]), g.reshape(rows, g.shape[-1])
    if not mode.grad and g._interpreter is None and x._interpreter is None:
        product = _array_product(_array_adjoint(x.array), g.array)
    else:
        product = MATMUL(adjoint(x), g)
    return summed_to(product, shape)


class Linear(Contraction):
    """x Wᵀ: (…, in), (out, in) → (…, out). Unlike `x @ W.t()` it leaves the gradient of W in the order of W."""

    def reference(self, x, weight):
        rows = x.reshape(_count(x.shape[:-1]), x.shape[-1])
        return np.matmul(rows, weight.T).reshape(*x.shape[:-1], len(weight))

    def shapes(self, x, weight):
        return (*x.shape[:-1], weight.shape[0]), x.dtype

    def vjp(self, g, y, x, weight):
        return lambda: product(g, conj(weight)), lambda: _weight_slope(g, conj(x))

    def parts(self, x, weight):
        return product(x, weight.mT)

    def batch(self, inputs, batched, size, params):
        x, weight = inputs
        if not batched[1]:
            return LINEAR(x, weight)
        x = x if batched[0] else x.expand(size, *x.shape)
        rows = x.reshape(size, _count(x.shape[1:-1]), x.shape[-1])
        return MATMUL(rows, weight.mT).reshape(*x.shape[:-1], weight.shape[1])


class Affine(Contraction):
    """x Wᵀ + b: (…, in), (out, in), (out,) → (…, out)."""

    def reference(self, x, weight, bias):
        y = LINEAR.reference(x, weight)
        y += bias
        return y

    def shapes(self, x, weight, bias):
        return LINEAR.shapes(x, weight)

    def vjp(self, g, y, x, weight, bias):
        return lambda: product(g, conj(weight)), lambda: _weight_slope(g, conj(x)), lambda: _bias_slope(g)

    def parts(self, x, weight, bias):
        return product(x, weight.mT) + bias

    def batch(self, inputs, batched, size, params):
        *factors, bias = inputs
        *which, last = batched
        y = LINEAR.batch(factors, which, size, params) if any(which) else LINEAR(*factors)
        return ADD.batch((y, bias), (any(which), last), size, params)


LINEAR, AFFINE = Linear(), Affine()


def _weight_slope(g: Tensor, x: Tensor) -> Tensor:
    """gᵀ x over all leading dimensions. Shape: (…, out), (…, in) → (out, in)."""
    if x.ndim != 2:
        rows = _count(x.shape[:-1])
        x, g = x.reshape(rows, x.shape[-1]), g.reshape(rows, g.shape[-1])
    return product(g.mT, x)


def _bias_slope(g: Tensor) -> Tensor:
    return g.sum(tuple(range(g.ndim - 1))) if g.ndim > 1 else g


def product(input: Tensor, other: Tensor, name: str = "matmul") -> Tensor:
    """The matrix product: the shortest way for two float matrices, the general one for the rest."""
    try:
        a, b = input.array, other.array
    except AttributeError:
        return _general_product(input, other, name)
    kind = a.dtype
    if a.ndim != 2 or b.ndim != 2 or b.dtype is not kind or (kind is not F32 and kind is not F64):
        return _general_product(input, other, name)
    try:
        small = a.size < base.LARGE
        result = mode.run(np.matmul, a, b) if small else base.run_large(MATMUL, np.matmul, (a, b), NO_PARAMS)
    except ValueError:
        raise _inner_error(input, other, name) from None
    out = new(Tensor)
    out.array = result
    x_needs, other_needs = input._needs_grad, other._needs_grad
    if (x_needs or other_needs) and mode.grad:
        out.node = MATMUL.make_node(out, (input, other), {}, (x_needs, other_needs))
        out._needs_grad = True
    elif switches.inferring and mode.inference:
        out._inference = True
    return out


def has_sparse(*factors: Any) -> bool:
    """Whether a factor is a sparse matrix, which multiplies by its own operator."""
    return any(not isinstance(x, Tensor) and getattr(x, "is_sparse_matrix", False) for x in factors)


def _general_product(input: Tensor, other: Tensor, name: str) -> Tensor:
    if has_sparse(input, other):
        return input @ other
    need_tensors(name, input, other)
    if input.ndim == 0 or other.ndim == 0:
        raise ShapeError(
            f"{name}: both arguments to matmul need to be at least 1D, but they are {input.ndim}D and {other.ndim}D; "
            "use * for scalars"
        )
    same_dtype(name, input, other)
    if input.dtype.category == BOOL and input.numel() and other.numel():
        raise DtypeError(f'{name}: "{name}" not implemented for bool; convert the inputs with .int() or .float() first')
    if input.shape[-1] != other.shape[-2 if other.ndim > 1 else 0]:
        raise _inner_error(input, other, name)
    a = input.unsqueeze(0) if input.ndim == 1 else input
    b = other.unsqueeze(1) if other.ndim == 1 else other
    try:
        result = MATMUL(a, b)
    except ValueError:
        raise ShapeError(
            f"{name}: the batch dimensions of {tuple(input.shape)} and {tuple(other.shape)} cannot be broadcast (the "
            "size of tensor a must match the size of tensor b at non-singleton dimensions); unsqueeze or expand one "
            "of them"
        ) from None
    if input.ndim == 1:
        result = result.squeeze(-2)
    return result.squeeze(-1) if other.ndim == 1 else result


def _inner_error(input: Tensor, other: Tensor, name: str) -> ShapeError:
    inner, rows = input.shape[-1], other.shape[-2 if other.ndim > 1 else 0]
    hint = "; did you mean a @ b.mT?" if other.ndim > 1 and inner == other.shape[-1] else ""
    return ShapeError(
        f"{name}: inner sizes differ (mat1 and mat2 shapes cannot be multiplied), {tuple(input.shape)} @ "
        f"{tuple(other.shape)}: {inner} ≠ {rows}{hint or '; transpose or reshape one of them'}"
    )


def need_tensors(name: str, *values: Any) -> None:
    """Every value must be a tensor."""
    for position, x in enumerate(values):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"{name}: argument {position + 1} must be a Tensor, got {type(x).__name__}; make one with "
                "weft.tensor(...)"
            )


def same_dtype(name: str, *tensors: Tensor) -> None:
    """Products do not promote: all factors must have one element type."""
    first = tensors[0].dtype
    for x in tensors[1:]:
        if x.dtype is not first:
            raise DtypeError(
                f"{name}: expected all tensors to have the same dtype, but got {first} and {x.dtype}; convert one with "
                ".to(...)"
            )


def need_rank(name: str, x: Any, rank: int, role: str) -> None:
    """The argument `role` must be a tensor with `rank` dimensions."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: argument '{role}' must be a Tensor, got {type(x).__name__}")
    if x.ndim != rank:
        raise ShapeError(
            f"{name}: {role} must be {rank}D, got a {x.ndim}D tensor of shape {tuple(x.shape)}; reshape it, or use "
            "matmul"
        )


# ------------------------------------------------------------------------------------ plain products


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
    a = input.reshape(_count(input.shape[:-1]), size)  # (I, k)
    b = other.reshape(_count(other.shape[:-1]), size)  # (J, k)
    return product(a, b.transpose(0, 1), "inner").reshape(*input.shape[:-1], *other.shape[:-1])


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


@operation(out=True, aliases=("ger",))
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """y[i, j] = input[i] · vec2[j]."""
    need_rank("outer", input, 1, "input")
    need_rank("outer", vec2, 1, "vec2")
    return input.unsqueeze(1) * vec2


def _operator(self: Tensor, other: Any) -> Any:
    if isinstance(other, np.ndarray):
        self, other = _in_common_type(self, wrap(other))
    return product(self, other) if isinstance(other, Tensor) else NotImplemented


def _in_common_type(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the wider type: NumPy's arrays are float64 unless told, so they do not refuse as tensors do."""
    kind = dtypes.promote_types(x.dtype, y.dtype)
    return x.to(kind), y.to(kind)


def _reflected(self: Tensor, other: Any) -> Any:
    if isinstance(other, np.ndarray):
        self, other = _in_common_type(self, wrap(other))
    return product(other, self) if isinstance(other, Tensor) else NotImplemented


Tensor.__matmul__, Tensor.__rmatmul__ = _operator, _reflected
Tensor.mT = property(lambda self: _matrix_transpose(self))


def _matrix_transpose(x: Tensor) -> Tensor:
    if x.ndim == 1:
        raise ShapeError("mT: only supported on matrices or batches of matrices, got a 1-D tensor; unsqueeze it first")
    return x.transpose(-2, -1)


# ------------------------------------------------------------------- products added to something: β·x + α·(a b)


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
        raise TypeError(f"{name}: argument 'input' must be a Tensor, got {type(input).__name__}")
    kind = first.dtype
    if input.dtype is not kind or second.dtype is not kind:
        same_dtype(name, input, first, second)


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """β · input + α · (mat1 @ mat2)."""
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


# -------------------------------------------------------------------------------------- other products


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
    from .join import cat

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
