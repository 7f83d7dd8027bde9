"""Codes as features: a head learned from few labels on an encoder that was trained without any (N2 §2.3.4, §8.5.1)."""

from __future__ import annotations

from typing import Any, Self

import weft

from ... import nn
from ...tensor import Tensor
from .autoencoder import Autoencoder

__all__ = ["EncoderClassifier"]


class EncoderClassifier(nn.Module):
    """y = W f(x) + b, logits of classes. The encoder stands still until `unfreeze`: only the head learns.

    A still encoder is in evaluation mode whatever the head's is, and its weights get no gradients, so that neither an
    optimiser nor running means can move it.
    code: how many numbers f(x) has
    Shape: (B, *event) → (B, classes)
    """

    def __init__(self, model: Autoencoder, code: int, classes: int) -> None:
        super().__init__()
        self.encoder, self.head = model.encoder, nn.Linear(code, classes)
        self.frozen = True
        self.encoder.requires_grad_(False).eval()

    def forward(self, x: Tensor) -> Tensor:
        if not self.frozen:
            return self.head(self.encoder(x))
        with weft.no_grad():
            z = self.encoder(x)
        return self.head(z)

    def unfreeze(self) -> Self:
        """Let the encoder learn as well: fine-tuning."""
        self.frozen = False
        self.encoder.requires_grad_(True)
        return self.train(self.training)

    def train(self, mode: bool = True) -> Any:
        """As of any module; a still encoder keeps evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self
