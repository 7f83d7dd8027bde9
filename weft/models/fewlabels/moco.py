"""MoCo (He et al. 2020, with the head of version 2): a query against its key and a long queue of older keys."""

from __future__ import annotations

from ... import nn
from ...tensor import Tensor
from .base import WithTarget
from .heads import ProjectionHead
from .memory_bank import MemoryBank
from .view_losses import NTXentLoss

__all__ = ["MoCo"]


class MoCo(WithTarget):
    """q = g(f(x₁)) learns, k = g'(f'(x₂)) comes from a slow copy; k is q's positive and joins the queue afterwards.

    Keys of one batch are normalised by the statistics of the whole batch. (The shuffling of the paper hides from a query which
    of several devices its key was normalised on; on one there is nothing to hide.)
    encoder: f: (B, *event) → (B, dim); dim: its features
    hidden, projection: sizes of the head g
    queue: how many keys are kept
    momentum: m of the slow copy; temperature: of the loss
    Shape of `loss`: two views (B, *event), B ≤ queue → ()

    >>> model = MoCo(nn.Sequential(nn.Flatten(), nn.Linear(16, 8)), 8, hidden=8, projection=4, queue=6)
    >>> x = weft.randn(3, 1, 4, 4)
    >>> model.loss(x, x + 0.1).shape, model.criterion.memory_bank.place.item()
    (weft.Size([]), 3)
    """

    def __init__(
        self,
        encoder: nn.Module,
        dim: int,
        *,
        hidden: int = 256,
        projection: int = 128,
        queue: int = 4096,
        momentum: float = 0.99,
        temperature: float = 0.2,
    ) -> None:
        super().__init__(encoder, ProjectionHead((dim, hidden, projection), norm=False), momentum)
        self.criterion = NTXentLoss(temperature, MemoryBank(queue, projection))

    def outputs(self, *views: Tensor) -> tuple[Tensor, Tensor]:
        first, second = views
        query = self.projection_head(self.encoder(first))
        return self.criterion(query, self.aim(second)), query
