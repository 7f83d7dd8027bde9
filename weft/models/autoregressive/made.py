"""MADE: an autoencoder whose weights are masked so that output i sees inputs before i alone (Germain et al. 2015).

Every unit has a degree, the number of inputs it may have seen; a weight survives where degrees do not fall along the way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import exact
from .base import Autoregressive
from .heads import Head

__all__ = ["MADE", "MaskedLinear", "hidden_degrees", "input_ranks"]

F = nn.functional


class MaskedLinear(nn.Linear):
    """y = (W ⊙ M) x + b, with Mᵢⱼ = 1 where unit j may be seen by unit i: (B, in), (out, in) → (B, out)"""

    def forward(self, input: Tensor, allowed: Tensor) -> Tensor:
        return F.linear(input, weft.where(allowed, self.weight, 0), self.bias)


class MADE(Autoregressive):
    """p(x) = 1/M Σₘ Πᵢ p(xᵢ | x that come before i in order m), the same weights under M masks.

    hidden: sizes of the hidden layers, one or more; direct: also weights from inputs straight to later outputs
    masks: M, drawn from `seed`; training takes one after the other (`next_mask`)
    orders: "natural" (all masks in the order of x, hidden units connected differently), "random" (each its own), or one
        order as places

    `log_prob` means probabilities over all masks, log 1/M Σₘ pₘ(x), which is a density because each pₘ is one. Means of
    logits are none: under two orders they let every output see everything.
    Shape: x (B, D)

    >>> made = MADE(784, (500,))
    >>> made.log_prob(weft.zeros(2, 784)).shape
    weft.Size([2])
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (500,),
        head: str | Head = "bernoulli",
        *,
        masks: int = 1,
        orders: str | Sequence[int] = "natural",
        direct: bool = False,
        classes: int = 0,
        activation: Callable[[Tensor], Tensor] = F.relu,
        seed: int = 0,
        dtype: Any = None,
    ) -> None:
        super().__init__((features,), head, classes)
        if masks < 1 or not hidden:
            raise OptionError(f"MADE: expected at least 1 mask and 1 hidden layer, got {masks} and {len(hidden)}")
        self.masks, self.activation = masks, activation
        sizes, outputs = [features, *hidden], features * self.head.parameters
        pairs = itertools.pairwise(sizes)
        self.layers = nn.ModuleList([MaskedLinear(a, b, dtype=dtype) for a, b in pairs])
        self.output = MaskedLinear(sizes[-1], outputs, dtype=dtype)
        self.direct = MaskedLinear(features, outputs, bias=False, dtype=dtype) if direct else None
        self.class_bias = self._class_bias(hidden[0])
        generator = weft.Generator().manual_seed(seed)
        self._number(input_ranks(features, masks, orders, generator), generator)
        self.register_buffer("turn", weft.tensor(0), persistent=False)

    # ------------------------------------------------------------------------------------- masks
    def _number(self, ranks: Tensor, generator: Any) -> None:
        """Degrees of all units under all masks, as buffers (M, units): that of an input is its rank in the order, that
        of a hidden unit the last rank it may see, between the least of the layer below and D − 2."""
        self.register_buffer("ranks", ranks, persistent=False)
        seen, most = ranks, max(self.event_shape[0] - 2, 0)
        for number, layer in enumerate(self.layers):
            seen = hidden_degrees(layer.out_features, seen.amin(1, keepdim=True), most, generator)
            self.register_buffer(f"degrees{number}", seen, persistent=False)

    def next_mask(self) -> Tensor:
        """The number of the next mask, after the last one the first; also in compiled steps."""
        self.turn.copy_((self.turn + 1) % self.masks)
        return self.turn

    def order_of(self, mask: int) -> list[int]:
        """Places in the order of this mask."""
        return weft.argsort(self.ranks[mask]).tolist()

    @property
    def order(self) -> list[int]:
        """That of the first mask."""
        return self.order_of(0)

    # ------------------------------------------------------------------------------------- the density
    def conditionals(self, x: Tensor, condition: Tensor | None = None, mask: int | Tensor = 0) -> Tensor:
        """Under one mask: (B, D) → (B, D, K)"""
        seen = ranks = self.ranks[mask]
        h = x
        for number, layer in enumerate(self.layers):
            degrees = getattr(self, f"degrees{number}")[mask]
            h = layer(h, degrees.unsqueeze(1) >= seen)
            if number == 0 and self.class_bias is not None:
                h = h + self.class_bias(condition)
            h, seen = self.activation(h), degrees
        last = ranks.repeat_interleave(self.head.parameters).unsqueeze(1)  # (D · K, 1)
        found = self.output(h, last > seen)
        if self.direct is not None:
            found = found + self.direct(x, last > ranks)
        return found.unflatten(-1, (self.event_shape[0], self.head.parameters))  # (B, D · K) → (B, D, K)

    def log_prob_under(self, x: Tensor, mask: int | Tensor, condition: Tensor | None = None) -> Tensor:
        """log pₘ(x), which training maximises: (B, D) → (B,)"""
        self._check(x, condition)
        return self.head.log_prob(self.conditionals(x, condition, mask), x).sum(1)

    @exact
    def log_prob(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """log 1/M Σₘ pₘ(x): (B, D) → (B,)"""
        each = [self.log_prob_under(x, mask, condition) for mask in range(self.masks)]
        return each[0] if self.masks == 1 else weft.stack(each).logsumexp(0) - math.log(self.masks)

    @exact
    @in_one_plan
    @weft.no_grad()
    def sample(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """n draws, each under a mask chosen at random, in D passes a mask: (n, D)"""
        given, noise = self._given(n, condition), self.noise(n, generator)
        chosen = weft.randint(self.masks, (n, 1), generator=generator)
        x = self.naively_drawn(noise, given, 0)
        for mask in range(1, self.masks):
            x = weft.where(chosen == mask, self.naively_drawn(noise, given, mask), x)
        return x

    def naively_drawn(self, noise: Tensor, condition: Tensor | None = None, mask: int = 0) -> Tensor:
        """Under one mask: (n, D, N) → (n, D)"""
        return self._one_by_one(lambda x: self.conditionals(x, condition, mask), noise, self.order_of(mask))


def input_ranks(features: int, masks: int, orders: str | Sequence[int], generator: Any) -> Tensor:
    """When each input comes under each mask, 0 … D − 1: (M, D)"""
    if orders == "random":
        return weft.stack([weft.randperm(features, generator=generator) for _ in range(masks)])
    if orders == "natural":
        return weft.arange(features).expand(masks, -1).clone()
    if isinstance(orders, str) or sorted(orders) != list(range(features)):
        raise OptionError(f"MADE: orders is 'natural', 'random' or the places 0 … {features - 1} in some order")
    return weft.argsort(weft.tensor(list(orders))).expand(masks, -1).clone()


def hidden_degrees(units: int, least: Tensor, most: int, generator: Any) -> Tensor:
    """From `least` (M, 1) to `most`: spread evenly under one mask, else drawn: (M, units)"""
    count = (most - least).clamp(min=0) + 1
    if len(least) == 1:
        return least + weft.arange(units) * count // units
    return least + (weft.rand(len(least), units, generator=generator) * count).floor().to(weft.int64)
