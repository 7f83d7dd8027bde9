"""Codes of vertices without a label: by telling a graph from a shuffled one (DGI), by filling in what is hidden (GraphMAE)."""

from __future__ import annotations

from typing import Any, Literal

import weft

from ... import nn
from ...graphs.nn.gat import GATConv
from ...graphs.nn.gcn import GCNConv
from ...graphs.nn.linear import Features, Linear, dropout
from ...graphs.nn.message_passing import Adjacency
from ...nn import functional as F
from ...nn import init
from ...sparse import SparseTensor
from ...tensor import Tensor

__all__ = ["DGI", "GraphMAE", "scaled_cosine_error"]

TINY = 1e-8  # the shortest vectors that a cosine is taken of


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
        true, false = (self.prelu(self.conv.after_lin(part, edge_index)) for part in (seen, seen[order]))
        summary = self.weight @ true.mean(0).sigmoid()  # (hidden,)
        return F.softplus(-(true @ summary)).mean() + F.softplus(false @ summary).mean()


def scaled_cosine_error(said: Tensor, x: Tensor, gamma: float = 2.0) -> Tensor:
    """mean (1 − cos(said_i, x_i))^γ: large features and easy vertices weigh less (Hou et al. 2022).

    Shape: (M, F), (M, F) → ()

    >>> scaled_cosine_error(weft.tensor([[2.0, 0.0]]), weft.tensor([[0.0, 3.0]])).item()
    1.0
    """
    return _scaled((F.normalize(said, dim=-1) * F.normalize(x, dim=-1)).sum(-1), gamma)


def _scaled(cosines: Tensor, gamma: float) -> Tensor:
    return ((1 - cosines).clamp(min=0) ** gamma).mean()


class GraphMAE(nn.Module):
    """A masked autoencoder of a graph (Hou et al. 2022).

    The features of some vertices are hidden: a learned vector stands for them, or for a few the features of another vertex.
    An encoder of `num_layers` layers, each followed by PReLU, makes codes; of these the hidden vertices' are hidden again, so
    that the decoder, one layer of attention with one head, must look at neighbours:

        z = B codes, 0 where hidden;  said_i = W Σ_j α_ij z_j + b,  α_ij = softmax_j LeakyReLU(a_dst·W z_i + a_src·W z_j)

    The scaled cosine error is taken on the hidden vertices alone. Encoder: attention ("gat") or convolutions ("gcn"). Products
    with weights are taken where there is least to multiply, which comes to the same: that of the first layer before vertices
    are hidden, those with B and W after sums over neighbours; for sparse x nothing of the size of x is made (`_cosines`).

    gain: the layers of attention begin with so many times Glorot's weights, √2 in the paper's program. With features that add
        up to 1 small weights make codes that biases outweigh, and many steps go by before the features count.

    Shape: x (N, in_channels) dense or sparse; hidden (M,), others (K,): numbers of vertices → the loss ();
        `embed`: → (N, hidden_channels)

    >>> model = GraphMAE(3, 8, heads=2)
    >>> model.loss(weft.ones(2, 3), weft.tensor([[0, 1], [1, 0]]), hidden=weft.tensor([1])).shape
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
        gain: float = 2**0.5,
    ) -> None:
        super().__init__()
        self.gamma, self.feat_dropout = gamma, feat_dropout
        width = hidden_channels // heads
        make = (
            (lambda inputs: GATConv(inputs, width, heads=heads, dropout=attn_dropout))
            if kind == "gat"
            else (lambda inputs: GCNConv(inputs, hidden_channels))
        )
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1)]
        self.layers = nn.ModuleList([make(size) for size in sizes])
        self.acts = nn.ModuleList([nn.PReLU() for _ in sizes])
        self.token = nn.Parameter(weft.zeros(1, in_channels))
        self.between = Linear(hidden_channels, hidden_channels, bias=False)  # B
        self.decode = GATConv(hidden_channels, in_channels, dropout=attn_dropout, bias=False)
        self.bias = nn.Parameter(weft.zeros(in_channels))
        with weft.no_grad():
            for layer in (*self.layers, self.decode):
                for weight in (part for part in layer.parameters() if part.ndim > 1):
                    weight.mul_(gain)

    def forward(self, x: Features, edge_index: Adjacency) -> Tensor:
        return self._encoded(self.layers[0].lin(self._dropped(x)), edge_index)

    embed = forward

    def _dropped(self, x: Any) -> Any:
        return dropout(x, self.feat_dropout, self.training)

    def _encoded(self, seen: Tensor, edge_index: Adjacency) -> Tensor:
        """Codes from what the map of the first layer makes of the features."""
        h = self.acts[0](self.layers[0].after_lin(seen, edge_index))
        for layer, act in zip(self.layers[1:], self.acts[1:], strict=True):
            h = act(layer(self._dropped(h), edge_index))
        return h

    def loss(self, x: Features, edge_index: Adjacency, hidden: Tensor, others: Tensor | None = None) -> Tensor:
        """What is minimised.

        hidden: numbers of the vertices to be hidden; others: the first of these are given the features of these vertices
        """
        heard = self.between(self.heard(x, edge_index, hidden, others))  # (M, hidden)
        return _scaled(_cosines(heard, self.decode.lin.weight, self.bias, x, hidden), self.gamma)

    def heard(self, x: Features, edge_index: Adjacency, hidden: Tensor, others: Tensor | None = None) -> Tensor:
        """Σ_j α_ij codes_j over the neighbours that are not hidden, for each hidden vertex i: (M, hidden_channels)."""
        first, count = self.layers[0].lin, x.shape[0]
        seen = first(self._dropped(x))  # (N, hidden)
        veiled = weft.zeros(count, 1).index_fill(0, hidden, 1.0)
        shown = weft.where(veiled > 0, first(self.token), seen)
        if others is not None:
            shown = shown.index_copy(0, hidden[: len(others)], seen[others])
        codes = self._encoded(shown, edge_index) * (1 - veiled)
        ends = (self.decode.lin.weight.T @ part.reshape(-1) for part in (self.decode.att_src, self.decode.att_dst))
        scores = [(codes @ (self.between.weight.T @ end)).unsqueeze(1) for end in ends]  # (N, 1) each
        values = (codes.unsqueeze(1),) * 2
        return self.decode.attended(None, values, edge_index, None, None, ends=tuple(scores))[hidden]


def _cosines(heard: Tensor, weight: Tensor, bias: Tensor, x: Features, rows: Tensor) -> Tensor:
    """cos(W h_i + b, x_i) for the chosen rows i of x; where x is sparse no product of W with an h is written out.

        (W h + b)·x = h·Wᵀx + b·x,  |W h + b|² = h·(WᵀW) h + 2 h·Wᵀb + |b|²

    Shape: heard (M, D), weight (F, D), bias (F,), x (N, F), rows (M,) → (M,)
    """
    if not isinstance(x, SparseTensor):
        return F.cosine_similarity(heard @ weight.T + bias, x[rows], dim=-1, eps=TINY)
    both = weft.cat([weight, bias.unsqueeze(1)], 1)  # (F, D + 1)
    inner = (x @ both)[rows]  # (M, D + 1)
    gram = both.T @ both  # (D + 1, D + 1)
    h = weft.cat([heard, heard.new_ones(heard.shape[0], 1)], 1)
    lengths = ((h @ gram) * h).sum(-1).clamp(min=TINY**2).sqrt()
    squares = x._with(x._values().square()) @ weight.new_ones(x.shape[1], 1)  # (N, 1)
    return (h * inner).sum(-1) / (lengths * squares[rows, 0].clamp(min=TINY**2).sqrt())
