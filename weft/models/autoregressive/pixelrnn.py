"""PixelRNN: LSTMs over images, row by row or diagonal by diagonal (van den Oord, Kalchbrenner, Kavukcuoglu 2016).

A row LSTM sees a triangle above a pixel. A diagonal one, in both directions, sees every pixel that comes before: the image
is skewed, row r moved r places to the right, so that a column holds a diagonal, and columns are its time steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .causal_conv import CausalConv2d
from .heads import Head
from .images import Images

__all__ = ["DiagonalBiLSTM", "PixelRNN", "RowLSTM", "skew", "unskew"]

F = nn.functional
State = tuple[Tensor, Tensor]


class RowLSTM(nn.Module):
    """c, h of a row from the row before: gates = K_i ∗ x (masked, along the row) + K_s ∗ h_{above} (three wide).

    Shape: (B, in, H, W) → (B, features, H, W)
    """

    def __init__(self, inputs: int, features: int, colours: int = 1, *, dtype: Any = None) -> None:
        super().__init__()
        self.features = features
        self.from_input = CausalConv2d(inputs, 4 * features, (1, 3), colours=colours, dtype=dtype)
        self.from_state = nn.Conv1d(features, 4 * features, 3, padding=1, bias=False, dtype=dtype)

    def forward(self, h: Tensor, x: Tensor | None = None) -> Tensor:
        gates = self.from_input(h).permute(2, 0, 1, 3)  # (B, 4F, H, W) → (H, B, 4F, W)
        return _recurrent(gates, self.from_state, self.features).permute(1, 2, 0, 3)  # (H, B, F, W) → (B, F, H, W)


class DiagonalLSTM(nn.Module):
    """c, h at (r, c) from (r, c − 1) and (r − 1, c): on the skewed image two neighbours in the column before.

    Shape: (B, in, H, W) → (B, features, H, W)
    """

    def __init__(self, inputs: int, features: int, colours: int = 1, *, dtype: Any = None) -> None:
        super().__init__()
        self.features = features
        self.from_input = CausalConv2d(inputs, 4 * features, 1, colours=colours, dtype=dtype)
        self.from_state = nn.CausalConv1d(features, 4 * features, 2, bias=False, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        gates = skew(self.from_input(x)).permute(3, 0, 1, 2)  # (B, 4F, H, W + H − 1) → (W + H − 1, B, 4F, H)
        return unskew(_recurrent(gates, self.from_state, self.features).permute(1, 2, 3, 0))


class DiagonalBiLSTM(nn.Module):
    """A diagonal LSTM from the left, and one from the right whose result is moved down by a row, so that it brings
    nothing of what comes later in this row. Therefore the latter may see the pixels x themselves as well: without them
    the last pixel of a row, which no feature to its right holds, would be unknown to the next row.

    Shape: h (B, in, H, W), x (B, colours, H, W) → (B, features, H, W)
    """

    def __init__(self, inputs: int, features: int, colours: int = 1, *, dtype: Any = None) -> None:
        super().__init__()
        self.left = DiagonalLSTM(inputs, features, colours, dtype=dtype)
        self.right = DiagonalLSTM(inputs + colours, features, dtype=dtype)  # rows above: no colour is hidden

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        right = self.right(weft.cat([h, x], 1).flip(3)).flip(3)
        return self.left(h) + F.pad(right[:, :, :-1], (0, 0, 1, 0))


LAYERS = {"row": RowLSTM, "diagonal": DiagonalBiLSTM}


class PixelRNN(Images):
    """7×7 under mask A, `layers` LSTM layers with residual connections, two 1×1 layers.

    kind: "row" or "diagonal"; features: h of an LSTM, a multiple of C; the residual stream has 2h maps
    Shape: x (B, C, H, W)
    """

    def __init__(
        self,
        shape: Sequence[int] = (1, 28, 28),
        features: int = 16,
        layers: int = 2,
        head: str | Head = "bernoulli",
        *,
        kind: str = "diagonal",
        first: int = 7,
        classes: int = 0,
        dtype: Any = None,
    ) -> None:
        super().__init__(shape, head, classes)
        colours = self.event_shape[0]
        if kind not in LAYERS:
            raise OptionError(f"PixelRNN: kind must be one of {', '.join(LAYERS)}, got {kind!r}")
        if features % colours:
            raise OptionError(f"PixelRNN: features must be a multiple of {colours}, got {features}")
        masked = {"colours": colours, "dtype": dtype}
        self.input = CausalConv2d(colours, 2 * features, first, mask_center=True, **masked)
        self.layers = nn.ModuleList([LAYERS[kind](2 * features, features, colours, dtype=dtype) for _ in range(layers)])
        self.grow = nn.ModuleList([CausalConv2d(features, 2 * features, 1, **masked) for _ in range(layers)])
        self.mixed = CausalConv2d(2 * features, 2 * features, 1, **masked)
        self.output = CausalConv2d(2 * features, colours * self.head.parameters, 1, **masked)
        self.class_bias = self._class_bias(2 * features)

    def conditionals(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        h = self.input(x)
        if self.class_bias is not None:
            h = h + self.class_bias(condition)[:, :, None, None]
        for layer, grow in zip(self.layers, self.grow, strict=True):
            h = h + grow(layer(h, x))
        return self._parameters_of(self.output(F.relu(self.mixed(F.relu(h)))))


def skew(x: Tensor) -> Tensor:
    """Row r moved r places to the right, zeros around: (B, C, H, W) → (B, C, H, W + H − 1)

    >>> skew(weft.ones(1, 1, 2, 2)).tolist()
    [[[[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]]]
    """
    height, width = x.shape[2:]
    flat = F.pad(x, (0, height)).flatten(2)  # rows of W + H, read as rows of W + H − 1, each starts one place later
    return flat[..., : height * (width + height - 1)].unflatten(2, (height, -1))


def unskew(x: Tensor) -> Tensor:
    """Back again: (B, C, H, W + H − 1) → (B, C, H, W)"""
    height, wide = x.shape[2:]
    flat = F.pad(x.flatten(2), (0, height))
    return flat.unflatten(2, (height, wide + 1))[..., : wide - height + 1]


def _recurrent(gates: Tensor, from_state: nn.Module, features: int) -> Tensor:
    """An LSTM whose gates are gates_t + from_state(h_{t−1}), a convolution over L places: (T, B, 4F, L) → (T, B, F, L)"""

    def step(state: State, gates: Tensor) -> tuple[State, Tensor]:
        h, c = state
        opened, forgotten, written, value = (gates + from_state(h)).chunk(4, 1)
        c = forgotten.sigmoid() * c + written.sigmoid() * value.tanh()
        h = opened.sigmoid() * c.tanh()
        return (h, c), h

    empty = weft.zeros(gates.shape[1], features, gates.shape[3], dtype=gates.dtype)
    return weft.scan(step, (empty, empty), gates)[1]
