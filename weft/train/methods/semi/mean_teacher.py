"""Mean teacher (Tarvainen and Valpola 2017; N1 §14.5): the average of the weights so far tells the student its targets."""

from __future__ import annotations

from typing import Any

from ....nn.module import Module
from ....tensor import Tensor
from .base import SemiSupervised
from .parts import consistency
from .pseudo_label import confident
from .streams import SemiBatch

__all__ = ["MeanTeacher"]


class MeanTeacher(SemiSupervised):
    """L_u = mean ‖softmax f_θ(a′(x)) − softmax f_θ̄(a(x))‖²,  θ̄ ← m θ̄ + (1 − m) θ.

    The teacher is an average of parameters and of the statistics of batch normalisation, it is asked in evaluation mode,
    and it is what is validated and tested.

    ema_m: m; early it is less, (1 + n) / (10 + n) after n steps
    options: those of `SemiSupervised`

    >>> task = MeanTeacher(nn.Linear(2, 3), ema_m=0.99, ulb_loss_ratio=30.0, ramp=Ramp(1000, "sigmoid"))
    """

    def __init__(self, model: Module, *, ema_m: float = 0.999, **options: Any) -> None:
        super().__init__(model, ema_m=ema_m, **options)

    def losses(self, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        target = self.taught(batch.x_ulb_w).softmax(-1)
        labelled, student = self.scores(batch.x_lb, batch.x_ulb_s)
        self.watch(*confident(target, 0.0), batch)
        return self.loss(labelled, batch.y_lb), consistency(student, target)
