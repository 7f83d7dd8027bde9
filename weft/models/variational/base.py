"""What variational models share: p(x) = ∫ p(x | z) p(z) dz, and a q(z | x) that bounds its logarithm from below.

A model states `draws`: codes from q with the three logarithms that every bound is made of. What training maximises is an
objective (objectives.py): the ELBO, importance-weighted bounds, weighted divergences, whatever the model.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import weft

from ... import nn
from ...errors import OptionError, ShapeError, UnsupportedError
from ...tensor import Tensor
from ..autoregressive.heads import Head
from ..classical.mlp import MLP
from ..generative.plans import in_one_plan
from ..generative.protocol import Bound, GenerativeModel, bound, exact
from .conditions import Conditions
from .likelihoods import Likelihood, likelihood_named
from .objectives import ELBO, Objective
from .posteriors import Posterior, posterior_named
from .priors import Prior, StandardNormal

__all__ = ["VAE", "DenseVAE", "Draws", "LatentVariableModel"]

PAIRS = 2000  # examples times draws that are in memory at once when a likelihood is estimated


class Draws(NamedTuple):
    """K codes of each of B examples, and what the model says of them: z (K, B, code), the rest (K, B)."""

    z: Tensor
    log_likelihood: Tensor  # log p(x | z)
    log_prior: Tensor  # log p(z)
    log_posterior: Tensor  # log q(z | x)

    @property
    def log_weight(self) -> Tensor:
        """log w = log p(x, z) − log q(z | x); E_q[w] = p(x)."""
        return self.log_likelihood + self.log_prior - self.log_posterior


class LatentVariableModel(GenerativeModel):
    """A model that states `draws` and `prior_draws`; bounds, the loss and samples follow.

    objective: what `loss` maximises, (model, x, condition, generator) → (B,); by default the ELBO
    closed_form: whether `terms` computes KL(q(z | x) ‖ p(z)) rather than drawing it
    """

    closed_form = False

    def __init__(
        self, likelihood: str | Head | Likelihood, objective: Objective | None, conditions: Conditions | None = None
    ) -> None:
        super().__init__()
        self.likelihood, self.conditions = likelihood_named(likelihood), conditions
        self.objective = ELBO() if objective is None else objective
        self.continuous = self.likelihood.head.continuous

    @abstractmethod
    def draws(self, x: Tensor, samples: int = 1, condition: Tensor | None = None, generator: Any = None) -> Draws:
        """K draws of codes from q(z | x), reparametrised: (B, *event) → K = samples of each"""

    @abstractmethod
    def prior_draws(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """Codes from p(z): (n, code)"""

    @abstractmethod
    def said(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        """What the decoder says: (N, code) → (N, P · e₁, …)"""

    def pairwise_log_posterior(self, z: Tensor, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """log q(z | x) of every code under every example: (M, *code), (N, *event) → (M, N)"""
        raise UnsupportedError(f"{type(self).__name__} does not say how likely a code is under another example")

    def terms(
        self, x: Tensor, condition: Tensor | None = None, samples: int = 1, generator: Any = None
    ) -> tuple[Tensor, Tensor]:
        """The two parts of the ELBO, E_q[log p(x | z)] and KL(q(z | x) ‖ p(z)), from draws: (B,) each"""
        found = self.draws(x, samples, condition, generator)
        return found.log_likelihood.mean(0), (found.log_posterior - found.log_prior).mean(0)

    # ------------------------------------------------------------------------------------- the protocol
    @bound
    def elbo(self, x: Tensor, condition: Tensor | None = None, samples: int = 1, generator: Any = None) -> Tensor:
        """E_q[log p(x | z)] − KL(q(z | x) ‖ p(z)), the mean of K = samples draws of z: (B, *event) → (B,)"""
        given = self._checked(x, condition)
        reconstruction, divergence = self.terms(x, given, samples, generator)
        return reconstruction - divergence

    @bound
    @weft.no_grad()
    def log_prob_bound(
        self,
        x: Tensor,
        condition: Tensor | None = None,
        samples: int = 5000,
        generator: Any = None,
        at_once: int = PAIRS,
    ) -> Bound:
        """log 1/K Σₖ p(x, zₖ) / q(zₖ | x), K = samples: in the mean not above log p(x), and closer the greater K is.

        at_once: pairs of an example and a draw that are computed together; memory is bounded by it, however many samples
        The error is that of the logarithm of a mean (delta method); it is large where few draws carry the weight, and 0 for
        one draw, which says nothing of its own error.
        """
        if samples < 1 or at_once < 1:
            raise OptionError(f"log_prob_bound: expected at least one sample, got samples={samples}, at_once={at_once}")
        given = self._checked(x, condition)
        part = min(samples, at_once)
        rows = max(at_once // part, 1)
        conditions = [None] * math.ceil(len(x) / rows) if given is None else given.split(rows)
        parts = zip(x.split(rows), conditions, strict=True)
        found = [self._weighed(x, given, samples, part, generator=generator) for x, given in parts]
        value, error = (weft.cat(list(column)) for column in zip(*found, strict=True))
        return Bound(value, "lower", error)

    @in_one_plan
    def _weighed(self, x: Tensor, given: Tensor | None, samples: int, part: int, generator: Any = None) -> Any:
        """log of the mean weight and its relative error, by running sums over parts of the samples: (B,), (B,)"""

        def weigh(sums: tuple[Tensor, ...], count: int) -> tuple[Tensor, ...]:
            top, total, squares = sums
            log_weight = self.draws(x, count, given, generator).log_weight  # (count, B)
            highest = weft.maximum(top, log_weight.amax(0))
            kept, shares = (top - highest).exp(), (log_weight - highest).exp()
            return highest, total * kept + shares.sum(0), squares * kept**2 + (shares**2).sum(0)

        whole, rest = divmod(samples, part)
        zeros = weft.zeros(len(x), dtype=x.dtype)
        sums = weft.fori_loop(0, whole, lambda _, sums: weigh(sums, part), (zeros - weft.inf, zeros, zeros))
        top, total, squares = weigh(sums, rest) if rest else sums
        return top + total.log() - math.log(samples), (squares / total**2 - 1 / samples).clamp(min=0).sqrt()

    @exact
    def decode(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        """E[x | z]: (N, code) → (N, *event)"""
        return self.likelihood.mean(self.said(z, self._given(len(z), condition)))

    @exact
    def reconstruct(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """decode(encode(x)): like x"""
        return self.decode(self.encode(x, condition), condition)

    @exact
    @in_one_plan
    @weft.no_grad()
    def sample(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """z ~ p(z), then x ~ p(x | z), as one native plan: (n, *event)"""
        given = self._given(n, condition)
        return self.likelihood.draw(self.said(self.prior_draws(n, given, generator), given), generator)

    @exact
    def interpolate(self, x: Tensor, y: Tensor, steps: int = 8, condition: Tensor | None = None) -> Tensor:
        """decode((1 − t) encode(x) + t encode(y)) for t from 0 to 1. Shape: (B, *event) twice → (steps, B, *event)"""
        start, end = self.encode(x, condition), self.encode(y, condition)
        between = [weft.lerp(start, end, t / max(steps - 1, 1)) for t in range(steps)]
        return weft.stack([self.decode(z, condition) for z in between])

    # ------------------------------------------------------------------------------------- training
    def loss(self, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """−objective, in nats an example: the sum over elements, the mean over the batch. (B, *event) → ()"""
        return -self.objective(self, x, self._checked(x, condition), generator).mean()

    def forward(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        return self.reconstruct(x, condition)

    def embed(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """Codes without gradients: (N, *event) → (N, code)"""
        with weft.no_grad():
            return self.encode(x, condition)

    # ------------------------------------------------------------------------------------- checks
    def _checked(self, x: Tensor, condition: Any) -> Tensor | None:
        if x.ndim < 2:
            raise ShapeError(f"{type(self).__name__}: expected x of shape (B, *event), got {tuple(x.shape)}")
        self.likelihood.check(x)
        return self._given(len(x), condition)

    def _given(self, n: int, condition: Any) -> Tensor | None:
        """The condition as features (n, C), or None for models without."""
        if self.conditions is None:
            self._unconditional(condition)
            return None
        return self.conditions(condition, n).to(next(self.parameters()).dtype)


class VAE(LatentVariableModel):
    """The variational autoencoder (Kingma and Welling 2014): z ~ p(z), x ~ p(x | decoder(z)), q(z | x) from encoder(x).

    encoder: (B, *event) → (B, posterior.size(code)); 2 · code numbers for a diagonal posterior, μ and log σ
    decoder: (N, code) → (N, P · e₁, e₂, …), what `likelihood` asks for; one number an element for bits
    code: how many numbers a code has
    likelihood: "bernoulli", "gaussian", "shared_variance", "logistic", "categorical", "continuous_bernoulli", a `Head`
    posterior: "diagonal", "full" (a Cholesky factor), or a `Posterior`; prior: a `Prior`, by default N(0, I)
    closed_form: whether KL(q ‖ p) is computed rather than drawn; None where it can be
    conditions: with them encoder and decoder are called with a second argument, (N, C) features

    >>> model = VAE(nn.Linear(6, 4), nn.Linear(2, 6), 2)
    >>> model.promises["elbo"], model.promises["log_prob_bound"], model.sample(3).shape
    ('bound', 'bound', weft.Size([3, 6]))
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        code: int,
        likelihood: str | Head | Likelihood = "bernoulli",
        *,
        posterior: str | Posterior = "diagonal",
        prior: Prior | None = None,
        objective: Objective | None = None,
        closed_form: bool | None = None,
        conditions: Conditions | None = None,
    ) -> None:
        super().__init__(likelihood, objective, conditions)
        self.encoder, self.decoder, self.code = encoder, decoder, code
        self.posterior, self.prior = posterior_named(posterior), StandardNormal() if prior is None else prior
        possible = self.posterior.closed_form and self.prior.closed_form
        if closed_form and not possible:
            raise OptionError(
                f"VAE: KL({type(self.posterior).__name__} ‖ {type(self.prior).__name__}) has no closed form; "
                "leave closed_form out, and it is drawn"
            )
        self.closed_form = possible if closed_form is None else closed_form

    def inferred(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """What the encoder says of q(z | x): (B, *event) → (B, size)"""
        said = self.encoder(x) if condition is None else self.encoder(x, condition)
        size = self.posterior.size(self.code)
        if tuple(said.shape) != (len(x), size):
            raise ShapeError(
                f"{type(self).__name__}: the encoder made {tuple(said.shape)} of {len(x)} examples; "
                f"{type(self.posterior).__name__} over {self.code} numbers needs ({len(x)}, {size})"
            )
        return said

    def draws(self, x: Tensor, samples: int = 1, condition: Tensor | None = None, generator: Any = None) -> Draws:
        return self.draws_of(self.inferred(x, condition), x, samples, condition, generator)

    def draws_of(
        self, said: Tensor, x: Tensor, samples: int = 1, condition: Tensor | None = None, generator: Any = None
    ) -> Draws:
        """The same, from what the encoder said."""
        noise = self.posterior.noise((samples, len(x), self.code), said.dtype, generator)
        z, log_posterior = self.posterior.draw(said, noise)
        return Draws(z, self.log_likelihood(z, x, condition), self.prior.log_prob(z, condition), log_posterior)

    def pairwise_log_posterior(self, z: Tensor, x: Tensor, condition: Tensor | None = None) -> Tensor:
        return self.posterior.log_prob(self.inferred(x, condition), z.unsqueeze(1))

    def log_likelihood(self, z: Tensor, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """log p(x | z) of K codes an example: (K, B, code), (B, *event) → (K, B)"""
        rows = z.flatten(0, 1)  # (K · B, code)
        repeated = None if condition is None else condition.repeat(len(z), 1)  # (K · B, C)
        return self.likelihood.log_prob(self.said(rows, repeated), x)

    def said(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        return self.decoder(z) if condition is None else self.decoder(z, condition)

    def prior_draws(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        return self.prior.draw(n, self.code, next(self.parameters()).dtype, condition, generator)

    def terms(
        self, x: Tensor, condition: Tensor | None = None, samples: int = 1, generator: Any = None
    ) -> tuple[Tensor, Tensor]:
        """E_q[log p(x | z)] from draws, KL(q(z | x) ‖ p(z)) in closed form or from the same draws: (B,) each"""
        said = self.inferred(x, condition)
        found = self.draws_of(said, x, samples, condition, generator)
        if self.closed_form:
            return found.log_likelihood.mean(0), self.posterior.kl(said, self.prior, condition)
        return found.log_likelihood.mean(0), (found.log_posterior - found.log_prior).mean(0)

    @exact
    def encode(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """The mean of q(z | x): (B, *event) → (B, code)"""
        return self.posterior.mean(self.inferred(x, self._given(len(x), condition)))


class DenseVAE(VAE):
    """A VAE of two multilayer perceptrons, features – hidden … – code and its mirror image, for rows of numbers.

    activation, init: as in `MLP`; further options as in `VAE`
    Shape: x (B, features), codes (B, code)

    >>> model = DenseVAE(784, (200, 200), 50, activation="tanh")  # Burda et al. 2016
    >>> sum(p.numel() for p in model.parameters())
    425284
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int],
        code: int,
        likelihood: str | Head | Likelihood = "bernoulli",
        *,
        activation: str | Callable[[], nn.Module] = "tanh",
        init: str | Callable[[Any], Any] | None = None,
        posterior: str | Posterior = "diagonal",
        **options: Any,
    ) -> None:
        likelihood, posterior = likelihood_named(likelihood), posterior_named(posterior)
        encoder = MLP(features, hidden, posterior.size(code), activation, init=init)
        decoder = MLP(code, hidden[::-1], features * likelihood.numbers, activation, init=init)
        super().__init__(encoder, decoder, code, likelihood, posterior=posterior, **options)
