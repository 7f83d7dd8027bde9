"""Convolutions over images in which a pixel sees what comes before it alone: rows above, and its own row to the left.

Each can also be asked for one row or one pixel at a time, given what was kept of its inputs: that is how images are drawn
without a pass over the whole image for every pixel.
"""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor

__all__ = ["CausalConv2d", "VerticalConv2d"]

F = nn.functional


class CausalConv2d(nn.Conv2d):
    """A convolution whose kernel is 0 below its centre and, in the centre's row, to the right (van den Oord et al. 2016).

    mask_center: also without the centre, mask A, for the first layer, which sees the pixels themselves; otherwise mask B.
    colours: channels of the image. Feature c belongs to colour c mod colours; at the centre a feature sees those of
        earlier colours, and under mask B those of its own. Kernels of 1×1 need this mask as well.
    A kernel of height 1 looks along the row alone. Only the part of the kernel that is not masked is computed.
    Shape: (B, in_channels, H, W) → (B, out_channels, H, W)

    >>> CausalConv2d(1, 8, 7, mask_center=True)(weft.zeros(1, 1, 28, 28)).shape
    weft.Size([1, 8, 28, 28])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        mask_center: bool = False,
        *,
        colours: int = 1,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        height, width = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
        if not (height % 2 and width % 2):
            raise OptionError(f"CausalConv2d: expected odd kernel sizes, which have a centre, got {kernel_size}")
        padding = (height // 2, width // 2)
        super().__init__(in_channels, out_channels, (height, width), padding=padding, bias=bias, dtype=dtype)
        self.mask_center, self.colours = mask_center, colours
        self.register_buffer("mask", self._mask().to(self.weight.dtype), persistent=False)

    def _mask(self) -> Tensor:
        """Ones where the kernel may see: (out, in, kh, kw)"""
        above, left = self.padding
        mask = weft.zeros(self.weight.shape)
        mask[:, :, :above] = 1
        mask[:, :, above, :left] = 1
        own, seen = (weft.arange(count) % self.colours for count in (self.out_channels, self.in_channels))
        mask[:, :, above, left] = (
            seen < own.unsqueeze(1) if self.mask_center else seen <= own.unsqueeze(1)
        ).float()  # (out, in)
        return mask

    def forward(self, input: Tensor) -> Tensor:
        above, left = self.padding
        weight = (self.weight * self.mask)[:, :, : above + 1]
        if not above:
            return F.conv2d(F.pad(input, (left, 0)), weight[..., : left + 1], self.bias)
        return F.conv2d(F.pad(input, (left, left, above, 0)), weight, self.bias)

    # ------------------------------------------------------------------------------------- piece by piece
    def above(self, kept: Tensor) -> Tensor:
        """What the rows above add to one row, bias included: (B, in, kh//2, W) → (B, out, 1, W)"""
        above, left = self.padding
        if not above:
            empty = weft.zeros(len(kept), self.out_channels, 1, kept.shape[-1], dtype=kept.dtype)
            return empty if self.bias is None else empty + self.bias.reshape(-1, 1, 1)
        return F.conv2d(F.pad(kept, (left, left)), self.weight[:, :, :above], self.bias)

    def beside(self, kept: Tensor, here: Tensor) -> Tensor:
        """What the pixels to the left and the pixel itself add: (B, in, 1, kw//2), (B, in, 1, 1) → (B, out, 1, 1)"""
        above, left = self.padding
        weight = (self.weight * self.mask)[:, :, above, : left + 1]  # (out, in, kw//2 + 1)
        return F.linear(weft.cat([kept, here], -1).flatten(1), weight.flatten(1)).reshape(len(here), -1, 1, 1)


class VerticalConv2d(nn.Conv2d):
    """A convolution over rows up to and including this one, all columns: (B, in, H, W) → (B, out, H, W).

    kernel_size: width k, odd; the height is k // 2 + 1. Its first input must be shifted down by a row.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int = 3, *, dtype: Any = None) -> None:
        if not kernel_size % 2:
            raise OptionError(f"VerticalConv2d: expected an odd kernel size, got {kernel_size}")
        super().__init__(in_channels, out_channels, (kernel_size // 2 + 1, kernel_size), dtype=dtype)
        self.reach = kernel_size // 2

    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(F.pad(input, (self.reach, self.reach, self.reach, 0)), self.weight, self.bias)

    def row(self, kept: Tensor, here: Tensor) -> tuple[Tensor, Tensor]:
        """One row, given the k//2 before it, and what to keep: (B, in, k//2, W), (B, in, 1, W) → (B, out, 1, W), kept"""
        seen = weft.cat([kept, here], 2)
        return F.conv2d(F.pad(seen, (self.reach, self.reach)), self.weight, self.bias), seen[:, :, 1:]
