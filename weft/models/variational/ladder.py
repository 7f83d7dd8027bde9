"""The ladder VAE: q goes down the same levels as p and corrects what p expects by what x says (Sønderby et al. 2016)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import weft

from ... import nn
from ...tensor import Tensor
from ..autoregressive.heads import Head
from ..classical.mlp import MLP
from .hierarchical import NORMAL, MarkovLevels
from .likelihoods import Likelihood
from .objectives import Objective

__all__ = ["LadderVAE", "combined"]


class LadderVAE(MarkovLevels):
    """p(x, z) = p(z_T) Π p(z_{t−1} | z_t) p(x | z_1), a Markov chain; q(z | x) = q(z_T | x) Π q(z_{t−1} | z_t, x).

    On the way up x becomes features d_1, d_2, …, each of which says a normal distribution N(μ̂_t, σ̂_t²); on the way down
    q(z_t | z_{t+1}, x) is its product with the prior p(z_t | z_{t+1}), precisions as weights. Where p is right nothing
    needs to be said twice. Nothing keeps x from saying little at all (codes collapse onto the prior): the paper's remedies
    are batch normalisation on the way up, which is here, and `WarmUp`.

    hidden: units of each layer, of every network
    """

    from_top = True

    def __init__(
        self,
        features: int,
        hidden: Sequence[int],
        codes: Sequence[int],
        likelihood: str | Head | Likelihood = "bernoulli",
        *,
        activation: str | Callable[[], nn.Module] = "tanh",
        objective: Objective | None = None,
    ) -> None:
        super().__init__(codes, likelihood, objective)
        make = lambda a, b: MLP(a, hidden, b, activation)
        widths = [features, *([hidden[-1]] * len(codes))] if hidden else [features] * (len(codes) + 1)
        climb = [MLP(a, hidden, b, activation, norm="batch") for a, b in itertools.pairwise(widths)]
        self.climb = nn.ModuleList(climb)
        self.upward = nn.ModuleList([nn.Linear(width, 2 * c) for width, c in zip(widths[1:], codes, strict=True)])
        self.downward = nn.ModuleList([make(b, 2 * a) for a, b in itertools.pairwise(codes)])
        self.decoder = make(codes[0], features * self.likelihood.numbers)

    def evidence(self, x: Tensor) -> Sequence[Tensor]:
        found, d = [], x
        for step, say in zip(self.climb, self.upward, strict=True):
            d = step(d)
            found.append(say(d))  # (B, 2 · c_t)
        return found

    def posterior_of(self, level: int, evidence: Sequence[Tensor], codes: Sequence[Tensor]) -> Tensor:
        if not codes:
            return evidence[level].unsqueeze(0)
        return combined(evidence[level], self.prior_of(level, codes))


def combined(first: Tensor, second: Tensor) -> Tensor:
    """The product of two normal densities, μ = (μ₁/σ₁² + μ₂/σ₂²) σ², σ⁻² = σ₁⁻² + σ₂⁻²: (…, 2 · c) twice → (…, 2 · c)"""
    (mean, log_scale), (other, other_scale) = NORMAL.split(first), NORMAL.split(second)
    log_precision = weft.logaddexp(-2 * log_scale, -2 * other_scale)
    # the share of the first precision; of no use as a ratio of large numbers, so as a logistic function
    share = weft.sigmoid(2 * (other_scale - log_scale))
    return weft.cat([other + share * (mean - other), -0.5 * log_precision], -1)
