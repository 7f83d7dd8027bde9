"""FixMatch (Sohn et al. 2020; N1 §14): a confident label of the weak view is the target of the strong one."""

from __future__ import annotations

from typing import Any

from ....errors import OptionError
from ....nn import functional as F
from ....nn.module import Module
from ....tape.modes import no_grad
from ....tensor import Tensor
from .base import SemiSupervised
from .parts import sharpen, soft_cross_entropy
from .pseudo_label import checked_share, confident, masked_mean
from .streams import SemiBatch

__all__ = ["FixMatch"]


class FixMatch(SemiSupervised):
    """L_u = 1/M Σ 1[max p ≥ p_cutoff] · CE(ŷ, f(A(x))),  p = softmax f(a(x)),  ŷ = argmax p.

    p_cutoff: τ, least probability of a label that is used
    hard_label: ŷ; False takes p sharpened by T instead
    T: temperature of soft labels
    use_cat: whether the three batches are one to batch normalisation; False sends each by itself, and weak views without what
        a gradient needs, which takes a third less time
    options: those of `SemiSupervised`

    Subclasses decide by `choose` which labels are used.

    >>> task = FixMatch(nn.Linear(2, 3), p_cutoff=0.95, ema_m=0.999)
    """

    def __init__(
        self,
        model: Module,
        *,
        p_cutoff: float = 0.95,
        T: float = 0.5,
        hard_label: bool = True,
        use_cat: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(model, **options)
        if T <= 0:
            raise OptionError(f"{type(self).__name__}: expected a temperature T above 0, got {T}")
        self.p_cutoff = checked_share(f"{type(self).__name__}: p_cutoff", p_cutoff)
        self.T, self.hard_label, self.use_cat = T, hard_label, use_cat

    def losses(self, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        labelled, weak, strong = self.three(batch)
        p = weak.detach().softmax(-1)
        said, mask = self.choose(p, batch)
        self.watch(said, mask, batch)
        losses = F.cross_entropy(strong, said, reduction="none") if self.hard_label else self._soft(strong, p)
        return self.loss(labelled, batch.y_lb), masked_mean(losses, mask) + self.further(p, strong, said, mask)

    def three(self, batch: SemiBatch) -> list[Tensor]:
        """Logits of labelled examples, and of weak and strong views."""
        if self.use_cat:
            return self.scores(batch.x_lb, batch.x_ulb_w, batch.x_ulb_s)
        # strong views, the farthest from what is tested, come first: the last weigh most in running statistics
        strong, labelled = self.model(batch.x_ulb_s), self.model(batch.x_lb)
        with no_grad():
            return [labelled, self.model(batch.x_ulb_w), strong]

    def choose(self, p: Tensor, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        """Labels and the weights with which they count: (M, C) → (M) int64, (M)"""
        return confident(p, self.p_cutoff)

    def further(self, p: Tensor, strong: Tensor, said: Tensor, mask: Tensor) -> Tensor | float:
        """Another loss of unlabelled examples."""
        return 0.0

    def _soft(self, strong: Tensor, p: Tensor) -> Tensor:
        return soft_cross_entropy(strong, sharpen(p, self.T))
