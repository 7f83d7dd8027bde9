"""Autoencoders with binary threshold units, whose best training step is that of k-means (N2 §2.4.4)."""

from __future__ import annotations

from typing import Any

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..classical.clustering import nearest
from ..generative.checks import binary_states
from ..generative.protocol import GenerativeModel, exact

__all__ = ["ThresholdAutoencoder"]

MOST_UNITS = 12  # 4096 codes


class ThresholdAutoencoder(GenerativeModel):
    """z ∈ {0, 1}ᵏ,  x̂ = c + Uᵀz: 2ᵏ places, each x encoded by the nearest. Thresholds have no slope, so it learns by turns.

    `step`: the best codes for the decoder, then the best decoder (least squares) for the codes; the error never rises.
    One unit is two-means exactly: its code is the side of a hyperplane (`hyperplane`), halfway between two centroids.
    More units are k-means whose 2ᵏ centroids are sums of k shifts.

    Shape: (B, features) → (B, units) of 0 and 1 → (B, features)
    """

    def __init__(self, features: int, units: int, dtype: Any = None) -> None:
        super().__init__()
        if not 1 <= units <= MOST_UNITS:
            raise OptionError(f"ThresholdAutoencoder: expected 1 to {MOST_UNITS} units, got {units}")
        self.register_buffer("offset", weft.zeros(features, dtype=dtype))  # c
        self.register_buffer("shifts", weft.randn(units, features, dtype=dtype))  # U

    @property
    def centres(self) -> Tensor:
        """What can be said at all: (2ᵏ, features)"""
        return self.decode(binary_states(len(self.shifts), self.offset.dtype))

    @exact
    def encode(self, x: Tensor) -> Tensor:
        """The code whose decoding is nearest: (B, features) → (B, units)"""
        if x.ndim != 2 or x.shape[1] != len(self.offset):
            raise ShapeError(
                f"{type(self).__name__}: expected x of shape (B, {len(self.offset)}), got {tuple(x.shape)}"
            )
        return binary_states(len(self.shifts), self.offset.dtype)[nearest(x, self.centres)[0]]

    @exact
    def decode(self, z: Tensor) -> Tensor:
        """c + Uᵀz: (B, units) → (B, features)"""
        return self.offset + z @ self.shifts

    def squared_error(self, x: Tensor) -> Tensor:
        """Σ (x − x̂)² of each row: (B,)"""
        return ((x - self.reconstruct(x)) ** 2).sum(1)

    @weft.no_grad()
    def start(self, x: Tensor, generator: Any = None) -> None:
        """Begin at rows of the data: c one of them, each shift the way to another one."""
        first, *others = x[weft.randperm(len(x), generator=generator)[: len(self.shifts) + 1]]
        self.offset.copy_(first)
        self.shifts.copy_(weft.stack(others) - first)

    @weft.no_grad()
    def step(self, x: Tensor) -> Tensor:
        """Codes, then the decoder: one step of Lloyd's. Returns the codes. (N, features) → (N, units)"""
        z = self.encode(x)
        known = weft.cat([weft.ones(len(x), 1, dtype=z.dtype), z], 1)  # (N, 1 + units)
        found = weft.linalg.pinv(known) @ x  # least squares, the shortest where units never differ
        self.offset.copy_(found[0])
        self.shifts.copy_(found[1:])
        return z

    def hyperplane(self) -> tuple[Tensor, Tensor]:
        """w (features,) and b () of the single unit, z = [w·x + b > 0]: it lies halfway between c and c + u."""
        if len(self.shifts) != 1:
            raise OptionError(f"hyperplane: expected a single unit, there are {len(self.shifts)}")
        w = self.shifts[0]
        return w, -(w @ (self.offset + w / 2))
