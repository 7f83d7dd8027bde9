"""Attention between all vertices of a graph, beside messages along its edges (Rampášek et al. 2022; N2 §7.10)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...nn import functional as F
from ...tensor import Tensor
from .message_passing import Adjacency
from .readout import to_dense_batch

__all__ = ["GPSConv"]


class GPSConv(nn.Module):
    """One layer of a graph transformer: neighbours, all vertices, and a perceptron, each added to what was there.

        x_l = norm(x + conv(x, edges)),  x_g = norm(x + attention(x)),  x' = norm(y + MLP(y)) with y = x_l + x_g

    Attention reaches every vertex of the same graph and no other, and knows the edges only by `conv` and by positions among the
    features. conv: a message-passing layer (channels, channels), or None for attention alone. Norms are layer norms: what is
    said of a graph does not depend on the others in its batch.

    Shape: x (N, channels), edge_index, batch (N,) → (N, channels)

    >>> layer = GPSConv(8, None, heads=2)
    >>> layer(weft.ones(3, 8), weft.tensor([[0], [1]])).shape
    weft.Size([3, 8])
    """

    def __init__(self, channels: int, conv: nn.Module | None, heads: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv, self.dropout = conv, dropout
        self.attn = nn.MultiheadAttention(channels, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.ReLU(), nn.Linear(2 * channels, channels))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(channels) for _ in range(3))

    def forward(
        self,
        x: Tensor,
        edge_index: Adjacency,
        batch: Tensor | None = None,
        *,
        size: int | None = None,
        max_num_nodes: int | None = None,
        **known: Any,
    ) -> Tensor:
        """size, max_num_nodes: graphs in the batch and vertices of the largest, so that it can be compiled; known: for `conv`."""
        drop = lambda y: F.dropout(y, self.dropout, self.training)
        y = self.norm2(x + drop(self._attended(x, batch, size, max_num_nodes)))
        if self.conv is not None:
            y = y + self.norm1(x + drop(self.conv(x, edge_index, **known)))
        return self.norm3(y + drop(self.mlp(y)))

    def _attended(self, x: Tensor, batch: Tensor | None, size: int | None, most: int | None) -> Tensor:
        if x.shape[0] == 0:
            return x
        if batch is None:
            return self.attn(x[None], x[None], x[None], need_weights=False)[0].squeeze(0)
        dense, mask = to_dense_batch(x, batch, most, size)  # (B, M, F), (B, M)
        said, _ = self.attn(dense, dense, dense, key_padding_mask=~mask, need_weights=False)
        return said.flatten(0, 1)[_rows(mask, batch, x.shape[0])]


def _rows(mask: Tensor, batch: Tensor, count: int) -> Tensor:
    """Rows of (B · M, F) that are vertices, in their order: (N,)."""
    sizes = mask.sum(1)
    return weft.arange(count) - (sizes.cumsum(0) - sizes)[batch] + batch * mask.shape[1]
