"""The Gumbel-softmax VAE: codes of N variables with K classes each, drawn as soft choices while learning.

A choice y = softmax((log π + g) / τ) with Gumbel noise g has a gradient; for τ → 0 it is a draw of the categorical π
(Jang, Gu, Poole 2017; Maddison, Mnih, Teh 2017). Bounds are of the model with hard choices, for which they are bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..autoregressive.heads import Head
from ..classical.mlp import MLP
from ..generative.protocol import exact
from .base import Draws, LatentVariableModel
from .likelihoods import Likelihood, likelihood_named

__all__ = ["DenseGumbelVAE", "GumbelVAE", "RelaxedELBO", "gumbel_noise"]


@dataclass(frozen=True)
class RelaxedELBO:
    """E[log p(x | y)] over soft choices y − KL(q ‖ uniform), the KL exact.

    straight: the decoder sees the hard choice, and the gradient is that of the soft one
    """

    straight: bool = False

    def __call__(self, model: GumbelVAE, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        logits = model.logits(x)
        y = model.relaxed(logits, generator)
        if self.straight:
            y = y + (model.hard(y) - y).detach()
        return model.likelihood.log_prob(model.said(y.flatten(1)), x)[0] - model.divergence(logits)


class GumbelVAE(LatentVariableModel):
    """q(z | x) = Πₙ Cat(zₙ; softmax of the encoder's logits), p(z) uniform; a code is N one-hot rows of K.

    encoder: (B, *event) → (B, N · K); decoder: (B, N · K) → what `likelihood` asks for
    variables, classes: N and K
    temperature, least, rate: τ = max(least, temperature · e^{−rate · steps}); a step is a loss in training mode

    >>> model = GumbelVAE(nn.Linear(6, 8), nn.Linear(8, 6), variables=2, classes=4)
    >>> model.encode(weft.ones(3, 6)).shape, model.sample(5).shape, model.promises["elbo"]
    (weft.Size([3, 8]), weft.Size([5, 6]), 'bound')
    """

    steps: Tensor
    closed_form = True

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        variables: int,
        classes: int,
        likelihood: str | Head | Likelihood = "bernoulli",
        *,
        temperature: float = 1.0,
        least: float = 0.5,
        rate: float = 3e-5,
        objective: RelaxedELBO | None = None,
    ) -> None:
        super().__init__(likelihood, RelaxedELBO() if objective is None else objective)
        if variables < 1 or classes < 2:
            raise OptionError(f"GumbelVAE: expected variables ≥ 1 and classes ≥ 2, got {variables} and {classes}")
        if not 0 < least <= temperature or not rate >= 0:
            raise OptionError(
                f"GumbelVAE: expected 0 < least ≤ temperature and rate ≥ 0, got {least}, {temperature} and {rate}"
            )
        self.encoder, self.decoder, self.variables, self.classes = encoder, decoder, variables, classes
        self.first_temperature, self.least, self.rate = temperature, least, rate
        self.register_buffer("steps", weft.zeros(()))

    @property
    def temperature(self) -> Tensor:
        """τ now: ()"""
        return (self.first_temperature * (-self.rate * self.steps).exp()).clamp(min=self.least)

    def loss(self, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        found = super().loss(x, condition, generator)
        if self.training:
            with weft.no_grad():
                self.steps.add_(1)
        return found

    # ------------------------------------------------------------------------------------- choices
    def logits(self, x: Tensor) -> Tensor:
        """log π: (B, *event) → (B, N, K)"""
        said = self.encoder(x)
        if tuple(said.shape) != (len(x), self.variables * self.classes):
            raise ShapeError(
                f"GumbelVAE: expected the encoder to make ({len(x)}, {self.variables * self.classes}), got {tuple(said.shape)}"
            )
        return said.unflatten(1, (self.variables, self.classes)).log_softmax(-1)

    def relaxed(self, logits: Tensor, generator: Any = None) -> Tensor:
        """Soft choices, with gradients: (B, N, K) → (B, N, K)"""
        noise = gumbel_noise(tuple(logits.shape), logits.dtype, generator)
        return ((logits + noise) / self.temperature.to(logits.dtype)).softmax(-1)

    def hard(self, scores: Tensor) -> Tensor:
        """One-hot rows at the largest scores: (…, K) → (…, K)"""
        return nn.functional.one_hot(scores.argmax(-1), self.classes).to(scores.dtype)

    def divergence(self, logits: Tensor) -> Tensor:
        """KL(q(z | x) ‖ p(z)) = Σₙ Σₖ π (log π + log K), exact: (B, N, K) → (B,)"""
        return (logits.exp() * (logits + math.log(self.classes))).sum((1, 2))

    # ------------------------------------------------------------------------------------- the family's promises
    def draws(self, x: Tensor, samples: int = 1, condition: Tensor | None = None, generator: Any = None) -> Draws:
        """Hard choices, by the largest of logits with Gumbel noise: no gradient goes through them."""
        logits = self.logits(x)
        z = self.hard(logits + gumbel_noise((samples, *logits.shape), logits.dtype, generator))  # (S, B, N, K)
        log_posterior = (z * logits).sum((-2, -1))
        log_prior = weft.full(log_posterior.shape, -self.variables * math.log(self.classes), dtype=logits.dtype)
        z = z.flatten(2)  # (S, B, N · K)
        return Draws(z, self.likelihood.log_prob(self.said(z.flatten(0, 1)), x), log_prior, log_posterior)

    def pairwise_log_posterior(self, z: Tensor, x: Tensor, condition: Tensor | None = None) -> Tensor:
        return z @ self.logits(x).flatten(1).mT

    def terms(
        self, x: Tensor, condition: Tensor | None = None, samples: int = 1, generator: Any = None
    ) -> tuple[Tensor, Tensor]:
        """E_q[log p(x | z)] from hard draws and the exact KL: (B,) each"""
        found = self.draws(x, samples, condition, generator)
        return found.log_likelihood.mean(0), self.divergence(self.logits(x))

    def prior_draws(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        drawn = weft.randint(0, self.classes, (n, self.variables), generator=generator)
        return nn.functional.one_hot(drawn, self.classes).flatten(1).to(next(self.parameters()).dtype)

    def said(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        return self.decoder(z)

    @exact
    def encode(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """The likeliest choices, one-hot: (B, *event) → (B, N · K)"""
        self._unconditional(condition)
        return self.hard(self.logits(x)).flatten(1)


class DenseGumbelVAE(GumbelVAE):
    """The same of two multilayer perceptrons, features – hidden … – N · K and its mirror image.

    >>> DenseGumbelVAE(784, (256,), 30, 10).variables
    30
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int],
        variables: int,
        classes: int,
        likelihood: str | Head | Likelihood = "bernoulli",
        *,
        activation: str = "relu",
        **options: Any,
    ) -> None:
        likelihood = likelihood_named(likelihood)
        encoder = MLP(features, hidden, variables * classes, activation)
        decoder = MLP(variables * classes, hidden[::-1], features * likelihood.numbers, activation)
        super().__init__(encoder, decoder, variables, classes, likelihood, **options)


def gumbel_noise(shape: tuple[int, ...], dtype: Any, generator: Any = None) -> Tensor:
    """−log(−log u): the largest of log π + g is k with probability πₖ."""
    tiny = weft.finfo(dtype).tiny
    return -(-(weft.rand(*shape, dtype=dtype, generator=generator).clamp(min=tiny).log())).clamp(min=tiny).log()
