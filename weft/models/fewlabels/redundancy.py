"""Views agree and features do not repeat each other: VICReg and Barlow Twins, without negatives, slow copies or predictors."""

from __future__ import annotations

from ... import nn
from ...tensor import Tensor
from .base import SelfSupervised
from .heads import ProjectionHead
from .view_losses import BarlowTwinsLoss, VICRegLoss

__all__ = ["BarlowTwins", "VICReg"]


class VICReg(SelfSupervised):
    """Invariance, variance and covariance of z = g(f(x)); every feature varies, no two of them say the same
    (Bardes, Ponce and LeCun 2022).

    encoder: f: (B, *event) → (B, dim); dim: its features
    hidden: width of the three layers of g
    criterion: a `VICRegLoss` with other weights than the published ones
    Shape of `loss`: two views (B, *event), B ≥ 2 → ()

    >>> model = VICReg(nn.Sequential(nn.Flatten(), nn.Linear(16, 8)), 8, hidden=8)
    >>> x = weft.randn(3, 1, 4, 4)
    >>> model.loss(x, x + 0.1).shape
    weft.Size([])
    """

    def __init__(self, encoder: nn.Module, dim: int, *, hidden: int = 256, criterion: VICRegLoss | None = None) -> None:
        super().__init__(encoder)
        self.projection_head = ProjectionHead((dim, hidden, hidden, hidden))
        self.criterion = criterion or VICRegLoss()

    def outputs(self, *views: Tensor) -> tuple[Tensor, Tensor]:
        z0, z1 = (self.projection_head(self.encoder(x)) for x in views)
        return self.criterion(z0, z1), z0


class BarlowTwins(SelfSupervised):
    """The correlations between features of two views of z = g(f(x)) should be the identity (Zbontar et al. 2021).

    encoder: f: (B, *event) → (B, dim); dim: its features
    hidden: width of the three layers of g
    lambda_param: weight of the correlations between different features
    Shape of `loss`: two views (B, *event), B ≥ 2 → ()

    >>> model = BarlowTwins(nn.Sequential(nn.Flatten(), nn.Linear(16, 8)), 8, hidden=8)
    >>> x = weft.randn(3, 1, 4, 4)
    >>> model.loss(x, x + 0.1).shape
    weft.Size([])
    """

    def __init__(self, encoder: nn.Module, dim: int, *, hidden: int = 256, lambda_param: float = 5e-3) -> None:
        super().__init__(encoder)
        self.projection_head = ProjectionHead((dim, hidden, hidden, hidden))
        self.criterion = BarlowTwinsLoss(lambda_param)

    def outputs(self, *views: Tensor) -> tuple[Tensor, Tensor]:
        z0, z1 = (self.projection_head(self.encoder(x)) for x in views)
        return self.criterion(z0, z1), z0
