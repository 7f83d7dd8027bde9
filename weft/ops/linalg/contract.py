"""The matrix product: one primitive for every combination of ranks, and layers' x Wᵀ + b.

`Matmul` is the primitive; vectors are matrices with a dimension of size 1. `product` checks and multiplies for all that is
built from it: the named products are in `products.py`, those added to something in `products_added.py`, einsum and chains
in `einsum.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...dtypes import BOOL
from ...errors import ArgumentError, DtypeError, ShapeError
from ...kernels.operation import NativeForm
from ...tape.interpreter import interpreter_of
from ...tape.modes import Taken, mode, switches
from ...tensor import Tensor, new, wrap
from ..core import base
from ..core.casting import lowered
from ..core.operands import F32, F64, raise_rank
from ..core.pointwise import NO_PARAMS
from ..core.primitive import Contraction, summed_to
from ..math.elementwise import ADD, conj

__all__ = ["AFFINE", "LINEAR", "MATMUL", "adjoint", "has_sparse", "need_rank", "need_tensors", "product", "same_dtype"]


class Matmul(Contraction):
    """(…, n, k) @ (…, k, m) → (…, n, m), leading dimensions broadcast."""

    transposes = True  # (A B)ᵀ = Bᵀ Aᵀ

    def reference(self, x, other):
        if x.ndim > 2 and other.ndim == 2 and x.size:  # one large product instead of many small ones
            return np.matmul(x.reshape(-1, x.shape[-1]), other).reshape(*x.shape[:-1], other.shape[1])
        if x.ndim > 2 and x.shape[-1] == 1 == other.shape[-2]:  # nothing is added up
            return np.multiply(x, other, order="C")  # a fifth of the time of a product for each
        return np.matmul(x, other)

    def shapes(self, x, other):
        front = np.broadcast_shapes(x.shape[:-2], other.shape[:-2])
        return (*front, x.shape[-2], other.shape[-1]), x.dtype

    def vjp(self, g, y, x, other):
        return lambda: _slope_left(g, other, x.shape), lambda: _slope_right(g, x, other.shape)

    def array_vjp(self, wanted, g, y, x, other):
        if g.ndim != 2:
            raise Taken
        return g.dot(other.T) if wanted[0] is not None else None, x.T.dot(g) if wanted[1] is not None else None

    def batch(self, inputs, batched, size, params):
        rank = max(x.ndim - b for x, b in zip(inputs, batched, strict=True))
        return MATMUL(*(raise_rank(x, rank) if b else x for x, b in zip(inputs, batched, strict=True)))

    def summed(self, x, other):
        """Σ_t x[t] @ other[t], as one product. Shape: (T, n, k), (T, k, m) → (n, m)."""
        count, rows, inner = x.shape
        x = x.transpose(0, 1).reshape(rows, count * inner)  # (T, n, k) → (n, T k)
        return MATMUL(x, other.reshape(count * inner, other.shape[2]))  # (T, k, m) → (T k, m)

    def native(self, node):
        from ...kernels.matmul.anchors import product

        return product(node, *node.inputs)


class HalfMatmul(NativeForm):
    """The product of matrices of float32, whose elements are rounded to bfloat16; the result is not."""

    name, title = "matmul_bf16", "HalfMatmul"

    def compute(self, x, other):
        x, other = (a.astype(dtypes.bfloat16.np).astype(F32) for a in (x, other))
        return MATMUL.reference(x, other)

    def native(self, node):
        from ...kernels.matmul.anchors import product

        return product(node, *node.inputs, narrow=True)


MATMUL = Matmul()
MATMUL.halved = HalfMatmul()


def adjoint(x: Tensor) -> Tensor:
    """xᴴ: the conjugate transpose of the last two dimensions."""
    return conj(x).transpose(-2, -1)


def _array_adjoint(a: np.ndarray) -> np.ndarray:
    a = a.swapaxes(-1, -2)
    return a.conj() if a.dtype.kind == "c" else a


def _array_product(a: np.ndarray, b: np.ndarray) -> Tensor:
    if a.size >= base.LARGE or b.size >= base.LARGE:
        return wrap(base.run_large(MATMUL, MATMUL.compute, (a, b), NO_PARAMS))
    try:
        return wrap(mode.run(MATMUL.compute, a, b))
    except RuntimeError:
        return wrap(mode.run_inside(MATMUL.compute, a, b))


def _slope_left(g: Tensor, other: Tensor, shape: tuple[int, ...]) -> Tensor:
    """g · otherᴴ, summed to the sizes of the left factor."""
    if not mode.grad and interpreter_of(g) is None and interpreter_of(other) is None:
        product = _array_product(g.array, _array_adjoint(other.array))
    else:
        product = MATMUL(g, adjoint(other))
    return summed_to(product, shape)


def _slope_right(g: Tensor, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """xᴴ · g, summed to the sizes of the right factor."""
    if len(shape) == 2 and x.ndim > 2:  # a weight shared by the batch: sum inside one product
        rows = math.prod(x.shape[:-1])
        x, g = x.reshape(rows, x.shape[-1]), g.reshape(rows, g.shape[-1])
    if not mode.grad and interpreter_of(g) is None and interpreter_of(x) is None:
        product = _array_product(_array_adjoint(x.array), g.array)
    else:
        product = MATMUL(adjoint(x), g)
    return summed_to(product, shape)


class Linear(Contraction):
    """x Wᵀ: (…, in), (out, in) → (…, out). Unlike `x @ W.t()` it leaves the gradient of W in the order of W."""

    def reference(self, x, weight):
        rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        return np.matmul(rows, weight.T).reshape(*x.shape[:-1], len(weight))

    def shapes(self, x, weight):
        return (*x.shape[:-1], weight.shape[0]), x.dtype

    def vjp(self, g, y, x, weight):
        return lambda: product(g, conj(weight)), lambda: _weight_slope(g, conj(x))

    def array_vjp(self, wanted, g, y, x, weight):
        if g.ndim != 2:
            raise Taken
        return g.dot(weight) if wanted[0] is not None else None, g.T.dot(x) if wanted[1] is not None else None

    def parts(self, x, weight):
        return product(x, weight.mT)

    def batch(self, inputs, batched, size, params):
        x, weight = inputs
        if not batched[1]:
            return LINEAR(x, weight)
        x = x if batched[0] else x.expand(size, *x.shape)
        rows = x.reshape(size, math.prod(x.shape[1:-1]), x.shape[-1])
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

    def array_vjp(self, wanted, g, y, x, weight, bias):
        return *LINEAR.array_vjp(wanted, g, y, x, weight), np.add.reduce(g, 0) if wanted[2] is not None else None

    def push(self, node, out, tangents):
        *factors, bias = tangents
        x, weight, _ = node.saved
        left, right = factors
        terms = [None if left is None else LINEAR(left, weight), None if right is None else LINEAR(x, right)]
        return base.total([*terms, None if bias is None else bias.expand(out.shape)])

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
        rows = math.prod(x.shape[:-1])
        x, g = x.reshape(rows, x.shape[-1]), g.reshape(rows, g.shape[-1])
    return product(g.mT, x)


def _bias_slope(g: Tensor) -> Tensor:
    return g.sum(tuple(range(g.ndim - 1))) if g.ndim > 1 else g


def product(input: Tensor, other: Tensor, name: str = "matmul") -> Tensor:
    """The matrix product: the shortest way for two float matrices, the general one for the rest."""
    if switches.casting:
        input, other = lowered(input, other)
    try:
        a, b = input.array, other.array
    except AttributeError:
        return _general_product(input, other, name)
    kind = a.dtype
    if a.ndim != 2 or b.ndim != 2 or b.dtype is not kind or (kind is not F32 and kind is not F64):
        return _general_product(input, other, name)
    try:
        small = a.size < base.LARGE > b.size
        result = mode.run(np.dot, a, b) if small else base.run_large(MATMUL, np.matmul, (a, b), NO_PARAMS)
    except ValueError:
        raise _inner_error(input, other, name) from None
    except Taken:
        return mode.interpreter.short_way(_general_product, input, other, name)
    except RuntimeError:
        result = mode.run_inside(np.dot, a, b)
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
            raise ArgumentError(
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
        raise ArgumentError(f"{name}: argument '{role}' must be a Tensor, got {type(x).__name__}")
    if x.ndim != rank:
        raise ShapeError(
            f"{name}: {role} must be {rank}D, got a {x.ndim}D tensor of shape {tuple(x.shape)}; reshape it, or use "
            "matmul"
        )


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
