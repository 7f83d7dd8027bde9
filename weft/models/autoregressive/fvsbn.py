"""The fully visible sigmoid belief network: every bit a logistic regression on those before it (Frey, Hinton, Dayan 1996)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...tensor import Tensor
from .base import Autoregressive

__all__ = ["FVSBN"]


class FVSBN(Autoregressive):
    """p(xᵢ = 1 | x_<i) = σ(bᵢ + Σ_{j<i} Wᵢⱼ xⱼ): the baseline of all models with hidden units.

    Shape: x (B, D) of 0 and 1
    """

    def __init__(self, features: int, *, classes: int = 0, dtype: Any = None) -> None:
        super().__init__((features,), "bernoulli", classes)
        self.weight = nn.Parameter(weft.zeros(features, features, dtype=dtype))  # Wᵢⱼ; of j ≥ i nothing is used
        self.bias = nn.Parameter(weft.zeros(features, dtype=dtype))
        self.class_bias = self._class_bias(features)

    def conditionals(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        logits = self.bias + x @ self.weight.tril(-1).mT
        if self.class_bias is not None:
            logits = logits + self.class_bias(condition)
        return logits.unsqueeze(-1)

    def drawn(self, noise: Tensor, condition: Tensor | None = None) -> Tensor:
        """One column of W a step, added to the logits of all later bits."""
        start = self.conditionals(weft.zeros(noise.shape[:-1], dtype=noise.dtype), condition).squeeze(-1)
        places = weft.arange(self.elements)

        def draw(logits: Tensor, unit: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            place, column, u = unit
            logit = weft.where(places == place, logits, 0).sum(1)  # (n,)
            x = self.head.draw(logit.unsqueeze(-1), u)
            return logits + x.unsqueeze(1) * column, x

        columns = self.weight.tril(-1).mT  # row j: what xⱼ adds
        return weft.scan(draw, start, (places, columns, noise.transpose(0, 1)))[1].mT
