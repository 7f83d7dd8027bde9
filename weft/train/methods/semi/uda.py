"""UDA, unsupervised data augmentation (Xie et al. 2020): soft confident targets, and labels released step by step."""

from __future__ import annotations

from typing import Any

from ....errors import OptionError
from ....nn import functional as F
from ....nn.module import Module
from ....tensor import Tensor
from .fixmatch import FixMatch

__all__ = ["UDA"]

SCHEDULES = ("none", "linear", "log", "exp")


class UDA(FixMatch):
    """FixMatch's L_u with soft targets sharpen(p, T), and L_s over labelled examples that are not yet known too well.

    Training signal annealing leaves out labelled examples with p(y) > η(t), η = α (1 − 1/C) + 1/C, and takes the mean over
    the others; α(t) for t the share of training that is done is t (linear), 1 − e^(−5t) (log) or e^(5(t−1)) (exp).

    tsa_schedule: "none", "linear", "log" or "exp"; num_train_iter: steps of the whole training, which schedules need
    num_classes: C
    options: those of `FixMatch`

    >>> task = UDA(nn.Linear(2, 3), num_classes=3, tsa_schedule="linear", num_train_iter=1000)
    """

    def __init__(
        self,
        model: Module,
        *,
        num_classes: int,
        tsa_schedule: str = "none",
        num_train_iter: int | None = None,
        p_cutoff: float = 0.8,
        T: float = 0.4,
        **options: Any,
    ) -> None:
        super().__init__(model, p_cutoff=p_cutoff, T=T, hard_label=False, num_classes=num_classes, **options)
        if tsa_schedule not in SCHEDULES:
            raise OptionError(f"UDA: tsa_schedule must be one of {', '.join(SCHEDULES)}, got {tsa_schedule!r}")
        if tsa_schedule != "none" and not num_train_iter:
            raise OptionError(f"UDA: the schedule {tsa_schedule!r} needs num_train_iter, the steps of the training")
        self.tsa_schedule, self.num_train_iter = tsa_schedule, num_train_iter

    def cross_entropy(self, scores: Tensor, labels: Tensor) -> Tensor:
        if self.tsa_schedule == "none" or not self.training:
            return super().cross_entropy(scores, labels)
        losses = F.cross_entropy(scores, labels, reduction="none")
        unsure = ((-losses.detach()).exp() <= self.ceiling(self.iterations)).to(losses.dtype)
        return (losses * unsure).sum() / unsure.sum().clamp(min=1)

    def ceiling(self, step: Tensor) -> Tensor:
        """η at a step."""
        done = (step.float() / self.num_train_iter).clamp(0, 1)
        alpha = {"linear": done, "log": 1 - (-5 * done).exp(), "exp": (5 * (done - 1)).exp()}[self.tsa_schedule]
        return alpha * (1 - 1 / self.num_classes) + 1 / self.num_classes
