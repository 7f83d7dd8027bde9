"""The U-Net of diffusion models (Ho et al. 2020, Dhariwal and Nichol 2021), small enough for a CPU."""

from __future__ import annotations

from collections.abc import Sequence

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .networks import TimeEmbedding

__all__ = ["UNet"]

F = nn.functional


class UNet(nn.Module):
    """Down through coarser maps and up again, each map joined with the one of its size: (B, C, H, W), t (B,) → (B, out, H, W)

    width: channels of the finest maps; multiples: of those of each size, every size half of the one before
    blocks: residual blocks at each size, one more on the way up; attention: the sizes (0 the finest) that have it
    patch: pixels of a square that enter as channels, and leave as such; 2 makes all maps four times cheaper
    out_channels: C by default, 2 C for learned variances; time_scale: t is multiplied by it, 1000 suits times from 0 to 1
    Sides that do not halve evenly are padded, and cut back at the end. The last layer and the last of every block start at 0.

    >>> UNet(1, 8, (1, 2))(weft.zeros(3, 1, 7, 7), weft.zeros(3)).shape
    weft.Size([3, 1, 7, 7])
    """

    broadcasts_time = True  # one t, (1,), may stand for all rows

    def __init__(
        self,
        channels: int,
        width: int = 32,
        multiples: Sequence[int] = (1, 2, 2),
        *,
        blocks: int = 1,
        attention: Sequence[int] = (2,),
        heads: int = 2,
        patch: int = 1,
        out_channels: int | None = None,
        classes: int = 0,
        dropout: float = 0.0,
        time_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if width % 4 or blocks < 1 or not multiples:
            raise OptionError(f"UNet: expected a width in fours, a block and a size or more, got {width}, {blocks}")
        self.patch, self.factor = patch, patch * 2 ** (len(multiples) - 1)
        self.time = TimeEmbedding(4 * width, classes, time_scale)
        self.first = nn.Conv2d(channels * patch**2, width, 3, padding=1)
        make = lambda i, o, size: _Level(i, o, 4 * width, dropout, heads if size in attention else 0)
        down, self.shrink, kept, now = [], nn.ModuleList(), [width], width
        for size, multiple in enumerate(multiples):
            for _ in range(blocks):
                down.append(make(now, width * multiple, size))
                now = width * multiple
                kept.append(now)
            if size < len(multiples) - 1:
                self.shrink.append(nn.Conv2d(now, now, 3, stride=2, padding=1))
                kept.append(now)
        self.middle = nn.ModuleList([make(now, now, len(multiples) - 1), _Level(now, now, 4 * width, dropout, 0)])
        up, self.grow = [], nn.ModuleList()
        for size, multiple in reversed(list(enumerate(multiples))):
            for _ in range(blocks + 1):
                up.append(make(now + kept.pop(), width * multiple, size))
                now = width * multiple
            if size:
                self.grow.append(nn.Conv2d(now, now, 3, padding=1))
        self.down, self.up, self.blocks = nn.ModuleList(down), nn.ModuleList(up), blocks
        self.norm = nn.GroupNorm(_groups(now), now)
        self.last = nn.Conv2d(now, (out_channels or channels) * patch**2, 3, padding=1)
        _zero(self.last)

    def forward(self, x: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        height, width = x.shape[-2:]
        spare = [-side % self.factor for side in (height, width)]
        x = F.pad(x, (0, spare[1], 0, spare[0])) if any(spare) else x
        time = F.silu(self.time(t, condition))
        h = self.first(F.pixel_unshuffle(x, self.patch) if self.patch > 1 else x)
        kept, sizes = [h], len(self.shrink) + 1
        for size in range(sizes):
            for level in self.down[size * self.blocks : (size + 1) * self.blocks]:
                h = level(h, time)
                kept.append(h)
            if size < sizes - 1:
                h = self.shrink[size](h)
                kept.append(h)
        for level in self.middle:
            h = level(h, time)
        for size in range(sizes):
            for level in self.up[size * (self.blocks + 1) : (size + 1) * (self.blocks + 1)]:
                h = level(weft.cat([h, kept.pop()], 1), time)
            if size < sizes - 1:
                h = self.grow[size](F.interpolate(h, scale_factor=2.0, mode="nearest"))
        y = self.last(F.silu(self.norm(h)))
        return (F.pixel_shuffle(y, self.patch) if self.patch > 1 else y)[..., :height, :width]


class _Level(nn.Module):
    """A residual block, with attention after it where there are heads: (B, in, H, W), (B, T) → (B, out, H, W)"""

    def __init__(self, inputs: int, outputs: int, time: int, dropout: float, heads: int) -> None:
        super().__init__()
        self.first_norm, self.second_norm = (
            nn.GroupNorm(_groups(inputs), inputs),
            nn.GroupNorm(_groups(outputs), outputs),
        )
        self.first, self.second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time, self.dropout = nn.Linear(time, 2 * outputs), nn.Dropout(dropout)
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)
        self.attention = _Attention(outputs, heads) if heads else None
        _zero(self.second)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        h = self.first(F.silu(self.first_norm(x)))
        scale, shift = self.time(time)[:, :, None, None].chunk(2, 1)  # (B, out, 1, 1) each
        h = self.second_norm(h) * (1 + scale) + shift
        h = self.skip(x) + self.second(self.dropout(F.silu(h)))
        return h if self.attention is None else self.attention(h)


class _Attention(nn.Module):
    """Every pixel looks at every other: (B, C, H, W) → (B, C, H, W)"""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(_groups(channels), channels)
        self.into, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        _zero(self.out)

    def forward(self, x: Tensor) -> Tensor:
        h = self.into(self.norm(x).flatten(2).mT)  # (B, HW, 3C)
        q, k, v = h.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # (B, heads, HW, C / heads) each
        h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)  # (B, HW, C)
        return x + self.out(h).mT.reshape(x.shape)


def _groups(channels: int) -> int:
    """Groups of a normalisation: as many of 8, 4, 2, 1 as divide the channels and leave two in each."""
    return next(count for count in (8, 4, 2, 1) if channels % count == 0 and channels >= 2 * count)


def _zero(layer: nn.Module) -> None:
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
