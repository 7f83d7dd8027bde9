"""What every method is: cross entropy on labelled examples, plus a weighted loss of what is said of unlabelled ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import weft

from ....errors import OptionError
from ....nn import functional as F
from ....nn.module import Module
from ....optim.swa_utils import AveragedModel
from ....tape.modes import no_grad
from ....tensor import Tensor
from ...supervised import Classification
from ..parts import evaluating
from .parts import PseudoLabelQuality, Ramp
from .streams import SemiBatch

__all__ = ["SemiSupervised", "ema_teacher"]


class SemiSupervised(Classification):
    """min  L_s + λ_u r(t) L_u: a method states its two losses in `losses`.

    model: (B, …) → logits (B, C)
    ulb_loss_ratio: λ_u
    ramp: r(t), a `Ramp` or any function of the number of steps done; 1 if it is None
    ema_m: decay of an average of the weights, and of buffers, that is validated and tested in place of the model; None
        keeps none. The average is taken at the beginning of a step, of what the step before left.
    options: those of `Classification`, such as lr, weight_decay, optimizer, scheduler

    Batches are `SemiBatch`es in training and pairs (x, y) elsewhere. Logged: sup_loss, unsup_loss, and of pseudo-labels
    pseudo_accuracy and pseudo_utilisation, exact over each epoch.
    """

    iterations: Tensor

    def __init__(
        self,
        model: Module,
        *,
        ulb_loss_ratio: float = 1.0,
        ramp: Ramp | Callable[[Tensor], Tensor] | None = None,
        ema_m: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, **options)
        if not ulb_loss_ratio >= 0:
            raise OptionError(f"{type(self).__name__}: expected ulb_loss_ratio ≥ 0, got {ulb_loss_ratio}")
        self.ulb_loss_ratio, self.ramp = ulb_loss_ratio, ramp
        self.teacher = None if ema_m is None else ema_teacher(model, ema_m)
        self.quality = PseudoLabelQuality()
        self.register_buffer("iterations", weft.tensor(0, dtype=weft.int64))

    @abstractmethod
    def losses(self, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        """Mean losses of the labelled and of the unlabelled examples of a batch."""

    def training_step(self, batch: Any) -> Tensor:
        if self.teacher is not None:
            self.teacher.update_parameters(self.model)
        supervised, unlabelled = self.losses(SemiBatch(*batch))
        self.log("sup_loss", supervised, prog_bar=True)
        self.log("unsup_loss", unlabelled, prog_bar=True)
        weight = self.ulb_loss_ratio if self.ramp is None else self.ulb_loss_ratio * self.ramp(self.iterations)
        self.iterations.add_(1)
        return supervised + weight * unlabelled

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        tested = self.model if self.teacher is None or self.training else self.teacher
        return tested(*args, **kwargs)

    def scores(self, *inputs: Tensor) -> list[Tensor]:
        """Logits of several batches in one pass, which batch normalisation sees as one."""
        together = self.model(weft.cat(inputs))
        return list(together.split([len(x) for x in inputs]))

    def taught(self, x: Tensor) -> Tensor:
        """Logits of the average, in evaluation mode and without gradients."""
        if self.teacher is None:
            raise OptionError(f"{type(self).__name__}: there is no teacher; give ema_m")
        with no_grad(), evaluating(self.teacher):
            return self.teacher(x)

    def watch(self, said: Tensor, mask: Tensor, batch: SemiBatch) -> None:
        """Note pseudo-labels (M), which of them are used (M), and whether they are right."""
        self.measure("pseudo", self.quality, said, mask, batch.y_ulb)

    def cross_entropy(self, scores: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(scores, labels)


def ema_teacher(model: Module, decay: float, warm_up: bool = True) -> AveragedModel:
    """A copy of a model that follows it: ā ← d ā + (1 − d) θ, for parameters and for buffers that are not whole numbers.

    warm_up: d is at most (1 + n) / (10 + n) after n updates, so that an early average is not mostly the first weights.
    Counters, such as that of batches in batch normalisation, are the newest. The first update is a copy.
    """
    if not 0 <= decay <= 1:
        raise OptionError(f"ema_teacher: expected a decay in [0, 1], got {decay}")

    def follow(averaged: Tensor, current: Tensor, count: Tensor) -> Tensor:
        if not averaged.dtype.is_floating_point:
            return current
        rate = ((1 + count.double()) / (10 + count)).clamp(max=decay) if warm_up else decay
        return averaged * rate + current * (1 - rate)

    found = AveragedModel(model, avg_fn=follow, use_buffers=True)
    found.requires_grad_(False)
    return found
