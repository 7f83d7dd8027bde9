"""What differentiation and batching need of the operations, under names of their own.

`autograd/` names no operation: where it has to move a batch dimension, pair two tensors or make a
basis, it calls these. They work on plain and on batched tensors alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtypes import bool_, result_dtype
from ...tensor import Tensor, wrap
from ..shape.join import cat, stack
from ..shape.view import ALIAS, EXPAND, PERMUTE, SLICE
from .primitive import summed_to

__all__ = ["summed_to"]  # besides what is defined here


def same_memory(x: Tensor) -> Tensor:
    """A new tensor object over the same memory, one node further on the tape."""
    return ALIAS(x)


def variable(x: Tensor) -> Tensor:
    """`same_memory` of a tensor that requires grad, as something to differentiate by."""
    return ALIAS(x).requires_grad_()


def to_front(x: Tensor, dim: int) -> Tensor:
    """Dimension `dim` (≥ 0) moved to the front, always as a new tensor object."""
    return PERMUTE(x, dims=(dim, *(d for d in range(x.ndim) if d != dim)))


def from_front(x: Tensor, dim: int) -> Tensor:
    """The first dimension moved to position `dim` (≥ 0)."""
    order = list(range(1, x.ndim))
    order.insert(dim, 0)
    return PERMUTE(x, dims=tuple(order))


def swap_fronts(x: Tensor) -> Tensor:
    """The first two dimensions exchanged."""
    return PERMUTE(x, dims=(1, 0, *range(2, x.ndim)))


def repeated(x: Tensor, size: int) -> Tensor:
    """(…) → (size, …) without copying."""
    return EXPAND(x, shape=(size, *x.shape))


def summed_front(x: Tensor) -> Tensor:
    """Σ over the first dimension: the adjoint of `repeated`."""
    return x.sum(0)


def piece(x: Tensor, dim: int, start: int, stop: int) -> Tensor:
    """Positions start … stop − 1 along `dim`."""
    return SLICE(x, index=((None, None, None),) * dim + ((start, stop, 1),))


def one_row(x: Tensor, number: int) -> Tensor:
    """The slice of the first dimension at `number`."""
    return SLICE(x, index=(number,))


def joined(pieces: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors one after the other along `dim`."""
    return cat(list(pieces), dim)


def basis(x: Tensor) -> Tensor:
    """The unit tensors of the space of x: (n, *x.shape) with n = x.numel()."""
    return wrap(np.eye(x.numel(), dtype=x.dtype.np).reshape(x.numel(), *x.shape))


def basis_of(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The unit tensors of the space of all of them together: (n, *x.shape) for each, n their number of elements."""
    sizes = [x.numel() for x in tensors]
    found = []
    for number, x in enumerate(tensors):
        unit = np.eye(sum(sizes), sizes[number], -sum(sizes[:number]), dtype=x.dtype.np)
        found.append(wrap(unit.reshape(sum(sizes), *x.shape)))
    return found


def pieces(x: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
    """Consecutive pieces of these sizes along the last dimension."""
    return x.split(list(sizes), x.ndim - 1)


def stacked(rows: Sequence[Tensor]) -> Tensor:
    """Tensors of equal sizes along a new first dimension."""
    return stack(list(rows))


def no_rows(primitive: Any, pairs: Sequence[tuple[Any, bool]], params: dict[str, Any]) -> Any:
    """The result of a primitive on a batch of no examples: one row of zeros tells the shapes."""
    row = primitive(*(wrap(np.zeros(x.shape[1:], x.dtype.np)) if b else x for x, b in pairs), **params)
    if isinstance(row, tuple):
        return tuple(piece(repeated(r, 1), 0, 0, 0) for r in row)
    return piece(repeated(row, 1), 0, 0, 0)


def promoted_as_single(inputs: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Inputs in their common type, where a batch of 0-d tensors counts as 0-d, as it would in a loop."""
    kinds = {x.dtype for x in inputs if isinstance(x, Tensor) and x.dtype is not bool_}
    if len(kinds) < 2:
        return list(inputs)
    single = [one_row(x, 0) if b and x.shape[0] else x for x, b in zip(inputs, batched, strict=True)]
    kind = result_dtype([x for x in single if getattr(x, "dtype", None) is not bool_])
    return [x.to(kind) if isinstance(x, Tensor) and x.dtype is not bool_ else x for x in inputs]


def zeros_of(meta: Any) -> Tensor:
    """Zeros of a remembered shape and type."""
    return wrap(np.zeros(tuple(meta.shape), meta.dtype.np))


def reshaped(x: Tensor, shape: Sequence[int]) -> Tensor:
    """The same elements in other sizes."""
    return x.reshape(tuple(shape))


def inner(x: Tensor, y: Tensor) -> Tensor:
    """Σ x̄ · y over all elements: the inner product."""
    return (x.conj() * y if x.is_complex() else x * y).sum()


def magnitude(x: Tensor) -> Tensor:
    """|x|, element by element."""
    return x.abs()


def largest(x: Tensor) -> float:
    """The largest element as a number; 0 for an empty tensor, NaN if there is one."""
    return float(x.max()) if x.numel() else 0.0


def averaged_front(x: Tensor) -> Tensor:
    """The mean over the first dimension."""
    return x.mean(0)


def spectrum(x: Tensor) -> tuple[Tensor, Tensor]:
    """The eigenvalues and the singular values of a square matrix."""
    from ..linalg.spectral import eigvals, svdvals

    return eigvals(x), svdvals(x)
