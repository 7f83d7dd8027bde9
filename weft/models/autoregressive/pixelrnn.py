"""PixelRNN: LSTMs over images, row by row or diagonal by diagonal (van den Oord, Kalchbrenner, Kavukcuoglu 2016).

A row LSTM sees a triangle above a pixel. A diagonal one, in both directions, sees every pixel that comes before: the image
is skewed, row r moved r places to the right, so that a column holds a diagonal, and columns are its time steps.

Drawing, each layer keeps what it must of the row above (`columns`) and of the pixel before (`pixel`), so that a pixel costs
one cell of every LSTM.
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
State = tuple[Tensor, Tensor]  # h and c
Parts = tuple[Tensor, ...]


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

    # ------------------------------------------------------------------------------------- piece by piece
    def empty(self, count: int, width: int, dtype: Any) -> tuple[Parts, Parts]:
        """What is kept of a row above the first one, h and c (n, F, W), and of a pixel left of the first one"""
        zeros = weft.zeros(count, self.features, width, dtype=dtype)
        left = weft.zeros(count, self.from_input.in_channels, 1, self.from_input.padding[1], dtype=dtype)
        return (zeros, zeros), (left,)

    def columns(self, kept: Parts, x: Tensor) -> tuple[Parts, Parts]:
        """What the row above, kept of it and its pixels x (n, C, W), gives to each column, (n, ·, W), and what is kept on"""
        h, c = kept
        return (self.from_state(h) + self.from_input.above(h.unsqueeze(2)).squeeze(2), c), ()

    def pixel(self, h: Tensor, column: Parts, left: Parts) -> tuple[Tensor, Parts, Parts]:
        """One pixel: (n, in, 1, 1) → (n, F), what the next one is given, and what is kept of this row (n, ·) each"""
        gates = column[0] + self.from_input.beside(left[0], h).flatten(1)
        state = _cell(gates, column[1])
        return state[0], (weft.cat([left[0], h], -1)[..., 1:],), state


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

    def cell(self, gates: Tensor, beside: State, above: Tensor) -> State:
        """One pixel from h and c of the one before and h of the one above: (n, 4F), (n, F) each → (n, F) twice"""
        from_above, from_beside = self.from_state.weight.unbind(2)  # (4F, F) each
        return _cell(gates + F.linear(above, from_above) + F.linear(beside[0], from_beside), beside[1])


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

    # ------------------------------------------------------------------------------------- piece by piece
    def empty(self, count: int, width: int, dtype: Any) -> tuple[Parts, Parts]:
        """h of the left LSTM, its inputs, 1 where there is a row; h of the right one, which is a row behind"""
        features, inputs = self.left.features, self.left.from_input.in_channels
        row = tuple(weft.zeros(count, size, width, dtype=dtype) for size in (features, inputs, 1, features))
        zeros = weft.zeros(count, features, dtype=dtype)
        return row, (zeros, zeros)

    def columns(self, kept: Parts, x: Tensor) -> tuple[Parts, Parts]:
        """The row above is whole now: the right LSTM goes through it."""
        left, inputs, there, above = kept
        gates = self.right.from_input(weft.cat([inputs, x], 1).unsqueeze(2)).squeeze(2)  # (n, 4F, W)

        def step(state: State, given: State) -> tuple[State, Tensor]:
            state = self.right.cell(given[0], state, given[1])
            return state, state[0]

        zeros = weft.zeros_like(left[..., 0])
        backward = tuple(part.flip(2).permute(2, 0, 1) for part in (gates, above))  # (W, n, ·)
        right = weft.scan(step, (zeros, zeros), backward)[1].permute(1, 2, 0).flip(2) * there
        return (left, right), (right,)

    def pixel(self, h: Tensor, column: Parts, left: Parts) -> tuple[Tensor, Parts, Parts]:
        """As in `RowLSTM`"""
        state = self.left.cell(self.left.from_input(h).flatten(1), (left[0], left[1]), column[0])
        return state[0] + column[1], state, (state[0], h.flatten(1), weft.ones_like(h[:, :1, 0, 0]))


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
        return self._ended(h)

    def _ended(self, h: Tensor) -> Tensor:
        return self._parameters_of(self.output(F.relu(self.mixed(F.relu(h)))))

    # ------------------------------------------------------------------------------------- drawing
    def drawn(self, noise: Tensor, condition: Tensor | None = None) -> Tensor:
        count, (colours, _, width) = len(noise), self.event_shape
        starts = [layer.empty(count, width, noise.dtype) for layer in self.layers]
        before = (
            weft.zeros(count, colours, 1, self.input.padding[1], dtype=noise.dtype),
            tuple(left for _, left in starts),
        )

        def row(carry: tuple[Tensor, tuple[Parts, ...]], noise: Tensor) -> tuple[Any, Tensor]:
            rows, kept = carry
            above = self.input.above(rows)
            if self.class_bias is not None:
                above = above + self.class_bias(condition)[:, :, None, None]
            made = [layer.columns(k, rows[:, :, -1]) for layer, k in zip(self.layers, kept, strict=True)]
            columns = tuple(tuple(part.permute(2, 0, 1) for part in own) for own, _ in made)  # (W, n, ·)
            given = (noise, above.permute(3, 0, 1, 2).unsqueeze(-1), columns)
            x, parts = weft.scan(self._pixel, before, given)[1]
            x = x.permute(1, 2, 3, 0, 4).squeeze(-1)  # (W, n, C, 1, 1) → (n, C, 1, W)
            row_parts = (tuple(part.permute(1, 2, 0) for part in own) for own in parts)  # (n, ·, W)
            kept = tuple((*own, *on) for own, (_, on) in zip(row_parts, made, strict=True))
            return (weft.cat([rows, x], 2)[:, :, 1:], kept), x

        rows = weft.zeros(count, colours, max(self.input.padding[0], 1), width, dtype=noise.dtype)
        start = (rows, tuple(kept for kept, _ in starts))
        drawn = weft.scan(row, start, noise.permute(2, 3, 0, 1, 4))[1]  # (H, n, C, 1, W)
        return drawn.permute(1, 2, 3, 0, 4).squeeze(2)

    def _pixel(self, before: Any, given: Any) -> tuple[Any, Any]:
        """One pixel, colour after colour. before: pixels to the left, and what each layer has of them"""
        (seen, lefts), (noise, above, columns) = before, given
        colours = self.event_shape[0]
        x = weft.zeros(len(noise), colours, 1, 1, dtype=noise.dtype)
        for colour in range(colours):
            h, after, parts = above + self.input.beside(seen, x), [], []
            for layer, grow, column, left in zip(self.layers, self.grow, columns, lefts, strict=True):
                found, left, part = layer.pixel(h, column, left)
                h = h + grow(found[:, :, None, None])
                after.append(left)
                parts.append(part)
            drawn = self.head.draw(self._ended(h), noise[:, :, None, None])  # (n, C, 1, 1)
            x = weft.where((weft.arange(colours) == colour).reshape(-1, 1, 1), drawn, x)
        seen = weft.cat([seen, x], -1)[..., 1:]
        return (seen, tuple(after)), (x, tuple(parts))


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
        state = _cell(gates + from_state(h), c)
        return state, state[0]

    empty = weft.zeros(gates.shape[1], features, gates.shape[3], dtype=gates.dtype)
    return weft.scan(step, (empty, empty), gates)[1]


def _cell(gates: Tensor, c: Tensor) -> State:
    """h and c of one step: (B, 4F, …), (B, F, …) → (B, F, …) twice"""
    opened, forgotten, written, value = gates.chunk(4, 1)
    c = forgotten.sigmoid() * c + written.sigmoid() * value.tanh()
    return opened.sigmoid() * c.tanh(), c
