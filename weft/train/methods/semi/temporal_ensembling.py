"""Temporal ensembling (Laine and Aila 2017; N1 §14.2): each example is compared with the mean of what was said of it."""

from __future__ import annotations

from typing import Any

import weft

from ....errors import OptionError
from ....nn.module import Module
from ....tape.modes import no_grad
from ....tensor import Tensor
from .base import SemiSupervised
from .parts import consistency
from .pseudo_label import confident
from .streams import SemiBatch

__all__ = ["TemporalEnsembling"]


class TemporalEnsembling(SemiSupervised):
    """L_u = mean ‖softmax f(a′(x)) − z̃‖²,  Z ← α Z + (1 − α) softmax f(a(x)) at each visit,  z̃ = Z / (1 − αⁿ).

    n counts visits of the example, so that z̃ is a mean with weights that sum to 1; an example that is met for the first
    time has no target, and no loss. What is said of the weak view is remembered, the strong view is compared with it; Laine
    and Aila have one view for both.

    num_classes: C; ulb_dest_len: how many unlabelled examples there are (`SemiLoader.ulb_dest_len`)
    ensemble_m: α
    options: those of `SemiSupervised`

    >>> task = TemporalEnsembling(nn.Linear(2, 3), num_classes=3, ulb_dest_len=1000, ramp=Ramp(1000, "sigmoid"))
    """

    ensemble: Tensor
    visits: Tensor

    def __init__(
        self, model: Module, *, num_classes: int, ulb_dest_len: int, ensemble_m: float = 0.6, **options: Any
    ) -> None:
        super().__init__(model, num_classes=num_classes, **options)
        if not 0 <= ensemble_m < 1 or ulb_dest_len < 1:
            raise OptionError(
                f"TemporalEnsembling: expected ensemble_m in [0, 1) and ulb_dest_len ≥ 1, got {ensemble_m}, {ulb_dest_len}"
            )
        self.ensemble_m = ensemble_m
        self.register_buffer("ensemble", weft.zeros(ulb_dest_len, num_classes))
        self.register_buffer("visits", weft.zeros(ulb_dest_len))

    def losses(self, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        labelled, weak, strong = self.scores(batch.x_lb, batch.x_ulb_w, batch.x_ulb_s)
        target, known = self.recalled(batch.idx_ulb)
        self.watch(confident(target, 0.0)[0], known, batch)
        with no_grad():
            self.remember(batch.idx_ulb, weak.detach().softmax(-1))
        known = known[:, None]  # (M, 1)
        return self.loss(labelled, batch.y_lb), consistency(strong, target.where(known > 0, strong.softmax(-1)))

    def recalled(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """z̃ of some examples, and 1 for those that were met before: (M) → (M, C), (M)"""
        visits = self.visits[rows]
        whole = 1 - self.ensemble_m**visits
        return self.ensemble[rows] / whole.clamp(min=1e-6)[:, None], (visits > 0).float()

    def remember(self, rows: Tensor, said: Tensor) -> None:
        """Take in what is said of some examples: (M), (M, C)"""
        self.ensemble[rows] = self.ensemble_m * self.ensemble[rows] + (1 - self.ensemble_m) * said
        self.visits[rows] = self.visits[rows] + 1
