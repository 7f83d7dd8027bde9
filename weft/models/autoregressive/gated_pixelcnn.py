"""Gated PixelCNN: a stack that sees all rows above, a stack that sees its own row, no blind spot (van den Oord et al. 2016b).

Information goes from the vertical stack to the horizontal one, never back: what the horizontal stack has seen of this row
must not come to pixels further left by way of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .causal_conv import CausalConv2d, VerticalConv2d
from .heads import Head
from .images import ConvolutionalImages, Parts, See

__all__ = ["GatedPixelCNN"]

F = nn.functional


class GatedLayer(nn.Module):
    """v' = gate(V v + c),  h' = h + 1×1 gate(H h + 1×1 (V v) + c), gate(a, b) = tanh(a) ⊙ σ(b).

    first: the layer that sees the image: its horizontal kernel leaves out the centre, and h is not added
    """

    def __init__(
        self, inputs: int, features: int, kernel_size: int, colours: int, classes: int, first: bool, dtype: Any
    ) -> None:
        super().__init__()
        masked = {"colours": colours, "dtype": dtype}
        self.vertical = VerticalConv2d(inputs, 2 * features, kernel_size, dtype=dtype)
        self.horizontal = CausalConv2d(inputs, 2 * features, (1, kernel_size), mask_center=first, **masked)
        self.link = nn.Conv2d(2 * features, 2 * features, 1, dtype=dtype)  # rows above: no colour is hidden
        self.mix = CausalConv2d(features, features, 1, **masked)
        self.class_bias = nn.Embedding(classes, 4 * features, dtype=dtype) if classes else None
        self.first = first

    def rows(self, v: Tensor, condition: Tensor | None, see: See) -> tuple[Tensor, Tensor]:
        """The vertical features, and what they give to the horizontal ones, biases of classes included."""
        found = see(self.vertical, v)
        given = self.link(found)
        if self.class_bias is not None:
            bias, beside = self.class_bias(condition)[:, :, None, None].chunk(2, 1)
            found, given = found + bias, given + beside
        return _gate(found), given

    def pixels(self, h: Tensor, given: Tensor, see: See) -> Tensor:
        found = self.mix(_gate(see(self.horizontal, h) + given))
        return found if self.first else h + found


class GatedPixelCNN(ConvolutionalImages):
    """`layers` gated layers and two 1×1 layers; every pixel sees all that come before it within reach.

    shape: (C, H, W); features: of either stack, a multiple of C; first: width of the first kernels
    classes: a class moves the gates of every layer, p(x | class)
    Shape: x (B, C, H, W)

    >>> GatedPixelCNN((1, 28, 28), 64, 8).promises
    {'log_prob': 'exact', 'energy': 'exact', 'sample': 'exact'}
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
        if features % colours or layers < 1:
            raise OptionError(
                f"GatedPixelCNN: features must be a multiple of {colours}, layers ≥ 1; got {features}, {layers}"
            )
        sizes = [(colours, first, True), *((features, kernel_size, False) for _ in range(layers - 1))]
        made = [GatedLayer(inputs, features, width, colours, classes, one, dtype) for inputs, width, one in sizes]
        self.layers = nn.ModuleList(made)
        self.mixed = CausalConv2d(features, features, 1, colours=colours, dtype=dtype)
        self.output = CausalConv2d(features, colours * self.head.parameters, 1, colours=colours, dtype=dtype)

    def _rows(self, x: Tensor, condition: Tensor | None, see: See) -> Parts:
        v, context = x, []
        for layer in self.layers:
            v, given = layer.rows(v, condition, see)
            context.append(given)
        return tuple(context)

    def _pixels(self, x: Tensor, context: Parts, condition: Tensor | None, see: See) -> Tensor:
        h = x
        for layer, given in zip(self.layers, context, strict=True):
            h = layer.pixels(h, given, see)
        return self.output(F.relu(self.mixed(F.relu(h))))


def _gate(x: Tensor) -> Tensor:
    """(B, 2F, …) → (B, F, …)"""
    signal, gate = x.chunk(2, 1)
    return weft.tanh(signal) * weft.sigmoid(gate)
