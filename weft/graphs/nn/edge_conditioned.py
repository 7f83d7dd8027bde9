"""Layers whose maps are made from features of edges (Gilmer et al. 2017, Simonovsky and Komodakis 2017)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import ShapeError
from ...nn import init
from ...tensor import Tensor
from .linear import Linear
from .message_passing import Adjacency, MessagePassing

__all__ = ["NNConv"]


class NNConv(MessagePassing):
    """x_i' = W x_i + aggr_j h(e_ji) x_j + b: the matrix that a neighbour is seen through comes from a network of the edge.

    nn: (E, D) → (E, in_channels · out_channels), rows of the matrices in_channels × out_channels

    Shape: x (N, in_channels), or a pair of sources and targets; edge_attr (E, D) → (N, out_channels)

    >>> layer = NNConv(2, 4, nn.Linear(3, 2 * 4))
    >>> layer(weft.ones(3, 2), weft.tensor([[0, 1], [1, 2]]), weft.ones(2, 3)).shape
    weft.Size([3, 4])
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        nn: Any,
        aggr: str = "sum",
        root_weight: bool = True,
        bias: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(aggr, **options)
        sources, targets = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        self.in_channels, self.out_channels, self.nn = sources, out_channels, nn
        self.lin = Linear(targets, out_channels, False, "kaiming_uniform") if root_weight else None
        self.bias = _vector(out_channels) if bias else None

    def forward(self, x: Any, edge_index: Adjacency, edge_attr: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        edge_attr = edge_attr.unsqueeze(-1) if edge_attr.ndim == 1 else edge_attr
        y = self.propagate(edge_index, size, x=x, edge_attr=edge_attr)
        own = x[1] if isinstance(x, (tuple, list)) else x
        if self.lin is not None and own is not None:
            y = y + self.lin(own)
        return y if self.bias is None else y + self.bias

    def message(self, x_j: Tensor, edge_attr: Tensor) -> Tensor:
        made = self.nn(edge_attr)
        if made.shape[-1] != self.in_channels * self.out_channels:
            raise ShapeError(
                f"NNConv: nn must make {self.in_channels} · {self.out_channels} numbers of an edge, it makes {made.shape[-1]}"
            )
        matrices = made.unflatten(-1, (self.in_channels, self.out_channels))  # (E, in, out)
        return (x_j.unsqueeze(1) @ matrices).squeeze(1)  # (E, 1, in) @ (E, in, out) → (E, out)


def _vector(size: int) -> nn.Parameter:
    return nn.Parameter(init.zeros_(weft.empty(size)))
