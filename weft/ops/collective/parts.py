"""What the parts that all ranks have sent make, as functions of tensors: what a call gives, out of other operations.

`exchange.py` has the same computed by arrays that travel; here every part is already there to be read.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from ...runtime.cluster.group import Group
from ...tensor import Tensor
from ..shape.join import stack
from ..shape.reshape import reshape

__all__ = ["combination", "flat_part", "total"]

COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "product": operator.mul,
    "min": lambda a, b: a.minimum(b),
    "max": lambda a, b: a.maximum(b),
}


def flat_part(x: Tensor) -> Tensor:
    """What a rank sends: (…) → (numel,)"""
    return reshape(x, (x.numel(),))


def combination(shape: tuple[int, ...], *, call: str, group: Group, option: Any) -> Callable[..., Tensor]:
    """What makes the result of a call of the flat parts of all ranks, each made of an array of this shape."""
    own = lambda row: reshape(row, shape)[group.rank]
    if call == "all_reduce":
        return lambda *rows: total(option, *(reshape(row, shape) for row in rows))
    if call == "reduce_scatter":
        return lambda *rows: total(option, *map(own, rows))
    if call == "broadcast":
        return lambda *rows: reshape(rows[option], shape)
    if call == "all_gather":
        return lambda *rows: stack([reshape(row, shape) for row in rows])
    return lambda *rows: stack([own(row) for row in rows])  # all_to_all


def total(option: str, *rows: Tensor) -> Tensor:
    """A sum, mean, product or extreme of what ranks have, in their order, so that all of them get the same bits."""
    op = option.partition(" ")[0]
    found = functools.reduce(COMBINE.get(op, operator.add), rows)
    return found / len(rows) if op == "avg" else found
