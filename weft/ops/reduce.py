"""Reductions: many elements to one along some dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..dtype import FLOAT
from ..tensor import Tensor, wrap_dims
from .primitive import Reduction, operation, register_module


def restored(g: Tensor, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """A reduced gradient with its lost dimensions back as size 1."""
    if keepdim:
        return g
    for d in sorted(dim):
        g = g.unsqueeze(d)
    return g


class Sum(Reduction):
    """Σ x over `dim`."""

    def reference(self, x, *, dim, keepdim):
        return np.add.reduce(x, axis=dim, keepdims=keepdim)

    def vjp(self, g, y, x, *, dim, keepdim):
        return (restored(g, dim, keepdim).expand(x.shape),)


SUM = Sum()
register_module(__name__)


@operation(out=True, kind="Reduction", primitive=SUM)
def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over the given dimensions (all by default); bool and small integers add up as int64."""
    if dtype is not None:
        input = input.to(dtypes.as_dtype(dtype))
    elif input.dtype.category < FLOAT:
        input = input.long()
    dims = wrap_dims(None if dim == () else dim, input.ndim, "sum")
    return SUM(input, dim=dims, keepdim=keepdim)
