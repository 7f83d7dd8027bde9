"""One vector for each graph, whatever the order of its vertices (N2 §7.9)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import ShapeError
from ...tensor import Tensor
from ..segment import scatter, softmax

__all__ = ["GlobalVertex", "Set2Set", "global_add_pool", "global_max_pool", "global_mean_pool", "to_dense_batch"]


def _owners(x: Tensor, batch: Tensor | None, size: int | None) -> tuple[Tensor, int]:
    if batch is None:
        return weft.zeros(x.shape[0], dtype=weft.int64), 1 if size is None else size
    if batch.shape != (x.shape[0],):
        raise ShapeError(
            f"readout: batch must have a graph's number for each of {x.shape[0]} vertices, got {tuple(batch.shape)}"
        )
    if size is not None:
        return batch, size
    return batch, int(batch.max()) + 1 if x.shape[0] else 0


def global_add_pool(x: Tensor, batch: Tensor | None = None, size: int | None = None) -> Tensor:
    """Σ of the vertices of each graph: (N, F), (N,) → (B, F); without batch there is one graph.

    >>> global_add_pool(weft.ones(3, 2), weft.tensor([0, 0, 1])).tolist()
    [[2.0, 2.0], [1.0, 1.0]]
    """
    owner, count = _owners(x, batch, size)
    return scatter(x, owner, 0, count, "sum")


def global_mean_pool(x: Tensor, batch: Tensor | None = None, size: int | None = None) -> Tensor:
    """The mean of the vertices of each graph, 0 for one without any: (N, F), (N,) → (B, F).

    >>> global_mean_pool(weft.tensor([[1.0], [3.0]])).tolist()
    [[2.0]]
    """
    owner, count = _owners(x, batch, size)
    return scatter(x, owner, 0, count, "mean")


def global_max_pool(x: Tensor, batch: Tensor | None = None, size: int | None = None) -> Tensor:
    """The largest of each column in each graph, 0 for one without vertices: (N, F), (N,) → (B, F).

    >>> global_max_pool(weft.tensor([[1.0], [-3.0]])).tolist()
    [[1.0]]
    """
    owner, count = _owners(x, batch, size)
    return scatter(x, owner, 0, count, "max")


class Set2Set(nn.Module):
    """A set read several times by an LSTM that asks with what it knows so far (Vinyals, Bengio and Kudlur 2016).

        q_t = LSTM(q*_{t−1}),  α_i = softmax_i(x_i · q_t),  r_t = Σ α_i x_i,  q*_t = [q_t, r_t]

    Shape: x (N, in_channels), batch (N,) → (B, 2 · in_channels)

    >>> Set2Set(3, processing_steps=2)(weft.ones(4, 3), weft.tensor([0, 0, 1, 1])).shape
    weft.Size([2, 6])
    """

    def __init__(self, in_channels: int, processing_steps: int, num_layers: int = 1) -> None:
        super().__init__()
        self.in_channels, self.processing_steps, self.num_layers = in_channels, processing_steps, num_layers
        self.lstm = nn.LSTM(2 * in_channels, in_channels, num_layers)

    def forward(self, x: Tensor, batch: Tensor | None = None, size: int | None = None) -> Tensor:
        owner, count = _owners(x, batch, size)
        state: Any = tuple(x.new_zeros(self.num_layers, count, self.in_channels) for _ in range(2))
        asked = x.new_zeros(count, 2 * self.in_channels)
        for _ in range(self.processing_steps):
            said, state = self.lstm(asked.unsqueeze(0), state)  # (1, B, 2F) → (1, B, F)
            q = said.squeeze(0)
            share = softmax((x * q[owner]).sum(-1, keepdim=True), owner, num_nodes=count)  # (N, 1)
            asked = weft.cat([q, scatter(share * x, owner, 0, count)], 1)
        return asked


class GlobalVertex(nn.Module):
    """A vertex for the whole graph that hears from all others and is heard by all (Gilmer et al. 2017, §5.2; N2 §7.9).

        g' = g + h(g, Σ_i x_i),  x_i' = x_i + W g'

    Returns both, so that it can stand after every layer; the last g is the readout.

    Shape: x (N, F), state (B, F) or None, batch (N,) → (N, F), (B, F)

    >>> x, state = GlobalVertex(3)(weft.ones(4, 3), None, weft.tensor([0, 0, 1, 1]))
    >>> x.shape, state.shape
    (weft.Size([4, 3]), weft.Size([2, 3]))
    """

    def __init__(self, channels: int, aggr: str = "mean") -> None:
        super().__init__()
        self.aggr = aggr
        self.hears = nn.Sequential(nn.Linear(2 * channels, channels), nn.ReLU(), nn.Linear(channels, channels))
        self.tells = nn.Linear(channels, channels)

    def forward(
        self, x: Tensor, state: Tensor | None = None, batch: Tensor | None = None, size: int | None = None
    ) -> tuple[Tensor, Tensor]:
        owner, count = _owners(x, batch, size)
        state = x.new_zeros(count, x.shape[1]) if state is None else state
        state = state + self.hears(weft.cat([state, scatter(x, owner, 0, count, self.aggr)], 1))
        return x + self.tells(state)[owner], state


def to_dense_batch(
    x: Tensor, batch: Tensor | None = None, max_num_nodes: int | None = None, batch_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """Vertices of graphs as rows of a dense tensor, and which rows are vertices: (N, F) → (B, M, F), (B, M) bool.

    >>> dense, mask = to_dense_batch(weft.ones(3, 1), weft.tensor([0, 0, 1]))
    >>> mask.tolist()
    [[True, True], [True, False]]
    """
    owner, count = _owners(x, batch, batch_size)
    sizes = weft.bincount(owner, minlength=count)
    most = max_num_nodes if max_num_nodes is not None else (int(sizes.max()) if count else 0)
    if count and max_num_nodes is not None and int(sizes.max()) > most:
        raise ShapeError(f"to_dense_batch: a graph has {int(sizes.max())} vertices, max_num_nodes is {most}")
    place = weft.arange(x.shape[0]) - (sizes.cumsum(0) - sizes)[owner] + owner * most  # rows of (B · M, F)
    dense = x.new_zeros(count * most, x.shape[1]).index_add(0, place, x).reshape(count, most, x.shape[1])
    return dense, weft.arange(most) < sizes.unsqueeze(1)
