"""Norms: how long a vector is, by any order, and what is measured with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...dtypes import FLOAT
from ...errors import ArgumentError, DtypeError, InvalidValueError, ShapeError
from ...sizes import wrap_dim, wrap_dims
from ...tensor import Tensor
from ..core.operands import is_number
from ..core.primitive import OPERATIONS, Reduction, operation, register_module
from ..math.elementwise import where
from ..shape.view import PERMUTE
from .reduce import all_or, axis_operation, restored
from .reduce import sum as total


class LinalgVectorNorm(Reduction):
    """‖x‖ₚ = (Σ |xᵢ|ᵖ)^(1/p) over `dim`; p = ±∞ the largest or smallest |xᵢ|, p = 0 the number of non-zeros.

    Where the norm has no derivative (at 0, at ties of p = ±∞) the gradient is the subgradient of
    smallest length that PyTorch takes: 0, or equal shares.
    """

    def reference(self, x, *, order, dim, keepdim):
        size = np.abs(x) if order != 2 or x.dtype.kind == "c" else x
        over = dict(axis=dim, keepdims=keepdim)
        if order == math.inf:
            return np.maximum.reduce(size, **over)
        if order == -math.inf:
            return np.minimum.reduce(size, **over)
        if order == 0:
            return np.asarray(np.add.reduce(x != 0, dtype=size.dtype, **over))
        if order == 1:
            return np.add.reduce(size, **over)
        if order == 2:
            return np.sqrt(np.add.reduce(np.square(size), **over))
        return np.power(np.add.reduce(np.power(size, size.dtype.type(order)), **over), size.dtype.type(1 / order))

    def parts(self, x, *, order, dim, keepdim):
        over = dict(dim=dim, keepdim=keepdim)
        if order == math.inf:
            return x.abs().amax(**over)
        if order == -math.inf:
            return x.abs().amin(**over)
        if order == 0:
            return (x != 0).sum(dtype=x.dtype, **over)
        if order == 1:
            return x.abs().sum(**over)
        if order == 2:
            return x.square().sum(**over).sqrt()
        return x.abs().pow(order).sum(**over).pow(1 / order)

    def planes(self, x, *, order, dim, keepdim):
        return VECTOR_NORM(x.abs(), order=order, dim=dim, keepdim=keepdim)

    def vjp(self, g, y, x, *, order, dim, keepdim):
        g, y = restored(g, dim, keepdim), restored(y, dim, keepdim)
        if order == 0:
            return (x._filled(0),)
        if order == 1:
            return (g * x.sgn(),)
        if order == 2:  # g·x/‖x‖; dividing by ∞ where the norm is 0 makes this and all further derivatives 0
            return (x * (g / where(y == 0, math.inf, y)),)
        if math.isinf(order):
            largest = (x.abs() == y).to(g.dtype)
            return (x.sgn() * (largest * (g / total(largest, dim, True))),)
        flat = (x == 0) | (y == 0)
        ratio = where(flat, 1, x.abs() / where(y == 0, math.inf, y))
        return (x.sgn() * ratio ** (order - 1) * where(y == 0, 0, g),)


VECTOR_NORM = LinalgVectorNorm()
register_module(__name__)


def _norm_input(x: Tensor, dtype: Any, name: str) -> Tensor:
    """x in the type of the computation, checked as PyTorch does: floating, and never narrowed."""
    if x.dtype.category < FLOAT:
        raise DtypeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {x.dtype}; convert it with .float()"
        )
    if dtype is None:
        return x
    wanted = dtypes.as_dtype(dtype)
    if wanted.category != x.dtype.category:
        kind = "complex for complex" if x.is_complex() else "real for real"
        raise DtypeError(f"{name}: dtype should be floating point and {kind} inputs, but got {wanted}")
    if dtypes.promote_types(x.dtype, wanted) is not wanted:
        raise DtypeError(
            f"{name}: the dtype of the input ({x.dtype}) should be convertible without narrowing to the specified "
            f"dtype ({wanted}); convert the result instead"
        )
    return x.to(wanted)


@axis_operation(
    "linalg.vector_norm",
    method=False,
    kind="Reduction",
    primitive=VECTOR_NORM,
    names={"axis": "dim", "keepdims": "keepdim"},
)
def vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """(Σ |xᵢ|^ord)^(1/ord) over the given dimensions (of the flattened tensor by default)."""
    name = "linalg.vector_norm"
    if not is_number(ord):
        raise ArgumentError(f"{name}: argument 'ord' must be a number, not {type(ord).__name__} {ord!r}")
    x = _norm_input(x, dtype, name)
    dims = all_or(dim, x.ndim, name)
    if (ord < 0 or ord == math.inf) and 0 in (x.shape[d] for d in dims):
        raise ShapeError(
            f"{name}: cannot compute the {ord} norm over dims {dims} of shape {tuple(x.shape)} because the operation "
            "does not have an identity on an empty dimension; use a finite positive order"
        )
    return VECTOR_NORM(x, order=float(ord), dim=dims, keepdim=bool(keepdim))


def _nuclear_norm(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Σ of the singular values of the matrices in two dimensions."""
    dims = wrap_dims(dim, x.ndim, "norm")
    if len(dims) != 2:
        raise ShapeError(f"norm: p='nuc' is a norm of matrices: dim must be a 2-tuple. Got {dims} for {tuple(x.shape)}")
    rest = tuple(d for d in range(x.ndim) if d not in dims)
    values = OPERATIONS["linalg.svdvals"].function(PERMUTE(x, dims=(*rest, *dims)))
    return restored(total(values, -1), dims, False) if keepdim else total(values, -1)


@axis_operation(names={})
def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The vector norm of order p over `dim`; 'fro' is the root of the sum of squares, 'nuc' the nuclear norm."""
    if p is None or p == "fro":
        if p == "fro" and isinstance(dim, (tuple, list)) and len(dim) > 2:
            raise ShapeError(f"norm: p='fro' is a norm of matrices: dim must be a 2-tuple. Got {tuple(dim)}; use p=2")
        return vector_norm(input, 2, dim, keepdim, dtype=dtype)
    if p == "nuc":
        return _nuclear_norm(_norm_input(input, dtype, "norm"), dim, keepdim)
    if not is_number(p):
        raise InvalidValueError(f"norm: Order {p!r} not supported; give a number, 'fro' or 'nuc'")
    return vector_norm(input, p, dim, keepdim, dtype=dtype)


@operation(out=True)
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """‖input − other‖ₚ over all elements."""
    return vector_norm(input - other, p)


@operation(out=True, inplace=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice along `dim` scaled down to p-norm `maxnorm` where it is longer."""
    if input.ndim < 2:
        raise ShapeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    if p <= 0:
        raise InvalidValueError(f"renorm: non-positive-norm not supported, got p={p}")
    if maxnorm < 0:
        raise InvalidValueError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    d = wrap_dim(dim, input.ndim, "renorm")
    others = tuple(i for i in range(input.ndim) if i != d)
    length = vector_norm(input, p, others, True)
    return (input * where(length > maxnorm, maxnorm / (length + 1e-7), 1.0)).contiguous()
