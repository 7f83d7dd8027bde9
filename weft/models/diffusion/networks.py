"""What a network of a diffusion is told: the time, as sinusoids, and a class; and a small network for points."""

from __future__ import annotations

import math

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor

__all__ = ["PointNetwork", "TimeEmbedding", "timestep_embedding"]


def timestep_embedding(t: Tensor, features: int, period: float = 10000.0) -> Tensor:
    """[cos t ωₖ ‖ sin t ωₖ] with ωₖ = period^(−k / (F/2)): (B,) → (B, F). t may be whole or real"""
    if features % 2:
        raise OptionError(f"timestep_embedding: expected an even number of features, got {features}")
    half = features // 2
    rates = (-math.log(period) / half * weft.arange(half, dtype=weft.float32)).exp()
    angles = t.to(weft.float32).unsqueeze(1) * rates  # (B, F/2)
    return weft.cat([angles.cos(), angles.sin()], 1)


class TimeEmbedding(nn.Module):
    """Sinusoids of t through two layers, with an embedding of the class added: (B,) [, (B,)] → (B, features)

    scale: t is multiplied by it first; 1000 suits times from 0 to 1
    classes: their number; class `classes` stands for none
    """

    def __init__(self, features: int, classes: int = 0, scale: float = 1.0) -> None:
        super().__init__()
        self.features, self.scale = features, scale
        self.layers = nn.Sequential(nn.Linear(features, features), nn.SiLU(), nn.Linear(features, features))
        self.classes = nn.Embedding(classes + 1, features) if classes else None

    def forward(self, t: Tensor, condition: Tensor | None = None) -> Tensor:
        kind = self.layers[0].weight.dtype
        found = self.layers(timestep_embedding(t * self.scale, self.features).to(kind))
        return found if self.classes is None or condition is None else found + self.classes(condition)


class PointNetwork(nn.Module):
    """A perceptron of x and t with residual layers: (B, D), (B,) [, (B,)] → (B, outputs)

    outputs: D by default, 2 D for learned variances
    One t, (1,), may stand for all rows.
    """

    broadcasts_time = True

    def __init__(
        self,
        features: int,
        hidden: int = 128,
        layers: int = 3,
        *,
        outputs: int | None = None,
        classes: int = 0,
        time_scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.time = TimeEmbedding(hidden, classes, time_scale)
        self.first = nn.Linear(features, hidden)
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.last = nn.Linear(hidden, outputs or features)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        time, h = self.time(t, condition), self.first(x)
        for layer in self.layers:
            h = h + layer(nn.functional.silu(h + time))
        return self.last(nn.functional.silu(h))
