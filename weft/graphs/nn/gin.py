"""Isomorphism networks: sums of neighbours, which keep how many of each kind there are (Xu et al. 2019)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import ShapeError
from ...tensor import Tensor
from .linear import Linear
from .message_passing import Adjacency, MessagePassing

__all__ = ["GINConv", "GINEConv"]


class Sums(MessagePassing):
    """h((1 + ε) x_i + Σ_j message_j), ε fixed or learned."""

    def __init__(self, nn_: nn.Module, eps: float, train_eps: bool, **options: Any) -> None:
        super().__init__("sum", **options)
        self.nn = nn_
        if train_eps:
            self.eps = nn.Parameter(weft.tensor([float(eps)]))
        else:
            self.register_buffer("eps", weft.tensor([float(eps)]))

    def taken_in(self, x: Any, gathered: Tensor, *given: Tensor) -> Tensor:
        """What `nn` makes of a vertex and the sum of its messages."""
        own = x[1] if isinstance(x, (tuple, list)) else x
        return self.nn(gathered if own is None else (1 + self.eps) * own + gathered, *given)


class GINConv(Sums):
    """x_i' = h((1 + ε) x_i + Σ_j x_j): as good at telling graphs apart as the test of Weisfeiler and Leman.

    Sums of vectors can tell any two bags of neighbours apart; means and maxima cannot. h: the module `nn`; a mask of the
    vertices that count is handed on to it

    Shape: x (N, F), or a pair of sources and targets → what `nn` makes of (N, F)

    >>> layer = GINConv(nn.Linear(2, 4))
    >>> layer(weft.ones(3, 2), weft.tensor([[0, 1], [1, 2]])).shape
    weft.Size([3, 4])
    """

    def __init__(self, nn: nn.Module, eps: float = 0.0, train_eps: bool = False, **options: Any) -> None:
        super().__init__(nn, eps, train_eps, **options)

    def forward(
        self, x: Any, edge_index: Adjacency, size: tuple[int, int] | None = None, mask: Tensor | None = None
    ) -> Tensor:
        return self.taken_in(x, self.propagate(edge_index, size, x=x), *(() if mask is None else (mask,)))


class GINEConv(Sums):
    """x_i' = h((1 + ε) x_i + Σ_j relu(x_j + e_ji)): GIN that sees features of edges (Hu et al. 2020).

    edge_dim: map features of so many columns to those of x first; otherwise they must have as many

    Shape: x (N, F), edge_attr (E, F) or (E, edge_dim) → what `nn` makes of (N, F)

    >>> layer = GINEConv(nn.Linear(2, 4), edge_dim=3)
    >>> layer(weft.ones(3, 2), weft.tensor([[0, 1], [1, 2]]), weft.ones(2, 3)).shape
    weft.Size([3, 4])
    """

    def __init__(
        self, nn: Any, eps: float = 0.0, train_eps: bool = False, edge_dim: int | None = None, **options: Any
    ) -> None:
        super().__init__(nn, eps, train_eps, **options)
        self.lin = None if edge_dim is None else Linear(edge_dim, _inputs(nn), True, "kaiming_uniform")

    def forward(self, x: Any, edge_index: Adjacency, edge_attr: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        edge = edge_attr if self.lin is None else self.lin(edge_attr)
        width = (x[0] if isinstance(x, (tuple, list)) else x).shape[-1]
        if edge.shape[-1] != width:
            raise ShapeError(
                f"GINEConv: edges have {edge.shape[-1]} features and vertices {width}; give edge_dim={edge.shape[-1]}"
            )
        return self.taken_in(x, self.propagate(edge_index, size, x=x, edge_attr=edge))

    def message(self, x_j: Tensor, edge_attr: Tensor) -> Tensor:
        return (x_j + edge_attr).relu()


def _inputs(module: nn.Module) -> int:
    """How many features a network takes: those of its first linear map."""
    for part in module.modules():
        for name in ("in_features", "in_channels"):
            if isinstance(getattr(part, name, None), int):
                return getattr(part, name)
    raise ShapeError(f"GINEConv: with edge_dim, nn must begin with a linear map; {type(module).__name__} has none")
