"""SimSiam (Chen and He 2021): BYOL without the slow copy. What keeps it from collapsing is that targets stand still."""

from __future__ import annotations

from ... import nn
from ...tensor import Tensor
from .base import SelfSupervised
from .heads import ProjectionHead
from .view_losses import NegativeCosineSimilarity

__all__ = ["SimSiam"]


class SimSiam(SelfSupervised):
    """½ Σ over both orders of −cos(h(z), stop(z')), z = g(f(x)); h has a narrow middle.

    encoder: f: (B, *event) → (B, dim); dim: its features
    hidden: width of the three layers of g, whose last is normalised without weights; bottleneck: the middle of h
    Shape of `loss`: two views (B, *event) → ()

    >>> model = SimSiam(nn.Sequential(nn.Flatten(), nn.Linear(16, 8)), 8, hidden=8, bottleneck=4)
    >>> x = weft.randn(3, 1, 4, 4)
    >>> -1 <= model.loss(x, x + 0.1).item() <= 1
    True
    """

    def __init__(self, encoder: nn.Module, dim: int, *, hidden: int = 256, bottleneck: int = 64) -> None:
        super().__init__(encoder)
        self.projection_head = ProjectionHead((dim, hidden, hidden, hidden), last="plain")
        self.prediction_head = ProjectionHead((hidden, bottleneck, hidden))
        self.criterion = NegativeCosineSimilarity()

    def outputs(self, *views: Tensor) -> tuple[Tensor, Tensor]:
        z0, z1 = (self.projection_head(self.encoder(x)) for x in views)
        p0, p1 = self.prediction_head(z0), self.prediction_head(z1)
        return (self.criterion(p0, z1.detach()) + self.criterion(p1, z0.detach())) / 2, z0
