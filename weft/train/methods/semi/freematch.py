"""FreeMatch (Wang et al. 2023): thresholds that follow how sure the model has become, and labels kept balanced."""

from __future__ import annotations

from typing import Any

import weft

from ....nn import functional as F
from ....nn.module import Module
from ....tape.modes import no_grad
from ....tensor import Tensor
from .fixmatch import FixMatch
from .pseudo_label import checked_share
from .streams import SemiBatch

__all__ = ["FreeMatch"]


class FreeMatch(FixMatch):
    """FixMatch with thresholds τ_c = τ · p̄_c / max p̄: τ a moving average of mean max p, p̄ of mean p (self-adaptive).

    Fairness, of weight `ent_loss_ratio`, is a second loss: Σ norm(p̄ / h̄) log norm(p_s / h_s), where p_s is the mean prediction
    for strong views that are used, h_s the shares of the classes they are put into, h̄ the moving average of such shares.

    num_classes: C; ema_p: decay of the averages, which start uniform
    options: those of `FixMatch`; p_cutoff is not used

    >>> task = FreeMatch(nn.Linear(2, 3), num_classes=3)
    """

    time_p: Tensor
    p_model: Tensor
    label_hist: Tensor

    def __init__(
        self,
        model: Module,
        *,
        num_classes: int,
        ema_p: float = 0.999,
        ent_loss_ratio: float = 0.001,
        **options: Any,
    ) -> None:
        super().__init__(model, num_classes=num_classes, **options)
        self.ema_p, self.ent_loss_ratio = checked_share("FreeMatch: ema_p", ema_p), ent_loss_ratio
        uniform = weft.full((num_classes,), 1 / num_classes)
        self.register_buffer("time_p", weft.tensor(1 / num_classes))
        self.register_buffer("p_model", uniform.clone())
        self.register_buffer("label_hist", uniform)

    def choose(self, p: Tensor, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        largest, said = p.max(-1)
        with no_grad():
            for average, now in (
                (self.time_p, largest.mean()),
                (self.p_model, p.mean(0)),
                (self.label_hist, F.one_hot(said, self.num_classes).to(p.dtype).mean(0)),
            ):
                average.copy_(self.ema_p * average + (1 - self.ema_p) * now)
        return said, (largest >= self.thresholds()[said]).to(p.dtype)

    def thresholds(self) -> Tensor:
        """τ_c: (C)"""
        return self.time_p * self.p_model / self.p_model.max()

    def further(self, p: Tensor, strong: Tensor, said: Tensor, mask: Tensor) -> Tensor | float:
        used = mask.sum().clamp(min=1)
        chances = strong.softmax(-1)
        mean = (chances * mask[:, None]).sum(0) / used
        labels = F.one_hot(chances.argmax(-1), self.num_classes).to(p.dtype)
        shares = (labels * mask[:, None]).sum(0) / used
        target, reached = _unit(_inverse(self.label_hist) * self.p_model), _unit(_inverse(shares) * mean)
        fairness = (target * (reached + 1e-12).log()).sum() * (mask.sum() > 0).to(p.dtype)
        return self.ent_loss_ratio * fairness


def _inverse(shares: Tensor) -> Tensor:
    """1 / share; 0 where there is none, so that such classes leave the sum."""
    return weft.where(shares > 0, 1 / shares.clamp(min=1e-12), weft.zeros_like(shares))


def _unit(weights: Tensor) -> Tensor:
    return weights / weights.sum().clamp(min=1e-12)
