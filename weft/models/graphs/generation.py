"""Graphs drawn vertex by vertex: p(A) = Π_i p(row i of A | rows before) (You et al. 2018, GraphRNN; N1 §6)."""

from __future__ import annotations

import numpy as np

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...nn import functional as F
from ...tensor import Tensor, wrap

__all__ = ["GraphRows", "breadth_first", "rows_of"]


def breadth_first(edge_index: Tensor, num_nodes: int, start: int = 0) -> Tensor:
    """An order of vertices in which each, but the first of a component, has an edge to one before: (N,).

    >>> breadth_first(weft.tensor([[0, 2, 2, 1], [2, 0, 1, 2]]), 3).tolist()
    [0, 2, 1]
    """
    neighbours: list[list[int]] = [[] for _ in range(num_nodes)]
    for source, target in sorted(edge_index.T.tolist()):
        neighbours[source].append(target)
    found, seen = [], [False] * num_nodes
    for root in (start, *range(num_nodes)) if num_nodes else ():
        if seen[root]:
            continue
        seen[root], at = True, len(found)
        found.append(root)
        while at < len(found):
            for other in neighbours[found[at]]:
                if not seen[other]:
                    seen[other] = True
                    found.append(other)
            at += 1
    return wrap(np.array(found, np.int64))


def rows_of(edge_index: Tensor, order: Tensor, width: int) -> Tensor:
    """Row i: which of the `width` vertices before the i-th in the order it is joined to, the nearest first.

    In a breadth-first order of a graph, edges reach back no farther than the widest two layers: rows may be short.

    Shape: (2, E), (N,) → (N, width)

    >>> rows_of(weft.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), weft.tensor([0, 1, 2]), 2).tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    """
    count = len(order)
    place = np.empty(count, np.int64)
    place[order.numpy()] = np.arange(count)
    later, earlier = place[edge_index.numpy()]
    back = later - earlier
    if (back > width).any():
        raise ShapeError(f"rows_of: an edge reaches {back.max()} vertices back, rows have {width}")
    rows = np.zeros((count, width), np.float32)
    rows[later[back > 0], back[back > 0] - 1] = 1
    return wrap(rows)


class GraphRows(nn.Module):
    """A GRU reads the rows of the adjacency matrix and says how likely each edge of the next one is.

        h_i = GRU(h_{i−1}, row_{i−1}),  row_i ~ Π_k Bernoulli(σ(f_k(h_i, row_{i,<k})))

    The edges of a row are drawn one after the other, by a masked map of those before (as in an autoregressive model of bits):
    they need not be independent. A row without an edge after the first ends the graph.

    width: how far back edges may reach

    Shape: rows (B, N, width), mask (B, N) → log p of each graph (B,)

    >>> model = GraphRows(width=3, hidden_channels=8)
    >>> model.log_prob(weft.zeros(2, 4, 3)).shape
    weft.Size([2])
    """

    def __init__(self, width: int, hidden_channels: int = 64) -> None:
        super().__init__()
        if width < 1:
            raise OptionError(f"GraphRows: width must be at least 1, got {width}")
        self.width = width
        self.gru = nn.GRU(width, hidden_channels, batch_first=True)
        self.head = nn.Linear(hidden_channels, width)
        self.weight = nn.Parameter(weft.zeros(width, width))
        self.register_buffer("before", weft.tril(weft.ones(width, width), diagonal=-1))

    def _said(self, states: Tensor, rows: Tensor) -> Tensor:
        """Logits of the edges of rows, each knowing those before it in its row: (…, width)."""
        return self.head(states) + rows @ (self.weight * self.before).T

    def log_prob(self, rows: Tensor, mask: Tensor | None = None) -> Tensor:
        """log p(rows after the first); the first has no edges. mask: which rows count, the closing empty one among them"""
        states, _ = self.gru(rows[:, :-1])  # (B, N − 1, hidden): state i has read rows 0 … i
        said, told = self._said(states, rows[:, 1:]), rows[:, 1:]
        each = -F.binary_cross_entropy_with_logits(said, told, reduction="none")
        places = weft.arange(1, rows.shape[1]).unsqueeze(1)  # vertex i has i before it
        each = each * (weft.arange(self.width) < places)  # (N − 1, width)
        if mask is not None:
            each = each * mask[:, 1:].unsqueeze(-1)
        return each.sum((1, 2))

    def sample(self, max_nodes: int, generator: weft.Generator | None = None) -> Tensor:
        """A graph of at most so many vertices: edge_index (2, E), both directions."""
        edges, row, state = [], weft.zeros(1, 1, self.width), None
        with weft.no_grad():
            for vertex in range(1, max_nodes):
                said, state = self.gru(row, state)
                bits = weft.zeros(1, self.width)
                for k in range(min(self.width, vertex)):
                    chance = self._said(said[:, 0], bits)[0, k].sigmoid()
                    bits[0, k] = (weft.rand((), generator=generator) < chance).float()
                chosen = np.flatnonzero(bits.numpy()[0])
                if not len(chosen):
                    break
                edges += [(vertex, vertex - 1 - k) for k in chosen]
                row = bits.unsqueeze(1)
        pairs = np.array(edges, np.int64).reshape(-1, 2).T
        return wrap(np.concatenate([pairs, pairs[::-1]], 1))
