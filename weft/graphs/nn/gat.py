"""Attention along edges: how much a vertex takes of each neighbour depends on both (GAT, GATv2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from ... import nn
from ...errors import ArgumentError, ShapeError
from ...nn import functional as F
from ...nn import init
from ...tensor import Tensor
from ..segment import edge_attention, scatter, softmax
from .linear import Features, Linear, glorot
from .message_passing import Adjacency, MessagePassing
from .normalize import looped

__all__ = ["GATConv", "GATv2Conv"]

FAR = float("-inf")
Ends = Features | tuple[Features, Features | None]  # of one kind of vertex, or of sources and of targets


class Attention(MessagePassing):
    """What both kinds of attention share: heads side by side, weights softmaxed over the edges that come to a vertex.

    A loop is put at every vertex in place of any it has (add_self_loops); with features of edges it gets, in each column, the
    mean of those that come to the vertex (fill_value="mean") or a number. concat: heads side by side, else their mean.
    dropout: of the weights, after the softmax, so that a neighbour is not heard at all
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        fill_value: float | str = "mean",
        bias: bool = True,
        residual: bool = False,
        **options: Any,
    ) -> None:
        super().__init__("sum", node_dim=0, **options)
        self.in_channels, self.out_channels, self.heads, self.concat = in_channels, out_channels, heads, concat
        self.negative_slope, self.dropout = negative_slope, dropout
        self.add_self_loops, self.edge_dim, self.fill_value = add_self_loops, edge_dim, fill_value
        width = heads * out_channels if concat else out_channels
        inputs = in_channels if isinstance(in_channels, int) else in_channels[1]
        self.bias = nn.Parameter(weft.zeros(width)) if bias else None
        self.watch: Callable[[tuple[Tensor, Tensor]], None] | None = None  # is told edges and their weights
        self.res = Linear(inputs, width, bias=False) if residual else None

    def score(self, **_: Any) -> Tensor:
        """How strongly each edge asks to be heard, before the softmax: (E, H)."""
        raise NotImplementedError

    def attended(
        self,
        inputs: Any,
        heads: Any,
        edge_index: Adjacency,
        edge_attr: Tensor | None,
        weights: bool | None,
        **given: Any,
    ) -> Any:
        """All steps after the linear maps. heads: (sources, targets) with (N, H, C) each."""
        edges, alive, edge_attr = self._prepared(edge_index, edge_attr, heads)
        if self.flow != "source_to_target":
            edges, heads, given["ends"] = edges.flip(0), heads[::-1], given["ends"][::-1]
        scores = self.score(edges, edge_attr=edge_attr, **given)  # (E, H)
        if alive is not None:
            scores = weft.where(alive.unsqueeze(-1), scores, FAR)
        size = (heads[0] if heads[1] is None else heads[1]).shape[0]
        y = edge_attention(scores, heads[0], edges, size, lambda alpha: F.dropout(alpha, self.dropout, self.training))
        y = y.flatten(1) if self.concat else y.mean(1)
        if self.res is not None:
            y = y + self.res(inputs[1] if isinstance(inputs, tuple) else inputs)
        y = y if self.bias is None else y + self.bias
        if weights or self.watch is not None:
            told = edges, softmax(scores, edges[1], num_nodes=size)
            if self.watch is not None:
                self.watch(told)
            return (y, told) if weights else y
        return y

    def _prepared(
        self, edge_index: Adjacency, edge_attr: Tensor | None, heads: Any
    ) -> tuple[Tensor, Any, Tensor | None]:
        if not isinstance(edge_index, Tensor):
            edge_index, _ = self._as_edges(edge_index, {})
        if edge_attr is not None and self.edge_dim is None:
            raise ArgumentError(f"{type(self).__name__}: edge_attr was given, but the layer was made without edge_dim")
        if edge_attr is not None and edge_attr.ndim == 1:
            edge_attr = edge_attr.unsqueeze(-1)
        if edge_attr is not None and edge_attr.shape != (edge_index.shape[1], self.edge_dim):
            raise ShapeError(
                f"{type(self).__name__}: edge_attr must be {(edge_index.shape[1], self.edge_dim)}, got {tuple(edge_attr.shape)}"
            )
        if not self.add_self_loops:
            return edge_index, None, edge_attr
        count = min(part.shape[0] for part in heads if part is not None)
        edges, alive = looped(edge_index, count)
        if edge_attr is not None:
            edge_attr = weft.cat([edge_attr, self._of_loops(edge_index, edge_attr, count)])
        return edges, alive, edge_attr

    def _of_loops(self, edge_index: Tensor, edge_attr: Tensor, count: int) -> Tensor:
        """Features of new loops: a number, or the mean of the other edges that come to the vertex."""
        if not isinstance(self.fill_value, str):
            return edge_attr.new_full((count, edge_attr.shape[1]), float(self.fill_value))
        other = (edge_index[0] != edge_index[1]).to(edge_attr.dtype).unsqueeze(-1)
        total = scatter(weft.cat([edge_attr * other, other], 1), edge_index[1], 0, count)
        return total[:, :-1] / total[:, -1:].clamp(min=1)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"


class GATConv(Attention):
    """x_i' = Σ_j α_ij W x_j + b,  α_ij = softmax_j LeakyReLU(a_dst·W x_i + a_src·W x_j)  (Veličković et al. 2018).

    Every head has its own W and a; edge_dim: a term a_edge·W_e e_ji in the brackets. The order in which a vertex prefers its
    neighbours is the same for all vertices (Brody et al. 2022): `GATv2Conv` has no such limit.

    Shape: x (N, in_channels), or a pair of sources and targets; edge_attr (E, edge_dim) → (N, heads · out_channels), or
        (N, out_channels) with concat=False; with return_attention_weights=True also (edges, α (E', heads))

    >>> layer = GATConv(4, 8, heads=2)
    >>> y, (edges, alpha) = layer(weft.ones(3, 4), weft.tensor([[0, 1], [1, 2]]), return_attention_weights=True)
    >>> y.shape, alpha.shape
    (weft.Size([3, 16]), weft.Size([5, 2]))
    """

    def __init__(self, in_channels: Any, out_channels: int, heads: int = 1, **options: Any) -> None:
        super().__init__(in_channels, out_channels, heads, **options)
        if isinstance(in_channels, int):
            self.lin = Linear(in_channels, heads * out_channels, bias=False)
        else:
            self.lin_src, self.lin_dst = (Linear(n, heads * out_channels, bias=False) for n in in_channels)
        self.att_src = nn.Parameter(weft.empty(1, heads, out_channels))
        self.att_dst = nn.Parameter(weft.empty(1, heads, out_channels))
        edge = self.edge_dim
        self.lin_edge = None if edge is None else Linear(edge, heads * out_channels, bias=False)
        self.att_edge = None if edge is None else nn.Parameter(weft.empty(1, heads, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights anew."""
        _reset(self, self.att_src, self.att_dst, *(() if self.att_edge is None else (self.att_edge,)))

    def forward(
        self,
        x: Ends,
        edge_index: Adjacency,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        split = lambda y: None if y is None else y.reshape(y.shape[0], self.heads, self.out_channels)
        if isinstance(x, (tuple, list)):
            one = hasattr(self, "lin")
            first, second = (self.lin, self.lin) if one else (self.lin_src, self.lin_dst)
            heads = split(first(x[0])), None if x[1] is None else split(second(x[1]))
        else:
            heads = (
                (split(self.lin(x)),) * 2 if hasattr(self, "lin") else (split(self.lin_src(x)), split(self.lin_dst(x)))
            )
        return self._heard(x, heads, edge_index, edge_attr, return_attention_weights)

    def after_lin(self, seen: Tensor, edge_index: Adjacency) -> Tensor:
        """The layer without its first step: W x, (N, heads · out_channels), is given; not for layers with a residual."""
        heads = seen.reshape(seen.shape[0], self.heads, self.out_channels)
        return self._heard(None, (heads, heads), edge_index, None, None)

    def _heard(self, x: Any, heads: Any, edge_index: Adjacency, edge_attr: Tensor | None, weights: bool | None) -> Any:
        source = (heads[0] * self.att_src).sum(-1)  # (N, H)
        target = None if heads[1] is None else (heads[1] * self.att_dst).sum(-1)
        return self.attended(x, heads, edge_index, edge_attr, weights, ends=(source, target))

    def score(self, edge_index: Tensor, ends: tuple[Tensor, Tensor | None], edge_attr: Tensor | None) -> Tensor:
        total = ends[0][edge_index[0]]
        if ends[1] is not None:
            total = total + ends[1][edge_index[1]]
        if edge_attr is not None:
            edge = self.lin_edge(edge_attr).unflatten(-1, (self.heads, self.out_channels))
            total = total + (edge * self.att_edge).sum(-1)
        return F.leaky_relu(total, self.negative_slope)


class GATv2Conv(Attention):
    """x_i' = Σ_j α_ij W_l x_j + b,  α_ij = softmax_j a·LeakyReLU(W_r x_i + W_l x_j)  (Brody, Alon and Yahav 2022).

    The nonlinearity stands before a, so which neighbour is preferred may depend on the vertex. share_weights: W_l = W_r

    Shape: as of `GATConv`

    >>> GATv2Conv(4, 8, heads=2, concat=False)(weft.ones(3, 4), weft.tensor([[0, 1], [1, 2]])).shape
    weft.Size([3, 8])
    """

    def __init__(
        self, in_channels: Any, out_channels: int, heads: int = 1, share_weights: bool = False, **options: Any
    ) -> None:
        super().__init__(in_channels, out_channels, heads, **options)
        sources, targets = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        biased = options.get("bias", True)
        self.lin_l = Linear(sources, heads * out_channels, biased)
        self.lin_r = self.lin_l if share_weights else Linear(targets, heads * out_channels, biased)
        self.att = nn.Parameter(weft.empty(1, heads, out_channels))
        edge = self.edge_dim
        self.lin_edge = None if edge is None else Linear(edge, heads * out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights anew."""
        _reset(self, self.att)

    def forward(
        self,
        x: Ends,
        edge_index: Adjacency,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        split = lambda y: y.reshape(y.shape[0], self.heads, self.out_channels)
        first, second = x if isinstance(x, (tuple, list)) else (x, x)
        if second is None:
            raise ArgumentError("GATv2Conv: targets need features as well, got None")
        heads = split(self.lin_l(first)), split(self.lin_r(second))
        return self.attended(x, heads, edge_index, edge_attr, return_attention_weights, ends=heads)

    def score(self, edge_index: Tensor, ends: tuple[Tensor, Tensor], edge_attr: Tensor | None) -> Tensor:
        total = ends[0][edge_index[0]] + ends[1][edge_index[1]]  # (E, H, C)
        if edge_attr is not None:
            total = total + self.lin_edge(edge_attr).unflatten(-1, (self.heads, self.out_channels))
        return (F.leaky_relu(total, self.negative_slope) * self.att).sum(-1)


def _reset(layer: Attention, *attention: Tensor) -> None:
    for part in layer.children():
        if isinstance(part, Linear):
            part.reset_parameters()
    for weight in attention:
        glorot(weight)
    if layer.bias is not None:
        init.zeros_(layer.bias)
