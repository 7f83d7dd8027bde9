"""BYOL (Grill et al. 2020): predict what a slow copy of oneself says of another view. There are no negatives."""

from __future__ import annotations

from ... import nn
from ...tensor import Tensor
from .base import WithTarget
from .heads import ProjectionHead
from .view_losses import NegativeCosineSimilarity

__all__ = ["BYOL"]


class BYOL(WithTarget):
    """½ Σ over both orders of −cos(q(g(f(x))), g'(f'(x'))), no gradient through g' and f'.

    The published loss, the squared distance of unit vectors summed over both orders, is 4 + 4 times this one.
    encoder: f: (B, *event) → (B, dim); dim: its features
    hidden, projection: sizes of the head g and of the predictor q
    momentum: m of the slow copy (g', f')
    Shape of `loss`: two views (B, *event) → ()

    >>> model = BYOL(nn.Sequential(nn.Flatten(), nn.Linear(16, 8)), 8, hidden=8, projection=4)
    >>> x = weft.randn(3, 1, 4, 4)
    >>> -1 <= model.loss(x, x + 0.1).item() <= 1
    True
    """

    def __init__(
        self, encoder: nn.Module, dim: int, *, hidden: int = 256, projection: int = 128, momentum: float = 0.99
    ) -> None:
        super().__init__(encoder, ProjectionHead((dim, hidden, projection)), momentum)
        self.prediction_head = ProjectionHead((projection, hidden, projection))
        self.criterion = NegativeCosineSimilarity()

    def outputs(self, *views: Tensor) -> tuple[Tensor, Tensor]:
        projected = [self.projection_head(self.encoder(x)) for x in views]
        aims = [self.aim(x) for x in views]
        said = [self.prediction_head(z) for z in projected]
        loss = (self.criterion(said[0], aims[1]) + self.criterion(said[1], aims[0])) / 2
        return loss, projected[0]
