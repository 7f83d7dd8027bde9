"""Coarser graphs: the best vertices kept, or vertices gathered into clusters (N2 §7.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor, wrap
from ..segment import scatter
from .gcn import GCNConv
from .linear import glorot
from .message_passing import MessagePassing

__all__ = ["Pooled", "SAGPooling", "TopKPooling", "cluster_pool", "dense_diff_pool", "filter_adj", "topk"]


class Pooled(NamedTuple):
    """A coarser graph: features, edges and their features, whose vertex is whose, numbers kept, and their scores."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    perm: Tensor
    score: Tensor


def topk(score: Tensor, ratio: float | int, batch: Tensor) -> Tensor:
    """The vertices with the best scores in each graph: ⌈ratio · n⌉ of n, or so many with a whole number. Shape: (N,) → (K,)

    Of equal scores the vertex that comes first is taken.

    >>> topk(weft.tensor([0.1, 0.9, 0.5, 0.3]), 0.5, weft.tensor([0, 0, 1, 1])).tolist()
    [1, 2]
    """
    if ratio <= 0 or (isinstance(ratio, float) and ratio > 1):
        raise OptionError(f"topk: ratio must be in (0, 1], or a whole number of vertices, got {ratio}")
    scores, owner = score.detach().numpy(), batch.numpy()
    order = np.lexsort((-scores, owner))  # graph by graph, best first
    sizes = np.bincount(owner) if len(owner) else np.zeros(0, np.int64)
    wanted = np.ceil(ratio * sizes).astype(np.int64) if isinstance(ratio, float) else np.minimum(ratio, sizes)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return wrap(order[rank < np.repeat(wanted, sizes)].astype(np.int64))


def filter_adj(
    edge_index: Tensor, edge_attr: Tensor | None, perm: Tensor, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    """The edges between the vertices of `perm`, which are numbered in its order.

    >>> filter_adj(weft.tensor([[0, 1, 2], [1, 2, 0]]), None, weft.tensor([2, 0]), 3)[0].tolist()
    [[0], [1]]
    """
    number = np.full(num_nodes, -1, np.int64)
    number[perm.numpy()] = np.arange(len(perm))
    moved = number[edge_index.numpy()]
    kept = wrap(np.flatnonzero((moved >= 0).all(0)))
    return wrap(moved[:, kept.numpy()]), None if edge_attr is None else edge_attr[kept]


class Selecting(nn.Module):
    """The vertices with the best scores, their features times the score, so that it gets a gradient."""

    def __init__(self, ratio: float | int, multiplier: float) -> None:
        super().__init__()
        self.ratio, self.multiplier = ratio, multiplier

    def selected(
        self, x: Tensor, score: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor | None
    ) -> Pooled:
        """The graph on the vertices that are kept."""
        owner = weft.zeros(x.shape[0], dtype=weft.int64) if batch is None else batch
        perm = topk(score, self.ratio, owner)
        edges, attributes = filter_adj(edge_index, edge_attr, perm, x.shape[0])
        kept = x[perm] * score[perm].unsqueeze(-1) * self.multiplier
        return Pooled(kept, edges, attributes, owner[perm], perm, score[perm])


class TopKPooling(Selecting):
    """Keeps the vertices with the best s = tanh(X p / ‖p‖), and X ⊙ s of them (Gao and Ji 2019).

    ratio: the share of vertices kept in each graph, or their number

    Shape: x (N, in_channels) → a `Pooled` with K vertices

    >>> pooled = TopKPooling(2, ratio=0.5)(weft.ones(4, 2), weft.tensor([[0, 1], [1, 0]]))
    >>> pooled.x.shape, pooled.perm.tolist()
    (weft.Size([2, 2]), [0, 1])
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.5,
        multiplier: float = 1.0,
        nonlinearity: Callable[[Tensor], Tensor] = weft.tanh,
    ) -> None:
        super().__init__(ratio, multiplier)
        self.weight, self.nonlinearity = nn.Parameter(glorot(weft.empty(1, in_channels))), nonlinearity

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None, batch: Tensor | None = None
    ) -> Pooled:
        along = (x * self.weight).sum(-1) / self.weight.norm().clamp(min=1e-12)
        return self.selected(x, self.nonlinearity(along), edge_index, edge_attr, batch)


class SAGPooling(Selecting):
    """As `TopKPooling`, but the scores come from a graph layer, which sees a vertex with its neighbours (Lee et al. 2019).

    GNN: a layer (in_channels, 1); by default a graph convolution

    Shape: x (N, in_channels) → a `Pooled` with K vertices

    >>> SAGPooling(2, ratio=1)(weft.ones(4, 2), weft.tensor([[0, 1], [1, 0]])).x.shape
    weft.Size([1, 2])
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.5,
        GNN: Callable[..., MessagePassing] = GCNConv,
        multiplier: float = 1.0,
        nonlinearity: Callable[[Tensor], Tensor] = weft.tanh,
        **options: Any,
    ) -> None:
        super().__init__(ratio, multiplier)
        self.gnn, self.nonlinearity = GNN(in_channels, 1, **options), nonlinearity

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None, batch: Tensor | None = None
    ) -> Pooled:
        return self.selected(x, self.nonlinearity(self.gnn(x, edge_index).squeeze(-1)), edge_index, edge_attr, batch)


def dense_diff_pool(
    x: Tensor, adj: Tensor, s: Tensor, mask: Tensor | None = None, normalize: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Vertices gathered into C soft clusters (Ying et al. 2018): X' = SᵀX, A' = SᵀAS with S = softmax(s).

    Also two losses that keep S sensible: ‖A − SSᵀ‖_F (over the number of entries of A with normalize=True), neighbours should
    be in one cluster; and the mean entropy of the rows of S, which should be sure.

    Shape: x (B, M, F), adj (B, M, M), s (B, M, C), mask (B, M) bool → (B, C, F), (B, C, C), (), ()

    >>> x, adj, link, entropy = dense_diff_pool(weft.ones(1, 4, 2), weft.ones(1, 4, 4), weft.zeros(1, 4, 2))
    >>> x.shape, adj.shape
    (weft.Size([1, 2, 2]), weft.Size([1, 2, 2]))
    """
    x, adj, s = (part.unsqueeze(0) if part.ndim == 2 else part for part in (x, adj, s))
    if adj.shape[-1] != x.shape[1] or s.shape[:2] != x.shape[:2]:
        raise ShapeError(
            f"dense_diff_pool: expected x (B, M, F), adj (B, M, M), s (B, M, C), got {tuple(x.shape)}, {tuple(adj.shape)}, {tuple(s.shape)}"
        )
    s = s.softmax(-1)
    if mask is not None:
        there = mask.reshape(*x.shape[:2], 1).to(x.dtype)
        x, s = x * there, s * there
    pooled = s.mT @ x  # (B, C, M) @ (B, M, F)
    coarse = s.mT @ adj @ s
    link = ((adj - s @ s.mT) ** 2).sum().clamp(min=1e-30).sqrt()
    entropy = -(s * (s + 1e-15).log()).sum(-1).mean()
    return pooled, coarse, link / adj.numel() if normalize else link, entropy


def cluster_pool(
    x: Tensor, edge_index: Tensor, cluster: Tensor, batch: Tensor | None = None, reduce: str = "max"
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Each cluster of vertices becomes one: their features reduced, edges between clusters added up, those inside left out.

    `weft.graphs.spectral_clustering` finds clusters that few edges leave; any numbers 0 … C − 1 do. A cluster must not span two graphs.

    Shape: x (N, F), edge_index (2, E), cluster (N,) → (C, F), edges (2, E'), their weights (E',), batch (C,)

    >>> x, edges, weights, batch = cluster_pool(weft.eye(3), weft.tensor([[0, 1, 2], [2, 2, 0]]), weft.tensor([0, 0, 1]))
    >>> edges.tolist(), weights.tolist()
    ([[0, 1], [1, 0]], [2.0, 1.0])
    """
    owner = cluster.numpy()
    count = int(owner.max(initial=-1)) + 1
    if owner.shape != (x.shape[0],) or (len(owner) and owner.min() < 0):
        raise ShapeError(
            f"cluster_pool: cluster must have a number ≥ 0 for each of {x.shape[0]} vertices, got {owner.shape}"
        )
    pairs = owner[edge_index.numpy()]
    pairs = pairs[:, pairs[0] != pairs[1]]
    found, many = np.unique(pairs, axis=1, return_counts=True)
    graphs = np.zeros(count, np.int64)
    if batch is not None:
        graphs[owner] = batch.numpy()
        if (graphs[owner] != batch.numpy()).any():
            raise ShapeError("cluster_pool: a cluster has vertices of two graphs")
    weights = wrap(many.astype(np.float32)).to(x.dtype)
    return scatter(x, cluster, 0, count, reduce), wrap(found.astype(np.int64).reshape(2, -1)), weights, wrap(graphs)
