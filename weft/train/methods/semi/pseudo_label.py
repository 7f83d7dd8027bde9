"""Pseudo-labels (Lee 2013; N1 §14.1): what the model says of an unlabelled example is taken for its label."""

from __future__ import annotations

from typing import Any

from ....errors import OptionError
from ....nn import functional as F
from ....nn.module import Module
from ....tensor import Tensor
from .base import SemiSupervised
from .streams import SemiBatch

__all__ = ["PseudoLabel", "confident", "masked_mean"]


class PseudoLabel(SemiSupervised):
    """L_u = 1/M Σ 1[max p(x) ≥ p_cutoff] · CE(ŷ, f(x)),  ŷ = argmax f(x).

    The gradient goes through f alone, never through ŷ: cross entropy to its own argmax pushes each prediction away from
    the boundary, which for two classes is minimising its entropy.

    p_cutoff: least probability of a label that is used; 0 uses all, as Lee does
    options: those of `SemiSupervised`; Lee ramps the weight up linearly, `ramp=Ramp(steps, start=…)`

    >>> task = PseudoLabel(nn.Linear(2, 3), p_cutoff=0.9, ramp=Ramp(1000), lr=1e-3)
    """

    def __init__(self, model: Module, *, p_cutoff: float = 0.95, **options: Any) -> None:
        super().__init__(model, **options)
        self.p_cutoff = checked_share("PseudoLabel: p_cutoff", p_cutoff)

    def losses(self, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        labelled, unlabelled = self.scores(batch.x_lb, batch.x_ulb_w)
        said, mask = confident(unlabelled.detach().softmax(-1), self.p_cutoff)
        self.watch(said, mask, batch)
        return self.loss(labelled, batch.y_lb), masked_mean(F.cross_entropy(unlabelled, said, reduction="none"), mask)


def confident(p: Tensor, p_cutoff: float | Tensor) -> tuple[Tensor, Tensor]:
    """The likeliest classes and a mask of those at least p_cutoff likely: (M, C) → (M) int64, (M) float"""
    largest, said = p.max(-1)
    return said, (largest >= p_cutoff).to(p.dtype)


def masked_mean(losses: Tensor, mask: Tensor) -> Tensor:
    """1/M Σ mask · loss, over all M: where nothing is used the gradient is 0 to the bit. (M), (M) → ()"""
    return (losses * mask).mean()


def checked_share(name: str, value: float) -> float:
    """A number in [0, 1]."""
    if not 0 <= value <= 1:
        raise OptionError(f"{name}: expected a number in [0, 1], got {value}")
    return value
