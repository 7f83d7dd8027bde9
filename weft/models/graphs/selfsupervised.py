"""Codes of vertices without a label: by telling a graph from a shuffled one (DGI), by filling in what is hidden (GraphMAE)."""

from __future__ import annotations

from typing import Any, Literal

import weft

from ... import nn
from ...graphs.nn.gat import GATConv
from ...graphs.nn.gcn import GCNConv
from ...graphs.nn.linear import Features, Linear
from ...graphs.nn.message_passing import Adjacency
from ...nn import functional as F
from ...nn import init
from ...sparse import SparseTensor
from ...tensor import Tensor

__all__ = ["DGI", "GraphMAE", "scaled_cosine_error"]


class DGI(nn.Module):
    """Deep Graph Infomax (Veličković et al. 2019): codes of vertices should fit the summary of their own graph.

        z = PReLU(Ŝ X W + b),  s = σ(mean_i z_i),  D(z_i, s) = σ(z_i · M s)

    The loss is that of D on true codes (1) and on those of the graph with the features of vertices exchanged at random (0). An
    exchange of rows of X is one of rows of X W, so the product with a large sparse X is taken once.

    Shape: x (N, in_channels), edge_index, order (N,) → the loss (); `embed`: → (N, hidden_channels)

    >>> model = DGI(3, 8)
    >>> model.loss(weft.ones(4, 3), weft.tensor([[0, 1], [1, 0]]), weft.tensor([3, 2, 1, 0])).shape
    weft.Size([])
    """

    def __init__(self, in_channels: int, hidden_channels: int, **options: Any) -> None:
        super().__init__()
        self.conv, self.prelu = GCNConv(in_channels, hidden_channels, **options), nn.PReLU(hidden_channels)
        self.weight = nn.Parameter(weft.empty(hidden_channels, hidden_channels))
        bound = hidden_channels**-0.5
        init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Features, edge_index: Adjacency) -> Tensor:
        return self.prelu(self.conv(x, edge_index))

    embed = forward

    def loss(self, x: Features, edge_index: Adjacency, order: Tensor) -> Tensor:
        """What is minimised; order: the vertex whose features each vertex is given."""
        seen = self.conv.lin(x)  # (N, hidden)
        edges, weight = self.conv.weighted(x, edge_index, None)
        true, false = (self._coded(part, edges, weight) for part in (seen, seen[order]))
        summary = self.weight @ true.mean(0).sigmoid()  # (hidden,)
        return F.softplus(-(true @ summary)).mean() + F.softplus(false @ summary).mean()

    def _coded(self, seen: Tensor, edges: Adjacency, weight: Tensor | None) -> Tensor:
        y = self.conv.passed(seen, edges, weight)
        return self.prelu(y if self.conv.bias is None else y + self.conv.bias)


def scaled_cosine_error(said: Tensor, x: Tensor, gamma: float = 2.0) -> Tensor:
    """mean (1 − cos(said_i, x_i))^γ: large features and easy vertices weigh less (Hou et al. 2022).

    Shape: (M, F), (M, F) → ()

    >>> scaled_cosine_error(weft.tensor([[2.0, 0.0]]), weft.tensor([[0.0, 3.0]])).item()
    1.0
    """
    along = (F.normalize(said, dim=-1) * F.normalize(x, dim=-1)).sum(-1)
    return ((1 - along).clamp(min=0) ** gamma).mean()


class GraphMAE(nn.Module):
    """A masked autoencoder of a graph (Hou et al. 2022).

    The features of some vertices are hidden, a learned vector stands for them; an encoder of `num_layers` layers makes codes;
    of these the hidden vertices' are hidden again, so that the decoder must look at neighbours; the scaled cosine error is taken
    on the hidden vertices alone. Encoder: attention ("gat") or convolutions ("gcn"). Decoder: one convolution, whose product
    with the weights is taken after the sum over neighbours and for hidden vertices only, which comes to the same and is less.

    Shape: x (N, in_channels) dense or sparse; hidden, kept: numbers of vertices → the loss ();
        `embed`: → (N, hidden_channels)

    >>> model = GraphMAE(3, 8, heads=2)
    >>> edges = weft.tensor([[0, 1], [1, 0]])
    >>> model.loss(weft.ones(2, 3), edges, edges, hidden=weft.tensor([1])).shape
    weft.Size([])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int = 2,
        heads: int = 4,
        kind: Literal["gat", "gcn"] = "gat",
        feat_dropout: float = 0.2,
        attn_dropout: float = 0.1,
        gamma: float = 3.0,
    ) -> None:
        super().__init__()
        self.gamma, self.feat_dropout = gamma, feat_dropout
        self.lin = Linear(in_channels, hidden_channels, bias=False)
        width = hidden_channels // heads
        make = (
            (lambda: GATConv(hidden_channels, width, heads=heads, dropout=attn_dropout, residual=True))
            if kind == "gat"
            else (lambda: GCNConv(hidden_channels, hidden_channels))
        )
        self.layers = nn.ModuleList([make() for _ in range(num_layers)])
        self.acts = nn.ModuleList([nn.PReLU() for _ in range(num_layers)])
        self.token = nn.Parameter(weft.zeros(1, in_channels))
        self.between = Linear(hidden_channels, hidden_channels, bias=False)
        self.decode = GCNConv(hidden_channels, in_channels)

    def forward(self, x: Features, edge_index: Adjacency) -> Tensor:
        return self._encoded(self.lin(x), edge_index)

    embed = forward

    def _encoded(self, h: Tensor, edge_index: Adjacency) -> Tensor:
        for layer, act in zip(self.layers, self.acts, strict=True):
            h = act(layer(F.dropout(h, self.feat_dropout, self.training), edge_index))
        return h

    def loss(self, x: Features, edge_index: Adjacency, matrix: Adjacency, hidden: Tensor) -> Tensor:
        """What is minimised. matrix: D̃^-½ÃD̃^-½ for the decoder, or edges; hidden: numbers of the vertices to be hidden."""
        seen = self.lin(x)  # (N, hidden)
        veiled = weft.zeros(seen.shape[0], 1).index_fill(0, hidden, 1.0)
        codes = self._encoded(weft.where(veiled > 0, self.lin(self.token), seen), edge_index)
        codes = self.between(codes) * (1 - veiled)
        edges, weight = (
            (matrix, None) if isinstance(matrix, SparseTensor) else self.decode.weighted(codes, matrix, None)
        )
        gathered = self.decode.passed(codes, edges, weight)[hidden]
        said = self.decode.lin(gathered) + self.decode.bias
        return scaled_cosine_error(said, _rows(x, hidden), self.gamma)


def _rows(x: Features, rows: Tensor) -> Tensor:
    return (x.to_dense() if isinstance(x, SparseTensor) else x)[rows]
