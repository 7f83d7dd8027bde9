"""Distribution alignment (Berthelot et al. 2020; N1 §14.3): predictions whose mean is what the classes' shares are."""

from __future__ import annotations

import weft

from ....errors import OptionError, ShapeError
from ....nn.module import Module
from ....tape.modes import no_grad
from ....tensor import Tensor

__all__ = ["DistributionAlignment"]


class DistributionAlignment(Module):
    """p̃ ∝ p · p_target / p_model, rows normalised; p_model is a moving average of the mean prediction.

    num_classes: C; momentum: m of p_model ← m p_model + (1 − m) mean p, from the uniform
    p_target: (C) probabilities; None: uniform. `update` may be told labels, and then p_target follows their shares

    Shape: (M, C) → (M, C)

    >>> align = DistributionAlignment(2, momentum=0.0)
    >>> align(weft.tensor([[0.9, 0.1], [0.6, 0.4]])).round(decimals=3).tolist()
    [[0.75, 0.25], [0.333, 0.667]]
    """

    p_model: Tensor
    p_target: Tensor

    def __init__(self, num_classes: int, momentum: float = 0.999, p_target: Tensor | None = None) -> None:
        super().__init__()
        if not 0 <= momentum <= 1:
            raise OptionError(f"DistributionAlignment: expected momentum in [0, 1], got {momentum}")
        if p_target is not None and p_target.shape != (num_classes,):
            raise ShapeError(f"DistributionAlignment: expected p_target ({num_classes},), got {tuple(p_target.shape)}")
        self.momentum = momentum
        uniform = weft.full((num_classes,), 1 / num_classes)
        self.register_buffer("p_model", uniform.clone())
        self.register_buffer("p_target", uniform if p_target is None else p_target / p_target.sum())

    def forward(self, p: Tensor) -> Tensor:
        """Take in these predictions, and align them."""
        self.update(p)
        return self.aligned(p)

    @no_grad()
    def update(self, p: Tensor, labels: Tensor | None = None) -> None:
        """Move p_model towards the mean of p (M, C), and p_target towards that of one-hot labels or targets (B, C)."""
        self.p_model.copy_(self.momentum * self.p_model + (1 - self.momentum) * p.detach().mean(0))
        if labels is not None:
            self.p_target.copy_(self.momentum * self.p_target + (1 - self.momentum) * labels.mean(0))

    def aligned(self, p: Tensor) -> Tensor:
        """p · p_target / p_model, normalised."""
        moved = p * (self.p_target / self.p_model.clamp(min=1e-6))
        return moved / moved.sum(-1, keepdim=True)
