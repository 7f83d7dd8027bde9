"""PixelCNN: masked convolutions over an image (van den Oord, Kalchbrenner, Kavukcuoglu 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .causal_conv import CausalConv2d
from .heads import Head
from .images import ConvolutionalImages, Parts, See

__all__ = ["PixelCNN"]

F = nn.functional


class MaskedBlock(nn.Module):
    """x + 1×1(ReLU k×k(ReLU 1×1(ReLU x))), all under mask B; the middle has half as many features."""

    def __init__(self, features: int, kernel_size: int, colours: int, classes: int, dtype: Any) -> None:
        super().__init__()
        half = features // 2
        self.shrink = CausalConv2d(features, half, 1, colours=colours, dtype=dtype)
        self.spread = CausalConv2d(half, half, kernel_size, colours=colours, dtype=dtype)
        self.grow = CausalConv2d(half, features, 1, colours=colours, dtype=dtype)
        self.class_bias = nn.Embedding(classes, half, dtype=dtype) if classes else None

    def forward(self, x: Tensor, condition: Tensor | None, see: See) -> Tensor:
        h = see(self.spread, F.relu(self.shrink(F.relu(x))))
        if self.class_bias is not None:
            h = h + self.class_bias(condition)[:, :, None, None]
        return x + self.grow(F.relu(h))


class PixelCNN(ConvolutionalImages):
    """k×k under mask A, `layers` residual blocks under mask B, two 1×1 layers.

    Pixels above and to the right of a pixel's cone are never seen: the blind spot that `GatedPixelCNN` does not have.

    shape: (C, H, W); features: of the residual stream, a multiple of 2C; first: width of the first kernel
    Shape: x (B, C, H, W)
    """

    def __init__(
        self,
        shape: Sequence[int] = (1, 28, 28),
        features: int = 64,
        layers: int = 8,
        head: str | Head = "bernoulli",
        *,
        kernel_size: int = 3,
        first: int = 7,
        classes: int = 0,
        dtype: Any = None,
    ) -> None:
        super().__init__(shape, head, classes)
        colours = self.event_shape[0]
        if features % (2 * colours):
            raise OptionError(f"PixelCNN: features must be a multiple of {2 * colours}, got {features}")
        self.input = CausalConv2d(colours, features, first, mask_center=True, colours=colours, dtype=dtype)
        blocks = [MaskedBlock(features, kernel_size, colours, classes, dtype) for _ in range(layers)]
        self.blocks = nn.ModuleList(blocks)
        self.mixed = CausalConv2d(features, features, 1, colours=colours, dtype=dtype)
        self.output = CausalConv2d(features, colours * self.head.parameters, 1, colours=colours, dtype=dtype)

    def _rows(self, x: Tensor, condition: Tensor | None, see: See) -> Parts:
        return ()

    def _pixels(self, x: Tensor, context: Parts, condition: Tensor | None, see: See) -> Tensor:
        h = see(self.input, x)
        for block in self.blocks:
            h = block(h, condition, see)
        return self.output(F.relu(self.mixed(F.relu(h))))
