"""VAEs with several levels of codes, z_T → … → z_1 → x, each level a normal distribution given those above it (N3).

The codes of all levels lie side by side, z = (z_1, …, z_T), the one next to x first.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..autoregressive.heads import Head
from ..classical.mlp import MLP
from ..generative.protocol import exact
from .base import Draws, LatentVariableModel
from .likelihoods import Likelihood
from .objectives import Objective
from .posteriors import DiagonalGaussian
from .priors import standard_log_prob

__all__ = ["HierarchicalVAE", "Levels", "MarkovVAE"]

NORMAL = DiagonalGaussian()  # μ and log σ side by side, as every network here says them


class Levels(LatentVariableModel):
    """What models with levels share: p(x, z) = p(z_T) Π p(z_t | z_>t) p(x | z), drawn from the top.

    codes: how many numbers each level has, the one next to x first
    A model states q by `evidence` and `posterior_of`, level by level, and what the networks `downward[t]` (of z_t) and
    `decoder` are given of the codes.
    Shape: x (B, features), z (B, Σ codes)
    """

    def __init__(
        self, codes: Sequence[int], likelihood: str | Head | Likelihood, objective: Objective | None = None
    ) -> None:
        super().__init__(likelihood, objective)
        if not codes or min(codes) < 1:
            raise OptionError(f"{type(self).__name__}: expected at least one level of at least one number, got {codes}")
        self.codes = tuple(codes)

    from_top = False  # whether q draws z_T first

    def evidence(self, x: Tensor) -> Sequence[Tensor]:
        """What q makes of x before it draws: x itself, or features of every level; (B, …) each"""
        return [x]

    @abstractmethod
    def posterior_of(self, level: int, evidence: Sequence[Tensor], codes: Sequence[Tensor]) -> Tensor:
        """What q(z_level | x, codes drawn before it) is, μ and log σ. codes: those before it, in the order of levels,
        (K, B, c_t) each; → (K or 1, B, 2 · c_level)"""

    @abstractmethod
    def above(self, level: int, codes: Sequence[Tensor]) -> Tensor:
        """What p(z_level | …) is given of the codes above, which come from the next one upwards: (N, Σ)"""

    @abstractmethod
    def shown(self, codes: Sequence[Tensor]) -> Tensor:
        """What the decoder is given of all codes: (N, Σ)"""

    def draws(self, x: Tensor, samples: int = 1, condition: Tensor | None = None, generator: Any = None) -> Draws:
        codes, log_posterior = self.inferred_codes(self.evidence(x), self.noise(x, samples, generator))
        z = weft.cat(codes, -1)  # (K, B, Σ codes)
        log_likelihood = self.likelihood.log_prob(self.said(z.flatten(0, 1)), x)
        return Draws(z, log_likelihood, self.log_prior(codes), log_posterior)

    def noise(self, x: Tensor, samples: int, generator: Any = None) -> list[Tensor]:
        """ε of every level: (K, B, c_t) each"""
        return [weft.randn(samples, len(x), c, dtype=x.dtype, generator=generator) for c in self.codes]

    def inferred_codes(self, evidence: Sequence[Tensor], noise: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        """z_1 … z_T ~ q(z | x) from noise (K, B, c_t) each, and log q(z | x) (K, B)"""
        codes: list[Tensor] = []
        total: Any = 0.0
        for level in self._order:
            z, log_prob = NORMAL.draw(self.posterior_of(level, evidence, codes), noise[level])
            codes.insert(0 if self.from_top else len(codes), z)
            total = total + log_prob
        return codes, total

    def log_posterior(self, evidence: Sequence[Tensor], codes: Sequence[Tensor]) -> Tensor:
        """log q(z | x) of any codes: (K, B, c_t) each → (K, B)"""
        total: Any = 0.0
        for level in self._order:
            before = codes[level + 1 :] if self.from_top else codes[:level]
            total = total + NORMAL.log_prob(self.posterior_of(level, evidence, before), codes[level])
        return total

    def pairwise_log_posterior(self, z: Tensor, x: Tensor, condition: Tensor | None = None) -> Tensor:
        evidence, codes = self.evidence(x), z.unsqueeze(1).split(list(self.codes), -1)  # (M, 1, c_t) each
        rows = [self.log_posterior([e[i : i + 1] for e in evidence], codes) for i in range(len(x))]
        return weft.cat(rows, 1)

    @property
    def _order(self) -> Sequence[int]:
        return range(len(self.codes))[::-1] if self.from_top else range(len(self.codes))

    def log_prior(self, codes: Sequence[Tensor]) -> Tensor:
        """log p(z_T) + Σ_t log p(z_t | z_>t): (K, B, c_t) each → (K, B)"""
        total = standard_log_prob(codes[-1])
        for level in range(len(codes) - 1):
            total = total + NORMAL.log_prob(self.prior_of(level, codes[level + 1 :]), codes[level])
        return total

    def prior_of(self, level: int, codes: Sequence[Tensor]) -> Tensor:
        """What p(z_level | z above) is, μ and log σ: (…, c_t) each → (…, 2 · c_level)"""
        return _rowwise(self.downward[level], self.above(level, codes))

    def prior_draws(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        kind = next(self.parameters()).dtype
        noise = [weft.randn(n, c, dtype=kind, generator=generator) for c in self.codes]
        codes = [noise[-1]]
        for level in reversed(range(len(noise) - 1)):
            codes.insert(0, NORMAL.draw(self.prior_of(level, codes), noise[level])[0])
        return weft.cat(codes, -1)

    def said(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        return self.decoder(self.shown(z.split(list(self.codes), -1)))

    @exact
    def encode(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """The means of q level by level, each given the means before it: (B, features) → (B, Σ codes)"""
        self._given(len(x), condition)
        quiet = [weft.zeros(1, len(x), c, dtype=x.dtype) for c in self.codes]
        return weft.cat(self.inferred_codes(self.evidence(x), quiet)[0], -1).squeeze(0)


class MarkovLevels(Levels):
    """p(x, z) = p(z_T) Π p(z_{t−1} | z_t) p(x | z_1): on the way down each level is seen by the next one alone."""

    def above(self, level: int, codes: Sequence[Tensor]) -> Tensor:
        return codes[0]

    def shown(self, codes: Sequence[Tensor]) -> Tensor:
        return codes[0]


class MarkovVAE(MarkovLevels):
    """The Markov chain of codes: q(z | x) = q(z_1 | x) Π q(z_t | z_{t−1}),  p(x, z) = p(z_T) Π p(z_{t−1} | z_t) p(x | z_1).

    Both directions are chains of networks with layers of `hidden` units. With codes of the data's own size and fixed
    q this is a diffusion model.

    >>> model = MarkovVAE(6, (16,), (4, 2))
    >>> model.sample(3).shape, model.encode(weft.zeros(5, 6)).shape
    (weft.Size([3, 6]), weft.Size([5, 6]))
    """

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
        self.upward = nn.ModuleList([make(a, 2 * b) for a, b in itertools.pairwise([features, *codes])])
        self.downward = nn.ModuleList([make(b, 2 * a) for a, b in itertools.pairwise(codes)])
        self.decoder = make(codes[0], features * self.likelihood.numbers)

    def posterior_of(self, level: int, evidence: Sequence[Tensor], codes: Sequence[Tensor]) -> Tensor:
        return _rowwise(self.upward[level], codes[-1] if codes else evidence[0].unsqueeze(0))


class HierarchicalVAE(Levels):
    """Every level sees all before it: q(z | x) = Π q(z_t | x, z_<t),  p(x, z) = p(z_T) Π p(z_t | z_>t) p(x | z_1, …, z_T).

    >>> HierarchicalVAE(6, (16,), (4, 2)).sample(3).shape
    weft.Size([3, 6])
    """

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
        levels = range(len(codes))
        self.upward = nn.ModuleList([make(features + sum(codes[:t]), 2 * codes[t]) for t in levels])
        self.downward = nn.ModuleList([make(sum(codes[t + 1 :]), 2 * codes[t]) for t in levels[:-1]])
        self.decoder = make(sum(codes), features * self.likelihood.numbers)

    def posterior_of(self, level: int, evidence: Sequence[Tensor], codes: Sequence[Tensor]) -> Tensor:
        seen = evidence[0].unsqueeze(0)
        if codes:
            seen = weft.cat([seen.expand(len(codes[0]), *seen.shape[1:]), *codes], -1)
        return _rowwise(self.upward[level], seen)

    def above(self, level: int, codes: Sequence[Tensor]) -> Tensor:
        return weft.cat(list(codes), -1)

    def shown(self, codes: Sequence[Tensor]) -> Tensor:
        return weft.cat(list(codes), -1)


def _rowwise(network: nn.Module, x: Tensor) -> Tensor:
    """A network of rows on (…, D): (…, D) → (…, E)"""
    found = network(x.flatten(0, -2))
    return found.reshape(*x.shape[:-1], found.shape[-1])
