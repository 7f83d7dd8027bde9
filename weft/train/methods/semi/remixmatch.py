"""ReMixMatch (Berthelot et al. 2020; N1 §14): aligned guesses, anchored by strong views, and images turned."""

from __future__ import annotations

from typing import Any, cast

import weft

from ....errors import OptionError, ShapeError
from ....nn import functional as F
from ....nn.container import Sequential
from ....nn.module import Module
from ....tape.modes import no_grad
from ....tensor import Tensor
from .alignment import DistributionAlignment
from .mixmatch import MixMatch
from .parts import sharpen, soft_cross_entropy, statistics_kept
from .pseudo_label import confident
from .streams import SemiBatch

__all__ = ["ReMixMatch", "turned"]


class ReMixMatch(MixMatch):
    """L_s on mixed labelled examples; L_u = CE on mixed unlabelled ones + w_kl · CE(q, f(A(x))) + w_rot · CE of turns.

    q = sharpen(align(softmax f(a(x))), T) of the weak view alone is the anchor of every view. The third term is about the
    strong view before mixing, the fourth about which quarter turn it was given. Logits are rotation-free: head(encoder(x)).

    encoder: images (B, …) → features (B, D); head: → logits (B, C); turns: → logits (B, 4) of quarter turns, or None
    kl_loss_ratio, rot_loss_ratio: w_kl, w_rot
    momentum: of the distribution that is aligned, see `DistributionAlignment`; its target follows the labels
    options: those of `MixMatch`

    >>> task = ReMixMatch(nn.Linear(2, 8), nn.Linear(8, 3), None, num_classes=3)
    """

    def __init__(
        self,
        encoder: Module,
        head: Module,
        turns: Module | None,
        *,
        num_classes: int,
        kl_loss_ratio: float = 0.5,
        rot_loss_ratio: float = 0.5,
        momentum: float = 0.999,
        mixup_alpha: float = 0.75,
        **options: Any,
    ) -> None:
        super().__init__(Sequential(encoder, head), num_classes=num_classes, mixup_alpha=mixup_alpha, **options)
        if not (kl_loss_ratio >= 0 and rot_loss_ratio >= 0):
            raise OptionError(f"ReMixMatch: expected weights ≥ 0, got {kl_loss_ratio} and {rot_loss_ratio}")
        self.turns, self.kl_loss_ratio, self.rot_loss_ratio = turns, kl_loss_ratio, rot_loss_ratio
        self.alignment = DistributionAlignment(num_classes, momentum)

    def losses(self, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        q = self.guessed(batch)
        self.watch(*confident(q, 0.0), batch)
        known = F.one_hot(batch.y_lb, self.num_classes).to(q.dtype)
        x, target = self.mixed_up(weft.cat([batch.x_lb, batch.x_ulb_s, batch.x_ulb_w]), weft.cat([known, q, q]))
        sizes = [len(known), 2 * len(q)]
        labelled, unlabelled, strong = self.scores(*x.split(sizes), batch.x_ulb_s)
        first, second = (
            soft_cross_entropy(*pair).mean() for pair in zip((labelled, unlabelled), target.split(sizes), strict=True)
        )
        further = self.kl_loss_ratio * soft_cross_entropy(strong, q).mean()
        if self.turns is not None:
            further = further + self.rot_loss_ratio * self._turning(batch.x_ulb_s)
        return first, second + further

    def guessed(self, batch: SemiBatch) -> Tensor:
        with no_grad(), statistics_kept(self.model):
            p = self.model(batch.x_ulb_w).softmax(-1)
            self.alignment.update(p, F.one_hot(batch.y_lb, self.num_classes).to(p.dtype))
        return sharpen(self.alignment.aligned(p), self.T)

    def _turning(self, x: Tensor) -> Tensor:
        """Cross entropy of which quarter turn was made."""
        quarters = weft.arange(len(x)) % 4
        return F.cross_entropy(self.turns(cast(Sequential, self.model)[0](turned(x, quarters))), quarters)


def turned(x: Tensor, quarters: Tensor) -> Tensor:
    """Square images, image i turned by quarters[i] · 90°: (B, C, H, H), (B) → (B, C, H, H)"""
    if x.ndim != 4 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"turned: expected square images (B, C, H, H), got {tuple(x.shape)}")
    ways = weft.stack([weft.rot90(x, k, (2, 3)) for k in range(4)])  # (4, B, C, H, H)
    return ways[quarters, weft.arange(len(x))]
