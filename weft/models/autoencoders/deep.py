"""The deep autoencoder: a multilayer perceptron down to the code, and its mirror image up again (N0 §8.1, N1 §7.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import nn
from ..classical.mlp import MLP
from .autoencoder import Autoencoder

__all__ = ["DeepAutoencoder"]


class DeepAutoencoder(Autoencoder):
    """features – hidden … – code – … hidden – features; the code is linear, and so is what the decoder says.

    activation, init: as in `MLP`. Options: error, noise, penalties, as in `Autoencoder`
    Shape: (B, features) → (B, code) → (B, features)

    >>> model = DeepAutoencoder(784, (1000, 500, 250), 30, error="cross_entropy")  # Hinton and Salakhutdinov 2006
    >>> sum(p.numel() for p in model.parameters())
    2837314
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int],
        code: int,
        error: str = "squared_error",
        activation: str | Callable[[], nn.Module] = "relu",
        init: str | Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        down = MLP(features, hidden, code, activation, init=init)
        up = MLP(code, hidden[::-1], features, activation, init=init)
        super().__init__(down, up, error, **options)
