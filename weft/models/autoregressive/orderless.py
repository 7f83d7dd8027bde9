"""NADE for all orders at once: a network that is told which elements are known (Uria, Murray, Larochelle 2014).

Trained on random sets of known elements, it answers for any order. Each order gives a density; the mean of several
densities is one again (EoNADE), and a better one than each.
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

__all__ = ["OrderlessNADE"]

F = nn.functional


class OrderlessNADE(Autoregressive):
    """p(x) = 1/M Σₘ Πᵢ p(xᵢ | x before i in order m), M orders drawn from `seed`.

    hidden: sizes of the hidden layers. The first sees x ⊙ k and k, the mask of known elements: its input is a running
    sum, so an order costs O(HD) for one hidden layer and O(H² D) for more.
    Shape: x (B, D)
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (500,),
        head: str | Head = "bernoulli",
        *,
        orders: int = 1,
        activation: Callable[[Tensor], Tensor] = F.relu,
        classes: int = 0,
        seed: int = 0,
        dtype: Any = None,
    ) -> None:
        super().__init__((features,), head, classes)
        if orders < 1 or not hidden:
            raise OptionError(
                f"OrderlessNADE: expected at least 1 order and 1 hidden layer, got {orders}, {len(hidden)}"
            )
        self.activation = activation
        self.input = nn.Linear(2 * features, hidden[0], dtype=dtype)
        pairs = itertools.pairwise(hidden)
        self.layers = nn.ModuleList([nn.Linear(a, b, dtype=dtype) for a, b in pairs])
        self.output = nn.Linear(hidden[-1], features * self.head.parameters, dtype=dtype)
        self.class_bias = self._class_bias(hidden[0])
        generator = weft.Generator().manual_seed(seed)
        drawn = weft.stack([weft.randperm(features, generator=generator.fold_in(m)) for m in range(orders)])
        self.register_buffer("orders", drawn)  # (M, D)

    # ------------------------------------------------------------------------------------- learning
    def predictions(self, x: Tensor, known: Tensor, condition: Tensor | None = None) -> Tensor:
        """Parameters of every element given those where `known` is 1: (B, D), (B, D) → (B, D, K)"""
        return self._from_input(self._biased(self.input(weft.cat([x * known, known], -1)), condition))

    def loss(self, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """An unbiased estimate of the mean of −log p over all D! orders, with one random set of known elements a row: ()

        d ~ U{0, …, D − 1} elements are known; the others' −log p is summed and scaled by D / (D − d).
        """
        self._check(x, condition)
        rows, features = x.shape
        count = weft.randint(features, (rows, 1), generator=generator)
        place = weft.rand(rows, features, dtype=x.dtype, generator=generator).argsort(-1)
        known = (place < count).to(x.dtype)
        each = self.head.log_prob(self.predictions(x, known, condition), x) * (1 - known)
        return -(each.sum(1) * features / (features - count.squeeze(1))).mean()

    # ------------------------------------------------------------------------------------- densities
    def conditionals(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """Under the first order: (B, D) → (B, D, K)"""
        order = self.orders[0]
        along = self._along(x, order, condition)  # (D, B, K)
        return along[weft.argsort(order)].transpose(0, 1)

    @property
    def order(self) -> list[int]:
        """The first of the orders."""
        return self.orders[0].tolist()

    def log_prob_along(self, x: Tensor, order: Tensor, condition: Tensor | None = None) -> Tensor:
        """log p under one order, places (D,): (B, D) → (B,)"""
        self._check(x, condition)
        return self.head.log_prob(self._along(x, order, condition), x.mT[order]).sum(0)

    @exact
    def log_prob(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """log 1/M Σₘ pₘ(x), a mean of densities, never of logits: (B, D) → (B,)"""
        each = [self.log_prob_along(x, order, condition) for order in self.orders]
        return weft.stack(each).logsumexp(0) - math.log(len(each))

    @exact
    @in_one_plan
    @weft.no_grad()
    def sample(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """n draws, each along an order of its own, chosen among the M: (n, D)"""
        given, noise = self._given(n, condition), self.noise(n, generator)
        chosen = self.orders[weft.randint(len(self.orders), (n,), generator=generator)]  # (n, D)
        return self._drawn(noise, chosen, given)

    def drawn(self, noise: Tensor, condition: Tensor | None = None) -> Tensor:
        """Along the first order."""
        return self._drawn(noise, self.orders[0].expand(len(noise), -1), condition)

    def _drawn(self, noise: Tensor, orders: Tensor, condition: Tensor | None) -> Tensor:
        """Row by row along its own order: (n, D, N), (n, D) → (n, D)"""
        features = self.event_shape[0]
        value, known = self._columns()
        rows = weft.arange(len(noise))

        def draw(carry: tuple[Tensor, Tensor], place: Tensor) -> tuple[tuple[Tensor, Tensor], None]:
            a, x = carry
            drawn = self.head.draw(self._from_input(a)[rows, place], noise[rows, place])  # (n,)
            a = a + drawn.unsqueeze(1) * value[place] + known[place]
            here = weft.arange(features) == place.unsqueeze(1)
            return (a, weft.where(here, drawn.unsqueeze(1), x)), None

        start = (self._start(len(noise), condition), weft.zeros(len(noise), features, dtype=noise.dtype))
        return weft.scan(draw, start, orders.mT)[0][1]

    def _along(self, x: Tensor, order: Tensor, condition: Tensor | None) -> Tensor:
        """Parameters of the elements in the order they come: (B, D) → (D, B, K)"""
        value, known = self._columns()
        count = self.head.parameters
        weight = self.output.weight.unflatten(0, (-1, count))  # (D, K, H)
        bias = self.output.bias.unflatten(0, (-1, count))  # (D, K)

        def see(a: Tensor, unit: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
            x, value, known, weight, bias = unit
            return a + x.unsqueeze(1) * value + known, self._hidden(a) @ weight.mT + bias

        units = (x.mT[order], value[order], known[order], weight[order], bias[order])
        return weft.scan(see, self._start(len(x), condition), units)[1]

    # ------------------------------------------------------------------------------------- the network
    def _columns(self) -> tuple[Tensor, Tensor]:
        """What a known element adds to the first layer: its value times one row, and another row. (D, H) each"""
        return self.input.weight.mT.chunk(2)

    def _start(self, rows: int, condition: Tensor | None) -> Tensor:
        return self._biased(self.input.bias.expand(rows, -1), condition)

    def _biased(self, a: Tensor, condition: Tensor | None) -> Tensor:
        return a if self.class_bias is None else a + self.class_bias(condition)

    def _hidden(self, a: Tensor) -> Tensor:
        h = self.activation(a)
        for layer in self.layers:
            h = self.activation(layer(h))
        return h

    def _from_input(self, a: Tensor) -> Tensor:
        """(B, H) → (B, D, K)"""
        return self.output(self._hidden(a)).unflatten(-1, (self.event_shape[0], self.head.parameters))
