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


STAIRS = 6  # blocks of rows of a large masked weight, each multiplied only as far as its last row sees
LARGE = 2**16  # weights from which that is worth it


class MaskedLinear(nn.Linear):
    """y = (W ⊙ M) x + b, with Mᵢⱼ = 1 where unit i may see unit j: last[i] ≥ ranks[j].

    Where both rise, M is a staircase: `climb` divides it into blocks of rows, whose zeros to the right of the last step
    are not multiplied, nearly half of all.
    Shape: (B, in), last (out,), ranks (in,) → (B, out)
    """

    stairs: tuple[tuple[int, int], ...] = ()  # rows of a block, columns that they see; none: one block with all columns

    def climb(self, last: Tensor, ranks: Tensor) -> None:
        """Find the blocks under these numbers, which must stay the same."""
        rising = all((part.diff() >= 0).all().item() for part in (last, ranks))
        if not rising or self.weight.numel() < LARGE:
            return
        ends = [self.out_features * block // STAIRS for block in range(STAIRS + 1)]
        seen = weft.searchsorted(ranks.contiguous(), last.contiguous(), right=True).tolist()  # columns of each row
        self.stairs = tuple((b - a, max(seen[b - 1], 1)) for a, b in itertools.pairwise(ends))

    def forward(self, input: Tensor, last: Tensor, ranks: Tensor) -> Tensor:
        if not self.stairs:
            return F.linear(input, weft.where(last.unsqueeze(1) >= ranks, self.weight, 0), self.bias)
        rows, columns = zip(*self.stairs, strict=True)
        found = [
            input[:, :end]
            @ weft.where(own.unsqueeze(1) >= ranks[:end], weight[:, :end], 0).mT  # (B, rows of the block)
            for own, weight, end in zip(last.split(rows), self.weight.split(rows), columns, strict=True)
        ]
        return weft.cat(found, 1) if self.bias is None else weft.cat(found, 1) + self.bias


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
        if self.masks == 1:
            for layer, last, below in self._links(0):
                layer.climb(last, below)

    def _links(self, mask: int | Tensor) -> list[tuple[MaskedLinear, Tensor, Tensor]]:
        """Each layer with the last ranks that its outputs may see, and the ranks of its inputs; outputs do not see
        themselves. The direct one comes last."""
        ranks = self.ranks[mask]
        degrees = [ranks, *(getattr(self, f"degrees{number}")[mask] for number in range(len(self.layers)))]
        last = ranks.repeat_interleave(self.head.parameters) - 1  # (D · K,)
        pairs = itertools.pairwise(degrees)
        hidden = [(layer, above, below) for layer, (below, above) in zip(self.layers, pairs, strict=True)]
        direct = [] if self.direct is None else [(self.direct, last, ranks)]
        return [*hidden, (self.output, last, degrees[-1]), *direct]

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
        *hidden, output = self._links(mask)[: len(self.layers) + 1]
        h = x
        for number, (layer, last, ranks) in enumerate(hidden):
            h = layer(h, last, ranks)
            if number == 0 and self.class_bias is not None:
                h = h + self.class_bias(condition)
            h = self.activation(h)
        layer, last, ranks = output
        found = layer(h, last, ranks)
        if self.direct is not None:
            found = found + self.direct(x, last, self.ranks[mask])
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
