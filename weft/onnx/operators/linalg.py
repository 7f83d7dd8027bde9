"""Products of matrices."""

from __future__ import annotations

import weft

from ...nn import functional as F
from ...tensor import Tensor
from .registry import rule


@rule("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


@rule("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """α A B + β C, with A and B transposed where that is asked for."""
    a = a.mT if transA else a
    if transB and alpha == 1 and beta == 1 and c is not None and c.ndim == 1 and c.shape[0] == b.shape[0]:
        return F.linear(a, b, c)
    product = a @ (b.mT if transB else b)
    product = product if alpha == 1 else (product * alpha).to(product.dtype)
    return product if c is None else product + (c if beta == 1 else (c * beta).to(c.dtype))


@rule("Einsum")
def einsum(*xs: Tensor, equation: str) -> Tensor:
    return weft.einsum(equation.replace(" ", ""), *xs)


@rule("Det")
def det(x: Tensor) -> Tensor:
    return weft.linalg.det(x)
