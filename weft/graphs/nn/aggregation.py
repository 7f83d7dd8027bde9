"""What becomes of several vectors that belong together, whatever their order: sums, means, extremes, weighted means.

index says which of `size` sets each of the E vectors belongs to: (E, …), (E,) → (size, …). A set without vectors gets 0.
"""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..segment import scatter, softmax

__all__ = ["Aggregation", "AttentionalAggregation", "SoftmaxAggregation", "aggregate"]

NAMES = ("sum", "add", "mean", "max", "min", "mul")


class Aggregation(nn.Module):
    """One of the reductions that have nothing to learn, as a module: "sum", "mean", "max", "min", "mul".

    Shape: x (E, F), index (E,) → (dim_size, F)

    >>> Aggregation("mean")(weft.tensor([[1.0], [3.0]]), weft.tensor([0, 0])).tolist()
    [[2.0]]
    """

    def __init__(self, reduce: str = "sum") -> None:
        super().__init__()
        if reduce not in NAMES:
            raise OptionError(f"Aggregation: reduce must be one of {', '.join(NAMES)}, got {reduce!r}")
        self.reduce = reduce

    def forward(self, x: Tensor, index: Tensor, dim_size: int | None = None) -> Tensor:
        return scatter(x, index, 0, dim_size, self.reduce)

    def extra_repr(self) -> str:
        return repr(self.reduce)


class SoftmaxAggregation(nn.Module):
    """Σ softmax(t x) ⊙ x in each set, column by column: the mean at t = 0, the maximum as t → ∞ (Li et al. 2020).

    learn: whether t is a parameter

    Shape: x (E, F), index (E,) → (dim_size, F)

    >>> SoftmaxAggregation(t=0.0)(weft.tensor([[1.0], [3.0]]), weft.tensor([0, 0])).tolist()
    [[2.0]]
    """

    def __init__(self, t: float = 1.0, learn: bool = False) -> None:
        super().__init__()
        value = weft.tensor(float(t))
        self.t = nn.Parameter(value) if learn else None
        self.fixed = None if learn else float(t)

    def forward(self, x: Tensor, index: Tensor, dim_size: int | None = None) -> Tensor:
        size = dim_size if dim_size is not None else (int(index.max()) + 1 if index.shape[0] else 0)
        share = softmax(x * (self.fixed if self.t is None else self.t), index, num_nodes=size)
        return scatter(share * x, index, 0, size)


class AttentionalAggregation(nn.Module):
    """Σ softmax(gate(x)) · value(x) in each set: weighted means, the weights learned (Li et al. 2016).

    gate_nn: (E, F) → (E, 1) or (E, F'); nn: (E, F) → (E, F'), by default the identity

    >>> pool = AttentionalAggregation(nn.Linear(3, 1))
    >>> pool(weft.ones(4, 3), weft.tensor([0, 0, 0, 1])).tolist()[1]
    [1.0, 1.0, 1.0]
    """

    def __init__(self, gate_nn: nn.Module, nn: nn.Module | None = None) -> None:
        super().__init__()
        self.gate_nn, self.nn = gate_nn, nn

    def forward(self, x: Tensor, index: Tensor, dim_size: int | None = None) -> Tensor:
        size = dim_size if dim_size is not None else (int(index.max()) + 1 if index.shape[0] else 0)
        share = softmax(self.gate_nn(x), index, num_nodes=size)
        return scatter(share * (x if self.nn is None else self.nn(x)), index, 0, size)


def aggregate(named: str | nn.Module | None) -> Any:
    """The module that a layer's `aggr` names: a word, a module with forward(x, index, dim_size), or None for none."""
    if named is None or isinstance(named, nn.Module):
        return named
    if named == "softmax":
        return SoftmaxAggregation()
    return Aggregation(named)
