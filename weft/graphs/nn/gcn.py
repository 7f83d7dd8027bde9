"""Convolutions by powers of the normalised adjacency: GCN, SGC, personalised PageRank (APPNP)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...nn import init
from ...sparse import SparseTensor
from ...tensor import Tensor
from ..segment import aggregate as along
from .linear import Features, Linear, dropout
from .message_passing import Adjacency, MessagePassing
from .normalize import gcn_norm, transposed

__all__ = ["APPNP", "GCNConv", "SGConv"]


class Normalized(MessagePassing):
    """A layer whose messages are x_j times the weight of the edge, weights those of `gcn_norm`.

    cached: keep the normalised matrix of the first graph for all later calls, as one graph with training and test vertices
        allows; the edges of later calls are not looked at
    """

    def __init__(self, improved: bool, cached: bool, add_self_loops: bool, normalize: bool, **options: Any) -> None:
        super().__init__("sum", **options)
        self.improved, self.cached, self.add_self_loops, self.normalize = improved, cached, add_self_loops, normalize
        self._kept: SparseTensor | None = None

    def weighted(
        self, x: Features, edge_index: Adjacency, edge_weight: Tensor | None
    ) -> tuple[Adjacency, Tensor | None]:
        """The graph with its weights: edges and numbers, or a matrix."""
        if self._kept is not None:
            return self._kept, None
        edges: Any = edge_index
        if self.normalize:
            known: dict[str, Any] = {"improved": self.improved, "add_self_loops": self.add_self_loops}
            if isinstance(edge_index, SparseTensor):
                edges = gcn_norm(edge_index, **known)
            else:
                known |= {"flow": self.flow, "dtype": x.dtype, "num_nodes": x.shape[0]}
                edges, edge_weight = gcn_norm(edge_index, edge_weight, **known)
        if self.cached:
            self._kept = edges = self._matrix(edges, edge_weight, x)
        return edges, edge_weight

    def _matrix(self, edges: Any, weight: Tensor | None, x: Features) -> SparseTensor:
        if isinstance(edges, SparseTensor):
            return edges
        weight = weft.ones(edges.shape[1], dtype=x.dtype) if weight is None else weight
        return transposed(edges if self.flow == "source_to_target" else edges.flip(0), weight, x.shape[0])

    def passed(self, x: Tensor, edges: Adjacency, weight: Tensor | None) -> Tensor:
        """One step: x_i' = Σ_j w_ji x_j."""
        if isinstance(edges, SparseTensor):
            return edges.coalesce() @ x
        return along(x, edges if self.flow == "source_to_target" else edges.flip(0), weight)


class GCNConv(Normalized):
    """X' = D̃^-½ Ã D̃^-½ X W + b, Ã = A + I (Kipf and Welling 2017; N2 §7.8).

    A linear filter of the graph's frequencies, a Chebyshev polynomial of first order with its two weights tied.

    improved: Ã = A + 2 I; normalize=False: the weights of edges as they are; cached: see `Normalized`

    Shape: x (N, in_channels) dense or sparse, edge_index (2, E) or a sparse matrix, edge_weight (E,) → (N, out_channels)

    >>> layer = GCNConv(2, 4)
    >>> layer(weft.ones(3, 2), weft.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
    weft.Size([3, 4])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        improved: bool = False,
        cached: bool = False,
        add_self_loops: bool = True,
        normalize: bool = True,
        bias: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(improved, cached, add_self_loops, normalize, **options)
        self.lin = Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(weft.zeros(out_channels)) if bias else None

    def reset_parameters(self) -> None:
        """Draw weights anew."""
        self.lin.reset_parameters()
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, x: Features, edge_index: Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        return self.after_lin(self.lin(x), edge_index, edge_weight)

    def after_lin(self, seen: Tensor, edge_index: Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """The layer without its first step: X W, (N, out_channels), is given."""
        y = self.passed(seen, *self.weighted(seen, edge_index, edge_weight))
        return y if self.bias is None else y + self.bias


class SGConv(Normalized):
    """X' = S^K X W + b with S = D̃^-½ Ã D̃^-½: K convolutions without anything between them (Wu et al. 2019).

    cached: keep S^K X of the first call: what is left is logistic regression on smoothed features

    Shape: (N, in_channels) → (N, out_channels)

    >>> SGConv(2, 3, K=2)(weft.ones(2, 2), weft.tensor([[0, 1], [1, 0]])).shape
    weft.Size([2, 3])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        K: int = 1,
        cached: bool = False,
        add_self_loops: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(False, False, add_self_loops, True)
        self.K, self.keeps = K, cached
        self.lin = Linear(in_channels, out_channels, bias)
        self._smoothed: Tensor | None = None

    def forward(self, x: Features, edge_index: Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        return self.lin(self.smoothed(x, edge_index, edge_weight))

    def smoothed(self, x: Features, edge_index: Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """S^K X, as a dense matrix."""
        if self._smoothed is not None:
            return self._smoothed
        edges, weight = self.weighted(x, edge_index, edge_weight)
        y = x.to_dense() if isinstance(x, SparseTensor) else x
        for _ in range(self.K):
            y = self.passed(y, edges, weight)
        if self.keeps:
            self._smoothed = y.detach()
        return y


class APPNP(Normalized):
    """Z ← (1 − α) S Z + α H, K times from Z = H: predictions spread by personalised PageRank (Gasteiger et al. 2019).

    S = D̃^-½ Ã D̃^-½. As K → ∞ this is α (I − (1 − α) S)^-1 H: α is the chance to return to where a walk began.

    dropout: of the edges' weights, anew in each step while training

    Shape: (N, F) → (N, F); nothing to learn

    >>> APPNP(K=10, alpha=0.1)(weft.eye(2), weft.tensor([[0, 1], [1, 0]])).sum(1)
    tensor([1.0000, 1.0000])
    """

    def __init__(
        self,
        K: int,
        alpha: float,
        dropout: float = 0.0,
        cached: bool = False,
        add_self_loops: bool = True,
        normalize: bool = True,
    ) -> None:
        super().__init__(False, cached, add_self_loops, normalize)
        self.K, self.alpha, self.dropout = K, alpha, dropout

    def forward(self, x: Tensor, edge_index: Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        edges, weight = self.weighted(x, edge_index, edge_weight)
        z = x
        for _ in range(self.K):
            some, chosen = self._thinned(edges, weight)
            z = (1 - self.alpha) * self.passed(z, some, chosen) + self.alpha * x
        return z

    def _thinned(self, edges: Any, weight: Tensor | None) -> tuple[Any, Tensor | None]:
        if not (self.training and self.dropout):
            return edges, weight
        if isinstance(edges, SparseTensor):
            return dropout(edges, self.dropout, True), None
        weight = weft.ones(edges.shape[1]) if weight is None else weight
        return edges, dropout(weight, self.dropout, True)

    def extra_repr(self) -> str:
        return f"K={self.K}, alpha={self.alpha}"
