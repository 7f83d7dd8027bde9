"""Autoregressive bijectors: element i is moved by a map whose parameters depend on elements before i, so that the
Jacobian is triangular. The network's masks are MADE's; which side it looks at is what tells MAF from IAF.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..autoregressive.made import MaskedLinear, hidden_degrees, input_ranks
from .bijector import Bijector, Pair
from .univariate import Affine, Univariate

__all__ = ["MaskedBijector", "MaskedNetwork"]

F = nn.functional


class MaskedNetwork(nn.Module):
    """θᵢ(x_<i, c): (B, D) → (B, D, K), i along an order; the last layer starts at 0.

    order: "natural", "reversed", "random" (drawn from `seed`) or the places in their order
    context: size of c, which every unit may see; some hidden units then see nothing else, for the first element's sake
    angles: x are angles, of which the network sees cos and sin
    """

    def __init__(
        self,
        features: int,
        outputs: int,
        hidden: Sequence[int] = (64, 64),
        *,
        order: str | Sequence[int] = "natural",
        context: int = 0,
        angles: bool = False,
        activation: Callable[[Tensor], Tensor] = F.relu,
        seed: int = 0,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if not hidden:
            raise OptionError("MaskedNetwork: expected at least 1 hidden layer")
        self.features, self.outputs, self.angles, self.activation = features, outputs, angles, activation
        sizes = [2 * features if angles else features, *hidden]
        self.layers = nn.ModuleList([MaskedLinear(a, b, dtype=dtype) for a, b in itertools.pairwise(sizes)])
        self.output = MaskedLinear(hidden[-1], features * outputs, dtype=dtype)
        self.context = nn.Linear(context, hidden[0], bias=False, dtype=dtype) if context else None
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        generator = weft.Generator().manual_seed(seed)
        order = list(reversed(range(features))) if order == "reversed" else order
        ranks = input_ranks(features, 1, order, generator)  # (1, D)
        self.order = weft.argsort(ranks[0]).tolist()
        self.register_buffer("ranks", ranks[0], persistent=False)
        least = ranks.amin(1, keepdim=True) - (1 if context else 0)
        for number, units in enumerate(hidden):
            degrees = hidden_degrees(units, least, max(features - 2, 0), generator)
            self.register_buffer(f"degrees{number}", degrees[0], persistent=False)
        for layer, last, seen in self._links():
            layer.climb(last, seen)

    def _links(self) -> list[tuple[MaskedLinear, Tensor, Tensor]]:
        """Each layer with the last ranks that its outputs may see, and the ranks of its inputs."""
        inputs = self.ranks.repeat_interleave(2) if self.angles else self.ranks
        degrees = [inputs, *(getattr(self, f"degrees{number}") for number in range(len(self.layers)))]
        last = self.ranks.repeat_interleave(self.outputs) - 1  # (D · K,): outputs do not see their own element
        return list(zip([*self.layers, self.output], [*degrees[1:], last], degrees, strict=True))

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        h = weft.stack([x.cos(), x.sin()], -1).flatten(1) if self.angles else x  # (B, D) → (B, 2D)
        for number, (layer, last, seen) in enumerate(self._links()):
            h = layer(h, last, seen)
            if number == 0 and self.context is not None:
                h = h + self.context(context)
            h = self.activation(h) if layer is not self.output else h
        return h.unflatten(-1, (self.features, self.outputs))  # (B, D · K) → (B, D, K)

    def first(self, context: Tensor | None, rows: int) -> Tensor:
        """What the first layer's units add up before any element is known: (B, H)"""
        sums = self.layers[0].bias.expand(rows, -1)
        return sums if self.context is None else sums + self.context(context)

    def after(self, sums: Tensor, place: Tensor, x: Tensor) -> Tensor:
        """The sums with the element of one place, x (B,), added to them."""
        layer, last, seen = self._links()[0]
        weight = weft.where(last.unsqueeze(1) >= seen, layer.weight, 0)  # (H, D), or (H, 2D) of angles
        if not self.angles:
            return sums + x.unsqueeze(1) * weight[:, place]
        both = weight.unflatten(1, (self.features, 2))[:, place]  # (H, 2)
        return sums + x.cos().unsqueeze(1) * both[:, 0] + x.sin().unsqueeze(1) * both[:, 1]

    def at(self, sums: Tensor, place: Tensor) -> Tensor:
        """θ of one place from the sums of the first layer: (B, H) → (B, K)"""
        h = self.activation(sums)
        *_, (output, last, seen) = links = self._links()
        for layer, above, below in links[1:-1]:
            h = self.activation(layer(h, above, below))
        weight = weft.where(last.unsqueeze(1) >= seen, output.weight, 0).unflatten(0, (self.features, self.outputs))
        return F.linear(h, weight[place], output.bias.unflatten(0, (self.features, self.outputs))[place])


class MaskedBijector(Bijector):
    """What MAF and IAF share: in one direction one pass, in the other one pass for each element.

    options: those of `MaskedNetwork`; map: what is done to an element, `Affine` by default
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (64, 64),
        map: Univariate | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.map = Affine() if map is None else map
        self.net = MaskedNetwork(features, self.map.parameters, hidden, **options)

    def _at_once(self, x: Tensor, context: Tensor | None, move: Callable[[Tensor, Tensor], Pair]) -> Pair:
        """yᵢ = move(xᵢ; θᵢ(x_<i)) for all i."""
        y, slopes = move(x, self.net(x, context))
        return y, slopes.sum(1)

    def _one_by_one(self, y: Tensor, context: Tensor | None, move: Callable[[Tensor, Tensor], Pair]) -> Pair:
        """xᵢ = move(yᵢ; θᵢ(x_<i)) for one i after the other: the first layer's sums are kept, and get one term an element."""
        places = weft.arange(self.net.features)

        def fill(state: Pair, place: Tensor) -> tuple[Pair, None]:
            x, sums = state
            found = move(y.index_select(1, place.reshape(1)).squeeze(1), self.net.at(sums, place))[0]  # (B,)
            return (weft.where(places == place, found.unsqueeze(1), x), self.net.after(sums, place, found)), None

        start = (weft.zeros_like(y), self.net.first(context, len(y)))
        x = weft.scan(fill, start, weft.tensor(self.net.order))[0][0]
        return x, move(y, self.net(x, context))[1].sum(1)

    def extra_repr(self) -> str:
        return f"map={self.map!r}"
