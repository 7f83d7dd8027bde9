"""Autoencoders of graphs: vertices become codes, and codes say which of them are joined (Kipf and Welling 2016)."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft

from ... import nn
from ...errors import StateError
from ...graphs.nn.gcn import GCNConv
from ...graphs.nn.linear import Features, dropout
from ...graphs.nn.message_passing import Adjacency
from ...metrics import auroc, average_precision
from ...nn import functional as F
from ...tensor import Tensor, wrap

__all__ = ["GAE", "VGAE", "InnerProductDecoder", "VariationalGCNEncoder", "sampled_graph"]

MAX_LOGSTD = 10.0


class InnerProductDecoder(nn.Module):
    """p(i and j are joined) = σ(z_i · z_j).

    Shape: z (N, D), edge_index (2, E) → (E,); `forward_all`: → (N, N)

    >>> InnerProductDecoder()(weft.zeros(3, 2), weft.tensor([[0], [1]]))
    tensor([0.5000])
    """

    def forward(self, z: Tensor, edge_index: Tensor, sigmoid: bool = True) -> Tensor:
        said = (z[edge_index[0]] * z[edge_index[1]]).sum(-1)
        return said.sigmoid() if sigmoid else said

    def forward_all(self, z: Tensor, sigmoid: bool = True) -> Tensor:
        """Of all pairs."""
        said = z @ z.T
        return said.sigmoid() if sigmoid else said


class GAE(nn.Module):
    """An encoder of vertices and a decoder of edges, which is the inner product unless told otherwise.

    >>> model = GAE(GCNConv(3, 2))
    >>> z = model.encode(weft.ones(2, 3), weft.tensor([[0, 1], [1, 0]]))
    >>> model.recon_loss(z, weft.tensor([[0], [1]]), weft.tensor([[0], [0]])).shape
    weft.Size([])
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module | None = None) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, InnerProductDecoder() if decoder is None else decoder

    def encode(self, *args: Any, **options: Any) -> Tensor:
        """Codes of vertices: (N, D)."""
        return self.encoder(*args, **options)

    def decode(self, *args: Any, **options: Any) -> Tensor:
        """Chances of edges."""
        return self.decoder(*args, **options)

    def forward(self, *args: Any, **options: Any) -> Tensor:
        return self.encode(*args, **options)

    def recon_loss(self, z: Tensor, pos_edge_index: Tensor, neg_edge_index: Tensor) -> Tensor:
        """−mean log p of pairs that are joined − mean log (1 − p) of pairs that are not."""
        there = self.decoder(z, pos_edge_index, sigmoid=False)
        absent = self.decoder(z, neg_edge_index, sigmoid=False)
        return F.softplus(-there).mean() + F.softplus(absent).mean()

    def test(self, z: Tensor, pos_edge_index: Tensor, neg_edge_index: Tensor) -> tuple[float, float]:
        """Area under the ROC curve and average precision over pairs of both kinds."""
        with weft.no_grad():
            said = [self.decoder(z, pairs) for pairs in (pos_edge_index, neg_edge_index)]
        truth = weft.cat([weft.ones(len(said[0])), weft.zeros(len(said[1]))]).long()
        return auroc(weft.cat(said), truth), average_precision(weft.cat(said), truth)


class VGAE(GAE):
    """Codes are drawn from q(z_i | X, A) = N(μ_i, σ_i²); the encoder gives μ and log σ.

    kl_loss: Σ KL(q ‖ N(0, 1)) / N; the bound of the notes is recon + kl with sums over all pairs

    >>> model = VGAE(VariationalGCNEncoder(3, 8, 2))
    >>> z = model.encode(weft.ones(2, 3), weft.tensor([[0, 1], [1, 0]]))
    >>> z.shape, model.kl_loss().shape
    (weft.Size([2, 2]), weft.Size([]))
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module | None = None) -> None:
        super().__init__(encoder, decoder)
        self._said: tuple[Tensor, Tensor] | None = None

    def encode(self, *args: Any, **options: Any) -> Tensor:
        mean, log_std = self.encoder(*args, **options)
        self._said = mean, log_std.clamp(max=MAX_LOGSTD)
        return self.reparametrize(*self._said)

    def reparametrize(self, mu: Tensor, logstd: Tensor) -> Tensor:
        """μ + σ ε while training, μ otherwise."""
        return mu + weft.randn_like(logstd) * logstd.exp() if self.training else mu

    def kl_loss(self, mu: Tensor | None = None, logstd: Tensor | None = None) -> Tensor:
        """½ Σ (μ² + σ² − 1 − 2 log σ), the mean over vertices."""
        if mu is None or logstd is None:
            if self._said is None:
                raise StateError("VGAE.kl_loss: nothing has been encoded yet; call encode first, or give mu and logstd")
            mu, logstd = self._said
        return 0.5 * (mu**2 + (2 * logstd).exp() - 1 - 2 * logstd).sum(1).mean()


class VariationalGCNEncoder(nn.Module):
    """A convolution, relu, and one convolution each for μ and log σ.

    Shape: x (N, in_channels) → (N, out_channels) twice

    >>> [part.shape for part in VariationalGCNEncoder(3, 8, 2)(weft.ones(2, 3), weft.tensor([[0, 1], [1, 0]]))]
    [weft.Size([2, 2]), weft.Size([2, 2])]
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, dropout: float = 0.0, **options: Any
    ) -> None:
        super().__init__()
        self.conv1, self.dropout = GCNConv(in_channels, hidden_channels, **options), dropout
        self.conv_mu, self.conv_logstd = (GCNConv(hidden_channels, out_channels, **options) for _ in range(2))

    def forward(self, x: Features, edge_index: Adjacency, edge_weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        hidden = self.conv1(dropout(x, self.dropout, self.training), edge_index, edge_weight).relu()
        hidden = dropout(hidden, self.dropout, self.training)
        return self.conv_mu(hidden, edge_index, edge_weight), self.conv_logstd(hidden, edge_index, edge_weight)


def sampled_graph(model: GAE, codes: Tensor, generator: weft.Generator | None = None) -> Tensor:
    """A graph drawn from what the decoder says of all pairs of codes: undirected, without loops.

    Codes from N(0, 1) give graphs of the model; codes of a graph give graphs like it.

    Shape: (N, D) → edge_index (2, E)

    >>> edges = sampled_graph(GAE(nn.Identity()), 10 * weft.ones(3, 1))
    >>> sorted(map(tuple, edges.T.tolist()))
    [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    """
    with weft.no_grad():
        chance = model.decoder.forward_all(codes)
        drawn = (weft.rand(chance.shape, generator=generator) < chance).numpy()
    above = np.argwhere(np.triu(drawn, 1)).T
    return wrap(np.concatenate([above, above[::-1]], 1).astype(np.int64))
