"""How a ladder network is trained (Rasmus et al. 2015): classes from a noisy encoder, every layer denoised from above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ....errors import OptionError
from ....tensor import Tensor
from .base import SemiSupervised
from .streams import SemiBatch

__all__ = ["Denoises", "Ladder"]


class Denoises(Protocol):
    """What the method asks of a network, `weft.models.fewlabels.LadderNetwork` for instance."""

    def noisy(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Logits (B, C) of the encoder with noise, and what it has in each layer."""
        ...

    def denoising_costs(self, x: Tensor) -> list[Tensor]:
        """Mean squared errors of the denoised layers, from the input up."""
        ...


class Ladder(SemiSupervised):
    """L_s = CE(y, f̃(x)) with noise;  L_u = Σ_l λ_l C_l, C_l how far layer l, denoised, is from the clean one.

    Without noise, f is what is tested.

    model: a network that `Denoises`
    denoising_costs: λ_l from the input up; layers beyond the last have the last
    options: those of `SemiSupervised`

    >>> from weft.models.fewlabels import LadderNetwork
    >>> task = Ladder(LadderNetwork(784, (100, 50), 10), denoising_costs=(1000.0, 10.0, 0.1), lr=2e-3)
    """

    def __init__(self, model: Any, *, denoising_costs: Sequence[float] = (1000.0, 10.0, 0.1), **options: Any) -> None:
        super().__init__(model, **options)
        if not denoising_costs or min(denoising_costs) < 0:
            raise OptionError(f"Ladder: expected weights ≥ 0, at least one, got {list(denoising_costs)}")
        self.denoising_costs = tuple(denoising_costs)

    def losses(self, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        logits, _ = self.model.noisy(batch.x_lb)
        costs = self.model.denoising_costs(batch.x_ulb_w)
        weights = self.denoising_costs + self.denoising_costs[-1:] * len(costs)
        terms = [weight * cost for weight, cost in zip(weights, costs, strict=False)]
        return self.loss(logits, batch.y_lb), sum(terms[1:], terms[0])
