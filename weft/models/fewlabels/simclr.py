"""SimCLR (Chen et al. 2020): two views of an image attract each other, those of other images are pushed away."""

from __future__ import annotations

import weft

from ... import nn
from ...tensor import Tensor
from .base import SelfSupervised
from .heads import ProjectionHead
from .view_losses import NTXentLoss

__all__ = ["SimCLR"]


class SimCLR(SelfSupervised):
    """z = g(f(x)) of both views in one batch, NT-Xent between them (N2 §8.5.4).

    encoder: f: (B, *event) → (B, dim); dim: its features
    hidden, projection: sizes of the head g, a layer with ReLU and one without
    temperature: of the loss
    Shape of `loss`: two views (B, *event) → ()

    >>> model = SimCLR(nn.Sequential(nn.Flatten(), nn.Linear(16, 8)), 8, hidden=8, projection=4)
    >>> x = weft.randn(3, 1, 4, 4)
    >>> model.embed(x).shape, model.loss(x, x + 0.1).shape
    (weft.Size([3, 8]), weft.Size([]))
    """

    def __init__(
        self, encoder: nn.Module, dim: int, *, hidden: int = 256, projection: int = 128, temperature: float = 0.5
    ) -> None:
        super().__init__(encoder)
        self.projection_head = ProjectionHead((dim, hidden, projection))
        self.criterion = NTXentLoss(temperature)

    def outputs(self, *views: Tensor) -> tuple[Tensor, Tensor]:
        first, second = views
        z = self.projection_head(self.encoder(weft.cat([first, second])))  # (2B, P)
        return self.criterion(*z.chunk(2)), z[: len(first)]
