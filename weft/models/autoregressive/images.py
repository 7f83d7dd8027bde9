"""Models of images by causal convolutions: how they are evaluated whole, and drawn row by row with what was kept."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .base import Autoregressive
from .causal_conv import CausalConv2d, VerticalConv2d
from .heads import Head

__all__ = ["ConvolutionalImages", "Images"]

F = nn.functional
See = Callable[[nn.Module, Tensor], Tensor]
Parts = tuple[Tensor, ...]


class Images(Autoregressive):
    """Images (B, C, H, W): pixel after pixel from the top left, within a pixel colour after colour."""

    def __init__(self, shape: Sequence[int], head: str | Head, classes: int = 0) -> None:
        if len(shape) != 3:
            raise OptionError(f"{type(self).__name__}: expected the shape of an image, (C, H, W), got {tuple(shape)}")
        super().__init__(tuple(shape), head, classes)

    @property
    def order(self) -> list[int]:
        return weft.arange(self.elements).reshape(self.event_shape).permute(1, 2, 0).flatten().tolist()

    def _parameters_of(self, found: Tensor) -> Tensor:
        """Output maps as parameters; map k · C + c is parameter k of colour c: (B, K · C, H, W) → (B, C, H, W, K)"""
        colours = self.event_shape[0]
        return found.unflatten(1, (self.head.parameters, colours)).permute(0, 2, 3, 4, 1)


class ConvolutionalImages(Images):
    """A network of causal convolutions, written once: `see(layer, x)` applies a layer that looks beyond a pixel.

    Evaluated whole, `see` is the layer itself. Drawing, each vertical layer keeps the last rows of its inputs and is asked
    for one row at a time; each other layer keeps rows above, which are dealt with at the start of a row, and a few pixels
    to the left. So a pixel costs one step of every layer, and the whole is two nested loops, one native plan.
    """

    @abstractmethod
    def _rows(self, x: Tensor, condition: Tensor | None, see: See) -> Parts:
        """What follows from rows above alone; x is shifted down by a row: (B, C, h, W) → (B, F, h, W) each"""

    @abstractmethod
    def _pixels(self, x: Tensor, context: Parts, condition: Tensor | None, see: See) -> Tensor:
        """Output maps; the first layer seen must be the one that sees x: (B, C, h, w) → (B, K · C, h, w)"""

    def conditionals(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        whole: See = lambda layer, x: layer(x)
        context = self._rows(F.pad(x[:, :, :-1], (0, 0, 1, 0)), condition, whole)
        return self._parameters_of(self._pixels(x, context, condition, whole))

    # ------------------------------------------------------------------------------------- drawing
    def drawn(self, noise: Tensor, condition: Tensor | None = None) -> Tensor:
        count, (colours, _, width) = len(noise), self.event_shape
        empty = lambda channels, rows: weft.zeros(count, channels, rows, width, dtype=noise.dtype)
        vertical = [m for m in self.modules() if isinstance(m, VerticalConv2d)]
        beside = self._beside_layers()

        def row(carry: tuple[Parts, Parts, Tensor], noise: Tensor) -> tuple[tuple[Parts, Parts, Tensor], Tensor]:
            rows_seen, rows_kept, last = carry
            after, see = _row_by_row(vertical, rows_seen)
            context = self._rows(last, condition, see)
            above = tuple(layer.above(kept) for layer, kept in zip(beside, rows_kept, strict=True))
            x, inputs = self._row(noise, context, above, beside, condition)
            rows_kept = tuple(weft.cat([k, i], 2)[:, :, 1:] for k, i in zip(rows_kept, inputs, strict=True))
            return (tuple(after), rows_kept, x), x

        start = (
            tuple(empty(layer.in_channels, layer.reach) for layer in vertical),
            tuple(empty(layer.in_channels, max(layer.padding[0], 1)) for layer in beside),
            empty(colours, 1),
        )
        drawn = weft.scan(row, start, noise.permute(2, 3, 0, 1, 4))[1]  # (H, n, C, 1, W)
        return drawn.permute(1, 2, 3, 0, 4).squeeze(2)

    def _row(
        self, noise: Tensor, context: Parts, above: Parts, beside: list[CausalConv2d], condition: Tensor | None
    ) -> tuple[Tensor, Parts]:
        """One row, and what each layer has seen in it: noise (W, n, C, N) → (n, C, 1, W), (n, in, 1, W) each"""

        def pixel(kept: Parts, given: tuple[Tensor, Parts, Parts]) -> tuple[Parts, tuple[Tensor, Parts]]:
            noise, context, above = given
            x, inputs = self._pixel(noise, context, above, kept, beside, condition)
            kept = tuple(weft.cat([k, i], -1)[..., 1:] for k, i in zip(kept, inputs, strict=True))
            return kept, (x, inputs)

        left = tuple(
            weft.zeros(noise.shape[1], layer.in_channels, 1, layer.padding[1], dtype=noise.dtype) for layer in beside
        )
        columns = lambda parts: tuple(part.permute(3, 0, 1, 2).unsqueeze(-1) for part in parts)  # (W, n, F, 1, 1)
        x, inputs = weft.scan(pixel, left, (noise, columns(context), columns(above)))[1]
        joined = lambda part: part.squeeze(-1).permute(1, 2, 3, 0)  # (W, n, F, 1, 1) → (n, F, 1, W)
        return joined(x), tuple(map(joined, inputs))

    def _pixel(
        self, noise: Tensor, context: Parts, above: Parts, kept: Parts, beside: list[CausalConv2d], condition: Any
    ) -> tuple[Tensor, Parts]:
        """One pixel, colour after colour: noise (n, C, N) → (n, C, 1, 1), and what each layer has seen there"""
        colours = self.event_shape[0]
        x = weft.zeros(len(noise), colours, 1, 1, dtype=noise.dtype)
        inputs: list[Tensor] = []
        for colour in range(colours):
            inputs, see = _pixel_by_pixel(beside, above, kept)
            found = self._parameters_of(self._pixels(x, context, condition, see))  # (n, C, 1, 1, K)
            drawn = self.head.draw(found, noise[:, :, None, None])
            x = weft.where((weft.arange(colours) == colour).reshape(-1, 1, 1), drawn, x)
        return x, (x, *inputs[1:])  # the first layer sees x; no feature here depends on its last colour

    def _beside_layers(self) -> list[CausalConv2d]:
        """The layers that look to the left, in the order in which they are seen."""
        return [m for m in self.modules() if isinstance(m, CausalConv2d) and m.kernel_size != (1, 1)]


def _row_by_row(layers: list[VerticalConv2d], kept: Parts) -> tuple[list[Tensor], See]:
    """A `see` that asks layers, in their order, for one row; the list will hold what they keep."""
    after: list[Tensor] = []

    def see(layer: nn.Module, x: Tensor) -> Tensor:
        assert layer is layers[len(after)], "vertical layers must be seen in the order they are registered"
        y, rows = layer.row(kept[len(after)], x)
        after.append(rows)
        return y

    return after, see


def _pixel_by_pixel(layers: list[CausalConv2d], above: Parts, kept: Parts) -> tuple[list[Tensor], See]:
    """The same for one pixel; the list will hold the inputs of the layers."""
    inputs: list[Tensor] = []

    def see(layer: nn.Module, x: Tensor) -> Tensor:
        number = len(inputs)
        assert layer is layers[number], "layers must be seen in the order they are registered"
        inputs.append(x)
        return above[number] + layer.beside(kept[number], x)

    return inputs, see
