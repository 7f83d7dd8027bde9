"""Levels of grey under a density of real numbers: noise in the bins, and what it costs (Theis et al. 2016, Ho et al. 2019).

    log P(k) = log ∫_[k, k+1) p(x) dx  ≥  E_u[log p(k + u) − log q(u | k)],   u ∈ [0, 1)

The density is one of x in [0, L), with every step of preprocessing as a part of its map, so no volume is forgotten: bits per
dimension are −bound / (D log 2), with L bins, not L − 1. Noise that leaves its bin, Gaussian for instance, bounds nothing.
"""

from __future__ import annotations

import math
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import Bound, GenerativeModel, bound, exact
from .base import Flow
from .bijector import Bijector, Pair

__all__ = ["Dequantised", "Squash"]

F = nn.functional


class Squash(Bijector):
    """x = L (σ(y) − α) / (1 − 2α): numbers to grey in (0, L), the last map of a flow of images; its inverse takes logits.

    α keeps the logits of black and white finite: the inverse is logit(α + (1 − 2α) x / L)
    """

    def __init__(self, levels: float = 256.0, alpha: float = 0.05) -> None:
        super().__init__()
        if not (levels > 0 and 0 <= alpha < 0.5):
            raise OptionError(f"Squash: expected levels above 0 and 0 ≤ alpha < ½, got {levels} and {alpha}")
        self.levels, self.alpha = levels, alpha

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        grey = (x.sigmoid() - self.alpha) * (self.levels / (1 - 2 * self.alpha))
        return grey, self._volume(x)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        x = (self.alpha + (1 - 2 * self.alpha) / self.levels * y).logit()
        return x, -self._volume(x)

    def _volume(self, x: Tensor) -> Tensor:
        each = F.logsigmoid(x) + F.logsigmoid(-x) + math.log(self.levels / (1 - 2 * self.alpha))
        return each.reshape(len(x), -1).sum(1) if len(x) else x.new_zeros(0)

    def extra_repr(self) -> str:
        return f"levels={self.levels}, alpha={self.alpha}"


class Dequantised(GenerativeModel):
    """P(k) of levels x = k / (L − 1) ∈ [0, 1], bounded from below by a flow of real numbers in [0, L).

    flow: density of k + u, for instance with `Squash` as its last map
    noise: None for uniform u; or a flow q(e | x) with the image as context, u = σ(e), which learns where in its bin
        to lie (variational dequantisation)

    >>> from weft.models.flows import Flow, RowCoupling
    >>> model = Dequantised(Flow([RowCoupling(4), Squash(2.0)], 4), levels=2)
    >>> model.promises
    {'log_prob_bound': 'bound', 'elbo': 'bound', 'sample': 'exact'}
    """

    def __init__(self, flow: Flow, levels: int = 256, noise: Flow | None = None) -> None:
        super().__init__()
        if levels < 2:
            raise OptionError(f"Dequantised: expected at least 2 levels, got {levels}")
        if noise is not None and noise.event_shape != flow.event_shape:
            raise ShapeError(f"Dequantised: the noise has shape {noise.event_shape}, the data {flow.event_shape}")
        self.flow, self.levels, self.noise = flow, levels, noise

    def dequantised(self, x: Tensor, generator: Any = None) -> tuple[Tensor, Tensor]:
        """k + u in [0, L), and log q(u | k): (B, *event), (B,)"""
        self.flow._check(x)
        k = (x * (self.levels - 1)).round()
        if self.noise is None:
            u = weft.rand(x.shape, dtype=x.dtype, generator=generator)
            return k + u, weft.zeros(len(x), dtype=x.dtype)
        e, value = self.noise.rsample_and_log_prob(len(x), x, generator)
        inside = (F.logsigmoid(e) + F.logsigmoid(-e)).flatten(1).sum(1)
        below = 1 - weft.finfo(x.dtype).eps * self.levels  # rounding must not carry k + u into the next bin
        return k + e.sigmoid().clamp(max=below), value - inside

    @bound
    def elbo(self, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """log p(k + u) − log q(u | k) of one draw u, ≤ log P(k) in the mean: (B, *event) → (B,)"""
        y, value = self.dequantised(x, generator)
        return self.flow.log_prob(y, condition) - value

    @bound
    def log_prob_bound(
        self, x: Tensor, condition: Tensor | None = None, draws: int = 1, generator: Any = None
    ) -> Bound:
        """log of the mean of exp(elbo) over draws, a lower bound that rises to log P(k) with their number."""
        values = weft.stack([self.elbo(x, condition, generator) for _ in range(draws)])  # (draws, B)
        weights = (values - values.amax(0)).exp()
        error = weights.std(0, correction=1 if draws > 1 else 0) / (weights.mean(0) * math.sqrt(draws))
        return Bound(values.logsumexp(0) - math.log(draws), "lower", error)

    def bits_per_dim(self, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """−elbo / (D log 2), of each image: (B,)"""
        return -self.elbo(x, condition, generator) / (math.prod(self.flow.event_shape) * math.log(2))

    @exact
    @in_one_plan
    @weft.no_grad()
    def sample(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """n draws of levels, in [0, 1]: (n, *event)"""
        drawn = self.flow.sample(n, condition, generator)
        return drawn.floor().clamp(0, self.levels - 1) / (self.levels - 1)
