"""The recurrent autoencoder: a sequence read into one code, and written again from it (Srivastava et al. 2015)."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...tensor import Tensor
from .autoencoder import Autoencoder

__all__ = ["RecurrentAutoencoder"]


class RecurrentAutoencoder(Autoencoder):
    """An LSTM's last state, made linear, is the code; another LSTM that is told the code at every step says x̂₁ … x̂_T.

    The writer never sees what it should say: nothing passes but the code.
    length: T; options: error, noise, penalties, as in `Autoencoder`
    Shape: (B, T, features) → (B, code) → (B, T, features)
    """

    def __init__(
        self, features: int, hidden: int, code: int, length: int, error: str = "squared_error", **options: Any
    ) -> None:
        super().__init__(_Reader(features, hidden, code), _Writer(code, hidden, features, length), error, **options)


class _Reader(nn.Module):
    def __init__(self, features: int, hidden: int, code: int) -> None:
        super().__init__()
        self.lstm, self.code = nn.LSTM(features, hidden, batch_first=True), nn.Linear(hidden, code)

    def forward(self, x: Tensor) -> Tensor:
        return self.code(self.lstm(x)[0][:, -1])  # (B, T, H) → (B, H) → (B, code)


class _Writer(nn.Module):
    def __init__(self, code: int, hidden: int, features: int, length: int) -> None:
        super().__init__()
        self.length = length
        self.lstm, self.output = nn.LSTM(code, hidden, batch_first=True), nn.Linear(hidden, features)

    def forward(self, z: Tensor) -> Tensor:
        told = z.unsqueeze(1).expand(-1, self.length, -1)  # (B, code) → (B, T, code)
        return self.output(self.lstm(told)[0])
