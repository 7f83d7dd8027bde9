"""Networks of graph convolutions that say something about every vertex: GCN, GAT, SGC, GraphSAGE, APPNP's."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ... import nn
from ...graphs.nn.gat import GATConv, GATv2Conv
from ...graphs.nn.gcn import APPNP, GCNConv, SGConv
from ...graphs.nn.linear import Features, Linear, dropout
from ...graphs.nn.message_passing import Adjacency
from ...nn import functional as F
from ...tensor import Tensor

__all__ = ["GAT", "GCN", "SGC", "APPNPNet"]


class Stack(nn.Module):
    """Layers with dropout before each of them and a nonlinearity between them."""

    def __init__(self, layers: list[nn.Module], p: float, between: Any) -> None:
        super().__init__()
        self.convs, self.dropout, self.between = nn.ModuleList(layers), p, between

    def forward(self, x: Features, edge_index: Adjacency, *weights: Tensor) -> Tensor:
        for number, layer in enumerate(self.convs):
            if number:
                x = self.between(x)
            x = layer(dropout(x, self.dropout, self.training), edge_index, *weights)
        return x


class GCN(Stack):
    """Z = Ŝ … relu(Ŝ X W₀ + b₀) … W_k + b_k with Ŝ = D̃^-½ Ã D̃^-½ (Kipf and Welling 2017).

    dropout: of what each layer takes; options: of `GCNConv`

    Shape: x (N, in_channels) dense or sparse, edge_index → (N, out_channels), logits

    >>> GCN(5, 16, 3)(weft.ones(2, 5), weft.tensor([[0, 1], [1, 0]])).shape
    weft.Size([2, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        **options: Any,
    ) -> None:
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        super().__init__([GCNConv(*pair, **options) for pair in pairwise(sizes)], dropout, F.relu)


class GAT(Stack):
    """Layers of attention with `heads` heads of hidden_channels each side by side, the last with the mean of `out_heads`.

    As in Veličković et al. (2018): dropout of features and of attention weights, elu between layers.

    Shape: as of `GCN`

    >>> GAT(5, 8, 3, heads=2)(weft.ones(2, 5), weft.tensor([[0, 1], [1, 0]])).shape
    weft.Size([2, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        heads: int = 8,
        out_heads: int = 1,
        dropout: float = 0.6,
        v2: bool = False,
        **options: Any,
    ) -> None:
        kind = GATv2Conv if v2 else GATConv
        sizes = [in_channels, *[heads * hidden_channels] * (num_layers - 1)]
        layers = [kind(size, hidden_channels, heads=heads, dropout=dropout, **options) for size in sizes[:-1]]
        last = kind(sizes[-1], out_channels, heads=out_heads, concat=False, dropout=dropout, **options)
        super().__init__([*layers, last], dropout, F.elu)


class SGC(Stack):
    """Logistic regression on features smoothed K times over the graph (Wu et al. 2019).

    >>> SGC(5, 3, K=2)(weft.ones(2, 5), weft.tensor([[0, 1], [1, 0]])).shape
    weft.Size([2, 3])
    """

    def __init__(self, in_channels: int, out_channels: int, K: int = 2, dropout: float = 0.0, **options: Any) -> None:
        super().__init__([SGConv(in_channels, out_channels, K, **options)], dropout, F.relu)


class APPNPNet(nn.Module):
    """A perceptron for each vertex alone, its logits spread by personalised PageRank (Gasteiger et al. 2019).

    Shape: as of `GCN`

    >>> APPNPNet(5, 16, 3)(weft.ones(2, 5), weft.tensor([[0, 1], [1, 0]])).shape
    weft.Size([2, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 10,
        alpha: float = 0.1,
        dropout: float = 0.5,
        edge_dropout: float = 0.5,
        **options: Any,
    ) -> None:
        super().__init__()
        self.lin1, self.lin2 = Linear(in_channels, hidden_channels), Linear(hidden_channels, out_channels)
        self.prop, self.dropout = APPNP(K, alpha, edge_dropout, **options), dropout

    def forward(self, x: Features, edge_index: Adjacency, *weights: Tensor) -> Tensor:
        hidden = self.lin1(dropout(x, self.dropout, self.training)).relu()
        return self.prop(self.lin2(dropout(hidden, self.dropout, self.training)), edge_index, *weights)
