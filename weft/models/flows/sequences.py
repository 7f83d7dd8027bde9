"""Flows of sequences: a walk whose steps are normal numbers, moved by a map that depends on all that came before (N1 example 10.1).

Frames of a video, samples of a sound: x_t = x_{t−1} + f(z_t; h_t), h_t what a recurrent network made of x_<t.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...tensor import Tensor
from .base import Flow
from .bijector import Bijector, Chain, Pair
from .linear import Permutation
from .maf import MAF

__all__ = ["SequenceBijector", "SequenceFlow"]


class SequenceBijector(Bijector):
    """x_t = [x_{t−1} +] f(z_t; h_t), h_t = GRU(x_<t): block-triangular over time, so volumes of all frames add.

    frame: a bijector of one frame (B, D) with context of `hidden` (+ `context`) numbers
    walk: frames are differences from the frame before
    The density takes all frames at once; drawing goes along time. Shape: (B, T, D) → (B, T, D), (B,)
    """

    def __init__(
        self, frame: Bijector, features: int, hidden: int, *, walk: bool = True, context: int = 0, dtype: Any = None
    ) -> None:
        super().__init__()
        self.frame, self.features, self.hidden, self.walk, self.context = frame, features, hidden, walk, context
        self.memory = nn.GRU(features, hidden, batch_first=True, dtype=dtype)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        rows, length = len(y), y.shape[1]
        before = weft.cat([y.new_zeros(rows, 1, self.features), y[:, :-1]], 1)
        states = self.memory(before)[0]  # (B, T, H)
        moved = y - before if self.walk else y
        given = self._given(states.flatten(0, 1), context, length)
        z, volume = self.frame.inverse(moved.flatten(0, 1), given)
        return z.reshape(rows, length, self.features), volume.reshape(rows, length).sum(1)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        rows = len(x)

        def step(carry: tuple[Tensor, Tensor, Tensor], z: Tensor) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
            before, state, total = carry
            seen, state = self.memory(before.unsqueeze(1), state)
            y, volume = self.frame(z, self._given(seen.squeeze(1), context, 1))
            y = y + before if self.walk else y
            return (y, state, total + volume), y

        start = (x.new_zeros(rows, self.features), x.new_zeros(1, rows, self.hidden), x.new_zeros(rows))
        (_, _, total), ys = weft.scan(step, start, x.movedim(1, 0))
        return ys.movedim(0, 1), total

    def _given(self, states: Tensor, context: Tensor | None, length: int) -> Tensor:
        """States, with the sequence's context beside each: (B · T, H + C)"""
        if not self.context:
            return states
        return weft.cat([states, context.repeat_interleave(length, 0)], 1)


class SequenceFlow(Flow):
    """p(x₁, …, x_T) = Π p(x_t | x_<t), each factor a small autoregressive flow of the elements of a frame.

    >>> SequenceFlow(5, 2, hidden=8, net=(8,)).sample(3).shape
    weft.Size([3, 5, 2])
    """

    def __init__(
        self,
        length: int,
        features: int,
        hidden: int = 64,
        net: Sequence[int] = (64,),
        transforms: int = 2,
        *,
        walk: bool = True,
        context: int = 0,
        dtype: Any = None,
    ) -> None:
        maps: list[Bijector] = []
        for number in range(transforms):
            maps += [Permutation(features)] if number else []
            maps += [MAF(features, net, context=hidden + context, dtype=dtype)]
        frame = SequenceBijector(Chain(*maps), features, hidden, walk=walk, context=context, dtype=dtype)
        super().__init__(frame, (length, features), context=context, dtype=dtype)
