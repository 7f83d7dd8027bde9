"""GraphSAGE: what a vertex is and what its neighbours are, by two maps (Hamilton, Ying and Leskovec 2017)."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...nn import functional as F
from ...sparse import SparseTensor
from ...tensor import Tensor
from .linear import Features, Linear
from .message_passing import Adjacency, MessagePassing

__all__ = ["SAGEConv"]


class SAGEConv(MessagePassing):
    """x_i' = W_l · aggr_j x_j + b + W_r x_i; aggr is the mean unless told otherwise.

    normalize: divide x_i' by its length; root_weight=False leaves W_r out; project: relu(W_p x + b_p) before aggregating

    Shape: x (N, in_channels), or a pair of sources and targets → (N, out_channels)

    >>> SAGEConv(2, 4)(weft.ones(3, 2), weft.tensor([[0, 1], [1, 2]])).shape
    weft.Size([3, 4])
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        aggr: str | nn.Module = "mean",
        normalize: bool = False,
        root_weight: bool = True,
        project: bool = False,
        bias: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(aggr, **options)
        sources, targets = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        self.normalize = normalize
        self.lin = Linear(sources, sources, weight_initializer="kaiming_uniform") if project else None
        self.lin_l = Linear(sources, out_channels, bias, "kaiming_uniform")
        self.lin_r = Linear(targets, out_channels, False, "kaiming_uniform") if root_weight else None

    def forward(self, x: Any, edge_index: Adjacency, size: tuple[int, int] | None = None) -> Tensor:
        sources, targets = x if isinstance(x, (tuple, list)) else (x, x)
        if self.lin is not None:
            sources = self.lin(sources).relu()
        y = self.lin_l(
            self.propagate(edge_index, size, x=(_dense(sources), None if targets is None else _dense(targets)))
        )
        if self.lin_r is not None and targets is not None:
            y = y + self.lin_r(targets)
        return F.normalize(y, dim=-1) if self.normalize else y


def _dense(x: Features) -> Tensor:
    return x.to_dense() if isinstance(x, SparseTensor) else x
