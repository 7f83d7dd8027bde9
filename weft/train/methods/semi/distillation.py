"""Distillation (Hinton, Vinyals and Dean 2015; N1 §14.5): a student learns what a trained teacher says of examples."""

from __future__ import annotations

from typing import Any

from ....errors import OptionError
from ....nn.module import Module
from ....tape.modes import no_grad
from ....tensor import Tensor
from ..parts import evaluating
from .base import SemiSupervised
from .parts import kl_divergence
from .pseudo_label import checked_share, confident
from .streams import SemiBatch

__all__ = ["Distillation", "distillation_loss"]


class Distillation(SemiSupervised):
    """(1 − α) CE(y, f(x)) + α T² KL(softmax(g(x) / T) ‖ softmax(f(x) / T)), the second over both streams.

    tutor: g, trained and left as it is, asked in evaluation mode about the view that the student sees
    T: temperature, which shows how likely the teacher finds the wrong classes; T² keeps the size of gradients
    alpha: α
    options: those of `SemiSupervised`

    >>> task = Distillation(nn.Linear(2, 3), tutor=nn.Linear(2, 3), T=2.0)
    """

    def __init__(self, model: Module, *, tutor: Module, T: float = 4.0, alpha: float = 0.9, **options: Any) -> None:
        super().__init__(model, **options)
        if T <= 0:
            raise OptionError(f"Distillation: expected a temperature T above 0, got {T}")
        self.tutor, self.T, self.alpha = tutor.requires_grad_(False), T, checked_share("Distillation: alpha", alpha)

    def losses(self, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        labelled, unlabelled = self.scores(batch.x_lb, batch.x_ulb_w)
        with no_grad(), evaluating(self.tutor):
            known, asked = self.tutor(batch.x_lb), self.tutor(batch.x_ulb_w)
        self.watch(*confident(asked.softmax(-1), 0.0), batch)
        soft = distillation_loss(labelled, known, self.T)
        supervised = (1 - self.alpha) * self.loss(labelled, batch.y_lb) + self.alpha * soft
        return supervised, self.alpha * distillation_loss(unlabelled, asked, self.T)


def distillation_loss(student: Tensor, tutor: Tensor, T: float) -> Tensor:
    """T² mean KL(softmax(tutor / T) ‖ softmax(student / T)) of logits (B, C)

    For T → ∞ its gradient is that of ½ mean_B Σ (zᵢ − vᵢ)² / C of logits with mean 0.
    """
    return T**2 * kl_divergence(tutor / T, student / T).mean()
