"""MixMatch (Berthelot et al. 2019; N1 §14): guessed labels of unlabelled examples, and all mixed with all."""

from __future__ import annotations

from typing import Any

import weft

from ....errors import OptionError
from ....nn import functional as F
from ....nn.module import Module
from ....tape.modes import no_grad
from ....tensor import Tensor
from .base import SemiSupervised
from .parts import beta_shares, consistency, mixed, sharpen, soft_cross_entropy, statistics_kept
from .pseudo_label import confident
from .streams import SemiBatch

__all__ = ["MixMatch"]


class MixMatch(SemiSupervised):
    """CE on mixed labelled examples + λ_u ‖q − p‖² on mixed unlabelled ones.

    q = sharpen(½ (p(a(x)) + p(a′(x))), T) for both views of x; then each row of W = [labelled, both views] is mixed with
    another row of W: x′ = λ x + (1 − λ) W_π(i), its target alike, λ ≥ ½ from Beta(α, α), so that it stays what it was more
    than anything else.

    num_classes: C
    T: temperature of sharpening; mixup_alpha: α
    options: those of `SemiSupervised`; the second view should be weak, too, so the loader has no `strong`

    >>> task = MixMatch(nn.Linear(2, 3), num_classes=3, ulb_loss_ratio=75.0, ramp=Ramp(1000), ema_m=0.999)
    """

    def __init__(
        self, model: Module, *, num_classes: int, T: float = 0.5, mixup_alpha: float = 0.5, **options: Any
    ) -> None:
        super().__init__(model, num_classes=num_classes, **options)
        if not (T > 0 and mixup_alpha > 0):
            raise OptionError(f"{type(self).__name__}: expected T > 0 and mixup_alpha > 0, got {T}, {mixup_alpha}")
        self.T, self.mixup_alpha = T, mixup_alpha

    def losses(self, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        q = self.guessed(batch)
        self.watch(*confident(q, 0.0), batch)
        x = weft.cat([batch.x_lb, batch.x_ulb_w, batch.x_ulb_s])
        target = weft.cat([F.one_hot(batch.y_lb, self.num_classes).to(q.dtype), q, q])
        x, target = self.mixed_up(x, target)
        labelled, unlabelled = self.scores(*x.split([len(batch.x_lb), 2 * len(q)]))
        known, guessed = target.split([len(batch.x_lb), 2 * len(q)])
        return soft_cross_entropy(labelled, known).mean(), consistency(unlabelled, guessed)

    def guessed(self, batch: SemiBatch) -> Tensor:
        """q: (M, C), without gradients and without a trace in the statistics of batch normalisation."""
        with no_grad(), statistics_kept(self.model):
            first, second = self.scores(batch.x_ulb_w, batch.x_ulb_s)
        return sharpen((first.softmax(-1) + second.softmax(-1)) / 2, self.T)

    def mixed_up(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Each row with another one drawn at random: (W, …), (W, C) → the same"""
        share, other = beta_shares(self.mixup_alpha, len(x)).to(x.dtype), weft.rand(len(x)).argsort()
        return mixed(x, x[other], share), mixed(target, target[other], share)
