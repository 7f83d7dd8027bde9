"""Deep embedded clustering: an encoder refined until its codes lie in clusters (DEC; Xie, Girshick and Farhadi 2016)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..classical.clustering import KMeans, kmeans
from .autoencoder import Autoencoder

__all__ = ["EmbeddedClustering", "soft_assignment", "target_distribution"]


class EmbeddedClustering(nn.Module):
    """Clusters with centres μ in the code space of a trained autoencoder; it learns from its own surer half.

        q_ij ∝ (1 + ‖zᵢ − μⱼ‖² / αs²)^(−(α+1)/2),   p_ij ∝ q_ij² / Σᵢ q_ij,   loss = Σ KL(pᵢ ‖ qᵢ) / N

    `start` puts the centres where k-means finds them; `targets` computes P over all data, now and then (P moves as Q
    does; between two times it stands still), `loss` is minimised over the encoder and the centres. The decoder is not
    trained any more.

    freedom: α, in the paper 1, whose tails are so heavy that in ten dimensions hardly any row is surer of its own cluster
        than of all others together: then P divides by Σᵢ q_ij what Q cannot tell apart. d − 1 is Student's t in d dimensions
        as in parametric t-SNE (van der Maaten 2009)
    in_spreads: s is the standard deviation of codes about their centres that `start` finds, not 1

    Where the encoder learns from moved or damaged rows, the targets being those of the rows as they are, `loss` of both must
    be minimised. Else nothing holds the codes that the targets are read from: what the encoder is unsure of goes to the
    middle of the codes, the cluster that lies there grows, and the next targets are worse.

    >>> model = EmbeddedClustering(DeepAutoencoder(6, (8,), 2), 3, 2)
    >>> x = weft.randn(30, 6)
    >>> model.start(x).inertia > 0
    True
    >>> model.loss(x[:10], model.targets(x)[:10]).backward()
    """

    def __init__(
        self, autoencoder: Autoencoder, clusters: int, code: int, freedom: float = 1.0, in_spreads: bool = False
    ) -> None:
        super().__init__()
        if not freedom > 0:
            raise OptionError(f"EmbeddedClustering: freedom must be above 0, got {freedom}")
        self.autoencoder, self.freedom, self.in_spreads = autoencoder, freedom, in_spreads
        self.centres = nn.Parameter(weft.zeros(clusters, code))
        self.register_buffer("spread", weft.ones(()))  # s

    @weft.no_grad()
    def start(self, x: Tensor, restarts: int = 20, generator: Any = None) -> KMeans:
        """k-means of the codes, whose centres become ours."""
        found = kmeans(self.autoencoder.embed(x), len(self.centres), restarts=restarts, generator=generator)
        self.centres.copy_(found.centres)
        if self.in_spreads:
            self.spread.fill_((found.inertia / (len(x) * self.centres.shape[1])) ** 0.5)
        return found

    def forward(self, x: Tensor) -> Tensor:
        """Q, the soft assignments: (B, *event) → (B, clusters)"""
        return self._shares(self.autoencoder.encode(x))

    @weft.no_grad()
    def assignments(self, x: Tensor) -> Tensor:
        """Q of many rows, a part at a time: (N, *event) → (N, clusters)"""
        return self._shares(self.autoencoder.embed(x))

    def _shares(self, z: Tensor) -> Tensor:
        return soft_assignment(z / self.spread, self.centres / self.spread, self.freedom)

    def targets(self, x: Tensor) -> Tensor:
        """P of all rows: (N, *event) → (N, clusters)"""
        return target_distribution(self.assignments(x))

    def predict(self, x: Tensor) -> Tensor:
        """The likeliest cluster: (N, *event) → (N,)"""
        return self.assignments(x).argmax(1)

    def loss(self, x: Tensor, target: Tensor, sure: float = 0.0) -> Tensor:
        """Mean KL(p ‖ q) of rows with their targets: (B, *event), (B, clusters) → ()

        sure: rows whose largest p lies below it count as 0 (what is easy is learned first: Guo et al. 2019)
        """
        q = self(x)
        if target.shape != q.shape:
            raise ShapeError(
                f"EmbeddedClustering: expected targets of shape {tuple(q.shape)}, got {tuple(target.shape)}"
            )
        each = (weft.xlogy(target, target) - target * q.log()).sum(1)  # (B,)
        return weft.where(target.amax(1) >= sure, each, 0.0).mean()


def soft_assignment(z: Tensor, centres: Tensor, freedom: float = 1.0) -> Tensor:
    """q_ij ∝ (1 + ‖zᵢ − μⱼ‖² / α)^(−(α+1)/2), Student's t as in t-SNE, rows summing to 1: (B, d), (K, d) → (B, K)"""
    distance = ((z.unsqueeze(1) - centres) ** 2).sum(2)  # (B, 1, d) − (K, d) → (B, K)
    likeness = (1 + distance / freedom) ** (-(freedom + 1) / 2)
    return likeness / likeness.sum(1, keepdim=True)


def target_distribution(q: Tensor) -> Tensor:
    """p_ij ∝ q_ij² / fⱼ, fⱼ = Σᵢ q_ij over all data: sure ones surer, large clusters no larger. (N, K) → (N, K)"""
    weight = q**2 / q.sum(0)
    return weight / weight.sum(1, keepdim=True)
