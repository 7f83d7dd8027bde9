"""The diffusion transformer (Peebles and Xie 2023): patches, and normalisations that the time and the class steer."""

from __future__ import annotations

from ... import nn
from ...errors import OptionError, ShapeError
from ...nn.beyond.position_grid import sinusoidal_positions_2d
from ...tensor import Tensor
from .networks import TimeEmbedding

__all__ = ["DiT"]

F = nn.functional


class DiT(nn.Module):
    """z₀ = patches · E + positions;  z ← z + g₁ attention(m₁(z)),  z ← z + g₂ mlp(m₂(z)) with m(z) = norm(z) (1 + scale) + shift.

    Scales, shifts and gates g are linear in the embedding of time and class and start at 0, so every block starts as the
    identity (adaLN-Zero), and the whole as 0.
    side: of images, a multiple of patch; features: in fours; out_channels: C by default, 2 C for learned variances
    Shape: (B, C, side, side), t (B,) [, (B,)] → (B, out_channels, side, side)

    >>> import weft
    >>> DiT(1, 8, patch=4, features=16)(weft.zeros(2, 1, 8, 8), weft.zeros(2)).shape
    weft.Size([2, 1, 8, 8])
    """

    broadcasts_time = True  # one t, (1,), may stand for all rows

    def __init__(
        self,
        channels: int,
        side: int,
        *,
        patch: int = 4,
        features: int = 64,
        layers: int = 4,
        heads: int = 4,
        out_channels: int | None = None,
        classes: int = 0,
        time_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if side % patch or features % 4 or features % heads:
            raise OptionError(
                f"DiT: expected a side in patches and features in fours and in heads; got {side}, {patch}, {features}, {heads}"
            )
        self.side, self.patch, self.out_channels = side, patch, out_channels or channels
        self.patches = nn.Conv2d(channels, features, patch, stride=patch)
        self.register_buffer("positions", _grid(side // patch, features), persistent=False)
        self.time = TimeEmbedding(features, classes, time_scale)
        self.blocks = nn.ModuleList(_Block(features, heads) for _ in range(layers))
        self.steer = nn.Linear(features, 2 * features)
        self.last = nn.Linear(features, self.out_channels * patch * patch)
        for layer in (self.steer, self.last):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        if tuple(x.shape[-2:]) != (self.side, self.side):
            raise ShapeError(f"DiT: expected images of {self.side}×{self.side} pixels, got {tuple(x.shape)}")
        z = self.patches(x).flatten(2).mT + self.positions.to(x.dtype)  # (B, P, F)
        told = F.silu(self.time(t, condition))
        for block in self.blocks:
            z = block(z, told)
        shift, scale = self.steer(told).unsqueeze(1).chunk(2, 2)
        z = self.last(_steered(z, shift, scale))  # (B, P, out · patch²)
        count = self.side // self.patch
        z = z.reshape(len(x), count, count, self.out_channels, self.patch, self.patch)
        return z.permute(0, 3, 1, 4, 2, 5).reshape(len(x), self.out_channels, self.side, self.side)


class _Block(nn.Module):
    """Attention and a perceptron, steered: (B, P, F), (B, F) → (B, P, F)"""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.into, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.mlp = nn.Sequential(nn.Linear(features, 4 * features), nn.GELU("tanh"), nn.Linear(4 * features, features))
        self.steer = nn.Linear(features, 6 * features)
        nn.init.zeros_(self.steer.weight)
        nn.init.zeros_(self.steer.bias)

    def forward(self, z: Tensor, told: Tensor) -> Tensor:
        shift, scale, gate, shift2, scale2, gate2 = self.steer(told).unsqueeze(1).chunk(6, 2)  # (B, 1, F) each
        h = self.into(_steered(z, shift, scale)).unflatten(2, (3, self.heads, -1))  # (B, P, 3, heads, F / heads)
        q, k, v = h.permute(2, 0, 3, 1, 4)
        z = z + gate * self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return z + gate2 * self.mlp(_steered(z, shift2, scale2))


def _steered(z: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return F.layer_norm(z, (z.shape[-1],), eps=1e-6) * (1 + scale) + shift


def _grid(count: int, features: int) -> Tensor:
    return sinusoidal_positions_2d(count, count, features).reshape(1, count * count, features)
