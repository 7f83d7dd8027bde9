"""Products: matrix multiplication in every rank combination, and what is built from it."""

from __future__ import annotations

import numpy as np

from ..errors import DtypeError, ShapeError
from ..tensor import Tensor
from .elementwise import conj
from .primitive import Contraction, _raise_rank, operation, summed_to


class Matmul(Contraction):
    """(…, n, k) @ (…, k, m) → (…, n, m), leading dimensions broadcast."""

    def reference(self, x, other):
        if x.dtype == np.bool_:
            return np.matmul(x.astype(np.int64), other.astype(np.int64)) > 0
        return np.matmul(x, other)

    def vjp(self, g, y, x, other):
        return (
            lambda: summed_to(MATMUL(g, conj(other).mT), x.shape),
            lambda: summed_to(MATMUL(conj(x).mT, g), other.shape),
        )

    def batch(self, inputs, batched, size, params):
        rank = max(x.ndim - b for x, b in zip(inputs, batched, strict=True))
        return MATMUL(*(_raise_rank(x, rank) if b else x for x, b in zip(inputs, batched, strict=True)))


MATMUL = Matmul()


@operation(out=True, kind="Contraction", primitive=MATMUL)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product: vectors, matrices and batches of matrices in every combination."""
    if not isinstance(other, Tensor):
        raise TypeError(f"matmul: argument 'other' must be a Tensor, got {type(other).__name__}")
    if input.ndim == 0 or other.ndim == 0:
        raise ShapeError(
            f"matmul: both arguments to matmul need to be at least 1D, but they are {input.ndim}D and {other.ndim}D; "
            "use * for scalars"
        )
    if input.dtype is not other.dtype:
        raise DtypeError(
            f"matmul: expected both to have the same dtype, but got {input.dtype} and {other.dtype}; convert one with .to(...)"
        )
    inner, rows = input.shape[-1], other.shape[-2] if other.ndim > 1 else other.shape[0]
    if inner != rows:
        fits = other.ndim > 1 and inner == other.shape[-1]
        hint = "; did you mean a @ b.mT?" if fits else ""
        raise ShapeError(
            f"matmul: inner sizes differ (mat1 and mat2 shapes cannot be multiplied), {tuple(input.shape)} @ "
            f"{tuple(other.shape)}: {inner} ≠ {rows}{hint}"
        )
    a = input.unsqueeze(0) if input.ndim == 1 else input
    b = other.unsqueeze(1) if other.ndim == 1 else other
    product = MATMUL(a, b)
    if input.ndim == 1:
        product = product.squeeze(-2)
    return product.squeeze(-1) if other.ndim == 1 else product


def _matmul_operator(self: Tensor, other: Tensor) -> Tensor:
    return matmul(self, other) if isinstance(other, Tensor) else NotImplemented


Tensor.__matmul__ = _matmul_operator
Tensor.mT = property(lambda self: self.transpose(-2, -1))
