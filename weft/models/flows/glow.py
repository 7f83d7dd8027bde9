"""Glow: steps of actnorm, a learned mixing of channels and a coupling, at several scales (Kingma and Dhariwal 2018, N1 §10.3).

All scales together are one bijector between images and one vector of noise, so that the whole is one distribution; with an
image as context it is conditional Glow (Lu and Huang 2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..energy.dynamics import hamiltonian
from ..generative.plans import in_one_plan
from .base import Flow
from .bijector import Bijector, Chain, Pair
from .coupling import Coupling
from .linear import ActNorm, InvertibleLinear, LULinear
from .univariate import Affine

__all__ = ["ConvNet", "Glow", "MultiScale", "Squeeze", "inpaint"]

F = nn.functional
Shape3 = tuple[int, int, int]


class Glow(Flow):
    """Images (B, C, H, W) under L scales of K steps each; forward goes from noise to images.

    context: None, or (channels, height, width) of an image that every network sees at its scale: squares of pixels as channels
        where its sides are multiples of the scale's, so that nothing of it is lost, else resized
    lu: 1×1 mixing by triangular factors (`LULinear`), else a plain matrix; ends: maps between the last scale and the data,
        `Squash()` for levels of grey

    >>> glow = Glow((1, 8, 8), scales=2, steps=1, features=8)
    >>> glow.sample(2).shape, glow.encode(weft.rand(2, 1, 8, 8)).shape
    (weft.Size([2, 1, 8, 8]), weft.Size([2, 64]))
    """

    def __init__(
        self,
        shape: Shape3,
        scales: int = 3,
        steps: int = 8,
        features: int = 64,
        *,
        lu: bool = True,
        bound: float = 2.0,
        context: Shape3 | None = None,
        ends: tuple[Bijector, ...] = (),
        dtype: Any = None,
    ) -> None:
        whole = MultiScale(shape, scales, steps, features, lu, bound, context, dtype)
        super().__init__([whole.inv, *ends], math.prod(shape), shape, context, dtype)


class MultiScale(Bijector):
    """Images to noise: squeeze, K steps, half of the channels are done and leave, given the other half; L times.

    Shape: (B, C, H, W) → (B, C · H · W), (B,)
    """

    def __init__(
        self,
        shape: Shape3,
        scales: int,
        steps: int,
        features: int,
        lu: bool,
        bound: float,
        context: Shape3 | None,
        dtype: Any,
    ) -> None:
        super().__init__()
        channels, height, width = shape
        if scales < 1 or height % 2**scales or width % 2**scales:
            raise OptionError(f"Glow: {scales} scales halve the sides so often; {height} × {width} cannot be")
        self.steps, self.leaving, self.shapes = nn.ModuleList(), nn.ModuleList(), []
        for scale in range(scales):
            channels, height, width = 4 * channels, height // 2, width // 2
            seen = _seen(context, height, width)
            self.steps.append(Chain(*(_step(channels, features, lu, bound, seen, dtype) for _ in range(steps))))
            if scale < scales - 1:
                half = channels // 2
                net = ConvNet(half, half, Affine.parameters, features, seen, dtype)
                self.leaving.append(Coupling(net, Affine(bound)))
                self.shapes.append((half, height, width))
                channels = half
        self.shapes.append((channels, height, width))

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        total, done = weft.zeros(len(x), dtype=x.dtype), []
        for number, steps in enumerate(self.steps):
            x = Squeeze.apart(x)
            x, volume = steps(x, context)
            total = total + volume
            if number < len(self.leaving):
                x, volume = self.leaving[number](x, context)
                total = total + volume
                x, gone = x.chunk(2, dim=1)
                done.append(gone.flatten(1))
        return weft.cat([*done, x.flatten(1)], 1), total

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        parts = y.split([math.prod(shape) for shape in self.shapes], dim=1)
        *done, last = [part.reshape(len(y), *shape) for part, shape in zip(parts, self.shapes, strict=True)]
        x, total = last, weft.zeros(len(y), dtype=y.dtype)
        for number in reversed(range(len(self.steps))):
            if number < len(self.leaving):
                x, volume = self.leaving[number].inverse(weft.cat([x, done[number]], 1), context)
                total = total + volume
            x, volume = self.steps[number].inverse(x, context)
            total = total + volume
            x = Squeeze.together(x)
        return x, total


def _step(channels: int, features: int, lu: bool, bound: float, context: int, dtype: Any) -> Chain:
    """Actnorm, mixing of channels, coupling: from images to noise."""
    half = channels // 2
    net = ConvNet(half, channels - half, Affine.parameters, features, context, dtype)
    mixing = LULinear(channels, dtype) if lu else InvertibleLinear(channels, dtype)
    return Chain(ActNorm(channels, dtype), mixing, Coupling(net, Affine(bound)))


def _seen(context: Shape3 | None, height: int, width: int) -> int:
    """How many channels an image has beside maps of these sides."""
    if context is None:
        return 0
    whole = context[1] % height == 0 and context[1] // height == context[2] / width
    return context[0] * (context[1] // height) ** 2 if whole else context[0]


class Squeeze(Bijector):
    """Squares of 2 × 2 pixels become four channels: (B, C, H, W) → (B, 4C, H/2, W/2), volume kept."""

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        if x.shape[-1] % 2 or x.shape[-2] % 2:
            raise ShapeError(f"Squeeze: sides must be even, got {tuple(x.shape)}")
        return self.apart(x), weft.zeros(len(x), dtype=x.dtype)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        return self.together(y), weft.zeros(len(y), dtype=y.dtype)

    @staticmethod
    def apart(x: Tensor) -> Tensor:
        """(B, C, H, W) → (B, 4C, H/2, W/2)"""
        return F.pixel_unshuffle(x, 2)

    @staticmethod
    def together(x: Tensor) -> Tensor:
        """(B, 4C, H, W) → (B, C, 2H, 2W)"""
        return F.pixel_shuffle(x, 2)


class ConvNet(nn.Module):
    """θ(x, c): 3×3, 1×1 and 3×3 convolutions, the last starting at 0: (B, C, H, W) → (B, out, H, W, K)

    context: channels of c at the scale of x; more than c has where its squares of pixels become channels
    """

    def __init__(
        self, inputs: int, outputs: int, parameters: int, features: int, context: int = 0, dtype: Any = None
    ) -> None:
        super().__init__()
        self.outputs, self.each, self.context = outputs, parameters, context
        self.first = nn.Conv2d(inputs + context, features, 3, padding=1, dtype=dtype)
        self.second = nn.Conv2d(features, features, 1, dtype=dtype)
        self.last = nn.Conv2d(features, outputs * parameters, 3, padding=1, dtype=dtype)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        if self.context:
            x = weft.cat([x, self._at_scale(context, x)], 1)
        found = self.last(weft.relu(self.second(weft.relu(self.first(x)))))
        return found.unflatten(1, (self.outputs, self.each)).movedim(2, -1)

    def _at_scale(self, context: Tensor, x: Tensor) -> Tensor:
        """(B, C', H', W') → (B, context, H, W)"""
        if context.shape[1] == self.context:
            return F.interpolate(context, size=x.shape[-2:], mode="area")
        return F.pixel_unshuffle(context, context.shape[-2] // x.shape[-2])


def inpaint(
    flow: Flow,
    x: Tensor,
    visible: Tensor,
    steps: int = 100,
    step: float = 0.01,
    *,
    leaps: int = 10,
    transform: Callable[[Tensor], Tensor] | None = None,
    generator: Any = None,
) -> tuple[Tensor, Tensor]:
    """x with what is not visible drawn anew from p(hidden | visible), by Hamiltonian Monte Carlo with the exact density.

    visible: bool, like x or broadcast to it; transform: keeps hidden elements in the data's range (a clamp, say)
    Returns the images, and the share of proposals that each chain accepted. Chains start at x as it is, so give hidden
    elements any values in the range of the data; how long chains must be the data decide.
    """
    drawn, accepted = _chains(flow, x, visible, steps, step, leaps, generator)
    drawn = drawn if transform is None else transform(drawn)
    return weft.where(visible, x, drawn), accepted


@in_one_plan
def _chains(
    flow: Flow, x: Tensor, visible: Tensor, steps: int, step: float, leaps: int, generator: Any = None
) -> tuple[Tensor, Tensor]:
    """Where chains over the hidden elements end: like x, 0 where visible, and (B,). Each flow keeps its plans."""
    hidden = (~visible).to(x.dtype)
    kept = x * (1 - hidden)

    def energy(h: Tensor) -> Tensor:
        return -flow.log_prob(kept + h * hidden) + 0.5 * ((h * (1 - hidden)) ** 2).flatten(1).sum(1)

    return hamiltonian(energy, x * hidden, steps, step, generator, leaps=leaps)
