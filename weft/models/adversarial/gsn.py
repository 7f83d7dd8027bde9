"""Generative stochastic network: a chain of corruption and reconstruction whose limit is the data (Bengio et al. 2014)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..autoregressive.heads import BernoulliHead, Head
from ..generative.plans import in_one_plan
from ..generative.protocol import GenerativeModel, estimate

__all__ = ["GenerativeStochasticNetwork"]


class GenerativeStochasticNetwork(GenerativeModel):
    """x̃ ~ C(x̃ | x), x' ~ P(x' | x̃), over and over: if P is the true posterior of x given x̃, the chain's limit is p(x).

    net: x̃ (B, D) → parameters of P, (B, D · K) with K = head.parameters (K numbers an element, one after the other)
    corrupt: C, (x, generator) → x̃, such as `GaussianNoise` and `Masking` of the autoencoders
    head: what an element is: `BernoulliHead()`, `GaussianHead()` …
    walkback: steps of the chain in training. From each x̃ on the way the net must say the x where the walk began, which
        takes away modes that the chain makes up far from data. 1 is a denoising autoencoder.
    """

    def __init__(
        self,
        net: nn.Module,
        event: int,
        corrupt: Callable[..., Tensor],
        head: Head | None = None,
        *,
        walkback: int = 3,
    ) -> None:
        super().__init__()
        if walkback < 1:
            raise OptionError(f"GenerativeStochasticNetwork: expected walkback of at least 1 step, got {walkback}")
        self.net, self.event, self.corrupt = net, event, corrupt
        self.head, self.walkback = head or BernoulliHead(), walkback
        self.continuous = self.head.continuous

    def reconstruction(self, noisy: Tensor) -> Tensor:
        """Parameters of P(x | x̃): (B, D) → (B, D, K)"""
        return self.net(noisy).reshape(len(noisy), self.event, self.head.parameters)

    def loss(self, x: Tensor, generator: Any = None) -> Tensor:
        """The mean of −log P(x | x̃ₖ) over the steps k of the walk that begins at x; nats an example."""
        if x.dim() != 2 or x.shape[1] != self.event:
            raise ShapeError(f"GenerativeStochasticNetwork: expected x (B, {self.event}), got {tuple(x.shape)}")
        at, total = x, 0.0
        for step in range(self.walkback):
            found = self.reconstruction(self.corrupt(at, generator))
            total = total - self.head.log_prob(found, x).sum(1).mean()
            if step < self.walkback - 1:
                at = self._drawn(found.detach(), generator)
        return total / self.walkback

    def walk(self, x: Tensor, steps: int, generator: Any = None) -> Tensor:
        """The chain after `steps` steps: like x."""
        move = lambda _, x: self._drawn(self.reconstruction(self.corrupt(x, generator)), generator)
        return weft.fori_loop(0, steps, move, x)

    @estimate
    def sample(self, n: int, condition: Any = None, generator: Any = None, *, steps: int = 200) -> Tensor:
        """n chains after `steps` steps from noise: (n, D). In one plan."""
        self._unconditional(condition)
        return self._walked(n, steps, generator)

    @in_one_plan
    @weft.no_grad()
    def _walked(self, n: int, steps: int, generator: Any = None) -> Tensor:
        start = weft.zeros(n, self.event, self.head.parameters)
        return self.walk(self._drawn(start, generator), steps, generator)

    def _drawn(self, parameters: Tensor, generator: Any) -> Tensor:
        noise = self.head.noise(tuple(parameters.shape[:-1]), parameters.dtype, generator)
        return self.head.draw(parameters, noise)
