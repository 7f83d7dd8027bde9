"""The Π-model (Laine and Aila 2017; N1 §14.2): two noisy views of an example are to be predicted alike."""

from __future__ import annotations

from ....tensor import Tensor
from .base import SemiSupervised
from .parts import consistency
from .streams import SemiBatch

__all__ = ["PiModel"]


class PiModel(SemiSupervised):
    """L_u = mean ‖softmax f(a(x)) − softmax f(a′(x))‖², with gradients through the second view alone.

    Noise is what augmentation and dropout make of it: without either the loss is 0. The weight rises along a ramp, since
    early predictions are worth nothing: `ramp=Ramp(steps, "sigmoid")`. Options are those of `SemiSupervised`.

    >>> task = PiModel(nn.Linear(2, 3), ulb_loss_ratio=10.0, ramp=Ramp(1000, "sigmoid"))
    """

    def losses(self, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        labelled, first, second = self.scores(batch.x_lb, batch.x_ulb_w, batch.x_ulb_s)
        return self.loss(labelled, batch.y_lb), consistency(second, first.detach().softmax(-1))
