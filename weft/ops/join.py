"""Putting tensors together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtype as dtypes
from ..errors import ShapeError
from ..tensor import Tensor, wrap_dim
from .primitive import Opaque, operation


class Cat(Opaque):
    """Tensors one after the other along a dimension."""

    reads, low_precision = "shapes", True

    def reference(self, *xs, dim):
        return np.concatenate(xs, dim)

    def vjp(self, g, y, *xs, dim):
        return g.split([x.shape[dim] for x in xs], dim)

    def batch(self, inputs, batched, size, params):
        whole = [x if b else x.unsqueeze(0).expand(size, *x.shape) for x, b in zip(inputs, batched, strict=True)]
        return CAT(*whole, dim=params["dim"] + 1)


CAT = Cat()


@operation(method=False, out=True, aliases=("concat", "concatenate"), kind="Opaque", primitive=CAT)
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors one after the other along a dimension; all other sizes must agree."""
    tensors = list(tensors)
    if not tensors:
        raise ShapeError("cat: expected a non-empty list of tensors")
    kind = dtypes.result_dtype(tensors)
    kept = [x for x in tensors if tuple(x.shape) != (0,)]
    if not kept:
        return tensors[0].to(kind).clone()
    at = wrap_dim(dim, kept[0].ndim, "cat")
    for number, x in enumerate(kept):
        if x.ndim == 0:
            raise ShapeError("cat: zero-dimensional tensors cannot be concatenated; use stack")
        same = x.ndim == kept[0].ndim and all(
            a == b for d, (a, b) in enumerate(zip(x.shape, kept[0].shape, strict=True)) if d != at
        )
        if not same:
            raise ShapeError(
                f"cat: sizes of tensors must match except in dimension {at}; tensor 0 has {tuple(kept[0].shape)}, "
                f"tensor {number} has {tuple(x.shape)}"
            )
    return CAT(*(x.to(kind) for x in kept), dim=at)


@operation(method=False, out=True)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of equal sizes along a new dimension."""
    tensors = list(tensors)
    if not tensors:
        raise ShapeError("stack: expects a non-empty list of tensors")
    for number, x in enumerate(tensors):
        if x.shape != tensors[0].shape:
            raise ShapeError(
                f"stack: expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and "
                f"{list(x.shape)} at entry {number}"
            )
    at = wrap_dim(dim, tensors[0].ndim + 1, "stack")
    return cat([x.unsqueeze(at) for x in tensors], at)
